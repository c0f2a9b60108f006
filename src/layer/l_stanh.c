// SPDX-License-Identifier: Apache-2.0
// l_stanh.c - scaled hyperbolic tangent of LeCun's nets: y = 1.7159047 * tanh(2/3 * x).
#include "layer/activation.h"

static mu_status setup(mu_layer *l, mu_err *err) { return mu_activation_setup(l, MU_ACT_STANH, 0, err); }

const mu_layer_class mu_layer_stanh = {
    .name = "stanh",
    .help = "scaled hyperbolic tangent, 1.7159047 * tanh(2/3 * x)",
    MU_ACTIVATION_CLASS(setup),
};
