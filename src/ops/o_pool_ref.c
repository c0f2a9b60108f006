// SPDX-License-Identifier: Apache-2.0
// o_pool_ref.c - pooling as the definition, one output value at a time.
//
// Max takes the first of equal values and passes NaN on. `keep` holds, for max, the element index within
// the image that won (int32, -1 = the window lies outside the image, value 0).
#include "ops/op.h"

#include <math.h>
#include <string.h>

typedef struct window { int64_t y0, y1, x0, x1, count; } window; // clipped to the image; count = divisor

static int64_t lesser(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t greater(int64_t a, int64_t b) { return a > b ? a : b; }

static window window_of(const mu_pool_desc *d, int64_t oy, int64_t ox) {
    int64_t y0 = oy * d->stride_h - d->pad_h, x0 = ox * d->stride_w - d->pad_w;
    int64_t y1 = lesser(y0 + d->kh, d->h + d->pad_h), x1 = lesser(x0 + d->kw, d->w + d->pad_w);
    window w = {greater(y0, 0), lesser(y1, d->h), greater(x0, 0), lesser(x1, d->w), 0};
    w.count = d->count_pad ? (y1 - y0) * (x1 - x0) : greater(w.y1 - w.y0, 0) * greater(w.x1 - w.x0, 0);
    return w;
}

static mu_status create(mu_op *op, MU_UNUSED mu_err *err) {
    const mu_pool_desc *d = &op->desc.pool;
    if (d->kind == MU_POOL_MAX) op->keep_bytes = (size_t)(d->n * d->oh * d->ow * d->c) * sizeof(int32_t);
    return MU_OK;
}

static float largest(const mu_pool_desc *d, const float *image, window w, int64_t c, int32_t *at) {
    float best = 0;
    *at = -1;
    for (int64_t y = w.y0; y < w.y1; y++)
        for (int64_t x = w.x0; x < w.x1; x++) {
            int64_t i = (y * d->w + x) * d->c + c;
            if (*at < 0 || image[i] > best || isnan(image[i])) best = image[i], *at = (int32_t)i;
        }
    return best;
}

static float average(const mu_pool_desc *d, const float *image, window w, int64_t c) {
    double sum = 0;
    for (int64_t y = w.y0; y < w.y1; y++)
        for (int64_t x = w.x0; x < w.x1; x++) sum += (double)image[(y * d->w + x) * d->c + c];
    return w.count > 0 ? (float)(sum / (double)w.count) : 0.0f;
}

static mu_status forward(mu_op *op, const mu_op_args *a, MU_UNUSED mu_err *err) {
    const mu_pool_desc *d = &op->desc.pool;
    int64_t o = 0;
    for (int64_t n = 0; n < d->n; n++)
        for (int64_t oy = 0; oy < d->oh; oy++)
            for (int64_t ox = 0; ox < d->ow; ox++) {
                const float *image = a->src + n * d->h * d->w * d->c;
                window w = window_of(d, oy, ox);
                for (int64_t c = 0; c < d->c; c++, o++)
                    a->dst[o] = d->kind == MU_POOL_MAX ? largest(d, image, w, c, (int32_t *)a->keep + o)
                                                       : average(d, image, w, c);
            }
    return MU_OK;
}

static void spread(const mu_pool_desc *d, float *image, window w, int64_t c, float value) {
    for (int64_t y = w.y0; y < w.y1; y++)
        for (int64_t x = w.x0; x < w.x1; x++) image[(y * d->w + x) * d->c + c] += value / (float)w.count;
}

static mu_status backward(mu_op *op, const mu_op_args *a, MU_UNUSED mu_err *err) {
    const mu_pool_desc *d = &op->desc.pool;
    if (!a->dsrc) return MU_OK;
    memset(a->dsrc, 0, (size_t)(d->n * d->h * d->w * d->c) * sizeof(float));
    const int32_t *at = a->keep;
    int64_t o = 0;
    for (int64_t n = 0; n < d->n; n++)
        for (int64_t oy = 0; oy < d->oh; oy++)
            for (int64_t ox = 0; ox < d->ow; ox++) {
                float *image = a->dsrc + n * d->h * d->w * d->c;
                window w = window_of(d, oy, ox);
                for (int64_t c = 0; c < d->c; c++, o++) {
                    if (d->kind == MU_POOL_AVG) spread(d, image, w, c, a->ddst[o]);
                    else if (at[o] >= 0) image[at[o]] += a->ddst[o];
                }
            }
    return MU_OK;
}

const mu_op_class mu_op_pool_ref = {
    .name = "pool_ref", .help = "pooling, plain loops", .prim = MU_PRIM_POOL, .rank = 0,
    .create = create, .forward = forward, .backward = backward,
};
