// SPDX-License-Identifier: Apache-2.0
// i_identity.c - `gain` where the output's number is the input's number, else 0: the layer begins by
// handing its source through. A parameter of more than two dimensions is taken as (d0, rest).
#include "layer/param.h"

struct identity {
    float gain;
};

static const mu_field fields[] = {
    MU_FIELD(struct identity, gain, MU_FLOAT, "1", NULL, "value on the diagonal"),
    {0},
};

static void fill(const void *state, const mu_init_args *a, float *out) {
    const mu_shape *shape = a->shape;
    const struct identity *s = state;
    const int64_t n = mu_shape_count(shape), cols = shape->n > 1 ? mu_shape_inner(shape, 1) : 1;
    for (int64_t i = 0; i < n; i++) out[i] = i / cols == i % cols ? s->gain : 0;
}

const mu_init_class mu_init_identity = {
    .name = "identity",
    .help = "ones on the diagonal",
    .fields = fields,
    .state_size = sizeof(struct identity),
    .fill = fill,
};
