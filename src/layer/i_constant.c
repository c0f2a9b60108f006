// SPDX-License-Identifier: Apache-2.0
// i_constant.c - every element the same.
#include "layer/param.h"

struct constant {
    float value;
};

static const mu_field fields[] = {
    MU_FIELD(struct constant, value, MU_FLOAT, "0", NULL, "the value"),
    {0},
};

static void fill(const void *state, const mu_init_args *a, float *out) {
    const struct constant *s = state;
    int64_t n = mu_shape_count(a->shape);
    for (int64_t i = 0; i < n; i++) out[i] = s->value;
}

const mu_init_class mu_init_constant = {
    .name = "constant",
    .help = "every element the same",
    .fields = fields,
    .state_size = sizeof(struct constant),
    .fill = fill,
};
