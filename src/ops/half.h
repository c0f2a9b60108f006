// SPDX-License-Identifier: Apache-2.0
// half.h - floats in two bytes, for what travels (learners/halves.h). No op computes with them.
//
//            sign  exponent  fraction   largest    relative error   below it bits are lost
//   bf16       1       8         7      3.39e38       2^-9               1.2e-38
//   fp16       1       5        10      65504         2^-12              6.1e-5 (absolute: 3.0e-8)
//
// Rounded to the nearest, of two equally near ones to the even one. What is too large becomes the largest
// number: whoever keeps what rounding left out sends the rest with the next. NaN and infinity stay what they
// are. The bits are the same at every level.
#ifndef MU_OPS_HALF_H
#define MU_OPS_HALF_H

#include "base/level.h"

#include <stddef.h>
#include <stdint.h>

typedef enum mu_half { MU_HALF_NONE, MU_HALF_BF16, MU_HALF_FP16 } mu_half;     // NONE: floats of four bytes

static inline size_t mu_half_width(mu_half form) { return form == MU_HALF_NONE ? 4 : 2; }

// form is not NONE in what follows.
//
//   out = half(v + left),  left = v + left - out,  v = out
//
// left = 0 where that is not finite.
#define mu_half_round MU_LEVELLED(mu_half_round)
MU_AT_LEVELS(void, mu_half_round, (mu_half form, size_t n, float *v, float *left, uint16_t *out));
// from: n numbers of two bytes, which need no alignment.
#define mu_half_widen MU_LEVELLED(mu_half_widen)
MU_AT_LEVELS(void, mu_half_widen, (mu_half form, size_t n, const void *from, float *to));

#endif
