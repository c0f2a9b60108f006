// SPDX-License-Identifier: Apache-2.0
// vec.h - the few vector operations the hand-written ops share.
//
// A mu_vec is as many floats as the widest register of the build holds (MU_LANES). Loads and stores take
// the number of values left, any n >= 1, and touch only min(n, MU_LANES) of them, so one loop body serves
// whole vectors and the rest:
//
//     for (int64_t c = 0; c < n; c += MU_LANES) mu_vec_store(dst + c, f(mu_vec_load(src + c, n - c)), n - c);
//
// With AVX-512 the rest is a mask and costs nothing; elsewhere it is a predictable branch, and a slow store.
// Lanes beyond the end are loaded as 0. In a loop that is not bound by memory, peel the whole vectors and
// pass the constant MU_LANES. Arithmetic uses the compiler's own vector operators.
#ifndef MU_OPS_VEC_H
#define MU_OPS_VEC_H

#include "base/alloc.h"
#include "base/attr.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512VL__) && defined(__AVX512DQ__)
#define MU_VEC_AVX512 1
#define MU_LANES 16
#include <immintrin.h>
#elif defined(__AVX__)
#define MU_LANES 8
#include <immintrin.h>
#else
#define MU_LANES 4
#ifdef __SSE__
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif
#endif

// How many of n values a loop of whole vectors takes before that of the rest: all but the rest, or none where
// masks cost nothing and the shorter code is faster.
MU_INLINE int64_t mu_vec_whole(int64_t n) { return MU_LANES == 16 ? 0 : n - n % MU_LANES; }

typedef float    mu_vec  MU_VECTOR(4 * MU_LANES);
typedef int32_t  mu_veci MU_VECTOR(4 * MU_LANES);
typedef uint32_t mu_vecu MU_VECTOR(4 * MU_LANES);
typedef uint8_t  mu_vecb MU_VECTOR(MU_LANES);
#ifdef MU_VEC_AVX512
typedef __mmask16 mu_vmask;     // one bit a lane
#else
typedef mu_veci mu_vmask;       // all bits or none of a lane
#endif

MU_INLINE mu_vec  mu_vec_set(float x) { return (mu_vec){0} + x; }
MU_INLINE mu_veci mu_veci_set(int32_t x) { return (mu_veci){0} + x; }

// ---- memory ----

#ifdef MU_VEC_AVX512

MU_INLINE __mmask16 mu_vec_left(int64_t n) { return (__mmask16)(n >= 16 ? 0xffffu : (1u << n) - 1u); }
MU_INLINE mu_vec mu_vec_load(const float *p, int64_t n) {
    if (__builtin_constant_p(n) && n >= 16) return (mu_vec)_mm512_loadu_ps(p);
    return (mu_vec)_mm512_maskz_loadu_ps(mu_vec_left(n), p);
}
MU_INLINE void mu_vec_store(float *p, mu_vec v, int64_t n) {
    if (__builtin_constant_p(n) && n >= 16) _mm512_storeu_ps(p, (__m512)v);
    else _mm512_mask_storeu_ps(p, mu_vec_left(n), (__m512)v);
}
MU_INLINE mu_veci mu_veci_load_u8(const uint8_t *p, int64_t n) {
    bool all = __builtin_constant_p(n) && n >= 16;
    __m128i b = all ? _mm_loadu_si128((const __m128i *)p) : _mm_maskz_loadu_epi8(mu_vec_left(n), p);
    return (mu_veci)_mm512_cvtepu8_epi32(b);
}
MU_INLINE void mu_veci_store_u8(uint8_t *p, mu_veci v, int64_t n) {
    __m128i b = _mm512_cvtepi32_epi8((__m512i)v);
    if (__builtin_constant_p(n) && n >= 16) _mm_storeu_si128((__m128i *)p, b);
    else _mm_mask_storeu_epi8(p, mu_vec_left(n), b);
}

#else

#ifdef __AVX2__
MU_INLINE __m256i mu_vec_left(int64_t n) { // all bits of the first n < 8 lanes
    static const int32_t bits[16] = {-1, -1, -1, -1, -1, -1, -1, -1};
    return _mm256_loadu_si256((const __m256i *)(const void *)(bits + 8 - n));
}
#endif
MU_INLINE mu_vec mu_vec_load(const float *p, int64_t n) {
    mu_vec v = {0};
    if (MU_LIKELY(n >= MU_LANES)) memcpy(&v, p, sizeof v);
#ifdef __AVX2__
    else v = (mu_vec)_mm256_maskload_ps(p, mu_vec_left(n));
#else
    else
        for (int64_t i = 0; i < n; i++) v[i] = p[i];
#endif
    return v;
}
MU_INLINE void mu_vec_store(float *p, mu_vec v, int64_t n) {
    if (MU_LIKELY(n >= MU_LANES)) memcpy(p, &v, sizeof v);
#ifdef __AVX2__
    else _mm256_maskstore_ps(p, mu_vec_left(n), (__m256)v);
#else
    else
        for (int64_t i = 0; i < n; i++) p[i] = v[i];
#endif
}
MU_INLINE mu_veci mu_veci_load_u8(const uint8_t *p, int64_t n) {
    mu_vecb b = {0};
    if (MU_LIKELY(n >= MU_LANES)) memcpy(&b, p, sizeof b);
    else
        for (int64_t i = 0; i < n; i++) b[i] = p[i];
    return __builtin_convertvector(b, mu_veci);
}
MU_INLINE void mu_veci_store_u8(uint8_t *p, mu_veci v, int64_t n) {
    mu_vecb b = __builtin_convertvector(v, mu_vecb);
    if (MU_LIKELY(n >= MU_LANES)) memcpy(p, &b, sizeof b);
    else
        for (int64_t i = 0; i < n; i++) p[i] = b[i];
}

#endif

// A value that was loaded, used more than once, and stays in its register: compilers like to load it again,
// and where memory is the limit the number of loads under way is, too.
MU_INLINE mu_vec mu_vec_once(mu_vec v) {
#if defined(MU_VEC_AVX512)
    __asm__("" : "+v"(v));
#elif defined(__AVX__)
    __asm__("" : "+x"(v));
#endif
    return v;
}

// ---- arithmetic ----

// a * b + c with one rounding where the build has such an instruction. For sums of two products: which of
// them is rounded would else be the compiler's choice, another in each copy of a loop.
MU_INLINE mu_vec mu_vec_fma(mu_vec a, mu_vec b, mu_vec c) {
#if defined(MU_VEC_AVX512)
    return (mu_vec)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif defined(__FMA__)
    return (mu_vec)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#elif defined(__aarch64__)
    return (mu_vec)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
#else
    return a * b + c;
#endif
}

// ---- choices by lane: comparisons are false for NaN ----

#ifdef MU_VEC_AVX512

MU_INLINE mu_vmask mu_vec_gt(mu_vec a, mu_vec b) {
    return _mm512_cmp_ps_mask((__m512)a, (__m512)b, _CMP_GT_OQ);
}
MU_INLINE mu_vmask mu_vec_eq(mu_vec a, mu_vec b) {
    return _mm512_cmp_ps_mask((__m512)a, (__m512)b, _CMP_EQ_OQ);
}
MU_INLINE mu_vmask mu_vec_isnan(mu_vec a) {
    return _mm512_cmp_ps_mask((__m512)a, (__m512)a, _CMP_UNORD_Q);
}
MU_INLINE mu_vmask mu_veci_eq(mu_veci a, mu_veci b) {
    return _mm512_cmpeq_epi32_mask((__m512i)a, (__m512i)b);
}
MU_INLINE bool mu_vmask_any(mu_vmask m) { return m != 0; }
MU_INLINE mu_vec mu_vec_max(mu_vec a, mu_vec b) { return (mu_vec)_mm512_max_ps((__m512)a, (__m512)b); }
MU_INLINE mu_vec mu_vec_add_if(mu_vmask m, mu_vec a, mu_vec b) {
    return (mu_vec)_mm512_mask_add_ps((__m512)a, m, (__m512)a, (__m512)b);
}
MU_INLINE mu_vec mu_vec_select(mu_vmask m, mu_vec yes, mu_vec no) {
    return (mu_vec)_mm512_mask_blend_ps(m, (__m512)no, (__m512)yes);
}
MU_INLINE mu_veci mu_veci_select(mu_vmask m, mu_veci yes, mu_veci no) {
    return (mu_veci)_mm512_mask_blend_epi32(m, (__m512i)no, (__m512i)yes);
}

#else

MU_INLINE mu_vmask mu_vec_gt(mu_vec a, mu_vec b) { return a > b; }
MU_INLINE mu_vmask mu_vec_eq(mu_vec a, mu_vec b) { return a == b; }
MU_INLINE mu_vmask mu_vec_isnan(mu_vec a) { return a != a; } // NOLINT(misc-redundant-expression)
MU_INLINE mu_vmask mu_veci_eq(mu_veci a, mu_veci b) { return a == b; }
MU_INLINE mu_veci mu_veci_select(mu_vmask m, mu_veci yes, mu_veci no) { return (m & yes) | (~m & no); }
MU_INLINE mu_vec mu_vec_select(mu_vmask m, mu_vec yes, mu_vec no) {
    return (mu_vec)mu_veci_select(m, (mu_veci)yes, (mu_veci)no);
}
#ifdef __AVX2__
MU_INLINE mu_vec mu_vec_max(mu_vec a, mu_vec b) { return (mu_vec)_mm256_max_ps((__m256)a, (__m256)b); }
#else
MU_INLINE mu_vec mu_vec_max(mu_vec a, mu_vec b) { return mu_vec_select(a > b, a, b); }
#endif
MU_INLINE mu_vec mu_vec_add_if(mu_vmask m, mu_vec a, mu_vec b) { return a + (mu_vec)(m & (mu_veci)b); }
MU_INLINE bool mu_vmask_any(mu_vmask m) {
#ifdef __AVX2__
    return _mm256_movemask_ps((__m256)m) != 0;
#else
    uint64_t word[sizeof m / 8], all = 0;
    memcpy(word, &m, sizeof m);
    for (size_t i = 0; i < MU_COUNT(word); i++) all |= word[i];
    return all != 0;
#endif
}

#endif

MU_INLINE mu_vec mu_vec_abs(mu_vec x) { return (mu_vec)((mu_veci)x & 0x7fffffff); }
MU_INLINE mu_vec mu_vec_with_sign(mu_vec x, mu_vec sign) { // x >= 0
    return (mu_vec)((mu_vecu)x | ((mu_vecu)sign & 0x80000000u));
}

MU_INLINE float mu_vec_sum(mu_vec v) {
    float sum = 0;
    for (int i = 0; i < MU_LANES; i++) sum += v[i];
    return sum;
}

// ---- functions ----

MU_INLINE mu_vec mu_vec_sqrt(mu_vec x) {
#if defined(MU_VEC_AVX512)
    return (mu_vec)_mm512_sqrt_ps((__m512)x);
#elif defined(__AVX__)
    return (mu_vec)_mm256_sqrt_ps((__m256)x);
#elif defined(__SSE__)
    return (mu_vec)_mm_sqrt_ps((__m128)x);
#else
    for (int i = 0; i < MU_LANES; i++) x[i] = __builtin_sqrtf(x[i]);
    return x;
#endif
}

// 1/sqrt(x) for normal x > 0, within 2 ulp.
MU_INLINE mu_vec mu_vec_rsqrt(mu_vec x) {
#ifdef MU_VEC_AVX512
    mu_vec r = (mu_vec)_mm512_rsqrt14_ps((__m512)x);        // 2^-14, one Newton step squares that
    return r + r * 0.5f * (1.0f - x * r * r);
#else
    return 1.0f / mu_vec_sqrt(x);
#endif
}

// e^x, relative error below 2e-7; 0 and inf beyond the range of float, gradual underflow, NaN stays.
// x = n*ln2 + r with |r| <= ln2/2; e^r = 1 + r + r^2 p(r), p fitted at Chebyshev nodes; then times 2^n in
// two halves, because 2^128 and 2^-149 are no normal floats. Adding 1.5*2^23 rounds to an integer and
// leaves it in the low bits.
MU_INLINE mu_vec mu_vec_exp(mu_vec x) {
    const mu_vec magic = mu_vec_set(12582912.0f), top = mu_vec_set(89.0f), low = mu_vec_set(-104.0f);
    x = mu_vec_select(mu_vec_gt(x, top), top, x);
    x = mu_vec_select(mu_vec_gt(low, x), low, x);
    mu_vec shifted = x * 1.44269504f + magic, n = shifted - magic;
    mu_vec r = (x - n * 0.693359375f) + n * 2.12194440e-4f; // ln2 in two parts: the first product is exact
    mu_vec p = r * 0.00139261761f + 0.00836317307f;
    p = p * r + 0.0416665547f;
    p = p * r + 0.16666577f;
    p = p * r + 0.5f;
    p = p * (r * r) + r + 1.0f;
    mu_veci i = (mu_veci)shifted - (mu_veci)magic, half = i >> 1;
    mu_vec a = (mu_vec)((mu_vecu)(half + 127) << 23), b = (mu_vec)((mu_vecu)(i - half + 127) << 23);
    return p * a * b;
}

// tanh(x), relative error below 3e-7: an odd polynomial near 0, where 1 - e^-2|x| would cancel.
MU_INLINE mu_vec mu_vec_tanh(mu_vec x) {
    mu_vec e = mu_vec_exp(mu_vec_abs(x) * -2.0f), z = x * x;
    mu_vec far = mu_vec_with_sign((1.0f - e) / (1.0f + e), x);
    mu_vec p = z * -0.0060451651f + 0.0209613291f;
    p = p * z - 0.0538432632f;
    p = p * z + 0.133327188f;
    p = p * z - 0.333333284f;
    mu_vec near = x + x * z * p;
    return mu_vec_select(mu_vec_gt(mu_vec_set(0.4f), z), near, far);
}

// ln(x) for normal x > 0: x = 2^e m with m in [sqrt(1/2), sqrt(2)), ln m = 2 atanh((m-1)/(m+1)).
MU_INLINE mu_vec mu_vec_log(mu_vec x) {
    mu_veci e = ((mu_veci)x - 0x3f3504f3) >> 23;            // bits of sqrt(1/2)
    mu_vec m = (mu_vec)((mu_vecu)x - ((mu_vecu)e << 23)), n = __builtin_convertvector(e, mu_vec);
    mu_vec s = (m - 1.0f) / (m + 1.0f), z = s * s;
    mu_vec p = z * 0.222222222f + 0.285714286f;
    p = p * z + 0.4f;
    p = p * z + 0.666666667f;
    return n * 0.693359375f + (2.0f * s + (s * z * p - n * 2.12194440e-4f));
}

#endif
