// SPDX-License-Identifier: Apache-2.0
// l_relu.c - rectifier: y = x for x > 0, slope * x otherwise.
//
// The slope must not be negative: backward tells the side by the sign of y.
#include "layer/activation.h"

struct relu {
    float slope;
};

static const mu_field fields[] = {
    MU_FIELD(struct relu, slope, MU_FLOAT, "0", "[0,)", "factor of the negative side, 0 = cut off"),
    {0},
};

static mu_status setup(mu_layer *l, mu_err *err) {
    const struct relu *s = l->state;
    return mu_activation_setup(l, MU_ACT_RELU, s->slope, err);
}

const mu_layer_class mu_layer_relu = {
    .name = "relu",
    .help = "rectifier, or leaky rectifier with a slope",
    .fields = fields,
    .state_size = sizeof(struct relu),
    MU_ACTIVATION_CLASS(setup),
};
