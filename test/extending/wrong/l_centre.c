// SPDX-License-Identifier: Apache-2.0
// l_centre.c - values minus their mean over the sample. Right by itself, but it looks like a layer that works
// element by element (MU_LAYER_IN_PLACE, no `cuts`), to see conform_cuts refuse to cut it by feature.
#include "layer/infer.h"

static mu_status infer(mu_layer *l, mu_err *err) {
    MU_TRY(mu_infer_float(l, 0, err));
    return mu_layer_add_out(l, NULL, *mu_layer_src_shape(l, 0), MU_F32, err);
}

// to = from minus its mean, of each sample.
static void centre(const mu_tensor *like, float *to, const float *from) {
    const int64_t rows = like->shape.d[0], n = mu_shape_inner(&like->shape, 1);
    for (int64_t b = 0; b < rows; b++, to += n, from += n) {
        float mean = 0;
        for (int64_t i = 0; i < n; i++) mean += from[i] / (float)n;
        for (int64_t i = 0; i < n; i++) to[i] = from[i] - mean;
    }
}

static mu_status forward(mu_layer *l, MU_UNUSED const mu_step *step, MU_UNUSED mu_err *err) {
    centre(&l->out[0].value, l->out[0].value.f, l->src[0]->value.f);
    return MU_OK;
}

static mu_status backward(mu_layer *l, MU_UNUSED const mu_step *step, MU_UNUSED mu_err *err) {
    if (l->src[0]->grad.f) centre(&l->out[0].value, l->src[0]->grad.f, l->out[0].grad.f);
    return MU_OK;
}

const mu_layer_class mu_layer_centre = {
    .name = "centre",
    .help = "values minus their mean over the sample",
    .flags = MU_LAYER_IN_PLACE,
    .infer = infer,
    .forward = forward,
    .backward = backward,
};
