// SPDX-License-Identifier: Apache-2.0
// o_softmax_ref.c - softmax of each row:  y_i = exp(x_i - max) / sum,  dx_i = y_i (dy_i - sum_j dy_j y_j).
// Backward reads dst. In place is allowed both ways.
#include "ops/op.h"

#include <math.h>

static mu_status forward(mu_op *op, const mu_op_args *a, MU_UNUSED mu_err *err) {
    const mu_softmax_desc *d = &op->desc.softmax;
    for (int64_t n = 0; n < d->n; n++) {
        const float *x = a->src + n * d->c;
        float *y = a->dst + n * d->c;
        double max = -INFINITY, sum = 0;
        for (int64_t i = 0; i < d->c; i++)
            if ((double)x[i] > max) max = (double)x[i];
        for (int64_t i = 0; i < d->c; i++) sum += exp((double)x[i] - max);
        for (int64_t i = 0; i < d->c; i++) y[i] = (float)(exp((double)x[i] - max) / sum);
    }
    return MU_OK;
}

static mu_status backward(mu_op *op, const mu_op_args *a, MU_UNUSED mu_err *err) {
    const mu_softmax_desc *d = &op->desc.softmax;
    for (int64_t n = 0; a->dsrc && n < d->n; n++) {
        const float *y = a->dst + n * d->c, *dy = a->ddst + n * d->c;
        double dot = 0;
        for (int64_t i = 0; i < d->c; i++) dot += (double)dy[i] * (double)y[i];
        float *dx = a->dsrc + n * d->c;
        for (int64_t i = 0; i < d->c; i++) dx[i] = (float)((double)y[i] * ((double)dy[i] - dot));
    }
    return MU_OK;
}

const mu_op_class mu_op_softmax_ref = {
    .name = "softmax_ref", .help = "softmax of rows, plain loops", .prim = MU_PRIM_SOFTMAX, .rank = 0,
    .forward = forward, .backward = backward,
};
