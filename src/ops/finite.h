// SPDX-License-Identifier: Apache-2.0
// finite.h - are the values of an array within bounds?
#ifndef MU_OPS_FINITE_H
#define MU_OPS_FINITE_H

#include "base/level.h"

#include <stddef.h>
#include <stdint.h>

// Bounds, as the bits of a float: finite; and 2^50, below which a sum of products stays far from infinity.
#define MU_BELOW_INFINITY 0x7f800000u
#define MU_BELOW_2_50 ((127u + 50u) << 23)

// Is the exponent of every element below that of the bound? False for those that are not numbers.
#define mu_is_below MU_LEVELLED(mu_is_below)
MU_AT_LEVELS(bool, mu_is_below, (const float *v, size_t n, uint32_t bound));

#endif
