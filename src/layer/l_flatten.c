// SPDX-License-Identifier: Apache-2.0
// l_flatten.c - (n, ...) becomes (n, values) in logical order. An inner_product flattens by itself.
#include "layer/reorder.h"

static mu_status infer(mu_layer *l, mu_err *err) {
    const mu_shape *in = mu_layer_src_shape(l, 0);
    return mu_reorder_infer(l, MU_SHAPE(in->n ? in->d[0] : 1, mu_shape_inner(in, 1)), err);
}

const mu_layer_class mu_layer_flatten = {
    .name = "flatten",
    .help = "all values of a sample in one row",
    .infer = infer,
    .forward = mu_reorder_forward,
    .backward = mu_reorder_backward,
};
