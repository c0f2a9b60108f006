// SPDX-License-Identifier: Apache-2.0
// draw.h - the two distributions and the meaning of `fan` that the initialisers share.
#ifndef MU_LAYER_DRAW_H
#define MU_LAYER_DRAW_H

#include "base/attr.h"
#include "layer/param.h"

#include <math.h>

#define MU_FAN_CHOICES "in|out|average"

// Number of connections that sets the scale: 0 into an output, 1 out of an input, 2 their mean. At least 1.
static inline double mu_fan(int choice, const mu_init_args *a) {
    double n = choice == 0   ? (double)a->fan_in
               : choice == 1 ? (double)a->fan_out
                             : ((double)a->fan_in + (double)a->fan_out) / 2;
    return n < 1 ? 1 : n;
}

// out[i] uniform in [low, high), resp. gaussian; a function of (key, i).
static inline void mu_draw_uniform(const mu_init_args *a, double low, double high, float *out) {
    size_t n = (size_t)mu_shape_count(a->shape);
    float from = (float)low, width = (float)(high - low);
    mu_rng_fill_uniform(a->key, 0, 0, out, n);
    for (size_t i = 0; i < n; i++) out[i] = from + width * out[i];
}

static inline void mu_draw_gaussian(const mu_init_args *a, double mean, double std, float *out) {
    size_t n = (size_t)mu_shape_count(a->shape);
    float m = (float)mean, s = (float)std;
    mu_rng_fill_gaussian(a->key, 0, 0, out, n);
    for (size_t i = 0; i < n; i++) out[i] = m + s * out[i];
}

#endif
