// SPDX-License-Identifier: Apache-2.0
// one_op.c - see one_op.h.
#include "layer/one_op.h"

mu_op_args mu_one_op_args(const mu_layer *l, const mu_step *step) {
    return (mu_op_args){
        .src = l->src[0]->value.f,
        .dst = l->out[0].value.f,
        .weight = l->n_param > 0 ? l->param[0]->value : NULL,
        .bias = l->n_param > 1 ? l->param[1]->value : NULL,
        .keep = l->keep,
        .scratch = l->scratch,
        .rows = step->rows,
    };
}

mu_status mu_one_op_forward(mu_layer *l, const mu_step *step, mu_err *err) {
    mu_op_args a = mu_one_op_args(l, step);
    return mu_op_forward(l->op, &a, err);
}

mu_status mu_one_op_backward(mu_layer *l, const mu_step *step, mu_err *err) {
    mu_op_args a = mu_one_op_args(l, step);
    a.ddst = l->out[0].grad.f;
    a.dsrc = l->src[0]->grad.f;
    return a.dsrc ? mu_op_backward(l->op, &a, err) : MU_OK;
}
