// SPDX-License-Identifier: Apache-2.0
// apply.c - gradients, in any form, through one rule.
//
// Memory is what an update costs, so each weight is streamed once. Without clipping, decay and scale, or
// with a rule that takes the last two itself, it works straight on the gradient. Otherwise the final
// gradient of a piece is written to a buffer in the first cache and the rule runs over the piece while its
// weights are still there.
//
// `max_norm` needs whole rows, so it is a second walk over what was changed, a row at a time. The length of a
// row depends on nothing but its values: every way of cutting gives the same bits.
#include "ops/finite.h"
#include "updater/loops.h"
#include "updater/pieces.h"
#include "updater/updater.h"

#include <assert.h>
#include <float.h>
#include <math.h>

enum { LONG_ROW = 128 }; // floats; a call of the rule for each row costs nothing from there on
enum { PIECE = 512 }; // floats; measured: shorter calls the rule too often, longer stops the streams

typedef struct work { // what is the same for all pieces of one parameter
    const mu_target *t;
    mu_finish finish;
    float lr;
    mu_rule_step step;
    bool fused;                   // the rule does all that is to be done
    bool direct;                  // the gradient can go to the rule as it is
    const mu_update_guard *guard; // NULL = none
} work;

static work work_make(const mu_target *t, const mu_update *a, float scale) {
    const mu_updater *u = t->updater;
    const mu_param *p = t->param;
    const float decay_mult = a->step.stale.share > 0 ? a->step.stale.share * p->decay_mult : p->decay_mult;
    work k = {
        .t = t,
        .finish = {.scale = scale, .clip = u->clip_value > 0 ? u->clip_value : INFINITY,
                   .l2 = u->l2 * decay_mult, .l1 = u->l1 * decay_mult},
        .lr = (float)(a->rate * p->lr_mult),
        .step = a->step,
    };
    if (p->descends && a->step.stale.descent > 0) k.lr *= a->step.stale.descent;
    const bool plain = u->clip_value <= 0 && k.finish.l1 == 0.0f;
    k.fused = plain && u->class->fused && !p->descends;
    k.direct = k.fused || (plain && scale == 1.0f && k.finish.l2 == 0.0f);
    return k;
}

static void descend(const mu_slice *s, float lr) {
    for (size_t i = 0; i < s->n; i++) s->value[i] -= lr * (s->scale * s->grad[i]);
}

// s has all but the places of weights and history.
static void run_rule(const work *k, size_t offset, mu_slice *s) {
    const mu_updater *u = k->t->updater;
    s->value = k->t->value + offset;
    if (k->t->param->descends) {
        descend(s, k->lr);
        return;
    }
    for (int i = 0; i < u->class->n_slots; i++) s->slot[i] = k->t->slot[i] + offset;
    u->class->apply(u->state, s, k->lr, k->step);
}

static void write_finished(const work *k, size_t offset, size_t n, const float *grad) {
    MU_ALIGNED(64) float buffer[PIECE];
    mu_slice s = {.grad = buffer, .scale = 1};
    for (size_t i = 0; i < n; i += PIECE) {
        s.n = n - i < PIECE ? n - i : PIECE;
        mu_grad_finish(&k->finish, s.n, grad + i, k->t->value + offset + i, buffer);
        run_rule(k, offset + i, &s);
    }
}

// n elements of the piece from `at` on.
static void write_part(const work *k, const mu_piece *p, size_t at, size_t n, const mu_undo_log *undo) {
    assert(k->direct || !p->n_terms);
    if (!k->direct) {
        write_finished(k, p->offset + at, n, p->grad + at);
        return;
    }
    mu_slice s = {.n = n, .scale = k->finish.scale * p->scale, .decay = k->finish.l2,
                  .n_terms = p->n_terms, .undo = undo};
    mu_term term[MU_TERMS];
    for (int i = 0; i < p->n_terms; i++) term[i] = (mu_term){p->term[i].d, p->term[i].x + at};
    if (p->n_terms) s.term = term;
    else s.grad = p->grad + at;
    run_rule(k, p->offset + at, &s);
}

static void apply_piece(void *ctx, const mu_piece *p) {
    const work *k = ctx;
    const mu_update_guard *g = k->guard;
    if (!g) {
        write_part(k, p, 0, p->n, NULL);
        return;
    }
    for (size_t i = 0, m; i < p->n; i += m) {
        m = p->n - i < g->piece ? p->n - i : g->piece;
        mu_undo_log undo = {0};
        if (!g->before(g->ctx, p->offset + i, m, k->fused ? &undo : NULL)) continue;
        write_part(k, p, i, m, k->fused && undo.n ? &undo : NULL);
        g->after(g->ctx, p->offset + i, m);
    }
}

static size_t cols_of(const mu_param *p) { return p->count / (size_t)mu_param_rows(p); }

// What few samples give to a row can go to the rule as it is.
static bool takes_outer(const work *k) { return k->fused && cols_of(k->t->param) >= LONG_ROW; }

static bool is_trained(const mu_param *p) { return !p->is_stat && p->lr_mult != 0.0f; }

// ---- longest row -----------------------------------------------------------------------------

// A row that was just scaled may be longer by rounding, and must not be scaled again when a slice is finished
// by another executor: the limit that counts is a little above.
static void shorten(float *row, size_t n, double longest) {
    const double length = sqrt(mu_sum_squares(row, n));
    if (!(length > longest * (1 + 1e-6))) return;
    const float f = (float)(longest / length);
    mu_scale_row(row, n, f);
}

typedef struct limit {
    const work *k;
    size_t cols;
    double longest;
} limit;

static void limit_row(const limit *l, size_t offset) {
    const mu_update_guard *g = l->k->guard;
    if (offset % l->cols) return; // a long row comes in pieces
    if (g && !g->before(g->ctx, offset, l->cols, NULL)) return;
    shorten(l->k->t->value + offset, l->cols, l->longest);
    if (g) g->after(g->ctx, offset, l->cols);
}

static void limit_piece(void *ctx, const mu_piece *p) { limit_row(ctx, p->offset); }

// The rows that were changed once more, now that each is complete: all of the range, or the named ones.
static void limit_rows(const work *k, const mu_grad_sum *s) {
    const mu_param *p = k->t->param;
    if (p->max_norm <= 0) return;
    limit l = {k, cols_of(p), (double)p->max_norm};
    bool named = true;
    for (int j = 0; j < s->n; j++)
        named &= s->grad[j]->form == MU_GRAD_ROWS || s->grad[j]->form == MU_GRAD_NONE;
    if (named) {
        mu_grad_sum_pieces(p, s, limit_piece, &l);
        return;
    }
    for (size_t at = s->begin; at < s->end; at += l.cols) limit_row(&l, at);
}

// ---- applying --------------------------------------------------------------------------------

mu_target mu_target_of(const mu_updater *u, const mu_params *ps, const mu_param *p) {
    mu_target t = {.updater = u, .param = p, .value = ps->value + p->offset};
    for (int k = 0; k < ps->n_slots; k++) t.slot[k] = ps->slot[k] + p->offset;
    return t;
}

void mu_updater_apply_rows(const mu_target *t, const mu_update *a, int64_t row0, int64_t n_rows,
                           const float *grad) {
    const mu_param *p = t->param;
    if (!is_trained(p) || n_rows <= 0) return;
    const size_t cols = cols_of(p), begin = (size_t)row0 * cols, end = begin + (size_t)n_rows * cols;
    work k = work_make(t, a, 1.0f);
    apply_piece(&k, &(mu_piece){.offset = begin, .n = end - begin, .grad = grad, .scale = 1});
    for (size_t at = begin; at < end && p->max_norm > 0; at += cols)
        shorten(t->value + at, cols, (double)p->max_norm);
}

bool mu_updater_takes_outer(const mu_updater *u, const mu_param *p) {
    const work k = work_make(&(mu_target){.updater = u, .param = p}, &(mu_update){.rate = 1}, 1.0f);
    return is_trained(p) && p->max_norm <= 0 && takes_outer(&k);
}

void mu_updater_apply_outer(const mu_target *t, const mu_update *a, int64_t row0, int64_t n_rows,
                            const float *dy, const float *x, float *dx) {
    const size_t cols = cols_of(t->param);
    const work k = work_make(t, a, 1.0f);
    mu_slice s = {.n = cols, .grad = x, .decay = k.finish.l2, .back = dx};
    for (int64_t r = 0; r < n_rows; r++) {
        s.scale = dy[r];
        run_rule(&k, (size_t)(row0 + r) * cols, &s);
    }
}

// False: there is nothing to do.
static bool prepare(const mu_target *t, const mu_update *a, size_t begin, size_t end, work *k,
                    mu_grad_sum *s) {
    int only = -1, n_real = 0;
    for (int j = 0; j < a->n; j++)
        if (a->grad[j]->form != MU_GRAD_NONE) only = j, n_real++;
    if (!is_trained(t->param) || !n_real) return false;
    // A single gradient is not added to anything: its weight is left to the scaling, so that it can go to
    // the rule without a copy.
    *k = work_make(t, a, n_real == 1 ? a->weight[only] : 1.0f);
    *s = (mu_grad_sum){a->n, a->grad, a->weight, begin, end, takes_outer(k)};
    if (n_real == 1) s->n = 1, s->grad = a->grad + only, s->weight = NULL;
    return true;
}

static void apply_prepared(work *k, const mu_grad_sum *s) {
    mu_grad_sum_pieces(k->t->param, s, apply_piece, k);
    limit_rows(k, s);
}

void mu_updater_apply_range(const mu_target *t, const mu_update *a, size_t begin, size_t end,
                            const mu_update_guard *guard) {
    work k;
    mu_grad_sum s;
    if (!prepare(t, a, begin, end, &k, &s)) return;
    k.guard = guard;
    apply_prepared(&k, &s);
}

void mu_updater_apply(const mu_target *t, const mu_update *a) {
    mu_updater_apply_range(t, a, 0, t->param->count, NULL);
}

static void apply_pair(void *ctx, const mu_piece *p) {
    const work *k = ctx;
    const mu_next next = {k[1].finish.scale * p[1].scale, k[1].lr, k[1].step, p[1].grad, p[1].term};
    mu_slice s = {.n = p->n, .grad = p->grad, .scale = k->finish.scale * p->scale, .decay = k->finish.l2,
                  .n_terms = p->n_terms, .term = p->term, .next = &next};
    run_rule(k, p->offset, &s);
}

void mu_updater_apply_series(const mu_target *t, int n, const mu_update *update, size_t begin, size_t end) {
    work k[MU_SERIES];
    mu_grad_sum s[MU_SERIES];
    int m = 0;
    assert(n <= MU_SERIES);
    for (int i = 0; i < n; i++) m += prepare(t, &update[i], begin, end, &k[m], &s[m]);
    for (int i = 0; i < m; i++) {
        const bool two = i + 1 < m && t->updater->class->pairs && t->param->max_norm <= 0 &&
                         !t->param->descends;
        if (two && mu_grad_sum_pairs(t->param, &s[i], apply_pair, &k[i])) i++;
        else apply_prepared(&k[i], &s[i]);
    }
}

int mu_updater_n_changed(const mu_updater *u) {
    return u->class->n_changed ? u->class->n_changed(u->state) : u->class->n_slots;
}

// ---- norms -----------------------------------------------------------------------------------

static void add_squares(void *ctx, const mu_piece *p) {
    *(double *)ctx += mu_sum_squares(p->grad, p->n); // mu_dot(grad, grad) would convert every element twice
}

// |sum over b of dy_b x_b'|^2 = sum over a, b of (dy_a . dy_b) (x_a . x_b): the product itself is not needed.
static double factors_sum_squares(const mu_grad *g, size_t rows, size_t cols) {
    double sum = 0;
    for (int64_t a = 0; a < g->batch; a++)
        for (int64_t b = a; b < g->batch; b++) {
            double d = mu_dot(g->dy + (size_t)a * rows, g->dy + (size_t)b * rows, rows);
            double x = mu_dot(g->x + (size_t)a * cols, g->x + (size_t)b * cols, cols);
            sum += (a == b ? 1 : 2) * d * x;
        }
    // An element that a float cannot hold makes the sum at least that large. Rounding may leave a
    // tiny negative sum where everything cancels.
    if (sum > (double)FLT_MAX * FLT_MAX) return INFINITY;
    return sum < 0 ? 0 : sum;
}

double mu_grad_sum_squares(const mu_param *p, const mu_grad *g) {
    if (!p->count) return 0;
    if (g->form == MU_GRAD_FACTORS) {
        size_t rows = (size_t)mu_param_rows(p);
        return factors_sum_squares(g, rows, p->count / rows);
    }
    double sum = 0;
    mu_grad_pieces(p, g, add_squares, &sum);
    return sum;
}

// ---- finite or not ---------------------------------------------------------------------------

bool mu_grad_is_finite(const mu_param *p, const mu_grad *g) {
    const size_t rows = (size_t)mu_param_rows(p), cols = rows ? p->count / rows : 0;
    switch (g->form) {
    case MU_GRAD_DENSE:
        return mu_is_below(g->dense, p->count, MU_BELOW_INFINITY);
    case MU_GRAD_ROWS:
        return mu_is_below(g->row_value, (size_t)g->n_rows * cols, MU_BELOW_INFINITY);
    case MU_GRAD_FACTORS:
    case MU_GRAD_GATHERED:
        return mu_is_below(g->dy, (size_t)g->batch * rows, MU_BELOW_2_50) &&
               mu_is_below(g->x, (size_t)(g->form == MU_GRAD_GATHERED ? g->n_x : g->batch) * cols,
                           MU_BELOW_2_50);
    default:
        return true;
    }
}
