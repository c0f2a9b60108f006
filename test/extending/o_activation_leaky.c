// SPDX-License-Identifier: Apache-2.0
// o_activation_leaky.c - relu with a slope between 0 and 1: y = max(x, slope * x), no branch. A NaN stays.
#include "ops/op.h"

static bool accepts(const mu_op_desc *d) {
    return d->act.kind == MU_ACT_RELU && d->act.slope > 0 && d->act.slope <= 1;
}

static mu_status forward(mu_op *op, const mu_op_args *a, MU_UNUSED mu_err *err) {
    const mu_act_desc *d = &op->desc.act;
    for (int64_t i = 0; i < d->count; i++) {
        float x = a->src[i], below = d->slope * x;
        a->dst[i] = x > below ? x : below;
    }
    return MU_OK;
}

static mu_status backward(mu_op *op, const mu_op_args *a, MU_UNUSED mu_err *err) {
    const mu_act_desc *d = &op->desc.act;
    for (int64_t i = 0; a->dsrc && i < d->count; i++)
        a->dsrc[i] = a->ddst[i] * (a->dst[i] > 0 ? 1 : d->slope);
    return MU_OK;
}

const mu_op_class mu_op_activation_leaky = {
    .name = "activation_leaky",
    .help = "relu with a slope",
    .prim = MU_PRIM_ACTIVATION,
    .rank = 30, // before activation_vec, which has 20
    .accepts = accepts,
    .forward = forward,
    .backward = backward,
};
