// SPDX-License-Identifier: Apache-2.0
// burst.c - see burst.h.
#include "device/burst.h"

#include "base/clock.h"

#if defined(__AVX512F__)
#define ISA "avx512"
#define LANES 16
#elif defined(__AVX2__)
#define ISA "avx2"
#define LANES 8
#elif defined(__AVX__)
#define ISA "avx"
#define LANES 8
#elif defined(__SSE4_2__)
#define ISA "sse4.2"
#define LANES 4
#else
#define ISA "baseline"
#define LANES 4
#endif

const char *mu_burst_isa(void) { return ISA; }

typedef float lanes MU_VECTOR(LANES * sizeof(float));
#define CHAINS 12       // independent sums: enough to hide the latency of two multiply-add units
#define ROUNDS 100000   // of all chains

double mu_burst_multiply_add(float *sink) {
    const lanes a = (lanes){0} + 0.999f, b = (lanes){0} + 1e-3f;
    lanes sum[CHAINS];
    for (int i = 0; i < CHAINS; i++) sum[i] = b * (float)i;
    double start = mu_clock_s();
    for (int r = 0; r < ROUNDS; r++) {
#pragma GCC unroll 12
        for (int i = 0; i < CHAINS; i++) sum[i] = sum[i] * a + b;
    }
    double seconds = mu_clock_s() - start;
    for (int i = 0; i < CHAINS; i++) *sink += sum[i][i % LANES];
    return 2.0 * LANES * CHAINS * ROUNDS / (seconds > 0 ? seconds : 1) * 1e-9;
}

void mu_burst_stream(float *p, size_t n) {
    for (size_t i = 0; i < n; i++) p[i] = p[i] * 0.5f + 1.0f;
}
