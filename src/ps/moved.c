// SPDX-License-Identifier: Apache-2.0
// moved.c - see moved.h.
//
// What is still to be read of a slice follows from one number, the bytes that were ever written into it: each
// process remembers what that was when it last read the slice. Where updates are made in step the number is
// as exact as the version, which is stored behind it; else it may be that of a moment before.
#include "ps/moved.h"

enum { VALUE = 4 };

static size_t floats_of(const mu_slice_range *r) { return r->end - r->begin; }

// Of a message for `count` values those for the first n; shares of all slices add up to the message.
static uint64_t first_share(uint64_t bytes, size_t n, size_t count) {
    return bytes / count * n + bytes % count * n / count;
}

static uint64_t share(uint64_t bytes, const mu_slice_range *r, size_t count) {
    return first_share(bytes, r->end, count) - first_share(bytes, r->begin, count);
}

static uint64_t message_share(const mu_grad *g, const mu_param *p, const mu_slice_range *r) {
    const int64_t rows = mu_param_rows(p), cols = (int64_t)p->count / rows;
    switch (g->form) {
    case MU_GRAD_NONE:
        return 0;
    case MU_GRAD_FACTORS:
        return share((uint64_t)(g->batch * (cols + rows)) * VALUE, r, p->count);
    case MU_GRAD_GATHERED:
        return share((uint64_t)(g->n_x * cols + 2 * g->batch * rows) * VALUE, r, p->count);
    case MU_GRAD_ROWS:
        return share((uint64_t)(g->n_rows * (1 + cols)) * VALUE, r, p->count);
    case MU_GRAD_DENSE:
        break;
    }
    return floats_of(r) * VALUE;
}

// What an update writes of a slice.
static uint64_t written_by(const mu_update *u, const mu_param *p, const mu_slice_range *r) {
    const uint64_t all = floats_of(r) * VALUE;
    uint64_t named = 0;
    if (!p->is_stat && p->lr_mult == 0) return 0;
    for (int i = 0; i < u->n; i++) {
        const mu_grad *g = u->grad[i];
        if (g->form == MU_GRAD_NONE) continue;
        if (g->form != MU_GRAD_ROWS) return all;
        named += (uint64_t)g->n_rows;
    }
    const uint64_t rows = (uint64_t)mu_param_rows(p);
    return share((named < rows ? named : rows) * (p->count / rows) * VALUE, r, p->count);
}

// ---- an executor ----

// The process that made gradient k of the run.
static int maker_of(const mu_server *s, ptrdiff_t k) {
    const int workers = s->shared->head->n_workers;
    return s->shared->update->part[k / workers].id.learner * workers + (int)(k % workers);
}

static void read_slice(mu_shared *g, uint64_t *seen, int slice, uint64_t *bytes) {
    const uint64_t all = floats_of(&g->slices.range[slice]) * VALUE;
    const uint64_t written = atomic_load_explicit(&g->slice[slice].written, memory_order_relaxed);
    const uint64_t unread = written - seen[slice];
    seen[slice] = written;
    *bytes += unread < all ? unread : all;
}

static void add_weights(mu_shared *g, int process, uint64_t bytes) {
    if (bytes) atomic_fetch_add_explicit(&g->learner[process].weights_moved, bytes, memory_order_relaxed);
}

void mu_moved_read_slice(mu_server *s, int slice) {
    uint64_t bytes = 0;
    if (!s->seen) return;
    read_slice(s->shared, s->seen, slice, &bytes);
    add_weights(s->shared, s->executor, bytes);
}

void mu_moved_apply(mu_server *s, int slice, int n, const mu_update *update) {
    mu_shared *g = s->shared;
    const mu_slice_range *r = &g->slices.range[slice];
    const mu_param *p = g->pieces->list[r->param];
    const int self = s->seen ? s->executor : -1; // the process that this executor is
    uint64_t moved = 0, written = 0;
    for (int i = 0; i < n; i++) {
        const ptrdiff_t first = update[i].grad - s->grad_at;
        for (int k = 0; k < update[i].n; k++)
            if (maker_of(s, first + k) != self) moved += message_share(update[i].grad[k], p, r);
        written += written_by(&update[i], p, r);
    }
    if (moved) atomic_fetch_add_explicit(&g->executor[s->executor].moved, moved, memory_order_relaxed);
    written += atomic_load_explicit(&g->slice[slice].written, memory_order_relaxed);
    atomic_store_explicit(&g->slice[slice].written, written, memory_order_relaxed); // it has claimed it
    if (s->seen) s->seen[slice] = written;
}

// ---- a reader ----

void mu_moved_read(mu_shared *g, int process, uint64_t *seen, int piece) {
    uint64_t bytes = 0;
    for (int i = g->first_slice[piece]; seen && i < g->first_slice[piece + 1]; i++)
        read_slice(g, seen, i, &bytes);
    add_weights(g, process, bytes);
}

// ---- sums ----

bool mu_moved(const mu_shared *g, mu_traffic *out) {
    *out = (mu_traffic){0};
    for (int i = 0; i < g->head->n_processes; i++) {
        const mu_shared_learner *l = &g->learner[i];
        out->values += (int64_t)atomic_load_explicit(&l->values_moved, memory_order_relaxed);
        out->weights += (int64_t)atomic_load_explicit(&l->weights_moved, memory_order_relaxed);
    }
    for (int i = 0; i < g->head->n_executors; i++)
        out->gradients += (int64_t)atomic_load_explicit(&g->executor[i].moved, memory_order_relaxed);
    return g->head->counts_moved;
}

double mu_moved_per_step(int64_t bytes, double steps, bool weights) {
    const double times = weights ? steps - 1 : steps;
    return times > 0 ? (double)bytes / times : 0;
}
