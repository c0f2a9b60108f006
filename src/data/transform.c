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

// Where the window lies: y, x may be outside by shift_h, shift_w.
typedef struct { int64_t y, x; bool flip; } crop_window;

static crop_window choose_window(const mu_transform *t, bool moves, int64_t sample) {
    crop_window o = {(t->h - t->out_h) / 2, (t->w - t->out_w) / 2, false};
    if (!moves && !t->mirror) return o;
    uint32_t u[4];
    mu_rng_block(t->key, 0, (uint64_t)sample, u);
    o.flip = t->mirror && (u[2] & 1);
    if (moves) {
        o.y = below(u[0], t->h - t->out_h + 2 * t->shift_h + 1) - t->shift_h;
        o.x = below(u[1], t->w - t->out_w + 2 * t->shift_w + 1) - t->shift_w;
    }
    return o;
}

static int64_t clamp(int64_t v, int64_t last) { return v < 0 ? 0 : v > last ? last : v; }

// One row of the window: the columns inside, then the edge's pixels beside them.
static void window_row(const mu_transform *t, const void *src, int64_t y, int64_t x, float *d) {
    size_t c = (size_t)t->c, row = (size_t)clamp(y, t->h - 1);
    int64_t from = clamp(x, t->w - 1), to = clamp(x + t->out_w - 1, t->w - 1) + 1;
    int64_t left = clamp(from - x, t->out_w - 1), right = left + to - from;
    size_t at = (size_t)from * c;
    const float *mean = t->mean ? t->mean + row * t->mean_stride + at : NULL;
    run(t, d + (size_t)left * c, src, row * (size_t)t->w * c + at, mean, (size_t)(to - from) * c);
    for (int64_t i = 0; i < left; i++) memcpy(d + (size_t)i * c, d + (size_t)left * c, c * sizeof *d);
    for (int64_t i = right; i < t->out_w; i++)
        memcpy(d + (size_t)i * c, d + (size_t)(right - 1) * c, c * sizeof *d);
}

void mu_transform_apply(const mu_transform *t, const void *src, int64_t sample, void *dst) {
    size_t c = (size_t)t->c, out_w = (size_t)t->out_w, out_h = (size_t)t->out_h;
    if (t->store == MU_STORE_I32) {
        memcpy(dst, src, (size_t)t->h * (size_t)t->w * c * sizeof(int32_t));
        return;
    }
    bool cropped = t->out_h != t->h || t->out_w != t->w;
    bool moves = t->random_crop && (cropped || t->shift_h || t->shift_w);
    crop_window o = choose_window(t, moves, sample);
    bool whole_mean = !t->mean || t->mean_stride;
    if (!cropped && !moves && !o.flip && whole_mean) {
        run(t, dst, src, 0, t->mean, out_h * out_w * c);
        return;
    }
    for (size_t y = 0; y < out_h; y++) {
        float *d = (float *)dst + y * out_w * c;
        window_row(t, src, o.y + (int64_t)y, o.x, d);
        if (o.flip) reverse_pixels(d, out_w, c);
    }
}
