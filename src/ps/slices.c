// SPDX-License-Identifier: Apache-2.0
// slices.c - cutting, applying, undoing.
//
// Why a kill at any instruction is repaired. Of a slice that has *done = at, an executor does for the next
// piece of n floats, in program order:
//     1  undo describes the piece and holds `kept` of its old values: all, or none      valid = 0
//     2  valid = 1
//     3  weights and histories get their new values; a fused rule adds old values to undo first, then to
//        kept, vector by vector
//     4  *done = at + n
//     5  valid = 0
// A killed process has carried out a prefix of its instructions, and the parent that repairs sees all of
// their stores, since it has reaped the process. So the order of the instructions is all that counts: the
// release stores of 2, 4 and 5 keep what is before them before, the compiler fences behind 2 and 5 what is
// after them after.
//     killed before 2   valid = 0: the piece is untouched, done says so
//     ... 2 to 4        valid = 1, *done = undo.at: any mixture of old and new, all old values of what may
//                       have changed are in undo: restored; the piece is as untouched
//     ... 4 to 5        valid = 1, *done != undo.at: the piece is finished, done says so; nothing to restore
//     ... after 5       valid = 0: as before 2 of the next piece
// Restoring twice does the same as once, so the repairer may be killed, too. An update cannot end before a
// dead executor's slice was repaired and finished, so done is not reset for the next one meanwhile.
//
// The pieces of a slice and their order depend on the gradients only (updater.h). The executor that goes on
// with a slice walks through the same pieces and leaves the finished ones out.
#include "ps/slices.h"

#include "base/failpoint.h"
#include "layer/rowstate.h"

#include <assert.h>
#include <string.h>

enum {
    SLICE = 32768,     // floats: 128 KiB, about 10 us of an update
    ROWS = 8,          // factors are multiplied out by tiles of 8 rows: fewer waste the tile
    UNDO_PIECE = 1024, // floats: longer ones have left the first cache when they are overwritten
    STAT_PIECE = 1024,
    PAGE = 4096, // bytes
};

_Static_assert(UNDO_PIECE + PAGE / 4 <= (int)MU_UNDO_FLOATS, "an undo piece has room");
_Static_assert(MU_MAX_NORM_COLS + PAGE / 4 <= (int)MU_UNDO_FLOATS, "a row that is shortened has room");
_Static_assert((int)MU_MAX_NORM_COLS <= (int)SLICE, "and is never cut");

// ---- cutting -----------------------------------------------------------------------------------

static size_t n_rows(const mu_param *p) { return (size_t)mu_param_rows(p); }

// Rows of a slice; 0 = a row is cut itself.
static size_t rows_of_slice(size_t cols) {
    if (cols > SLICE) return 0;
    size_t rows = SLICE / cols / ROWS * ROWS;
    return rows ? rows : ROWS;
}

// Writes the slices of a parameter to out unless that is NULL; returns how many.
static int cut(const mu_param *p, int index, mu_slice_range *out) {
    const size_t cols = p->count / n_rows(p), rows = rows_of_slice(cols);
    const size_t stretch = rows ? p->count : cols, step = rows ? rows * cols : SLICE;
    int n = 0;
    for (size_t from = 0; from < p->count; from += stretch)
        for (size_t at = 0; at < stretch; at += step, n++)
            if (out)
                out[n] =
                    (mu_slice_range){index, from + at, from + (stretch - at < step ? stretch : at + step)};
    return n;
}

mu_status mu_slices_make(const mu_params *ps, mu_slice_list *out, mu_err *err) {
    mu_slice_list l = {0};
    for (int i = 0; i < ps->n; i++) l.n += cut(ps->list[i], i, NULL);
    l.range = mu_alloc_array((size_t)(l.n ? l.n : 1), sizeof *l.range, "slices");
    if (!l.range) return MU_FAIL_NOMEM(err, "the list of slices");
    mu_slice_range *at = l.range;
    for (int i = 0; i < ps->n; i++) at += cut(ps->list[i], i, at);
    *out = l;
    return MU_OK;
}

void mu_slices_fini(mu_slice_list *l) {
    mu_free(l->range);
    *l = (mu_slice_list){0};
}

// ---- applying ----------------------------------------------------------------------------------

typedef struct progress { // of one executor in one slice
    const mu_params *params;
    const mu_param *p;
    int param, n_blocks;
    size_t base;   // floats of the updates before this one
    size_t resume; // floats of this one that were finished when the call began
    size_t at;     // floats of the pieces passed so far
    _Atomic size_t *done;
    mu_undo *undo; // may be NULL
} progress;

// Weights (0) or history (1 ...) of a parameter.
static float *block_of(const mu_params *ps, const mu_param *p, int block) {
    return (block ? ps->slot[block - 1] : ps->value) + p->offset;
}

static void set_valid(mu_undo *u, uint32_t valid) {
    atomic_store_explicit(&u->valid, valid, memory_order_release);
    atomic_signal_fence(memory_order_seq_cst);
}

// Where in was[k] to put the copies. Their stores are still on their way to the cache while later weights
// are read, and a load that agrees with one of them in the low 12 bits of its address waits for it. So they
// are half a page from what they are copies of.
static int32_t choose_start(const mu_undo *u, int k, const float *from) {
    const uintptr_t away = (uintptr_t)from + PAGE / 2 - (uintptr_t)u->was[k];
    return (int32_t)(away % PAGE / MU_CACHE_LINE * MU_CACHE_LINE / sizeof(float));
}

// For a rule that does not keep them itself.
static void copy_piece(const progress *g, mu_undo *u) {
    for (int k = 0; k < g->n_blocks; k++)
        memcpy(u->was[k] + u->start[k], block_of(g->params, g->p, k) + u->begin, u->n * sizeof(float));
}

static bool before_piece(void *ctx, size_t offset, size_t n, mu_undo_log *log) {
    progress *g = ctx;
    mu_undo *u = g->undo;
    if (log) log->n = NULL;
    if (g->at < g->resume) {
        g->at += n;
        assert(g->at <= g->resume);
        return false;
    }
    if (!u) return true;
    u->param = g->param;
    u->begin = offset;
    u->n = n;
    u->kept = log ? 0 : n;
    u->n_blocks = g->n_blocks;
    u->at = g->base + g->at;
    u->done_from_here = (char *)g->done - (char *)u;
    for (int k = 0; k < g->n_blocks; k++) {
        const float *from = block_of(g->params, g->p, k) + offset;
        u->start[k] = choose_start(u, k, from);
        if (log) *(k ? &log->slot[k - 1] : &log->value) = u->was[k] + u->start[k];
    }
    if (log) log->n = &u->kept;
    else copy_piece(g, u);
    set_valid(u, 1);
    mu_failpoint("server/piece-saved");
    return true;
}

static void after_piece(void *ctx, MU_UNUSED size_t offset, size_t n) {
    progress *g = ctx;
    g->at += n;
    mu_failpoint("server/piece-written");
    atomic_store_explicit(g->done, g->base + g->at, memory_order_release);
    if (g->undo) set_valid(g->undo, 0);
}

// Needs no undo: the result does not depend on the old values, so it is simply made again.
static void average(float *value, const mu_slice_range *r, int n, const mu_grad *const *grad) {
    int n_real = 0;
    for (int j = 0; j < n; j++) n_real += grad[j]->form == MU_GRAD_DENSE;
    if (!n_real) return;
    for (size_t at = r->begin, m; at < r->end; at += m) {
        float sum[STAT_PIECE] = {0};
        m = r->end - at < STAT_PIECE ? r->end - at : STAT_PIECE;
        for (int j = 0; j < n; j++)
            for (size_t i = 0; i < m && grad[j]->form == MU_GRAD_DENSE; i++) sum[i] += grad[j]->dense[at + i];
        for (size_t i = 0; i < m; i++) value[at + i] = sum[i] / (float)n_real;
    }
}

// The same holds for the memory of a layer. A slice of it is whole rows.
static void merge(const mu_param *p, float *value, const mu_slice_range *r, int n,
                  const mu_grad *const *grad) {
    const size_t cols = (size_t)p->shape.d[1];
    const float *copy[MU_APPLY_MAX];
    int n_real = 0;
    for (int j = 0; j < n; j++)
        if (grad[j]->form == MU_GRAD_DENSE) copy[n_real++] = grad[j]->dense;
    mu_rowstate_merge(p, value, (int64_t)(r->begin / cols), (int64_t)(r->end / cols), n_real, copy);
}

// Update i of the run; *done has counted the others.
static void apply_one(const mu_apply *a, int i, const mu_slice_range *range, size_t all, _Atomic size_t *done,
                      mu_undo *undo) {
    const mu_param *p = a->params->list[range->param];
    const mu_update *u = &a->update[i];
    progress g = {
        .params = a->params,
        .p = p,
        .param = range->param,
        .n_blocks = 1 + mu_updater_n_changed(a->updater),
        .base = (size_t)i * all,
        .done = done,
        .undo = undo,
    };
    g.resume = atomic_load_explicit(done, memory_order_acquire) - g.base;
    const mu_target t = mu_target_of(a->updater, a->params, p);
    const mu_update_guard guard = {UNDO_PIECE, before_piece, after_piece, &g};
    if (p->is_state) merge(p, t.value, range, u->n, u->grad);
    else if (p->is_stat) average(t.value, range, u->n, u->grad);
    else mu_updater_apply_range(&t, u, range->begin, range->end, undo || g.resume ? &guard : NULL);
    atomic_store_explicit(done, g.base + all, memory_order_release);
}

void mu_apply_slice(const mu_apply *a, const mu_slice_range *range, _Atomic size_t *done, mu_undo *undo) {
    const mu_param *p = a->params->list[range->param];
    const size_t all = (range->end - range->begin) * (p->max_norm > 0 ? 2 : 1);
    for (int i = 0; i < a->n; i++) assert(a->update[i].n <= MU_APPLY_MAX);
    for (size_t at; (at = atomic_load_explicit(done, memory_order_acquire)) < (size_t)a->n * all;) {
        const int i = (int)(at / all), left = a->n - i, n = left < MU_SERIES ? left : MU_SERIES;
        if (undo || at % all || n == 1) {
            apply_one(a, i, range, all, done, undo);
            continue;
        }
        mu_apply_series(a->updater, a->params, range, n, a->update + i);
        atomic_store_explicit(done, (size_t)(i + n) * all, memory_order_release);
    }
}

void mu_apply_series(const mu_updater *u, const mu_params *ps, const mu_slice_range *range, int n,
                     const mu_update *update) {
    const mu_param *p = ps->list[range->param];
    const mu_target t = mu_target_of(u, ps, p);
    if (!p->is_state && !p->is_stat) {
        mu_updater_apply_series(&t, n, update, range->begin, range->end);
        return;
    }
    for (int i = 0; i < n; i++)
        if (p->is_state) merge(p, t.value, range, update[i].n, update[i].grad);
        else average(t.value, range, update[i].n, update[i].grad);
}

bool mu_undo_restore(mu_undo *u, const mu_params *ps) {
    if (!atomic_load_explicit(&u->valid, memory_order_acquire)) return false;
    const _Atomic size_t *done = (const void *)((const char *)u + u->done_from_here);
    const bool unfinished = atomic_load_explicit(done, memory_order_acquire) == u->at;
    const mu_param *p = ps->list[u->param];
    for (int k = 0; k < u->n_blocks && unfinished; k++)
        memcpy(block_of(ps, p, k) + u->begin, u->was[k] + u->start[k], u->kept * sizeof(float));
    set_valid(u, 0);
    return unfinished;
}
