// SPDX-License-Identifier: Apache-2.0
// i_pytorch.c - what PyTorch's Linear and Conv2d begin with: weight and bias uniform in +-1/sqrt(fan_in).
// (Its weights are drawn by kaiming_uniform with a = sqrt(5), which is that bound.)
#include "layer/draw.h"

static void fill(MU_UNUSED const void *state, const mu_init_args *a, float *out) {
    double limit = 1 / sqrt(mu_fan(0, a));
    mu_draw_uniform(a, -limit, limit, out);
}

const mu_init_class mu_init_pytorch = {
    .name = "pytorch",
    .help = "uniform in +-1/sqrt(fan_in), PyTorch's default for weights and biases",
    .fill = fill,
};
