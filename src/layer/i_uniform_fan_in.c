// SPDX-License-Identifier: Apache-2.0
// i_uniform_fan_in.c - uniform in [low, high) divided by sqrt(fan_in / 3), SINGA's kUniformSqrtFanIn.
#include "layer/draw.h"

struct uniform_fan_in {
    float low, high;
};

static const mu_field fields[] = {
    MU_FIELD(struct uniform_fan_in, low, MU_FLOAT, "-1", NULL, "smallest value before scaling"),
    MU_FIELD(struct uniform_fan_in, high, MU_FLOAT, "1", NULL, "largest value before scaling"),
    {0},
};

static void fill(const void *state, const mu_init_args *a, float *out) {
    const struct uniform_fan_in *s = state;
    double scale = sqrt(3 / mu_fan(0, a));
    mu_draw_uniform(a, (double)s->low * scale, (double)s->high * scale, out);
}

const mu_init_class mu_init_uniform_fan_in = {
    .name = "uniform_fan_in",
    .help = "uniform / sqrt(fan_in / 3), as SINGA",
    .fields = fields,
    .state_size = sizeof(struct uniform_fan_in),
    .fill = fill,
};
