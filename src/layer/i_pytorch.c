// SPDX-License-Identifier: Apache-2.0
// i_pytorch.c - what PyTorch's Linear and Conv2d begin with: weight and bias uniform in +-1/sqrt(fan_in).
// (Its weights are drawn by kaiming_uniform with a = sqrt(5), which is that bound.)
#include "layer/draw.h"

static void fill(const void *state, mu_rng_key key, const mu_shape *shape, int64_t fan_in, int64_t fan_out,
                 float *out) {
    (void)state;
    (void)fan_out;
    double limit = 1 / sqrt(mu_fan(0, fan_in, 0));
    mu_draw_uniform(key, shape, -limit, limit, out);
}

const mu_init_class mu_init_pytorch = {
    .name = "pytorch",
    .help = "uniform in +-1/sqrt(fan_in), PyTorch's default for weights and biases",
    .fill = fill,
};
