// SPDX-License-Identifier: Apache-2.0
// grad.h - how a layer's backward leaves the gradients of its parameters.
#ifndef MU_LAYER_GRAD_H
#define MU_LAYER_GRAD_H

#include "layer/layer.h"

// Readies dense gradients of `weight` and `bias` (each may be NULL) as targets of one op call, which
// has a single accumulate flag: when only one of them already holds a gradient of this step (shared
// parameters), the other is cleared and both are added to. Both are DENSE afterwards.
void mu_grad_begin(mu_param *weight, mu_param *bias, mu_op_args *a);

// The dense gradient of p, to be added to: cleared if this is its first producer in this step.
float *mu_grad_add_to(mu_param *p);

#endif
