// SPDX-License-Identifier: Apache-2.0
// l_tanh.c - hyperbolic tangent.
#include "layer/activation.h"

static mu_status setup(mu_layer *l, mu_err *err) { return mu_activation_setup(l, MU_ACT_TANH, 0, err); }

const mu_layer_class mu_layer_tanh = {
    .name = "tanh",
    .help = "hyperbolic tangent",
    MU_ACTIVATION_CLASS(setup),
};
