// SPDX-License-Identifier: Apache-2.0
// l_swish.c - x times the logistic function of beta * x (Ramachandran, Zoph, Le 2017):
//
//   s = 1 / (1 + exp(-beta * x));  y = x * s
//   dx = dy * s * (1 + beta * x * (1 - s))
//
// The function falls and rises again, so y does not tell x: backward reads the source, and the layer
// cannot work in place.
#include "layer/infer.h"

#include <math.h>

struct swish {
    float beta;
};

static const mu_field fields[] = {
    MU_FIELD(struct swish, beta, MU_FLOAT, "1", "(0,)", "steepness; the larger, the nearer to relu"),
    {0},
};

static mu_status infer(mu_layer *l, mu_err *err) {
    MU_TRY(mu_infer_float(l, 0, err));
    return mu_layer_add_out(l, NULL, *mu_layer_src_shape(l, 0), MU_F32, err);
}

static float logistic(float x) { return 1 / (1 + expf(-x)); }

static mu_status forward(mu_layer *l, MU_UNUSED const mu_step *step, MU_UNUSED mu_err *err) {
    const float beta = ((const struct swish *)l->state)->beta;
    const float *restrict x = l->src[0]->value.f;
    float *restrict y = l->out[0].value.f;
    const size_t n = mu_tensor_count(&l->out[0].value);
    for (size_t i = 0; i < n; i++) y[i] = x[i] * logistic(beta * x[i]);
    return MU_OK;
}

static mu_status backward(mu_layer *l, MU_UNUSED const mu_step *step, MU_UNUSED mu_err *err) {
    const float beta = ((const struct swish *)l->state)->beta;
    const float *restrict x = l->src[0]->value.f, *restrict dy = l->out[0].grad.f;
    float *restrict dx = l->src[0]->grad.f;
    const size_t n = mu_tensor_count(&l->out[0].value);
    if (!dx) return MU_OK; // nothing below learns
    for (size_t i = 0; i < n; i++) {
        float s = logistic(beta * x[i]);
        dx[i] = dy[i] * s * (1 + beta * x[i] * (1 - s));
    }
    return MU_OK;
}

const mu_layer_class mu_layer_swish = {
    .name = "swish",
    .help = "x / (1 + exp(-beta * x)), a smooth relu",
    .fields = fields,
    .state_size = sizeof(struct swish),
    .flags = MU_BACK_NEEDS_SRC,
    .cuts = MU_CUT_BATCH | MU_CUT_FEATURE,
    .infer = infer,
    .forward = forward,
    .backward = backward,
};
