// SPDX-License-Identifier: Apache-2.0
// reorder.h - the same elements in logical order under another shape; what flatten and reshape do.
//
// Values move because 4-D shapes are stored channels-last: only where neither shape has more than one
// channel and more than one place is it a plain copy.
#ifndef MU_LAYER_REORDER_H
#define MU_LAYER_REORDER_H

#include "layer/layer.h"

mu_status mu_reorder_infer(mu_layer *l, mu_shape out, mu_err *err); // declares the output; counts are equal
mu_status mu_reorder_forward(mu_layer *l, const mu_step *step, mu_err *err);
mu_status mu_reorder_backward(mu_layer *l, const mu_step *step, mu_err *err);

#endif
