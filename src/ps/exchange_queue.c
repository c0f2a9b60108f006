// SPDX-License-Identifier: Apache-2.0
// exchange_queue.c - the usual exchange: gradients wait in queue slots, a server applies them.
//
// A learner computes on the shared weights or, with `weights: copy`, on a copy of its own. Where updates are
// made in step it may begin while the last one is still being applied, and waits for the slices of each layer
// just before it needs them.
#include "ps/client_shared.h"

#include "base/failpoint.h"
#include "ps/moved.h"

#include <string.h>

// ---- running statistics ----

// Statistics move in the forward pass, so every learner has its own; the update makes them one again. Each
// gradient begins with those of its weights, also when it is the second one on the same copy: so it is a
// function of the version and the samples, which is what a replay relies on.
static mu_status own_stats(mu_shared_client *c, mu_err *err) {
    const mu_params *ps = c->params;
    size_t n = 0;
    for (int i = 0; i < ps->n; i++) n += ps->list[i]->is_stat ? ps->list[i]->count : 0;
    if (!n) return MU_OK;
    c->stats = mu_alloc_array(n, sizeof(float), "learner/statistics");
    if (!c->stats) return MU_FAIL_NOMEM(err, "running statistics");
    for (int i = 0; i < ps->n; i++) {
        mu_param *p = ps->list[i];
        if (!p->is_stat) continue;
        n -= p->count;
        p->value = c->stats + n;
    }
    return MU_OK;
}

// Under locks a worker may wait for the end of an update while the one that has the rest of it waits for a
// value of the first.
static uint32_t holder_of(const mu_shared_client *c) {
    const mu_partition *p = c->shared->partition;
    const uint32_t bit = (uint32_t)1 << c->worker;
    for (int i = 0; p && !c->shared->setup->locks && i < p->n_pieces; i++)
        if (!(p->piece[i].workers & bit)) return bit;
    return MU_HOLDS_ALL;
}

static mu_status enter(mu_shared_client *c, mu_err *err) {
    mu_shared *g = c->shared;
    if (g->setup->weights == MU_WEIGHTS_COPY) {
        c->copy = mu_alloc_block(g->head->count * sizeof(float), "learner/weights");
        if (!c->copy) return MU_FAIL_NOMEM(err, "a copy of the weights");
        c->copy_version = -1;
        if (c->params) mu_params_rebase(c->params, c->copy, g->history);
    }
    c->seen = mu_alloc_array((size_t)g->head->n_slices + 1, sizeof *c->seen, "learner/slices");
    if (!c->seen) return MU_FAIL_NOMEM(err, "what is read of the weights");
    if (g->setup->server == MU_SERVER_BESIDE || g->setup->server == MU_SERVER_BOTH) {
        MU_TRY(mu_server_init(&c->server, g, c->process, c->rate_at, c->rate_ctx, err));
        c->server.seen = c->seen;
        c->server.holder = holder_of(c);
        c->serves = true;
    }
    return c->params ? own_stats(c, err) : MU_OK;
}

static void close_queue(mu_shared_client *c) {
    mu_free(c->stats);
    mu_free(c->copy);
    mu_free(c->seen);
    c->stats = c->copy = NULL;
    c->seen = c->server.seen = NULL;
}

// ---- weights ----

// May the weights be copied now? In step a version is granted that is still in the making. With locks the
// update in progress may have lost its executors, and the learner that waits here is the one to go on with
// it.
static bool may_copy(mu_shared_client *c) {
    mu_shared *g = c->shared;
    if (atomic_load_explicit(&g->head->version, memory_order_acquire) < c->base.grant.version) return false;
    return !g->setup->locks || mu_rwlock_read(g->rw, c->process, MU_NAP_NS);
}

static void read_piece(mu_shared_client *c, int param) {
    mu_moved_read(c->shared, c->process, c->seen, c->shared->share[c->worker].piece[param]);
}

// What this worker computes on: all, or its pieces.
static void copy_own(mu_shared_client *c) {
    const mu_params *ps = c->shared->share[c->worker].params;
    for (int i = 0; i < ps->n; i++) {
        const mu_param *p = ps->list[i];
        memcpy(c->copy + p->offset, c->shared->weights + p->offset, p->count * sizeof(float));
        read_piece(c, i);
    }
}

// The copy is made when the clock has moved on, or the weights were merged: asking costs two loads. Read
// under the lock, the clock is exactly that of the weights (server.c).
static mu_status pull(mu_shared_client *c, mu_err *err) {
    mu_shared *g = c->shared;
    if (atomic_load_explicit(&g->head->version, memory_order_acquire) == c->copy_version &&
        c->copy_version >= c->base.grant.version && atomic_load(&g->head->merges) == c->copy_merges)
        return MU_OK;
    for (mu_stall_timer t = mu_stall_timer_new();;) {
        uint32_t seen = mu_bell_read(&g->head->turn);
        if (may_copy(c)) break;
        c->base.class->pulse(&c->base);
        if (mu_shared_client_serve(c)) continue;
        if (mu_shared_client_is_over(c, &t))
            return MU_FAIL(err, MU_EBACKEND, "learner %d cannot copy the weights of version %lld",
                           mu_shared_number(g, c->base.learner), (long long)c->base.grant.version);
        mu_shared_client_wait(c, &g->head->turn, seen);
    }
    c->copy_version = atomic_load_explicit(&g->head->version, memory_order_acquire);
    c->copy_merges = atomic_load(&g->head->merges);
    copy_own(c);
    mu_failpoint("client/copying");
    if (g->setup->locks) mu_rwlock_read_end(g->rw, c->process);
    return MU_OK;
}

static bool is_there(const mu_shared_client *c, int param) {
    const mu_shared *g = c->shared;
    const int64_t wanted = c->base.grant.version;
    const int piece = g->share[c->worker].piece[param];
    for (int i = g->first_slice[piece]; i < g->first_slice[piece + 1]; i++)
        if (atomic_load_explicit(&g->slice[i].version, memory_order_acquire) < wanted) return false;
    return true;
}

static mu_status wait_for_weights(mu_shared_client *c, int param, mu_err *err) {
    mu_shared *g = c->shared;
    mu_stall_timer t = {0};
    for (;;) {
        uint32_t seen = mu_bell_read(&g->head->turn);
        if (is_there(c, param)) return MU_OK;
        if (mu_shared_client_serve(c)) continue;
        c->base.class->pulse(&c->base);
        if (!t.looked_ns) t = mu_stall_timer_new();
        if (mu_shared_client_is_over(c, &t))
            return MU_FAIL(err, MU_EBACKEND, "learner %d: the weights of `%s` did not reach version %lld",
                           mu_shared_number(g, c->base.learner),
                           g->share[c->worker].params->list[param]->name, (long long)c->base.grant.version);
        mu_shared_client_wait(c, &g->head->turn, seen);
    }
}

static mu_status collect(mu_shared_client *c, int param, mu_err *err) {
    if (c->copy) return MU_OK;
    if (mu_shared_is_in_step(c->shared, c->base.grant.version)) MU_TRY(wait_for_weights(c, param, err));
    read_piece(c, param);
    return MU_OK;
}

static mu_status refresh_stats(mu_shared_client *c, mu_err *err) {
    for (int i = 0; c->stats && i < c->params->n; i++) {
        mu_param *p = c->params->list[i];
        const float *from = c->copy ? c->copy : c->shared->weights;
        if (!p->is_stat) continue;
        MU_TRY(collect(c, i, err));
        memcpy(p->value, from + p->offset, p->count * sizeof(float));
    }
    return MU_OK;
}

static mu_status begin(mu_shared_client *c, mu_err *err) {
    if (c->copy) {
        MU_TRY(pull(c, err));
        // Another worker may have copied before: of all of them no more is known than what was granted.
        if (c->shared->head->n_workers == 1) c->version = c->copy_version;
    }
    return refresh_stats(c, err);
}

static void pushed(mu_shared_client *c) {
    for (int i = 0; i < c->shared->head->n_processes && mu_shared_client_serve(c); i++) {}
}

// ---- the parent ----

static void copy_out(mu_shared *g, float *value, float *const *slot) {
    const size_t bytes = g->head->count * sizeof(float);
    memcpy(value, g->weights, bytes);
    for (int k = 0; k < g->head->n_history; k++) memcpy(slot[k], g->history[k], bytes);
}

static int slots(MU_UNUSED const mu_setup *p) { return MU_CORE_SLOTS; }

const mu_exchange mu_exchange_queue = {
    .slots = slots,
    .enter = enter,
    .begin = begin,
    .collect = collect,
    .pushed = pushed,
    .close = close_queue,
    .copy_out = copy_out,
};
