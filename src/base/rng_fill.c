// SPDX-License-Identifier: Apache-2.0
// rng_fill.c - long series of Philox 4x32-10, written so that the block loop vectorises: LANES counters side
// by side. The results are the same at every level: nothing here is rounded differently by a fused
// multiply-add.
#include "base/attr.h"
#include "base/rng.h"

#include <math.h>
#include <string.h>

#define LANES 16

// LANES consecutive blocks starting at block number `block` -> 4*LANES words in element order. The 32-bit
// words of a counter sit in 64-bit lanes, so that a product needs no unpacking.
typedef uint64_t lanes MU_VECTOR(LANES * 8);

static void blocks(mu_rng_key key, uint64_t hi, uint64_t block, uint32_t *out) {
    const uint64_t low = 0xffffffffu;
    lanes c0 = {0}, c1 = {0}, c2 = (lanes){0} + (hi & low), c3 = (lanes){0} + (hi >> 32);
    for (int j = 0; j < LANES; j++) {
        c0[j] = (block + (uint64_t)j) & low;
        c1[j] = (block + (uint64_t)j) >> 32;
    }
    uint32_t k0 = key.k[0], k1 = key.k[1];
    for (int r = 0; r < 10; r++, k0 += MU_PHILOX_W0, k1 += MU_PHILOX_W1) {
        lanes p0 = c0 * MU_PHILOX_M0, p1 = c2 * MU_PHILOX_M1;
        c0 = (p1 >> 32) ^ c1 ^ k0;
        c1 = p1 & low;
        c2 = (p0 >> 32) ^ c3 ^ k1;
        c3 = p0 & low;
    }
    lanes even = c0 | c1 << 32, odd = c2 | c3 << 32; // little endian: words 0,1 and 2,3 of each block
    for (int j = 0; j < LANES; j++) {
        uint64_t pair[2] = {even[j], odd[j]};
        memcpy(out + 4 * j, pair, sizeof pair);
    }
}

void mu_rng_fill_u32(mu_rng_key key, uint64_t hi, uint64_t first, uint32_t *out, size_t n) {
    uint64_t block = first / 4;
    size_t i = 0;
    for (; i + 4 * LANES <= n; i += 4 * LANES, block += LANES) blocks(key, hi, block, out + i);
    if (i < n) {
        uint32_t tail[4 * LANES];
        blocks(key, hi, block, tail);
        memcpy(out + i, tail, (n - i) * sizeof *out);
    }
}

void mu_rng_fill_uniform(mu_rng_key key, uint64_t hi, uint64_t first, float *out, size_t n) {
    uint32_t u[256];
    for (size_t i = 0; i < n; i += 256) {
        size_t m = n - i < 256 ? n - i : 256;
        mu_rng_fill_u32(key, hi, first + i, u, m);
        for (size_t j = 0; j < m; j++) out[i + j] = mu_rng_to_uniform(u[j]);
    }
}

// Box-Muller on neighbouring pairs; element 2k and 2k+1 share their two words, `first` stays even.
void mu_rng_fill_gaussian(mu_rng_key key, uint64_t hi, uint64_t first, float *out, size_t n) {
    uint32_t u[256];
    for (size_t i = 0; i < n; i += 256) {
        size_t m = n - i < 256 ? n - i : 256, even = (m + 1) & ~(size_t)1;
        mu_rng_fill_u32(key, hi, first + i, u, even);
        for (size_t j = 0; j < even; j += 2) {
            double r = sqrt(-2.0 * log(((double)u[j] + 1.0) * 0x1p-32));
            double a = 6.283185307179586 * (double)u[j + 1] * 0x1p-32;
            out[i + j] = (float)(r * cos(a));
            if (j + 1 < m) out[i + j + 1] = (float)(r * sin(a));
        }
    }
}
