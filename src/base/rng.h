// SPDX-License-Identifier: Apache-2.0
// rng.h - random numbers as a pure function (Philox 4x32-10; Salmon et al., SC 2011).
//
// A draw is keyed by (seed, purpose) and counted by (step or sample, element), never by "how many
// draws came before". So initial values, shuffles and dropout masks do not depend on the number of
// learners or on how a layer is split.
#ifndef MU_BASE_RNG_H
#define MU_BASE_RNG_H

#include "base/level.h"

#include <stddef.h>
#include <stdint.h>

#define MU_PHILOX_M0 0xD2511F53u
#define MU_PHILOX_M1 0xCD9E8D57u
#define MU_PHILOX_W0 0x9E3779B9u
#define MU_PHILOX_W1 0xBB67AE85u

typedef struct mu_rng_key { uint32_t k[2]; } mu_rng_key;

// Key for one purpose: the purpose is a speaking string such as "init/conv1.weight" or "shuffle".
mu_rng_key mu_rng_key_make(uint64_t seed, const char *purpose);

// Four 32-bit words for the 128-bit counter (hi, lo).
void mu_rng_block(mu_rng_key key, uint64_t hi, uint64_t lo, uint32_t out[4]);

// Vector forms. Element i of the result depends only on (key, hi, first + i); `first` is a multiple of 4.
// uniform: in [0,1); gaussian: mean 0, standard deviation 1.
#define mu_rng_fill_u32 MU_LEVELLED(mu_rng_fill_u32)
#define mu_rng_fill_uniform MU_LEVELLED(mu_rng_fill_uniform)
#define mu_rng_fill_gaussian MU_LEVELLED(mu_rng_fill_gaussian)
MU_AT_LEVELS(void, mu_rng_fill_u32, (mu_rng_key key, uint64_t hi, uint64_t first, uint32_t *out, size_t n));
MU_AT_LEVELS(void, mu_rng_fill_uniform, (mu_rng_key key, uint64_t hi, uint64_t first, float *out, size_t n));
MU_AT_LEVELS(void, mu_rng_fill_gaussian, (mu_rng_key key, uint64_t hi, uint64_t first, float *out, size_t n));

// Some elements of a sample, for who holds a part of each: element e of the part is element
// e / run * stride + first + e % run of the sample. run 0: the part is all of it.
typedef struct mu_rng_part {
    uint64_t run, stride, first;
} mu_rng_part;

// As above for elements e, e + 1, ... of the part. Of all of a sample e is a multiple of 4.
void mu_rng_part_u32(mu_rng_key key, uint64_t hi, const mu_rng_part *p, uint64_t e, uint32_t *out,
                     size_t n);
void mu_rng_part_uniform(mu_rng_key key, uint64_t hi, const mu_rng_part *p, uint64_t e, float *out,
                         size_t n);
void mu_rng_part_gaussian(mu_rng_key key, uint64_t hi, const mu_rng_part *p, uint64_t e, float *out,
                          size_t n);

// A permutation of 0..n-1 keyed by (key, epoch), evaluated at one position in O(1) (Feistel network
// with cycle walking). perm(0..n-1) visits each value exactly once.
uint64_t mu_rng_permute(mu_rng_key key, uint64_t epoch, uint64_t n, uint64_t position);

static inline float mu_rng_to_uniform(uint32_t u) { return (float)(u >> 8) * 0x1p-24f; }

#endif
