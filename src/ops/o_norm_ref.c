// SPDX-License-Identifier: Apache-2.0
// o_norm_ref.c - batch normalisation as the formula, one channel at a time, sums in double.
//
//   xhat = (x - mean) / sqrt(var + eps),   y = xhat * weight + bias
//   training:  dx = weight/sqrt(var + eps) * (dy - sum(dy)/R - xhat * sum(dy * xhat)/R),  R rows
//   otherwise: dx = weight/sqrt(var + eps) * dy                  (mean and var are the running ones)
//   dweight = sum(dy * xhat),  dbias = sum(dy)                   (= or += by accumulate)
//
// The batch is normalised with the biased variance; the running variance takes the unbiased one, as
// PyTorch does. `keep` holds mean (C) and 1/sqrt(var + eps) (C). Backward reads src, ddst and keep.
#include "ops/op.h"

#include <math.h>

static mu_status create(mu_op *op, MU_UNUSED mu_err *err) {
    op->keep_bytes = 2 * (size_t)op->desc.norm.c * sizeof(float);
    return MU_OK;
}

static void moments(const mu_norm_desc *d, const mu_op_args *a, int64_t c, double *mean, double *var) {
    double sum = 0, squares = 0;
    for (int64_t r = 0; r < d->rows; r++) sum += (double)a->src[r * d->c + c];
    *mean = sum / (double)d->rows;
    for (int64_t r = 0; r < d->rows; r++) {
        double e = (double)a->src[r * d->c + c] - *mean;
        squares += e * e;
    }
    *var = squares / (double)d->rows;
    double unbiased = d->rows > 1 ? squares / (double)(d->rows - 1) : *var, m = (double)d->momentum;
    a->run_mean[c] = (float)((1 - m) * (double)a->run_mean[c] + m * *mean);
    a->run_var[c] = (float)((1 - m) * (double)a->run_var[c] + m * unbiased);
}

static mu_status forward(mu_op *op, const mu_op_args *a, MU_UNUSED mu_err *err) {
    const mu_norm_desc valid = mu_norm_valid(op, a), *d = &valid;
    float *keep_mean = a->keep, *keep_inv = keep_mean + d->c;
    for (int64_t c = 0; c < d->c; c++) {
        double mean, var;
        if (d->training) {
            moments(d, a, c, &mean, &var);
        } else {
            mean = (double)a->run_mean[c];
            var = (double)a->run_var[c];
        }
        double inv = 1.0 / sqrt(var + (double)d->eps);
        keep_mean[c] = (float)mean;
        keep_inv[c] = (float)inv;
        double scale = d->affine ? (double)a->weight[c] : 1.0, shift = d->affine ? (double)a->bias[c] : 0.0;
        for (int64_t r = 0; r < d->rows; r++)
            a->dst[r * d->c + c] = (float)(((double)a->src[r * d->c + c] - mean) * inv * scale + shift);
    }
    return MU_OK;
}

static mu_status backward(mu_op *op, const mu_op_args *a, MU_UNUSED mu_err *err) {
    const mu_norm_desc valid = mu_norm_valid(op, a), *d = &valid;
    const float *keep_mean = a->keep, *keep_inv = keep_mean + d->c;
    for (int64_t c = 0; c < d->c; c++) {
        double mean = (double)keep_mean[c], inv = (double)keep_inv[c], sum = 0, product = 0;
        for (int64_t r = 0; r < d->rows; r++) {
            sum += (double)a->ddst[r * d->c + c];
            product += (double)a->ddst[r * d->c + c] * ((double)a->src[r * d->c + c] - mean) * inv;
        }
        if (a->dweight) a->dweight[c] = (float)(product + (a->accumulate ? (double)a->dweight[c] : 0.0));
        if (a->dbias) a->dbias[c] = (float)(sum + (a->accumulate ? (double)a->dbias[c] : 0.0));
        if (!a->dsrc) continue;
        double scale = inv * (d->affine ? (double)a->weight[c] : 1.0);
        double rows = d->training ? (double)d->rows : INFINITY; // running statistics do not depend on x
        for (int64_t r = 0; r < d->rows; r++) {
            double xhat = ((double)a->src[r * d->c + c] - mean) * inv;
            double centred = (double)a->ddst[r * d->c + c] - sum / rows - xhat * (product / rows);
            a->dsrc[r * d->c + c] = (float)(scale * centred);
        }
    }
    return MU_OK;
}

const mu_op_class mu_op_norm_ref = {
    .name = "norm_ref", .help = "batch normalisation, plain loops", .prim = MU_PRIM_NORM, .rank = 0,
    .create = create, .forward = forward, .backward = backward,
};
