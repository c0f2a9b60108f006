// SPDX-License-Identifier: Apache-2.0
// activation.h - what relu, sigmoid, tanh and stanh have in common: one function of each element.
//
// All work in place and their backward needs only their output.
#ifndef MU_LAYER_ACTIVATION_H
#define MU_LAYER_ACTIVATION_H

#include "layer/one_op.h"

#define MU_ACTIVATION_CLASS(setup_)                                                                          \
    .flags = MU_LAYER_IN_PLACE | MU_BACK_NEEDS_DST,                                                          \
    .infer = mu_activation_infer,                                                                            \
    .setup = (setup_),                                                                                       \
    .forward = mu_one_op_forward,                                                                            \
    .backward = mu_one_op_backward

mu_status mu_activation_infer(mu_layer *l, mu_err *err);
mu_status mu_activation_setup(mu_layer *l, mu_act_kind kind, float slope, mu_err *err);

#endif
