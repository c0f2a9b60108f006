// SPDX-License-Identifier: Apache-2.0
// tensor.c - shapes and the two transpositions.
#include "tensor/tensor.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

int64_t mu_shape_count(const mu_shape *s) { return mu_shape_inner(s, 0); }

int64_t mu_shape_inner(const mu_shape *s, int from) {
    int64_t n = 1;
    for (int i = from; i < s->n; i++) n *= s->d[i];
    return n;
}

bool mu_shape_count_checked(const mu_shape *s, int64_t *out) {
    int64_t n = 1;
    for (int i = 0; i < s->n; i++)
        if (s->d[i] < 0 || __builtin_mul_overflow(n, s->d[i], &n)) return false;
    *out = n;
    return true;
}

bool mu_shape_equal(const mu_shape *a, const mu_shape *b) {
    if (a->n != b->n) return false;
    for (int i = 0; i < a->n; i++)
        if (a->d[i] != b->d[i]) return false;
    return true;
}

mu_shape mu_shape_prepend(int64_t first, const mu_shape *rest) {
    mu_shape s = {.n = rest->n + 1 > MU_MAX_DIMS ? MU_MAX_DIMS : rest->n + 1};
    s.d[0] = first;
    for (int i = 1; i < s.n; i++) s.d[i] = rest->d[i - 1];
    return s;
}

const char *mu_shape_text(const mu_shape *s, char out[96]) {
    size_t used = (size_t)snprintf(out, 96, "(");
    for (int i = 0; i < s->n && used < 90; i++)
        used += (size_t)snprintf(out + used, 96 - used, "%s%" PRId64, i ? ", " : "", s->d[i]);
    snprintf(used < 95 ? out + used : out + 94, 2, ")");
    return out;
}

// One (rows x cols) matrix transposed, tile by tile so that both sides stay in the first cache.
static void transpose(float *restrict dst, const float *restrict src, int64_t rows, int64_t cols) {
    enum { TILE = 16 };
    for (int64_t r0 = 0; r0 < rows; r0 += TILE)
        for (int64_t c0 = 0; c0 < cols; c0 += TILE) {
            int64_t r1 = r0 + TILE < rows ? r0 + TILE : rows, c1 = c0 + TILE < cols ? c0 + TILE : cols;
            for (int64_t c = c0; c < c1; c++)
                for (int64_t r = r0; r < r1; r++) dst[c * rows + r] = src[r * cols + c];
        }
}

void mu_nhwc_to_nchw(float *dst, const float *src, int64_t n, int64_t c, int64_t hw) {
    if (c == 1 || hw == 1) {
        memcpy(dst, src, (size_t)(n * c * hw) * sizeof *dst);
        return;
    }
    for (int64_t i = 0; i < n; i++) transpose(dst + i * c * hw, src + i * c * hw, hw, c);
}

void mu_nchw_to_nhwc(float *dst, const float *src, int64_t n, int64_t c, int64_t hw) {
    if (c == 1 || hw == 1) {
        memcpy(dst, src, (size_t)(n * c * hw) * sizeof *dst);
        return;
    }
    for (int64_t i = 0; i < n; i++) transpose(dst + i * c * hw, src + i * c * hw, c, hw);
}
