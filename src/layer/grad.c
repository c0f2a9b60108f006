// SPDX-License-Identifier: Apache-2.0
// grad.c - dense gradient targets; see grad.h.
#include "layer/grad.h"

#include <string.h>

float *mu_grad_add_to(mu_param *p) {
    if (!mu_param_accumulates(p)) memset(p->grad.dense, 0, p->count * sizeof(float));
    p->grad.form = MU_GRAD_DENSE;
    return p->grad.dense;
}

void mu_grad_begin(mu_param *weight, mu_param *bias, mu_op_args *a) {
    a->accumulate = (weight && mu_param_accumulates(weight)) || (bias && mu_param_accumulates(bias));
    mu_param *const both[] = {weight, bias};
    float **const target[] = {&a->dweight, &a->dbias};
    for (size_t i = 0; i < MU_COUNT(both); i++) {
        mu_param *p = both[i];
        if (!p) continue;
        if (a->accumulate) { (void)mu_grad_add_to(p); }
        p->grad.form = MU_GRAD_DENSE;
        *target[i] = p->grad.dense;
    }
}
