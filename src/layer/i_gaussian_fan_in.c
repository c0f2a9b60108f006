// SPDX-License-Identifier: Apache-2.0
// i_gaussian_fan_in.c - gaussian divided by sqrt(fan_in), SINGA's kGaussianSqrtFanIn.
#include "layer/draw.h"

struct gaussian_fan_in {
    float mean, std;
};

static const mu_field fields[] = {
    MU_FIELD(struct gaussian_fan_in, mean, MU_FLOAT, "0", NULL, "mean before scaling"),
    MU_FIELD(struct gaussian_fan_in, std, MU_FLOAT, "1", "[0,)", "standard deviation before scaling"),
    {0},
};

static void fill(const void *state, const mu_init_args *a, float *out) {
    const struct gaussian_fan_in *s = state;
    double scale = 1 / sqrt(mu_fan(0, a));
    mu_draw_gaussian(a, (double)s->mean * scale, (double)s->std * scale, out);
}

const mu_init_class mu_init_gaussian_fan_in = {
    .name = "gaussian_fan_in",
    .help = "gaussian / sqrt(fan_in), as SINGA",
    .fields = fields,
    .state_size = sizeof(struct gaussian_fan_in),
    .fill = fill,
};
