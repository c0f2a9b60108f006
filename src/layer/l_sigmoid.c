// SPDX-License-Identifier: Apache-2.0
// l_sigmoid.c - logistic function: y = 1 / (1 + exp(-x)).
#include "layer/activation.h"

static mu_status setup(mu_layer *l, mu_err *err) { return mu_activation_setup(l, MU_ACT_SIGMOID, 0, err); }

const mu_layer_class mu_layer_sigmoid = {
    .name = "sigmoid",
    .help = "logistic function, 1 / (1 + exp(-x))",
    MU_ACTIVATION_CLASS(setup),
};
