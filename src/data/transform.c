// SPDX-License-Identifier: Apache-2.0
// transform.c - see transform.h.
#include "data/transform.h"

#include <string.h>

static void bytes_minus_mean(float *restrict d, const uint8_t *restrict s, const float *restrict m, size_t n,
                             float scale) {
    for (size_t i = 0; i < n; i++) d[i] = ((float)s[i] - m[i]) * scale;
}

static void bytes_scaled(float *restrict d, const uint8_t *restrict s, size_t n, float scale) {
    for (size_t i = 0; i < n; i++) d[i] = (float)s[i] * scale;
}

static void floats_minus_mean(float *restrict d, const float *restrict s, const float *restrict m, size_t n,
                              float scale) {
    for (size_t i = 0; i < n; i++) d[i] = (s[i] - m[i]) * scale;
}

static void floats_scaled(float *restrict d, const float *restrict s, size_t n, float scale) {
    for (size_t i = 0; i < n; i++) d[i] = s[i] * scale;
}

static void run(const mu_transform *t, float *d, const void *src, size_t from, const float *mean, size_t n) {
    if (t->store == MU_STORE_U8) {
        const uint8_t *s = (const uint8_t *)src + from;
        if (mean) bytes_minus_mean(d, s, mean, n, t->scale);
        else bytes_scaled(d, s, n, t->scale);
    } else {
        const float *s = (const float *)src + from;
        if (mean) floats_minus_mean(d, s, mean, n, t->scale);
        else floats_scaled(d, s, n, t->scale);
    }
}

static void reverse_pixels(float *row, size_t w, size_t c) {
    for (size_t a = 0, b = w - 1; a < b; a++, b--)
        for (size_t k = 0; k < c; k++) {
            float t = row[a * c + k];
            row[a * c + k] = row[b * c + k];
            row[b * c + k] = t;
        }
}

static int64_t below(uint32_t u, int64_t n) { return (int64_t)(((uint64_t)u * (uint64_t)n) >> 32); }

void mu_transform_apply(const mu_transform *t, const void *src, int64_t sample, void *dst) {
    size_t c = (size_t)t->c, w = (size_t)t->w, out_w = (size_t)t->out_w, out_h = (size_t)t->out_h;
    if (t->store == MU_STORE_I32) {
        memcpy(dst, src, (size_t)t->h * w * c * sizeof(int32_t));
        return;
    }
    bool cropped = t->out_h != t->h || t->out_w != t->w, flip = false;
    int64_t y0 = (t->h - t->out_h) / 2, x0 = (t->w - t->out_w) / 2;
    if (t->mirror || (cropped && t->random_crop)) {
        uint32_t u[4];
        mu_rng_block(t->key, 0, (uint64_t)sample, u);
        flip = t->mirror && (u[2] & 1);
        if (t->random_crop) {
            y0 = below(u[0], t->h - t->out_h + 1);
            x0 = below(u[1], t->w - t->out_w + 1);
        }
    }
    bool whole_mean = !t->mean || t->mean_stride;
    if (!cropped && !flip && whole_mean) {
        run(t, dst, src, 0, t->mean, out_h * out_w * c);
        return;
    }
    for (size_t y = 0; y < out_h; y++) {
        size_t row = (size_t)y0 + y;
        float *d = (float *)dst + y * out_w * c;
        const float *mean = t->mean ? t->mean + row * t->mean_stride + (size_t)x0 * c : NULL;
        run(t, d, src, (row * w + (size_t)x0) * c, mean, out_w * c);
        if (flip) reverse_pixels(d, out_w, c);
    }
}
