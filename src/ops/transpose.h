// SPDX-License-Identifier: Apache-2.0
// transpose.h - matrices turned over.
#ifndef MU_OPS_TRANSPOSE_H
#define MU_OPS_TRANSPOSE_H

#include "base/level.h"

#include <stdint.h>

// to[c][r] = from[r][c] + add[r], with ldt and ldf floats from row to row; add may be NULL.
#define mu_transpose MU_LEVELLED(mu_transpose)
MU_AT_LEVELS(void, mu_transpose, (float *to, int64_t ldt, const float *from, int64_t ldf, int64_t rows,
                                  int64_t cols, const float *add));

#endif
