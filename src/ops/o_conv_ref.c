// SPDX-License-Identifier: Apache-2.0
// o_conv_ref.c - convolution as the formula, for groups, stride, padding and dilation of any size.
//
//   dst[n,y,x,o] = bias[o] + sum over (ky,kx,c) src[n, y*s-p+ky*d, x*s-p+kx*d, g*C/G+c] * w[o,c,ky,kx]
//
// g is the group of o. Sums run in double: this is the oracle of the other implementations.
#include "ops/op.h"

#include <string.h>

// Where tap k of output position `out` reads; false outside the image.
static bool source_of(int64_t out, int64_t k, int64_t stride, int64_t pad, int64_t dil, int64_t size,
                      int64_t *at) {
    *at = out * stride - pad + k * dil;
    return *at >= 0 && *at < size;
}

static double dot_at(const mu_conv_desc *d, const mu_op_args *a, int64_t n, int64_t y, int64_t x, int64_t o) {
    int64_t cg = d->c / d->groups, first = o / (d->o / d->groups) * cg, sy, sx;
    double sum = 0;
    for (int64_t ky = 0; ky < d->kh; ky++) {
        if (!source_of(y, ky, d->stride_h, d->pad_h, d->dil_h, d->h, &sy)) continue;
        for (int64_t kx = 0; kx < d->kw; kx++) {
            if (!source_of(x, kx, d->stride_w, d->pad_w, d->dil_w, d->w, &sx)) continue;
            const float *src = a->src + ((n * d->h + sy) * d->w + sx) * d->c + first;
            const float *w = a->weight + (o * cg * d->kh + ky) * d->kw + kx;
            for (int64_t c = 0; c < cg; c++) sum += (double)src[c] * (double)w[c * d->kh * d->kw];
        }
    }
    return sum;
}

static mu_status forward(mu_op *op, const mu_op_args *a, MU_UNUSED mu_err *err) {
    const mu_conv_desc *d = &op->desc.conv;
    float *dst = a->dst;
    for (int64_t n = 0; n < d->n; n++)
        for (int64_t y = 0; y < d->oh; y++)
            for (int64_t x = 0; x < d->ow; x++)
                for (int64_t o = 0; o < d->o; o++) {
                    double bias = d->bias ? (double)a->bias[o] : 0.0;
                    *dst++ = (float)(bias + dot_at(d, a, n, y, x, o));
                }
    return MU_OK;
}

static double dweight_at(const mu_conv_desc *d, const mu_op_args *a, int64_t o, int64_t c, int64_t ky,
                         int64_t kx) {
    int64_t channel = o / (d->o / d->groups) * (d->c / d->groups) + c, sy, sx;
    double sum = 0;
    for (int64_t n = 0; n < d->n; n++)
        for (int64_t y = 0; y < d->oh; y++) {
            if (!source_of(y, ky, d->stride_h, d->pad_h, d->dil_h, d->h, &sy)) continue;
            for (int64_t x = 0; x < d->ow; x++) {
                if (!source_of(x, kx, d->stride_w, d->pad_w, d->dil_w, d->w, &sx)) continue;
                sum += (double)a->ddst[((n * d->oh + y) * d->ow + x) * d->o + o]
                       * (double)a->src[((n * d->h + sy) * d->w + sx) * d->c + channel];
            }
        }
    return sum;
}

static void backward_params(const mu_conv_desc *d, const mu_op_args *a) {
    int64_t cg = d->c / d->groups, i = 0;
    for (int64_t o = 0; a->dweight && o < d->o; o++)
        for (int64_t c = 0; c < cg; c++)
            for (int64_t ky = 0; ky < d->kh; ky++)
                for (int64_t kx = 0; kx < d->kw; kx++, i++) {
                    double old = a->accumulate ? (double)a->dweight[i] : 0.0;
                    a->dweight[i] = (float)(old + dweight_at(d, a, o, c, ky, kx));
                }
    for (int64_t o = 0; a->dbias && o < d->o; o++) {
        double sum = a->accumulate ? (double)a->dbias[o] : 0.0;
        for (int64_t p = 0; p < d->n * d->oh * d->ow; p++) sum += (double)a->ddst[p * d->o + o];
        a->dbias[o] = (float)sum;
    }
}

// Adds the gradient that output position (n,y,x) sends back to its window.
static void scatter(const mu_conv_desc *d, const mu_op_args *a, int64_t n, int64_t y, int64_t x) {
    int64_t cg = d->c / d->groups, og = d->o / d->groups, sy, sx;
    const float *ddst = a->ddst + ((n * d->oh + y) * d->ow + x) * d->o;
    for (int64_t ky = 0; ky < d->kh; ky++) {
        if (!source_of(y, ky, d->stride_h, d->pad_h, d->dil_h, d->h, &sy)) continue;
        for (int64_t kx = 0; kx < d->kw; kx++) {
            if (!source_of(x, kx, d->stride_w, d->pad_w, d->dil_w, d->w, &sx)) continue;
            float *dsrc = a->dsrc + ((n * d->h + sy) * d->w + sx) * d->c;
            for (int64_t c = 0; c < d->c; c++) {
                int64_t g = c / cg;
                double sum = 0;
                for (int64_t o = g * og; o < (g + 1) * og; o++)
                    sum += (double)ddst[o]
                           * (double)a->weight[((o * cg + c - g * cg) * d->kh + ky) * d->kw + kx];
                dsrc[c] += (float)sum;
            }
        }
    }
}

static mu_status backward(mu_op *op, const mu_op_args *a, MU_UNUSED mu_err *err) {
    const mu_conv_desc *d = &op->desc.conv;
    backward_params(d, a);
    if (!a->dsrc) return MU_OK;
    memset(a->dsrc, 0, (size_t)(d->n * d->h * d->w * d->c) * sizeof(float));
    for (int64_t n = 0; n < d->n; n++)
        for (int64_t y = 0; y < d->oh; y++)
            for (int64_t x = 0; x < d->ow; x++) scatter(d, a, n, y, x);
    return MU_OK;
}

const mu_op_class mu_op_conv_ref = {
    .name = "conv_ref", .help = "convolution, plain loops", .prim = MU_PRIM_CONV, .rank = 0,
    .forward = forward, .backward = backward,
};
