// SPDX-License-Identifier: Apache-2.0
// l_add.c - element-wise sum of sources of one shape:  y = sum of coefficient[k] * x[k].
//
// A copy of an unrolled layer may have one source alone: the first ones lack the step before. Coefficients
// belong to the sources as the job lists them, so those of sources that a copy lacks are passed over.
// May work in place on the first source, so its gradient is written last: it can be y's own.
#include "layer/infer.h"

struct add {
    mu_floats coefficients;
};

static const mu_field fields[] = {
    MU_FIELD(struct add, coefficients, MU_FLOATS, "[]", NULL, "factor of each source; all 1 when left out"),
    {0},
};

static mu_status infer(mu_layer *l, mu_err *err) {
    const struct add *s = l->state;
    char t0[96], t1[96];
    const mu_shape *first = mu_layer_src_shape(l, 0);
    if (l->n_src == 1 && !l->n_copies) return mu_layer_fail(l, err, "add needs at least two sources");
    for (int k = 0; k < l->n_src; k++) {
        MU_TRY(mu_infer_float(l, k, err));
        const mu_shape *other = mu_layer_src_shape(l, k);
        if (!mu_shape_equal(first, other))
            return mu_layer_fail(l, err, "add needs sources of one shape, `%s` gives %s, `%s` gives %s",
                                 mu_infer_src_name(l, 0), mu_shape_text(first, t0), mu_infer_src_name(l, k),
                                 mu_shape_text(other, t1));
    }
    const int listed = l->n_src + __builtin_popcount(l->left_out);
    if (s->coefficients.n && s->coefficients.n != (size_t)listed)
        return mu_layer_fail(l, err, "%zu coefficients for %d sources", s->coefficients.n, listed);
    return mu_layer_add_out(l, NULL, *first, MU_F32, err);
}

static float factor(const mu_layer *l, int k) {
    const struct add *s = l->state;
    if (!s->coefficients.n) return 1;
    size_t at = 0; // of source k in the job's list
    for (int present = -1;; at++)
        if (!(l->left_out >> at & 1) && ++present == k) return s->coefficients.v[at];
}

static mu_status forward(mu_layer *l, MU_UNUSED const mu_step *step, MU_UNUSED mu_err *err) {
    float *y = l->out[0].value.f;
    size_t n = mu_tensor_count(&l->out[0].value);
    const float *x0 = l->src[0]->value.f, c0 = factor(l, 0);
    if (l->n_src == 1) {
        for (size_t i = 0; i < n; i++) y[i] = c0 * x0[i];
        return MU_OK;
    }
    const float *x1 = l->src[1]->value.f, c1 = factor(l, 1);
    for (size_t i = 0; i < n; i++) y[i] = c0 * x0[i] + c1 * x1[i];
    for (int k = 2; k < l->n_src; k++) {
        const float *x = l->src[k]->value.f;
        float c = factor(l, k);
        for (size_t i = 0; i < n; i++) y[i] += c * x[i];
    }
    return MU_OK;
}

static mu_status backward(mu_layer *l, MU_UNUSED const mu_step *step, MU_UNUSED mu_err *err) {
    const float *dy = l->out[0].grad.f;
    size_t n = mu_tensor_count(&l->out[0].value);
    for (int k = l->n_src - 1; k >= 0; k--) {
        float *dx = l->src[k]->grad.f, c = factor(l, k);
        if (!dx || (dx == dy && c == 1)) continue;
        for (size_t i = 0; i < n; i++) dx[i] = c * dy[i];
    }
    return MU_OK;
}

const mu_layer_class mu_layer_add = {
    .name = "add",
    .help = "element-wise sum of sources",
    .fields = fields,
    .state_size = sizeof(struct add),
    .n_src_max = MU_MAX_SRC,
    .flags = MU_LAYER_IN_PLACE | MU_LAYER_GAPS,
    .infer = infer,
    .forward = forward,
    .backward = backward,
};
