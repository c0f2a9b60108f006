// SPDX-License-Identifier: Apache-2.0
// reorder.c - see reorder.h.
#include "layer/reorder.h"

#include "layer/infer.h"

#include <string.h>

static bool needs_both(const mu_shape *a, const mu_shape *b) {
    return mu_shape_is_reordered(a) && mu_shape_is_reordered(b) && !mu_shape_equal(a, b);
}

mu_status mu_reorder_infer(mu_layer *l, mu_shape out, mu_err *err) {
    const mu_shape *in = mu_layer_src_shape(l, 0);
    MU_TRY(mu_layer_add_out(l, NULL, out, l->src[0]->value.dtype, err));
    if (needs_both(in, &out)) l->scratch_bytes = (size_t)mu_shape_count(in) * sizeof(float);
    return MU_OK;
}

// Integers travel as the bits of floats: the transpositions only copy.
static void move(float *to, const mu_shape *to_shape, const float *from, const mu_shape *from_shape,
                 float *logical) {
    const int64_t *t = to_shape->d, *f = from_shape->d;
    if (needs_both(from_shape, to_shape)) {
        mu_nhwc_to_nchw(logical, from, f[0], f[1], f[2] * f[3]);
        mu_nchw_to_nhwc(to, logical, t[0], t[1], t[2] * t[3]);
    } else if (mu_shape_equal(from_shape, to_shape)) {
        memcpy(to, from, (size_t)mu_shape_count(to_shape) * sizeof(float));
    } else if (mu_shape_is_reordered(from_shape)) {
        mu_nhwc_to_nchw(to, from, f[0], f[1], f[2] * f[3]);
    } else if (mu_shape_is_reordered(to_shape)) {
        mu_nchw_to_nhwc(to, from, t[0], t[1], t[2] * t[3]);
    } else {
        memcpy(to, from, (size_t)mu_shape_count(to_shape) * sizeof(float));
    }
}

mu_status mu_reorder_forward(mu_layer *l, MU_UNUSED const mu_step *step, MU_UNUSED mu_err *err) {
    move(l->out[0].value.f, &l->out[0].value.shape, l->src[0]->value.f, mu_layer_src_shape(l, 0), l->scratch);
    return MU_OK;
}

mu_status mu_reorder_backward(mu_layer *l, MU_UNUSED const mu_step *step, MU_UNUSED mu_err *err) {
    float *dsrc = l->src[0]->grad.f;
    if (dsrc) move(dsrc, mu_layer_src_shape(l, 0), l->out[0].grad.f, &l->out[0].value.shape, l->scratch);
    return MU_OK;
}
