// SPDX-License-Identifier: Apache-2.0
// loops.c - see loops.h.
#include "updater/loops.h"

#include <math.h>

// Comparisons are written so that a value that is not a number stays one.
void mu_grad_finish(const mu_finish *f, size_t n, const float *restrict g, const float *restrict w,
                    float *restrict out) {
    const float scale = f->scale, clip = f->clip, l2 = f->l2, l1 = f->l1;
    if (clip < INFINITY) {
        for (size_t i = 0; i < n; i++) {
            float v = scale * g[i];
            v = v > clip ? clip : v;
            v = v < -clip ? -clip : v;
            out[i] = v + l2 * w[i];
        }
    } else {
        for (size_t i = 0; i < n; i++) out[i] = scale * g[i] + l2 * w[i];
    }
    if (l1 != 0.0f)
        for (size_t i = 0; i < n; i++) out[i] += w[i] > 0 ? l1 : w[i] < 0 ? -l1 : 0.0f;
}

enum { LANES = 32 }; // independent sums, so that the loops become vectors in any compiler

double mu_sum_squares(const float *v, size_t n) {
    double lane[LANES] = {0}, sum = 0;
    size_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (size_t j = 0; j < LANES; j++) {
            const double x = (double)v[i + j];
            lane[j] += x * x;
        }
    for (; i < n; i++) sum += (double)v[i] * (double)v[i];
    for (size_t j = 0; j < LANES; j++) sum += lane[j];
    return sum;
}

double mu_dot(const float *restrict a, const float *restrict b, size_t n) {
    double lane[LANES] = {0}, sum = 0;
    size_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (size_t j = 0; j < LANES; j++) lane[j] += (double)a[i + j] * (double)b[i + j];
    for (; i < n; i++) sum += (double)a[i] * (double)b[i];
    for (size_t j = 0; j < LANES; j++) sum += lane[j];
    return sum;
}

void mu_scale_row(float *row, size_t n, float f) {
    for (size_t i = 0; i < n; i++) row[i] *= f;
}
