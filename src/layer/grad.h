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

// Rows of a weight gradient for the step's sink, as the op makes them. The receiver lives as long as the op
// call. False: the sink does not take this parameter, or there is none.
typedef struct mu_grad_receiver {
    const mu_grad_sink *sink;
    mu_param *param;
} mu_grad_receiver;
bool mu_grad_to_sink(const mu_step *s, mu_param *weight, mu_grad_receiver *r, mu_op_args *a);

// Rows handed to the sink are applied at once and cannot be taken back, so what they are made of is looked at
// first: |x|, |dy| < 2^50 keep every product and sum finite. MU_EDIVERGED names the layer.
mu_status mu_grad_check_factors(const mu_layer *l, const mu_step *s, const float *x, int64_t n_x,
                                const float *dy, int64_t n_dy, mu_err *err);

// The gradient may and should be left as factors or gathered rows.
bool mu_grad_factors_pay(const mu_param *weight);

// Gradients of a fully connected product, dst = src * weight^T + bias, from a->src and a->ddst as the op's
// description has them; a->dsrc too, unless NULL. The weight's takes the first way that applies:
//   sink     the step's receiver updates the weights block by block while they are in the cache; the
//            parameter's gradient form stays NONE
//   factors  (src, ddst) is left as it is, when that is much smaller than the product; both stay valid
//            until the step ends
//   dense    in the gradient block
// The bias gradient (bias may be NULL, as in the description) is always dense. MU_EDIVERGED names the layer
// when rows for the sink would not be finite.
mu_status mu_grad_inner(const mu_layer *l, const mu_step *s, mu_op *op, mu_param *weight, mu_param *bias,
                        const mu_op_args *a, mu_err *err);

#endif
