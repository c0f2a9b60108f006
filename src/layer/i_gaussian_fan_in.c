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

static void fill(const void *state, mu_rng_key key, const mu_shape *shape, int64_t fan_in, int64_t fan_out,
                 float *out) {
    const struct gaussian_fan_in *s = state;
    (void)fan_out;
    double scale = 1 / sqrt(mu_fan(0, fan_in, 0));
    mu_draw_gaussian(key, shape, (double)s->mean * scale, (double)s->std * scale, out);
}

const mu_init_class mu_init_gaussian_fan_in = {
    .name = "gaussian_fan_in",
    .help = "gaussian / sqrt(fan_in), as SINGA",
    .fields = fields,
    .state_size = sizeof(struct gaussian_fan_in),
    .fill = fill,
};
