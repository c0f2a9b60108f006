// SPDX-License-Identifier: Apache-2.0
// rng.c - keys, single draws and permutations; see rng.h. Long series are in rng_fill.c.
#include "base/rng.h"


mu_rng_key mu_rng_key_make(uint64_t seed, const char *purpose) {
    uint64_t h = 0xcbf29ce484222325ull ^ seed; // FNV-1a over the purpose, then one Philox round to mix
    for (const char *p = purpose; *p; p++) h = (h ^ (unsigned char)*p) * 0x100000001b3ull;
    uint32_t out[4];
    mu_rng_key raw = {{(uint32_t)seed, (uint32_t)(seed >> 32)}};
    mu_rng_block(raw, h, 0, out);
    return (mu_rng_key){{out[0], out[1]}};
}

void mu_rng_block(mu_rng_key key, uint64_t hi, uint64_t lo, uint32_t out[4]) {
    uint32_t c0 = (uint32_t)lo, c1 = (uint32_t)(lo >> 32), c2 = (uint32_t)hi, c3 = (uint32_t)(hi >> 32);
    uint32_t k0 = key.k[0], k1 = key.k[1];
    for (int r = 0; r < 10; r++, k0 += MU_PHILOX_W0, k1 += MU_PHILOX_W1) {
        uint64_t p0 = (uint64_t)MU_PHILOX_M0 * c0, p1 = (uint64_t)MU_PHILOX_M1 * c2;
        c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)p1;
        c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)p0;
    }
    out[0] = c0; out[1] = c1; out[2] = c2; out[3] = c3;
}

uint64_t mu_rng_permute(mu_rng_key key, uint64_t epoch, uint64_t n, uint64_t position) {
    if (n <= 1) return 0;
    unsigned bits = 64u - (unsigned)__builtin_clzll(n - 1); // 2^bits >= n
    unsigned half = (bits + 1) / 2;                         // domain 2^(2*half) <= 4n: few walks
    uint64_t mask = ((uint64_t)1 << half) - 1, x = position;
    do {
        uint64_t l = x >> half, r = x & mask;
        for (uint64_t round = 0; round < 6; round++) {
            uint32_t f[4];
            mu_rng_block(key, epoch, (round << 56) ^ r, f);
            uint64_t t = l ^ ((((uint64_t)f[1] << 32) | f[0]) & mask);
            l = r;
            r = t;
        }
        x = (l << half) | r;
    } while (x >= n);
    return x;
}
