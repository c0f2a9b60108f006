// SPDX-License-Identifier: Apache-2.0
// o_text_ref.c - convolution over time and its largest value, as the formula.
//
//   y[n][i][f] = relu(bias[i][f] + max over s of sum over j < width[i], c of
//                     src[n][s + j][c] * weight[i][j][f][c])                 0 <= s <= t - width[i]
//
// The first of equal windows wins. `keep` holds its s (int32), or -1 where the relu cut: no gradient passes.
// Sums run in double: this is the oracle of the other implementations.
#include "ops/op.h"

#include <math.h>
#include <string.h>

// Row of the weights for place j of filter f of width i.
static int64_t row_of(const mu_text_desc *d, int i, int64_t j, int64_t f) {
    int64_t before = 0;
    for (int k = 0; k < i; k++) before += d->width[k];
    return (before + j) * d->o + f;
}

static mu_status create(mu_op *op, MU_UNUSED mu_err *err) {
    const mu_text_desc *d = &op->desc.text;
    op->keep_bytes = (size_t)(d->n * d->n_widths * d->o) * sizeof(int32_t);
    op->scratch_bytes = (size_t)d->d * sizeof(float); // one row of dweight
    return MU_OK;
}

static double window(const mu_text_desc *d, const mu_op_args *a, int64_t n, int64_t s, int i, int64_t f) {
    double sum = 0;
    for (int64_t j = 0; j < d->width[i]; j++) {
        const float *x = a->src + (n * d->t + s + j) * d->d, *w = a->weight + row_of(d, i, j, f) * d->d;
        for (int64_t c = 0; c < d->d; c++) sum += (double)x[c] * (double)w[c];
    }
    return sum;
}

static mu_status forward(mu_op *op, const mu_op_args *a, MU_UNUSED mu_err *err) {
    const mu_text_desc *d = &op->desc.text;
    int32_t *at = a->keep;
    int64_t k = 0;
    for (int64_t n = 0; n < d->n; n++)
        for (int i = 0; i < d->n_widths; i++)
            for (int64_t f = 0; f < d->o; f++, k++) {
                double best = window(d, a, n, 0, i, f);
                at[k] = 0;
                for (int64_t s = 1; s + d->width[i] <= d->t; s++) {
                    double v = window(d, a, n, s, i, f);
                    if (v > best || isnan(v)) best = v, at[k] = (int32_t)s;
                }
                float y = (float)(best + (d->bias ? (double)a->bias[i * d->o + f] : 0.0));
                if (y <= 0) y = 0, at[k] = -1;
                a->dst[k] = y;
            }
    return MU_OK;
}

static void add_dsrc(const mu_text_desc *d, const mu_op_args *a, int64_t n, int i, int64_t f) {
    const int64_t k = (n * d->n_widths + i) * d->o + f;
    const int32_t at = ((const int32_t *)a->keep)[k];
    for (int64_t j = 0; at >= 0 && j < d->width[i]; j++) {
        float *dx = a->dsrc + (n * d->t + at + j) * d->d;
        const float *w = a->weight + row_of(d, i, j, f) * d->d;
        for (int64_t c = 0; c < d->d; c++) dx[c] += a->ddst[k] * w[c];
    }
}

// One row of dweight, = or += .
static void dweight_row(const mu_text_desc *d, const mu_op_args *a, int i, int64_t j, int64_t f, bool add,
                        float *out) {
    for (int64_t c = 0; c < d->d; c++) {
        double sum = add ? (double)out[c] : 0.0;
        for (int64_t n = 0; n < d->n; n++) {
            const int64_t k = (n * d->n_widths + i) * d->o + f;
            const int32_t at = ((const int32_t *)a->keep)[k];
            if (at >= 0) sum += (double)a->ddst[k] * (double)a->src[(n * d->t + at + j) * d->d + c];
        }
        out[c] = (float)sum;
    }
}

static void dbias(const mu_text_desc *d, const mu_op_args *a) {
    const int64_t q = d->n_widths * d->o;
    for (int64_t k = 0; k < q; k++) {
        double sum = a->accumulate ? (double)a->dbias[k] : 0.0;
        for (int64_t n = 0; n < d->n; n++)
            if (((const int32_t *)a->keep)[n * q + k] >= 0) sum += (double)a->ddst[n * q + k];
        a->dbias[k] = (float)sum;
    }
}

static mu_status backward(mu_op *op, const mu_op_args *a, MU_UNUSED mu_err *err) {
    const mu_text_desc *d = &op->desc.text;
    if (a->dsrc) {
        memset(a->dsrc, 0, (size_t)(d->n * d->t * d->d) * sizeof(float));
        for (int64_t n = 0; n < d->n; n++)
            for (int i = 0; i < d->n_widths; i++)
                for (int64_t f = 0; f < d->o; f++) add_dsrc(d, a, n, i, f);
    }
    if (d->bias && a->dbias) dbias(d, a);
    for (int i = 0; i < d->n_widths && (a->dweight || a->rows_ready); i++)
        for (int64_t j = 0; j < d->width[i]; j++)
            for (int64_t f = 0; f < d->o; f++) {
                const int64_t row = row_of(d, i, j, f);
                float *out = a->rows_ready ? a->scratch : a->dweight + row * d->d;
                dweight_row(d, a, i, j, f, a->accumulate && !a->rows_ready, out);
                if (a->rows_ready) a->rows_ready(a->rows_ctx, row, 1, out);
            }
    return MU_OK;
}

const mu_op_class mu_op_text_ref = {
    .name = "text_ref",
    .help = "convolution over time, plain loops",
    .prim = MU_PRIM_TEXT,
    .rank = 0,
    .create = create,
    .forward = forward,
    .backward = backward,
};
