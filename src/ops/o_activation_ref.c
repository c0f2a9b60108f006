// SPDX-License-Identifier: Apache-2.0
// o_activation_ref.c - activations as their formulas; derivatives written in terms of y, so that forward
// and backward may work in place.
//
//   relu     y = x > 0 ? x : slope*x              y' = y > 0 ? 1 : slope    (slope >= 0 keeps the sign)
//   sigmoid  y = 1/(1+exp(-x))                    y' = y(1-y)
//   tanh     y = tanh(x)                          y' = 1-y^2
//   stanh    y = A tanh(Bx), A = 1.7159047, B = 2/3      y' = B(A - y^2/A)
#include "ops/op.h"

#include <math.h>

#define STANH_A 1.7159047
#define STANH_B (2.0 / 3.0)

static double value(const mu_act_desc *d, double x) {
    switch (d->kind) {
    case MU_ACT_RELU: return x <= 0 ? (d->slope > 0 ? x * (double)d->slope : 0.0) : x; // not 0 * -inf
    case MU_ACT_SIGMOID: return 1.0 / (1.0 + exp(-x));
    case MU_ACT_TANH: return tanh(x);
    case MU_ACT_STANH: return STANH_A * tanh(STANH_B * x);
    }
    return NAN;
}

static double slope(const mu_act_desc *d, double y) {
    switch (d->kind) {
    case MU_ACT_RELU: return y > 0 ? 1.0 : (double)d->slope;
    case MU_ACT_SIGMOID: return y * (1.0 - y);
    case MU_ACT_TANH: return 1.0 - y * y;
    case MU_ACT_STANH: return STANH_B * (STANH_A - y * y / STANH_A);
    }
    return NAN;
}

static mu_status forward(mu_op *op, const mu_op_args *a, MU_UNUSED mu_err *err) {
    const mu_act_desc *d = &op->desc.act;
    for (int64_t i = 0; i < d->count; i++) a->dst[i] = (float)value(d, (double)a->src[i]);
    return MU_OK;
}

static mu_status backward(mu_op *op, const mu_op_args *a, MU_UNUSED mu_err *err) {
    const mu_act_desc *d = &op->desc.act;
    for (int64_t i = 0; a->dsrc && i < d->count; i++)
        a->dsrc[i] = (float)((double)a->ddst[i] * slope(d, (double)a->dst[i]));
    return MU_OK;
}

const mu_op_class mu_op_activation_ref = {
    .name = "activation_ref", .help = "activations, plain loops", .prim = MU_PRIM_ACTIVATION, .rank = 0,
    .forward = forward, .backward = backward,
};
