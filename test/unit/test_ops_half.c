// SPDX-License-Identifier: Apache-2.0
// test_ops_half.c - floats in two bytes: each of the 65536 there and back, any float against the definition,
// by its two neighbours; what rounding leaves out is kept; NaN and infinity stay.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "ops/half.h"

#include <math.h>
#include <string.h>

enum { ALL = 1 << 16, N = 4099 };

static const mu_half forms[] = {MU_HALF_BF16, MU_HALF_FP16};

static float float_of(uint32_t bits) {
    float v;
    memcpy(&v, &bits, sizeof v);
    return v;
}

static uint32_t bits_of(float v) {
    uint32_t b;
    memcpy(&b, &v, sizeof b);
    return b;
}

// By the definition of the formats: sign, exponent, fraction.
static double value_of(mu_half form, uint16_t h) {
    const int fraction = form == MU_HALF_BF16 ? 7 : 10, bias = form == MU_HALF_BF16 ? 127 : 15;
    const int exponent = (h & 0x7fff) >> fraction, part = h & ((1 << fraction) - 1);
    const double sign = h & 0x8000 ? -1 : 1;
    if (exponent == 2 * bias + 1) return part ? (double)NAN : sign * (double)INFINITY;
    if (!exponent) return sign * ldexp(part, 1 - bias - fraction);
    return sign * ldexp(part + (1 << fraction), exponent - bias - fraction);
}

static uint16_t largest(mu_half form) { return form == MU_HALF_BF16 ? 0x7f7f : 0x7bff; }

// The nearest of all, the even one of two; finite ones stay so.
static uint16_t want_of(mu_half form, float v) {
    const uint16_t sign = signbit(v) ? 0x8000 : 0;
    const double size = fabs((double)v);
    int lo = 0, hi = largest(form);
    while (lo < hi) { // the largest number that is not above it
        const int mid = (lo + hi + 1) / 2;
        if (value_of(form, (uint16_t)mid) <= size) lo = mid;
        else hi = mid - 1;
    }
    if (lo < largest(form)) {
        const double below = size - value_of(form, (uint16_t)lo);
        const double above = value_of(form, (uint16_t)(lo + 1)) - size;
        if (above < below || (above == below && lo % 2)) lo++;
    }
    return (uint16_t)(sign | lo);
}

static void test_widen(void **unused) {
    (void)unused;
    static unsigned char from[2 * ALL + 1]; // not aligned
    static float to[ALL];
    for (int i = 0; i < ALL; i++)
        from[1 + 2 * i] = (unsigned char)i, from[2 + 2 * i] = (unsigned char)(i >> 8);
    for (int f = 0; f < 2; f++) {
        mu_half_widen(forms[f], ALL, from + 1, to);
        for (int i = 0; i < ALL; i++) {
            const double want = value_of(forms[f], (uint16_t)i);
            if (isnan(want) ? !isnan(to[i]) : bits_of(to[i]) != bits_of((float)want))
                fail_msg("form %d: %#x is %g, want %g", f, i, (double)to[i], want);
        }
    }
}

// What has two bytes comes back as it was, and leaves nothing.
static void test_back(void **unused) {
    (void)unused;
    static uint16_t in[ALL], out[ALL];
    static float v[ALL], left[ALL];
    for (int f = 0; f < 2; f++) {
        for (int i = 0; i < ALL; i++) in[i] = (uint16_t)i, left[i] = 0;
        mu_half_widen(forms[f], ALL, in, v);
        mu_half_round(forms[f], ALL, v, left, out);
        for (int i = 0; i < ALL; i++) {
            const bool nan = isnan(value_of(forms[f], in[i]));
            if (nan ? !isnan(value_of(forms[f], out[i])) || !isnan(v[i])
                    : out[i] != in[i] && (in[i] & 0x7fff))
                fail_msg("form %d: %#x became %#x", f, i, out[i]);
            if (left[i] != 0) fail_msg("form %d: %#x leaves %g", f, i, (double)left[i]);
        }
    }
}

// Floats of all sizes, those between two neighbours, and what is just beside that.
static void fill(mu_half form, float *v) {
    uint64_t x = 88172645463325252u;
    for (int i = 0; i < N; i++) {
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
        const uint16_t h = (uint16_t)(x >> 20) % largest(form);
        const double middle = value_of(form, h) / 2 + value_of(form, (uint16_t)(h + 1)) / 2;
        const float m = (float)middle;
        const float some[] = {float_of((uint32_t)x), m, -m, nextafterf(m, INFINITY), nextafterf(m, 0)};
        v[i] = some[i % 5];
        if (!isfinite(v[i])) v[i] = 1;
    }
    const float ends[] = {0,        -0.0f,   65504,  65519.99f, 65520, 70000,
                          -3.4e38f, 3.4e38f, 1e-40f, 2.9e-8f,   3e-8f, 6e-8f};
    memcpy(v + 8, ends, sizeof ends);
}

static void test_nearest(void **unused) {
    (void)unused;
    static float v[N], was[N], left[N];
    static uint16_t out[N];
    for (int f = 0; f < 2; f++) {
        fill(forms[f], was);
        for (size_t n = N - 20; n <= N; n++) { // the rest of an array, too
            memcpy(v, was, sizeof v);
            memset(left, 0, sizeof left);
            memset(out, 0xee, sizeof out);
            mu_half_round(forms[f], n, v, left, out);
            for (size_t i = 0; i < n; i++) {
                const uint16_t want = want_of(forms[f], was[i]);
                const float got = (float)value_of(forms[f], want);
                if (out[i] != want && (want & 0x7fff))
                    fail_msg("form %d: %a became %#x, want %#x", f, (double)was[i], out[i], want);
                if (v[i] != got || left[i] != was[i] - got)
                    fail_msg("form %d: of %a stays %a, left is %a", f, (double)was[i], (double)v[i],
                             (double)left[i]);
            }
            for (size_t i = n; i < N; i++)
                if (out[i] != 0xeeee || bits_of(v[i]) != bits_of(was[i]))
                    fail_msg("%zu of %zu is written", i, n);
        }
    }
}

// What is left is part of the next, and is none of what is not finite.
static void test_left(void **unused) {
    (void)unused;
    for (int f = 0; f < 2; f++)
        for (size_t n = 1; n < 40; n++) {
            float v[40], left[40];
            uint16_t out[40];
            for (size_t i = 0; i < n; i++) v[i] = 1, left[i] = 0x1p-9f + 0x1p-12f;
            mu_half_round(forms[f], n, v, left, out);
            for (size_t i = 0; i < n; i++) {
                const float all = 1 + 0x1p-9f + 0x1p-12f,
                            got = (float)value_of(forms[f], want_of(forms[f], all));
                assert_true(v[i] == got && left[i] == all - got);
            }
            for (size_t i = 0; i < n; i++) v[i] = i % 3 == 0 ? NAN : i % 3 == 1 ? INFINITY : -INFINITY;
            mu_half_round(forms[f], n, v, left, out);
            for (size_t i = 0; i < n; i++) {
                const double sent = value_of(forms[f], out[i]);
                assert_true(i % 3 == 0 ? isnan(sent) && isnan(v[i]) : isinf(sent) && isinf(v[i]));
                assert_true(i % 3 == 0 || (sent > 0) == (i % 3 == 1));
                assert_true(left[i] == 0);
            }
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_widen), cmocka_unit_test(test_back),
                                       cmocka_unit_test(test_nearest), cmocka_unit_test(test_left)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
