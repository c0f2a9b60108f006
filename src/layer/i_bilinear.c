// SPDX-License-Identifier: Apache-2.0
// i_bilinear.c - each kernel (the last two axes) is a tent, for up-sampling by interpolation.
//
// Along an axis of k elements, with half width f = ceil(k/2):
//   w[i] = 1 - |i - (k-1)/2| / f;  the kernel is the product of both axes.
#include "layer/draw.h"

static double tent(int64_t i, int64_t k) {
    int64_t f = (k + 1) / 2;
    return 1 - fabs((double)i - (double)(k - 1) / 2) / (double)f;
}

static void fill(MU_UNUSED const void *state, const mu_init_args *a, float *out) {
    const mu_shape *shape = a->shape;
    int64_t kw = shape->n > 0 ? shape->d[shape->n - 1] : 1, kh = shape->n > 1 ? shape->d[shape->n - 2] : 1;
    int64_t n = mu_shape_count(shape);
    for (int64_t i = 0; i < n; i++) out[i] = (float)(tent(i / kw % kh, kh) * tent(i % kw, kw));
}

const mu_init_class mu_init_bilinear = {
    .name = "bilinear",
    .help = "interpolation kernels, for up-sampling",
    .fill = fill,
};
