// SPDX-License-Identifier: Apache-2.0
// grad.c - see grad.h.
#include "layer/grad.h"

#include "ops/finite.h"
#include "ops/inner.h"

#include <string.h>

float *mu_grad_add_to(mu_param *p) {
    if (!mu_param_accumulates(p)) memset(p->grad.dense, 0, p->count * sizeof(float));
    p->grad.form = MU_GRAD_DENSE;
    return p->grad.dense;
}

void mu_grad_begin(mu_param *weight, mu_param *bias, mu_op_args *a) {
    a->accumulate = (weight && mu_param_accumulates(weight)) || (bias && mu_param_accumulates(bias));
    mu_param *const both[] = {weight, bias};
    float **const target[] = {&a->dweight, &a->dbias};
    for (size_t i = 0; i < MU_COUNT(both); i++) {
        mu_param *p = both[i];
        if (!p) continue;
        if (a->accumulate) { (void)mu_grad_add_to(p); }
        p->grad.form = MU_GRAD_DENSE;
        *target[i] = p->grad.dense;
    }
}

// ---- rows at once ----

static void hand_over(void *ctx, int64_t row0, int64_t n_rows, const float *grad) {
    const mu_grad_receiver *r = ctx;
    r->sink->rows(r->sink->ctx, r->param, row0, n_rows, grad);
}

static void hand_over_outer(void *ctx, int64_t row0, int64_t n_rows, const float *dy, const float *x,
                            float *dx) {
    const mu_grad_receiver *r = ctx;
    r->sink->outer(r->sink->ctx, r->param, row0, n_rows, dy, x, dx);
}

bool mu_grad_to_sink(const mu_step *s, mu_param *weight, mu_grad_receiver *r, mu_op_args *a) {
    if (!s->sink || !s->sink->takes(s->sink->ctx, weight)) return false;
    *r = (mu_grad_receiver){s->sink, weight};
    a->rows_ready = hand_over;
    if (s->sink->outer && s->sink->takes_outer(s->sink->ctx, weight)) a->outer_ready = hand_over_outer;
    a->rows_ctx = r;
    return true;
}

mu_status mu_grad_check_factors(const mu_layer *l, const mu_step *s, const float *x, int64_t n_x,
                                const float *dy, int64_t n_dy, mu_err *err) {
    const char *what = NULL;
    if (!mu_is_below(x, (size_t)n_x, MU_BELOW_2_50)) what = "input";
    else if (!mu_is_below(dy, (size_t)n_dy, MU_BELOW_2_50)) what = "output gradient";
    if (!what) return MU_OK;
    return MU_FAIL_AT(err, MU_EDIVERGED, l->pos, "the %s of layer `%s` is not finite at step %lld", what,
                      l->name, (long long)s->step);
}

bool mu_grad_factors_pay(const mu_param *weight) {
    return weight->allow_factors && weight->grad.form == MU_GRAD_NONE && mu_param_factors_pay(weight);
}

// ---- fully connected ----

mu_status mu_grad_inner(const mu_layer *l, const mu_step *step, mu_op *op, mu_param *weight, mu_param *bias,
                        const mu_op_args *args, mu_err *err) {
    const mu_inner_desc *d = &op->desc.inner;
    mu_grad_receiver to;
    mu_op_args a = *args;
    if (mu_grad_to_sink(step, weight, &to, &a)) {
        MU_TRY(mu_grad_check_factors(l, step, a.src, d->n * d->i, a.ddst, d->n * d->o, err));
        mu_grad_begin(NULL, bias, &a);
    } else if (mu_grad_factors_pay(weight)) {
        a.skip_dweight = true;
        weight->grad.form = MU_GRAD_FACTORS;
        weight->grad.batch = d->n;
        weight->grad.x = d->transposed ? a.ddst : a.src; // along the weight's rows
        weight->grad.dy = d->transposed ? a.src : a.ddst;
        if (bias) // in the factor form the op computes no parameter gradient at all
            mu_inner_dbias(
                d, &(mu_op_args){.ddst = a.ddst, .dbias = mu_grad_add_to(bias), .accumulate = true});
    } else {
        mu_grad_begin(weight, bias, &a);
    }
    return !a.skip_dweight || a.dsrc ? mu_op_backward(op, &a, err) : MU_OK;
}
