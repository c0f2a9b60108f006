// SPDX-License-Identifier: Apache-2.0
// o_inner_ref.c - inner product as the formula:  dst[n,o] = bias[o] + sum over i of src[n,i] * w[o,i].
//
// Backward walks the rows o of the weights: first the row's part of dsrc from the old weights, then its
// gradient, which goes to dweight or, a row at a time, to rows_ready. Sums run in double.
#include "ops/op.h"

#include <string.h>

static mu_status create(mu_op *op, mu_err *err) {
    (void)err;
    op->scratch_bytes = (size_t)op->desc.inner.i * sizeof(float); // one row for rows_ready
    return MU_OK;
}

static mu_status forward(mu_op *op, const mu_op_args *a, mu_err *err) {
    (void)err;
    const mu_inner_desc *d = &op->desc.inner;
    for (int64_t n = 0; n < d->n; n++)
        for (int64_t o = 0; o < d->o; o++) {
            double sum = d->bias ? (double)a->bias[o] : 0.0;
            for (int64_t i = 0; i < d->i; i++)
                sum += (double)a->src[n * d->i + i] * (double)a->weight[o * d->i + i];
            a->dst[n * d->o + o] = (float)sum;
        }
    return MU_OK;
}

static void row_gradient(const mu_inner_desc *d, const mu_op_args *a, int64_t o, bool add, float *out) {
    for (int64_t i = 0; i < d->i; i++) {
        double sum = add ? (double)out[i] : 0.0;
        for (int64_t n = 0; n < d->n; n++)
            sum += (double)a->ddst[n * d->o + o] * (double)a->src[n * d->i + i];
        out[i] = (float)sum;
    }
}

static mu_status backward(mu_op *op, const mu_op_args *a, mu_err *err) {
    (void)err;
    const mu_inner_desc *d = &op->desc.inner;
    if (a->dsrc) memset(a->dsrc, 0, (size_t)(d->n * d->i) * sizeof(float));
    for (int64_t o = 0; o < d->o; o++) {
        const float *w = a->weight + o * d->i;
        for (int64_t n = 0; a->dsrc && n < d->n; n++)
            for (int64_t i = 0; i < d->i; i++) a->dsrc[n * d->i + i] += a->ddst[n * d->o + o] * w[i];
        if (a->skip_dweight) continue;
        if (a->dbias) {
            double sum = a->accumulate ? (double)a->dbias[o] : 0.0;
            for (int64_t n = 0; n < d->n; n++) sum += (double)a->ddst[n * d->o + o];
            a->dbias[o] = (float)sum;
        }
        if (a->rows_ready) {
            row_gradient(d, a, o, false, a->scratch);
            a->rows_ready(a->rows_ctx, o, 1, a->scratch);
        } else if (a->dweight) {
            row_gradient(d, a, o, a->accumulate, a->dweight + o * d->i);
        }
    }
    return MU_OK;
}

const mu_op_class mu_op_inner_ref = {
    .name = "inner_ref", .help = "inner product, plain loops", .prim = MU_PRIM_INNER, .rank = 0,
    .create = create, .forward = forward, .backward = backward,
};
