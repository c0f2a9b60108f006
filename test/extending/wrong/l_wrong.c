// SPDX-License-Identifier: Apache-2.0
// l_wrong.c - a layer with the wrong gradient (y = x^2, dx = dy * x), to see conform_layer refuse it.
#include "layer/infer.h"

static mu_status infer(mu_layer *l, mu_err *err) {
    MU_TRY(mu_infer_float(l, 0, err));
    return mu_layer_add_out(l, NULL, *mu_layer_src_shape(l, 0), MU_F32, err);
}

static mu_status forward(mu_layer *l, MU_UNUSED const mu_step *step, MU_UNUSED mu_err *err) {
    const float *x = l->src[0]->value.f;
    for (size_t i = 0; i < mu_tensor_count(&l->out[0].value); i++) l->out[0].value.f[i] = x[i] * x[i];
    return MU_OK;
}

static mu_status backward(mu_layer *l, MU_UNUSED const mu_step *step, MU_UNUSED mu_err *err) {
    const float *x = l->src[0]->value.f, *dy = l->out[0].grad.f;
    float *dx = l->src[0]->grad.f;
    for (size_t i = 0; dx && i < mu_tensor_count(&l->out[0].value); i++) dx[i] = dy[i] * x[i];
    return MU_OK;
}

const mu_layer_class mu_layer_wrong = {
    .name = "wrong",
    .help = "square with half its gradient",
    .flags = MU_BACK_NEEDS_SRC,
    .infer = infer,
    .forward = forward,
    .backward = backward,
};
