// SPDX-License-Identifier: Apache-2.0
// i_glorot.c - uniform in +-gain * sqrt(6 / (fan_in + fan_out)) (Glorot & Bengio, 2010).
#include "layer/draw.h"

struct glorot {
    float gain;
};

static const mu_field fields[] = {
    MU_FIELD(struct glorot, gain, MU_FLOAT, "1", "(0,)", "factor"),
    {0},
};

static void fill(const void *state, const mu_init_args *a, float *out) {
    const struct glorot *s = state;
    double limit = (double)s->gain * sqrt(3 / mu_fan(2, a));
    mu_draw_uniform(a, -limit, limit, out);
}

const mu_init_class mu_init_glorot = {
    .name = "glorot",
    .help = "uniform in +-sqrt(6 / (fan_in + fan_out))",
    .fields = fields,
    .state_size = sizeof(struct glorot),
    .fill = fill,
};
