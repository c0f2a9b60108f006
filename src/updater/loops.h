// SPDX-License-Identifier: Apache-2.0
// loops.h - the plain loops around every rule, compiled for each level of instructions (for updater/ only).
#ifndef MU_UPDATER_LOOPS_H
#define MU_UPDATER_LOOPS_H

#include "base/level.h"

#include <stddef.h>

#define mu_grad_finish MU_LEVELLED(mu_grad_finish)
#define mu_sum_squares MU_LEVELLED(mu_sum_squares)
#define mu_dot MU_LEVELLED(mu_dot)
#define mu_scale_row MU_LEVELLED(mu_scale_row)

typedef struct mu_finish { float scale, clip, l2, l1; } mu_finish;      // clip: infinity = off

// out = clip(scale * g) + l2 * w + l1 * sign(w)
MU_AT_LEVELS(void, mu_grad_finish, (const mu_finish *f, size_t n, const float *restrict g,
                                    const float *restrict w, float *restrict out));
MU_AT_LEVELS(double, mu_sum_squares, (const float *v, size_t n));
MU_AT_LEVELS(double, mu_dot, (const float *restrict a, const float *restrict b, size_t n));
MU_AT_LEVELS(void, mu_scale_row, (float *row, size_t n, float f));

#endif
