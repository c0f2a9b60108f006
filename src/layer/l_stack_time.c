// SPDX-License-Identifier: Apache-2.0
// l_stack_time.c - sources of one shape (n, ...) become the steps of a sequence (n, t, ...).
//
// The opposite of time_step. Unrolling inserts it as stack(x) where a layer takes all copies of another.
#include "layer/axis.h"
#include "layer/infer.h"

static mu_status infer(mu_layer *l, mu_err *err) {
    char t0[96], t1[96];
    const mu_shape *first = mu_layer_src_shape(l, 0);
    for (int k = 0; k < l->n_src; k++) {
        const mu_shape *other = mu_layer_src_shape(l, k);
        if (mu_shape_equal(first, other) && l->src[k]->value.dtype == l->src[0]->value.dtype) continue;
        return mu_err_hinted(mu_layer_fail(l, err, "`%s` %s and `%s` %s cannot be steps of one sequence",
                                           mu_infer_src_name(l, 0), mu_shape_text(first, t0),
                                           mu_infer_src_name(l, k), mu_shape_text(other, t1)),
                             err, "All steps have one shape, and are all numbers or all integers.");
    }
    if (first->n < 1 || first->n > 2)
        return mu_err_hinted(mu_layer_fail(l, err, "a step is (batch) or (batch, values), `%s` gives %s",
                                           mu_infer_src_name(l, 0), mu_shape_text(first, t0)),
                             err, "Put a flatten layer before it.");
    mu_shape out = {.n = first->n + 1, .d = {first->d[0], l->n_src}};
    if (first->n == 2) out.d[2] = first->d[1];
    MU_TRY(mu_layer_add_out(l, NULL, out, l->src[0]->value.dtype, err));
    l->out[0].n_classes = l->src[0]->n_classes;
    l->out[0].streams = l->src[0]->streams;
    return MU_OK;
}

// Step k of the sequence, as a part of it along the time axis.
static mu_axis_view step_view(mu_axis_view whole) { return (mu_axis_view){whole.outer, 1, whole.inner}; }

static mu_status forward(mu_layer *l, MU_UNUSED const mu_step *step, MU_UNUSED mu_err *err) {
    mu_axis_view whole = mu_axis_of(&l->out[0].value.shape, 1);
    for (int k = 0; k < l->n_src; k++)
        mu_axis_put(l->out[0].value.data, whole, k, l->src[k]->value.data, step_view(whole));
    return MU_OK;
}

static mu_status backward(mu_layer *l, MU_UNUSED const mu_step *step, MU_UNUSED mu_err *err) {
    mu_axis_view whole = mu_axis_of(&l->out[0].value.shape, 1);
    for (int k = 0; k < l->n_src; k++)
        if (l->src[k]->grad.data)
            mu_axis_take(l->src[k]->grad.data, step_view(whole), l->out[0].grad.data, whole, k);
    return MU_OK;
}

const mu_layer_class mu_layer_stack_time = {
    .name = "stack_time",
    .help = "sources (n, ...) as the steps of a sequence (n, t, ...)",
    .n_src_max = MU_MAX_SRC,
    .cuts = MU_CUT_BATCH | MU_CUT_FEATURE,
    .infer = infer,
    .forward = forward,
    .backward = backward,
};
