// SPDX-License-Identifier: Apache-2.0
// i_uniform.c - uniform in [low, high).
#include "layer/draw.h"

struct uniform {
    float low, high;
};

static const mu_field fields[] = {
    MU_FIELD(struct uniform, low, MU_FLOAT, "-1", NULL, "smallest value"),
    MU_FIELD(struct uniform, high, MU_FLOAT, "1", NULL, "largest value"),
    {0},
};

static void fill(const void *state, const mu_init_args *a, float *out) {
    const struct uniform *s = state;
    mu_draw_uniform(a, (double)s->low, (double)s->high, out);
}

const mu_init_class mu_init_uniform = {
    .name = "uniform",
    .help = "uniform between low and high",
    .fields = fields,
    .state_size = sizeof(struct uniform),
    .fill = fill,
};
