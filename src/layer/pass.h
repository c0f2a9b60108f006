// SPDX-License-Identifier: Apache-2.0
// pass.h - for layers that hand values through: a copy, or nothing when both are the same memory.
#ifndef MU_LAYER_PASS_H
#define MU_LAYER_PASS_H

#include "tensor/tensor.h"

#include <string.h>

// to = from, `like` many floats; `to` may be NULL (not wanted) or `from` itself (in place).
static inline void mu_pass_on(float *to, const float *from, const mu_tensor *like) {
    if (to && to != from) memcpy(to, from, mu_tensor_count(like) * sizeof(float));
}

#endif
