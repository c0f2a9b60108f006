// SPDX-License-Identifier: Apache-2.0
// o_lrn_ref.c - local response normalisation as the formula.
//
//   s_i = k + a * sum over j in window(i) of x_j^2,   y_i = x_i * s_i^-beta
//   dx_j = dy_j * s_j^-beta - 2 a beta x_j * sum over i with j in window(i) of dy_i x_i s_i^(-beta-1)
//
// a = alpha/size over neighbouring channels, alpha/size^2 over a square of the same channel. Windows are
// symmetric, so "i with j in window(i)" is window(j). `keep` holds s. Backward reads src, ddst and keep.
#include "ops/op.h"

#include <math.h>

static mu_status create(mu_op *op, MU_UNUSED mu_err *err) {
    const mu_lrn_desc *d = &op->desc.lrn;
    op->keep_bytes = (size_t)(d->n * d->h * d->w * d->c) * sizeof(float);
    return MU_OK;
}

typedef double (*term)(const mu_lrn_desc *d, const mu_op_args *a, int64_t i);

static double square(MU_UNUSED const mu_lrn_desc *d, const mu_op_args *a, int64_t i) {
    return (double)a->src[i] * (double)a->src[i];
}

static double returned(const mu_lrn_desc *d, const mu_op_args *a, int64_t i) {
    const float *s = a->keep;
    return (double)a->ddst[i] * (double)a->src[i] * pow((double)s[i], -(double)d->beta - 1.0);
}

// Sum of f over the window of element (n,y,x,c).
static double window_sum(const mu_lrn_desc *d, const mu_op_args *a, int64_t n, int64_t y, int64_t x,
                         int64_t c, term f) {
    int64_t half = d->size / 2;
    double sum = 0;
    if (!d->within) {
        for (int64_t j = c - half; j <= c + half; j++)
            if (j >= 0 && j < d->c) sum += f(d, a, ((n * d->h + y) * d->w + x) * d->c + j);
        return sum;
    }
    for (int64_t v = y - half; v <= y + half; v++)
        for (int64_t u = x - half; u <= x + half; u++)
            if (v >= 0 && v < d->h && u >= 0 && u < d->w)
                sum += f(d, a, ((n * d->h + v) * d->w + u) * d->c + c);
    return sum;
}

static double share(const mu_lrn_desc *d) {
    return (double)d->alpha / (double)(d->within ? d->size * d->size : d->size);
}

static mu_status forward(mu_op *op, const mu_op_args *a, MU_UNUSED mu_err *err) {
    const mu_lrn_desc *d = &op->desc.lrn;
    float *keep = a->keep;
    int64_t i = 0;
    for (int64_t n = 0; n < d->n; n++)
        for (int64_t y = 0; y < d->h; y++)
            for (int64_t x = 0; x < d->w; x++)
                for (int64_t c = 0; c < d->c; c++, i++) {
                    double s = (double)d->k + share(d) * window_sum(d, a, n, y, x, c, square);
                    keep[i] = (float)s;
                    a->dst[i] = (float)((double)a->src[i] * pow(s, -(double)d->beta));
                }
    return MU_OK;
}

static mu_status backward(mu_op *op, const mu_op_args *a, MU_UNUSED mu_err *err) {
    const mu_lrn_desc *d = &op->desc.lrn;
    if (!a->dsrc) return MU_OK;
    const float *keep = a->keep;
    double twice = 2.0 * share(d) * (double)d->beta;
    int64_t i = 0;
    for (int64_t n = 0; n < d->n; n++)
        for (int64_t y = 0; y < d->h; y++)
            for (int64_t x = 0; x < d->w; x++)
                for (int64_t c = 0; c < d->c; c++, i++) {
                    double own = (double)a->ddst[i] * pow((double)keep[i], -(double)d->beta);
                    double sum = window_sum(d, a, n, y, x, c, returned);
                    a->dsrc[i] = (float)(own - twice * (double)a->src[i] * sum);
                }
    return MU_OK;
}

const mu_op_class mu_op_lrn_ref = {
    .name = "lrn_ref", .help = "local response normalisation, plain loops", .prim = MU_PRIM_LRN, .rank = 0,
    .create = create, .forward = forward, .backward = backward,
};
