// SPDX-License-Identifier: Apache-2.0
// half.c - see half.h. bf16 is integers only and becomes vectors by itself; fp16 is an instruction from level
// v3 on, and the rest of an array, as all of it below that level, goes through the plain functions.
#include "ops/half.h"

#include "base/attr.h"

#include <string.h>

#ifdef __F16C__
#include <immintrin.h>
#endif

enum { LANES = 8 };
#define INFINITE 0x7f800000u

static inline uint32_t bits_of(float v) {
    uint32_t b;
    memcpy(&b, &v, sizeof b);
    return b;
}

static inline float float_of(uint32_t b) {
    float v;
    memcpy(&v, &b, sizeof v);
    return v;
}

// ---- one number ----

static inline uint16_t to_bf16(float v) {
    const uint32_t bits = bits_of(v), size = bits & 0x7fffffffu;
    const uint32_t near = (size + 0x7fffu + (size >> 16 & 1)) >> 16;
    const uint32_t most = near > 0x7f7fu ? 0x7f7fu : near;
    const uint32_t odd = size >> 16 | (size > INFINITE ? 0x40u : 0); // a NaN stays one, whatever is cut off
    return (uint16_t)(bits >> 16 & 0x8000u) | (uint16_t)(size < INFINITE ? most : odd);
}

static inline float of_bf16(uint16_t h) { return float_of((uint32_t)h << 16); }

// Numbers below the smallest normal one are multiples of 2^-24, and so are the bits of 0.5 + v.
static inline uint16_t to_fp16(float v) {
    const uint32_t bits = bits_of(v), size = bits & 0x7fffffffu;
    const uint32_t small = bits_of(float_of(size) + 0.5f) - bits_of(0.5f);
    const uint32_t usual = (size - (112u << 23) + 0xfffu + (size >> 13 & 1)) >> 13;
    const uint32_t odd = 0x7c00u | (size > INFINITE ? 0x200u | (size >> 13 & 0x3ffu) : 0);
    const uint32_t h = size >= INFINITE     ? odd
                       : size > 0x477fe000u ? 0x7bffu // 65504
                       : size < 113u << 23  ? small
                                            : usual;
    return (uint16_t)((bits >> 16 & 0x8000u) | h);
}

static inline float of_fp16(uint16_t h) {
    const uint32_t sign = (uint32_t)(h & 0x8000u) << 16, size = h & 0x7fffu;
    const float small = (float)size * 0x1p-24f;
    const uint32_t odd = INFINITE | (size & 0x3ffu) << 13 | (size > 0x7c00u ? 0x400000u : 0);
    const uint32_t usual = (size << 13) + (112u << 23);
    return float_of(sign | (size >= 0x7c00u ? odd : size < 0x400u ? bits_of(small) : usual));
}

// ---- arrays ----

static inline void keep(float all, float got, float *v, float *left) {
    const uint32_t rest = bits_of(all - got);
    *v = got;
    *left = float_of((bits_of(all) & INFINITE) < INFINITE ? rest : 0);
}

static void round_bf16(size_t n, float *restrict v, float *restrict left, uint16_t *restrict out) {
    for (size_t i = 0; i < n; i++) {
        const float all = v[i] + left[i];
        out[i] = to_bf16(all);
        keep(all, of_bf16(out[i]), &v[i], &left[i]);
    }
}

#ifdef __F16C__
static size_t round_vectors(size_t n, float *v, float *left, uint16_t *out) {
    const __m256 no_sign = _mm256_castsi256_ps(_mm256_set1_epi32(0x7fffffff));
    const __m256 most = _mm256_set1_ps(65504), infinite = _mm256_set1_ps(__builtin_inff());
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        const __m256 all = _mm256_add_ps(_mm256_loadu_ps(v + i), _mm256_loadu_ps(left + i));
        const __m256 finite = _mm256_cmp_ps(_mm256_and_ps(all, no_sign), infinite, _CMP_LT_OQ);
        const __m256 within =
            _mm256_max_ps(_mm256_min_ps(all, most), _mm256_sub_ps(_mm256_setzero_ps(), most));
        const __m128i h = _mm256_cvtps_ph(_mm256_blendv_ps(all, within, finite), _MM_FROUND_TO_NEAREST_INT);
        const __m256 got = _mm256_cvtph_ps(h);
        _mm_storeu_si128((__m128i *)(void *)(out + i), h);
        _mm256_storeu_ps(v + i, got);
        _mm256_storeu_ps(left + i, _mm256_and_ps(_mm256_sub_ps(all, got), finite));
    }
    return i;
}

static size_t widen_vectors(size_t n, const char *from, float *to) {
    size_t i = 0;
    for (; i + LANES <= n; i += LANES)
        _mm256_storeu_ps(to + i,
                         _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)(from + 2 * i))));
    return i;
}
#else
static size_t round_vectors(MU_UNUSED size_t n, MU_UNUSED float *v, MU_UNUSED float *left,
                            MU_UNUSED uint16_t *out) {
    return 0;
}

static size_t widen_vectors(MU_UNUSED size_t n, MU_UNUSED const char *from, MU_UNUSED float *to) { return 0; }
#endif

void mu_half_round(mu_half form, size_t n, float *v, float *left, uint16_t *out) {
    if (form == MU_HALF_BF16) {
        round_bf16(n, v, left, out);
        return;
    }
    for (size_t i = round_vectors(n, v, left, out); i < n; i++) {
        const float all = v[i] + left[i];
        out[i] = to_fp16(all);
        keep(all, of_fp16(out[i]), &v[i], &left[i]);
    }
}

static inline uint16_t half_at(const char *from, size_t i) {
    uint16_t h;
    memcpy(&h, from + sizeof h * i, sizeof h);
    return h;
}

void mu_half_widen(mu_half form, size_t n, const void *from, float *to) {
    const char *at = from;
    if (form == MU_HALF_BF16)
        for (size_t i = 0; i < n; i++) to[i] = of_bf16(half_at(at, i));
    else
        for (size_t i = widen_vectors(n, at, to); i < n; i++) to[i] = of_fp16(half_at(at, i));
}
