// SPDX-License-Identifier: Apache-2.0
// o_activation_vec.c - activations (formulas: o_activation_ref.c), one pass over memory each way.
//
// relu is left to the compiler's vectoriser; the others use the vector exp and tanh of vec.h.
#include "ops/op.h"
#include "ops/vec.h"

#define STANH_A 1.7159047f
#define STANH_B 0.66666667f

static void relu(int64_t n, float slope, const float *x, float *y) {
    if (slope == 0)
        for (int64_t i = 0; i < n; i++) y[i] = x[i] <= 0 ? 0 : x[i]; // NaN stays
    else
        for (int64_t i = 0; i < n; i++) y[i] = x[i] <= 0 ? slope * x[i] : x[i];
}

static void relu_back(int64_t n, float slope, const float *y, const float *dy, float *dx) {
    for (int64_t i = 0; i < n; i++) dx[i] = y[i] > 0 ? dy[i] : slope * dy[i];
}

MU_INLINE mu_vec value(mu_act_kind kind, mu_vec x) {
    if (kind == MU_ACT_SIGMOID) return 1.0f / (1.0f + mu_vec_exp(-x));
    if (kind == MU_ACT_TANH) return mu_vec_tanh(x);
    return mu_vec_tanh(x * STANH_B) * STANH_A;
}

MU_INLINE mu_vec slope_of(mu_act_kind kind, mu_vec y) {
    if (kind == MU_ACT_SIGMOID) return y * (1.0f - y);
    if (kind == MU_ACT_TANH) return 1.0f - y * y;
    return STANH_B * STANH_A - y * y * (STANH_B / STANH_A);
}

MU_INLINE void curve(mu_act_kind kind, int64_t n, const float *x, float *y) {
    for (int64_t i = 0; i < n; i += MU_LANES)
        mu_vec_store(y + i, value(kind, mu_vec_load(x + i, n - i)), n - i);
}

MU_INLINE void curve_back(mu_act_kind kind, int64_t n, const float *y, const float *dy, float *dx) {
    for (int64_t i = 0; i < n; i += MU_LANES)
        mu_vec_store(dx + i, mu_vec_load(dy + i, n - i) * slope_of(kind, mu_vec_load(y + i, n - i)), n - i);
}

static mu_status forward(mu_op *op, const mu_op_args *a, MU_UNUSED mu_err *err) {
    const mu_act_desc *d = &op->desc.act;
    switch (d->kind) {
    case MU_ACT_RELU: relu(d->count, d->slope, a->src, a->dst); break;
    case MU_ACT_SIGMOID: curve(MU_ACT_SIGMOID, d->count, a->src, a->dst); break;
    case MU_ACT_TANH: curve(MU_ACT_TANH, d->count, a->src, a->dst); break;
    case MU_ACT_STANH: curve(MU_ACT_STANH, d->count, a->src, a->dst); break;
    }
    return MU_OK;
}

static mu_status backward(mu_op *op, const mu_op_args *a, MU_UNUSED mu_err *err) {
    const mu_act_desc *d = &op->desc.act;
    if (!a->dsrc) return MU_OK;
    switch (d->kind) {
    case MU_ACT_RELU: relu_back(d->count, d->slope, a->dst, a->ddst, a->dsrc); break;
    case MU_ACT_SIGMOID: curve_back(MU_ACT_SIGMOID, d->count, a->dst, a->ddst, a->dsrc); break;
    case MU_ACT_TANH: curve_back(MU_ACT_TANH, d->count, a->dst, a->ddst, a->dsrc); break;
    case MU_ACT_STANH: curve_back(MU_ACT_STANH, d->count, a->dst, a->ddst, a->dsrc); break;
    }
    return MU_OK;
}

const mu_op_class mu_op_activation_vec = {
    .name = "activation_vec", .help = "activations, vectorised", .prim = MU_PRIM_ACTIVATION, .rank = 20,
    .forward = forward, .backward = backward,
};
