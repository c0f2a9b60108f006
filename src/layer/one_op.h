// SPDX-License-Identifier: Apache-2.0
// one_op.h - what layers have in common that are one op, l->op, from their source to their output.
#ifndef MU_LAYER_ONE_OP_H
#define MU_LAYER_ONE_OP_H

#include "layer/layer.h"

// Source, output, weight and bias (the first two parameters, if any), memory and valid rows. No gradients.
mu_op_args mu_one_op_args(const mu_layer *l, const mu_step *step);

mu_status mu_one_op_forward(mu_layer *l, const mu_step *step, mu_err *err);
// Of a layer without parameters.
mu_status mu_one_op_backward(mu_layer *l, const mu_step *step, mu_err *err);

#endif
