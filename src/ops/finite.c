// SPDX-License-Identifier: Apache-2.0
// finite.c - see finite.h. The loop is integers only and becomes vectors.
#include "ops/finite.h"

#include <string.h>

bool mu_is_below(const float *v, size_t n, uint32_t bound) {
    uint32_t above = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, v + i, sizeof bits);
        above |= (bits & 0x7f800000u) >= bound;
    }
    return !above;
}
