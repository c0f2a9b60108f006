// SPDX-License-Identifier: Apache-2.0
// o_inner_gemm.c - fully connected layer by matrix products, for batches.
//
//     y (n,o) = x (n,i) * w(o,i)^T + b        dx = dy * w        dw = dy^T * x        db = column sums of dy
//
// dx is computed first, from the old weights. When the caller takes the weight gradient in blocks of
// rows (args.rows_ready), each block is computed into a tile that stays in the second-level cache and is
// handed over at once, which saves writing and reading the whole gradient.
#include "ops/gemm.h"
#include "ops/op.h"

#include <string.h>

#define TILE_BYTES ((int64_t)256 << 10)

static int64_t tile_rows(const mu_inner_desc *d) {
    int64_t rows = TILE_BYTES / ((d->i > 0 ? d->i : 1) * (int64_t)sizeof(float));
    rows = rows < 16 ? 16 : rows & ~(int64_t)7;
    return rows < d->o ? rows : d->o;
}

static mu_status create(mu_op *op, mu_err *err) {
    (void)err;
    const mu_inner_desc *d = &op->desc.inner;
    op->scratch_bytes = (size_t)(tile_rows(d) * d->i) * sizeof(float);
    return MU_OK;
}

static mu_status forward(mu_op *op, const mu_op_args *a, mu_err *err) {
    (void)err;
    const mu_inner_desc *d = &op->desc.inner;
    if (d->bias)
        for (int64_t r = 0; r < d->n; r++) memcpy(a->dst + r * d->o, a->bias, (size_t)d->o * sizeof(float));
    mu_gemm(false, true, d->n, d->o, d->i, a->src, d->i, a->weight, d->i, d->bias ? 1.0f : 0.0f, a->dst, d->o);
    return MU_OK;
}

static void bias_gradient(const mu_inner_desc *d, const mu_op_args *a) {
    if (!a->accumulate) memset(a->dbias, 0, (size_t)d->o * sizeof(float));
    for (int64_t r = 0; r < d->n; r++)
        for (int64_t j = 0; j < d->o; j++) a->dbias[j] += a->ddst[r * d->o + j];
}

static mu_status backward(mu_op *op, const mu_op_args *a, mu_err *err) {
    (void)err;
    const mu_inner_desc *d = &op->desc.inner;
    if (d->bias && a->dbias && !a->skip_dweight) bias_gradient(d, a);
    if (a->dsrc) mu_gemm(false, false, d->n, d->i, d->o, a->ddst, d->o, a->weight, d->i, 0.0f, a->dsrc, d->i);
    if (a->skip_dweight) return MU_OK;
    if (a->rows_ready) {
        int64_t step = tile_rows(d);
        for (int64_t r = 0; r < d->o; r += step) {
            int64_t rows = d->o - r < step ? d->o - r : step;
            mu_gemm(true, false, rows, d->i, d->n, a->ddst + r, d->o, a->src, d->i, 0.0f, a->scratch, d->i);
            a->rows_ready(a->rows_ctx, r, rows, a->scratch);
        }
    } else if (a->dweight) {
        mu_gemm(true, false, d->o, d->i, d->n, a->ddst, d->o, a->src, d->i, a->accumulate ? 1.0f : 0.0f, a->dweight,
                d->i);
    }
    return MU_OK;
}

const mu_op_class mu_op_inner_gemm = {
    .name = "inner_gemm", .help = "matrix products of the fastest library for the shape",
    .prim = MU_PRIM_INNER, .rank = 20, .create = create, .forward = forward, .backward = backward,
};
