// SPDX-License-Identifier: Apache-2.0
// o_softmax_vec.c - softmax of rows (formulas: o_softmax_ref.c). A row stays in the nearest cache for its
// three sweeps: maximum, exponentials and their sum, scaling. Short rows (10 classes) are one vector.
#include "ops/op.h"
#include "ops/vec.h"

#include <math.h>

static float row_max(const float *x, int64_t c) {
    float max = -INFINITY;
    if (c < 2 * MU_LANES) {
        for (int64_t i = 0; i < c; i++) max = x[i] > max ? x[i] : max;
        return max;
    }
    mu_vec best = mu_vec_load(x, c);
    for (int64_t i = MU_LANES; i + MU_LANES <= c; i += MU_LANES) {
        mu_vec v = mu_vec_load(x + i, c - i);
        best = mu_vec_select(mu_vec_gt(v, best), v, best);
    }
    mu_vec end = mu_vec_load(x + c - MU_LANES, MU_LANES); // overlaps: a maximum does not mind
    best = mu_vec_select(mu_vec_gt(end, best), end, best);
    for (int i = 0; i < MU_LANES; i++) max = best[i] > max ? best[i] : max;
    return max;
}

static mu_status forward(mu_op *op, const mu_op_args *a, MU_UNUSED mu_err *err) {
    const int64_t rows = op->desc.softmax.n, c = op->desc.softmax.c;
    for (int64_t n = 0; n < rows; n++) {
        const float *x = a->src + n * c;
        float *y = a->dst + n * c, max = row_max(x, c);
        mu_vec sums = {0};
        int64_t i = 0;
        for (; i + MU_LANES <= c; i += MU_LANES) {
            mu_vec e = mu_vec_exp(mu_vec_load(x + i, MU_LANES) - max);
            mu_vec_store(y + i, e, MU_LANES);
            sums += e;
        }
        if (i < c) { // lanes beyond the end must not be counted: exp(0 - max) is not 0
            mu_vec_store(y + i, mu_vec_exp(mu_vec_load(x + i, c - i) - max), c - i);
            sums += mu_vec_load(y + i, c - i);
        }
        float share = 1.0f / mu_vec_sum(sums);
        for (i = 0; i < c; i += MU_LANES) mu_vec_store(y + i, mu_vec_load(y + i, c - i) * share, c - i);
    }
    return MU_OK;
}

static mu_status backward(mu_op *op, const mu_op_args *a, MU_UNUSED mu_err *err) {
    const int64_t rows = op->desc.softmax.n, c = op->desc.softmax.c;
    for (int64_t n = 0; a->dsrc && n < rows; n++) {
        const float *y = a->dst + n * c, *dy = a->ddst + n * c;
        float *dx = a->dsrc + n * c;
        mu_vec products = {0};
        for (int64_t i = 0; i < c; i += MU_LANES)
            products += mu_vec_load(y + i, c - i) * mu_vec_load(dy + i, c - i);
        float dot = mu_vec_sum(products);
        for (int64_t i = 0; i < c; i += MU_LANES)
            mu_vec_store(dx + i, mu_vec_load(y + i, c - i) * (mu_vec_load(dy + i, c - i) - dot), c - i);
    }
    return MU_OK;
}

const mu_op_class mu_op_softmax_vec = {
    .name = "softmax_vec", .help = "softmax of rows, vectorised", .prim = MU_PRIM_SOFTMAX, .rank = 20,
    .forward = forward, .backward = backward,
};
