// SPDX-License-Identifier: Apache-2.0
// u_sgd.c - gradient descent with momentum (Caffe's and SINGA's form):
//
//   v = momentum * v - lr * g;  w += v
//
// The rate is inside v, so a drop of the rate reaches the weights over the next 1 / (1 - momentum)
// steps. PyTorch keeps it outside (v = momentum * v + g; w -= lr * v): the same while lr is constant.
// Without momentum the history is neither read nor written. Where gradients are stale (ps/stale.h) the
// weights look ahead: w += v + ahead * (v - v of before).
//
// The rule is fused: weight decay, the undo log, a layer's backward through its weights, the sum of what a
// few samples give and a second update of that kind are done in the same pass. All copies of the loop round
// alike, so that a run does not depend on which one a slice got.
#include "ops/tile.h"
#include "ops/vec.h"
#include "updater/momentum.h"

#include <stdatomic.h>

struct sgd {
    mu_momentum m;
};

static const mu_field fields[] = {
    MU_MOMENTUM_FIELDS(struct sgd, "0"),
    {0},
};

enum { PLAIN, BACK, UNDO, NEXT }; // what else a pass does
enum { VECS = 2 };                // vectors at a time with an undo log, and of sums

typedef struct term_sum { // the terms of the gradient; with none x[0] is the gradient
    mu_vec d[MU_TERMS];
    const float *x[MU_TERMS];
} term_sum;

typedef enum motion { STILL, HEAVY, AHEAD } motion; // no momentum; momentum; and the weights look ahead

typedef struct coeffs { // of an update
    float scale, lr, m, ahead; // m: momentum
    motion motion;
} coeffs;

static inline void order_stores(void) { atomic_signal_fence(memory_order_seq_cst); }

// The gradient as it came. terms: 0, 2 or 4.
MU_INLINE mu_vec raw_grad(const term_sum *t, int64_t at, int64_t n, const int terms) {
    if (!terms) return mu_vec_load(t->x[0] + at, n);
    mu_vec g = t->d[0] * mu_vec_load(t->x[0] + at, n);
    MU_UNROLL for (int i = 1; i < terms; i++) g = mu_vec_fma(t->d[i], mu_vec_load(t->x[i] + at, n), g);
    return g;
}

MU_INLINE void step(const coeffs *a, mu_vec raw, float decay, motion how, mu_vec *w, mu_vec *v) {
    const mu_vec g = mu_vec_fma(mu_vec_set(a->scale), raw, decay * *w);
    const mu_vec now = mu_vec_fma(mu_vec_set(-a->lr), g, how ? a->m * *v : *w);
    if (how == AHEAD) *w = mu_vec_fma(mu_vec_set(a->ahead), now - *v, *w + now);
    else *w = how ? *w + now : now;
    *v = now;
}

// `left` elements from i on, at most `vecs` vectors of them. t, a: of this update and, with NEXT, the one
// behind it.
MU_INLINE void change(const mu_slice *s, const term_sum *t, const coeffs *a, int64_t i, int64_t left,
                      motion how, int variant, const int terms, const int vecs) {
    mu_vec w[VECS], v[VECS];
    MU_UNROLL for (int k = 0; k < vecs; k++) {
        const int64_t at = i + k * MU_LANES, n = left - k * MU_LANES;
        w[k] = mu_vec_once(mu_vec_load(s->value + at, n));
        if (how) v[k] = mu_vec_once(mu_vec_load(s->slot[0] + at, n));
        if (variant == BACK)
            mu_vec_store(s->back + at,
                         mu_vec_fma(mu_vec_set(s->scale), w[k], mu_vec_load(s->back + at, n)), n);
        if (variant == UNDO) mu_vec_store(s->undo->value + at, w[k], n);
        if (variant == UNDO && how) mu_vec_store(s->undo->slot[0] + at, v[k], n);
    }
    if (variant == UNDO) {
        order_stores();
        *s->undo->n = (size_t)(i + left);
        order_stores();
    }
    MU_UNROLL for (int k = 0; k < vecs; k++) {
        const int64_t at = i + k * MU_LANES, n = left - k * MU_LANES;
        step(&a[0], raw_grad(&t[0], at, n, terms), s->decay, how, &w[k], &v[k]);
        if (variant == NEXT) step(&a[1], raw_grad(&t[1], at, n, terms), s->decay, how, &w[k], &v[k]);
        if (how) mu_vec_store(s->slot[0] + at, v[k], n);
    }
    MU_UNROLL for (int k = 0; k < vecs; k++)
        mu_vec_store(s->value + i + k * MU_LANES, w[k], left - k * MU_LANES);
}

// `terms` of them, of which n are given: a sum of three has a fourth that is 0.
MU_INLINE void read_terms(const float *grad, const mu_term *term, int n, const int terms, term_sum *out) {
    out->x[0] = grad;
    MU_UNROLL for (int k = 0; k < terms; k++) {
        out->d[k] = mu_vec_set(k < n ? term[k].d : 0.0f);
        out->x[k] = term[k < n ? k : 0].x;
    }
}

MU_INLINE void rule(const mu_slice *slice, const coeffs *now, const coeffs *then, const motion how,
                    const int variant, const int terms) {
    const mu_undo_log undo = variant == UNDO ? *slice->undo : (mu_undo_log){0};
    mu_slice s = *slice; // copies, so that they can be in registers: for all C knows the weights overlap them
    s.undo = &undo;
    const coeffs p[2] = {*now, *then};
    term_sum t[2];
    read_terms(s.grad, s.term, s.n_terms, terms, &t[0]);
    if (variant == NEXT) read_terms(s.next->grad, s.next->term, s.n_terms, terms, &t[1]);
    const bool sums = terms || variant == NEXT;
    const int vecs = variant == UNDO || sums ? VECS : 1;
    const int64_t n = (int64_t)s.n;
    const int64_t odd = (int64_t)((uintptr_t)s.value / sizeof(float) % MU_LANES);
    int64_t i = 0;
    if (sums && variant != UNDO && odd && n > MU_LANES) { // a store over the end of a line costs two
        i = MU_LANES - odd;
        change(&s, t, p, 0, i, how, variant, terms, 1);
    }
    for (; i + vecs * MU_LANES <= n; i += vecs * MU_LANES)
        change(&s, t, p, i, vecs * MU_LANES, how, variant, terms, vecs);
    for (; i + MU_LANES <= n; i += MU_LANES) change(&s, t, p, i, MU_LANES, how, variant, terms, 1);
    if (i < n) change(&s, t, p, i, n - i, how, variant, terms, 1);
}

MU_INLINE void by_terms(const mu_slice *s, const coeffs *a, const motion how, const int variant) {
    if (s->n_terms > 2) rule(s, a, a, how, variant, 4);
    else if (s->n_terms) rule(s, a, a, how, variant, 2);
    else rule(s, a, a, how, variant, 0);
}

MU_INLINE void by_variant(const mu_slice *s, const coeffs *a, const motion how) {
    if (s->undo) by_terms(s, a, how, UNDO);
    else if (s->back) rule(s, a, a, how, BACK, 0);
    else by_terms(s, a, how, PLAIN);
}

static void update(const mu_slice *s, const coeffs *a) {
    if (a->motion == AHEAD) by_variant(s, a, AHEAD);
    else if (a->motion == HEAVY) by_variant(s, a, HEAVY);
    else by_variant(s, a, STILL);
}

MU_INLINE void pair_by_terms(const mu_slice *s, const coeffs *now, const coeffs *then, const motion how) {
    if (s->n_terms > 2) rule(s, now, then, how, NEXT, 4);
    else if (s->n_terms) rule(s, now, then, how, NEXT, 2);
    else rule(s, now, then, how, NEXT, 0);
}

static void update_twice(const mu_slice *s, const coeffs *now, const coeffs *then) {
    if (now->motion == AHEAD && then->motion == AHEAD) {
        pair_by_terms(s, now, then, AHEAD);
    } else if (now->motion == HEAVY && then->motion == HEAVY) {
        pair_by_terms(s, now, then, HEAVY);
    } else if (now->motion == STILL && then->motion == STILL) {
        pair_by_terms(s, now, then, STILL);
    } else { // `early` or what is done against staleness ends between the two
        mu_slice second = *s;
        second.term = s->next->term;
        second.grad = s->next->grad;
        update(s, now);
        update(&second, then);
    }
}

// A momentum that was lowered to 0 still leaves a history: it may rise again.
static coeffs coeffs_of(const mu_momentum *m, float scale, float lr, mu_rule_step at) {
    coeffs c = {scale, lr, mu_momentum_at(m, at), at.stale.lowers ? at.stale.ahead : 0, STILL};
    if (at.stale.lowers || c.m > 0) c.motion = c.ahead > 0 ? AHEAD : HEAVY;
    return c;
}

static void apply(const void *state, const mu_slice *s, float lr, mu_rule_step at) {
    const mu_momentum *m = &((const struct sgd *)state)->m;
    const coeffs now = coeffs_of(m, s->scale, lr, at);
    // The history stays as it is in this update, but the parent restores all that this rule ever changes.
    if (now.motion == STILL && s->undo && s->undo->slot[0])
        memcpy(s->undo->slot[0], s->slot[0], s->n * sizeof(float));
    if (s->next) {
        const coeffs then = coeffs_of(m, s->next->scale, s->next->lr, s->next->step);
        update_twice(s, &now, &then);
    } else {
        update(s, &now);
    }
}

static int n_changed(const void *state) { return mu_momentum_is_used(&((const struct sgd *)state)->m); }

static const char *check(const void *state) { return mu_momentum_check(&((const struct sgd *)state)->m); }
static bool is_young(const void *state, int64_t step, double epoch) {
    return mu_momentum_is_young(&((const struct sgd *)state)->m, step, epoch);
}

static double momentum(const void *state, bool young) {
    return mu_momentum_own(&((const struct sgd *)state)->m, young);
}

static void usual_rates(const void *state, double range[2]) {
    mu_momentum_usual_rates(&((const struct sgd *)state)->m, range);
}

const mu_updater_class mu_updater_sgd = {
    .name = "sgd",
    .help = "gradient descent with momentum",
    .fields = fields,
    .state_size = sizeof(struct sgd),
    .n_slots = 1,
    .slot_name = {"momentum"},
    .apply = apply,
    .usual_rates = usual_rates,
    .fused = true,
    .pairs = true,
    .n_changed = n_changed,
    .check = check,
    .is_young = is_young,
    .momentum = momentum,
    .adds_up = true,
};
