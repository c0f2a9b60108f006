// SPDX-License-Identifier: Apache-2.0
// l_l2_normalise.c - every sample divided by its length, so that a product of two is their cosine.
//
//   y = x / r,  r = sqrt(sum of x^2 + eps);   dx = (dy - y * sum of y dy) / r,  0 where sum of x^2 <= eps
// eps keeps a sample of zeros at zero; with it under the root the formula of dx stays exact. A sample not
// longer than sqrt(eps) has no direction worth the name, and its 1 / r would blow gradients up (a million
// times with zeros and the usual eps): it gets none. A sample is all of its values, in whatever order they
// lie.
#include "layer/infer.h"

#include <math.h>

struct l2_normalise {
    float eps;
    int64_t width; // values of a sample
};

static const mu_field fields[] = {
    MU_FIELD(struct l2_normalise, eps, MU_FLOAT, "1e-12", "(0,)", "added to the square of the length"),
    {0},
};

static mu_status infer(mu_layer *l, mu_err *err) {
    struct l2_normalise *s = l->state;
    MU_TRY(mu_infer_float(l, 0, err));
    const mu_shape *in = mu_layer_src_shape(l, 0);
    s->width = mu_shape_inner(in, 1);
    l->keep_bytes = (size_t)in->d[0] * sizeof(float); // 1 / r of each sample, 0 = no gradient
    return mu_layer_add_out(l, NULL, *in, MU_F32, err);
}

static mu_status forward(mu_layer *l, MU_UNUSED const mu_step *step, MU_UNUSED mu_err *err) {
    const struct l2_normalise *s = l->state;
    int64_t n = mu_layer_src_shape(l, 0)->d[0];
    for (int64_t b = 0; b < n; b++) {
        const float *x = l->src[0]->value.f + b * s->width;
        float *y = l->out[0].value.f + b * s->width;
        const double eps = (double)s->eps;
        double square = 0;
        for (int64_t i = 0; i < s->width; i++) square += (double)x[i] * (double)x[i];
        float inverse = (float)(1 / sqrt(square + eps));
        for (int64_t i = 0; i < s->width; i++) y[i] = x[i] * inverse;
        ((float *)l->keep)[b] = square > eps ? inverse : 0;
    }
    return MU_OK;
}

static mu_status backward(mu_layer *l, MU_UNUSED const mu_step *step, MU_UNUSED mu_err *err) {
    const struct l2_normalise *s = l->state;
    if (!l->src[0]->grad.f) return MU_OK;
    int64_t n = mu_layer_src_shape(l, 0)->d[0];
    for (int64_t b = 0; b < n; b++) {
        const float *y = l->out[0].value.f + b * s->width, *dy = l->out[0].grad.f + b * s->width;
        float *dx = l->src[0]->grad.f + b * s->width, inverse = ((const float *)l->keep)[b];
        double along = 0;
        for (int64_t i = 0; i < s->width; i++) along += (double)y[i] * (double)dy[i];
        for (int64_t i = 0; i < s->width; i++) dx[i] = (dy[i] - y[i] * (float)along) * inverse;
    }
    return MU_OK;
}

const mu_layer_class mu_layer_l2_normalise = {
    .name = "l2_normalise",
    .help = "divides every sample by its length",
    .fields = fields,
    .state_size = sizeof(struct l2_normalise),
    .flags = MU_LAYER_IN_PLACE | MU_BACK_NEEDS_DST,
    .cuts = MU_CUT_BATCH,
    .infer = infer,
    .forward = forward,
    .backward = backward,
};
