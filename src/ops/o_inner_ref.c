// SPDX-License-Identifier: Apache-2.0
// o_inner_ref.c - inner product as the formula:  dst[n,o] = bias[o] + sum over i of src[n,i] * w[o,i],
// with w[i,o] when the weight is transposed.
//
// Backward walks the rows of the weights as they lie (along o, transposed along i): first the row's part of
// dsrc from the old weights, then its gradient, which goes to dweight or, a row at a time, to rows_ready.
// Sums run in double.
#include "ops/op.h"

#include <string.h>

static int64_t n_rows(const mu_inner_desc *d) { return d->transposed ? d->i : d->o; }
static int64_t n_cols(const mu_inner_desc *d) { return d->transposed ? d->o : d->i; }

static float weight_at(const mu_inner_desc *d, const mu_op_args *a, int64_t o, int64_t i) {
    return a->weight[d->transposed ? i * d->o + o : o * d->i + i];
}

static mu_status create(mu_op *op, MU_UNUSED mu_err *err) {
    op->scratch_bytes = (size_t)n_cols(&op->desc.inner) * sizeof(float); // one row for rows_ready
    return MU_OK;
}

static mu_status forward(mu_op *op, const mu_op_args *a, MU_UNUSED mu_err *err) {
    const mu_inner_desc *d = &op->desc.inner;
    for (int64_t n = 0; n < d->n; n++)
        for (int64_t o = 0; o < d->o; o++) {
            double sum = d->bias ? (double)a->bias[o] : 0.0;
            for (int64_t i = 0; i < d->i; i++)
                sum += (double)a->src[n * d->i + i] * (double)weight_at(d, a, o, i);
            a->dst[n * d->o + o] = (float)sum;
        }
    return MU_OK;
}

// The row's part of dsrc: all columns of it, or, transposed, the whole of one column.
static void row_dsrc(const mu_inner_desc *d, const mu_op_args *a, int64_t row) {
    const float *w = a->weight + row * n_cols(d);
    for (int64_t n = 0; n < d->n; n++)
        for (int64_t k = 0; k < n_cols(d); k++)
            if (d->transposed) a->dsrc[n * d->i + row] += a->ddst[n * d->o + k] * w[k];
            else a->dsrc[n * d->i + k] += a->ddst[n * d->o + row] * w[k];
}

static void row_gradient(const mu_inner_desc *d, const mu_op_args *a, int64_t row, bool add, float *out) {
    const float *left = d->transposed ? a->src : a->ddst, *right = d->transposed ? a->ddst : a->src;
    for (int64_t k = 0; k < n_cols(d); k++) {
        double sum = add ? (double)out[k] : 0.0;
        for (int64_t n = 0; n < d->n; n++)
            sum += (double)left[n * n_rows(d) + row] * (double)right[n * n_cols(d) + k];
        out[k] = (float)sum;
    }
}

static void bias_gradient(const mu_inner_desc *d, const mu_op_args *a) {
    for (int64_t o = 0; o < d->o; o++) {
        double sum = a->accumulate ? (double)a->dbias[o] : 0.0;
        for (int64_t n = 0; n < d->n; n++) sum += (double)a->ddst[n * d->o + o];
        a->dbias[o] = (float)sum;
    }
}

static mu_status backward(mu_op *op, const mu_op_args *a, MU_UNUSED mu_err *err) {
    const mu_inner_desc *d = &op->desc.inner;
    if (a->dsrc) memset(a->dsrc, 0, (size_t)(d->n * d->i) * sizeof(float));
    if (a->dbias && !a->skip_dweight) bias_gradient(d, a);
    for (int64_t row = 0; row < n_rows(d); row++) {
        if (a->dsrc) row_dsrc(d, a, row);
        if (a->skip_dweight) continue;
        if (a->rows_ready) {
            row_gradient(d, a, row, false, a->scratch);
            a->rows_ready(a->rows_ctx, row, 1, a->scratch);
        } else if (a->dweight) {
            row_gradient(d, a, row, a->accumulate, a->dweight + row * n_cols(d));
        }
    }
    return MU_OK;
}

const mu_op_class mu_op_inner_ref = {
    .name = "inner_ref", .help = "inner product, plain loops", .prim = MU_PRIM_INNER, .rank = 0,
    .create = create, .forward = forward, .backward = backward,
};
