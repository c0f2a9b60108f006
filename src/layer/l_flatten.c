// SPDX-License-Identifier: Apache-2.0
// l_flatten.c - (n, ...) becomes (n, values) in logical order. An inner_product flattens by itself.
#include "layer/reorder.h"

static mu_status infer(mu_layer *l, mu_err *err) {
    const mu_shape *in = mu_layer_src_shape(l, 0);
    return mu_reorder_infer(l, MU_SHAPE(in->n ? in->d[0] : 1, mu_shape_inner(in, 1)), err);
}

// Of an image all places of a channel follow each other, of a sequence the features of a step.
static void cut_rules(const mu_layer *l, mu_cut_rules *rules) {
    const mu_shape *in = mu_layer_src_shape(l, 0);
    if (in->n == 4) rules->grain = in->d[2] * in->d[3];
    else if (in->n > 2) rules->cuts = MU_CUT_BATCH;
}

const mu_layer_class mu_layer_flatten = {
    .name = "flatten",
    .help = "all values of a sample in one row",
    .cuts = MU_CUT_BATCH | MU_CUT_FEATURE,
    .uncut = "in a sequence the values of a feature are no neighbours",
    .cut_rules = cut_rules,
    .infer = infer,
    .forward = mu_reorder_forward,
    .backward = mu_reorder_backward,
};
