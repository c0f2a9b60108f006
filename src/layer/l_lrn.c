// SPDX-License-Identifier: Apache-2.0
// l_lrn.c - local response normalisation (Krizhevsky et al., 2012).
//
//   y = x / (k + alpha / m * sum of x^2 over a neighbourhood of m elements)^beta
// `region: across` takes `size` neighbouring channels at one place (m = size), `region: within` a window of
// size x size places in one channel, zero padded (m = size^2). Caffe's WITHIN_CHANNEL has k = 1 fixed.
#include "layer/infer.h"
#include "layer/one_op.h"

#include <inttypes.h>

struct lrn {
    int64_t size;
    float alpha, beta, k;
    int region; // 0 across channels, 1 within
};

static const mu_field fields[] = {
    MU_FIELD(struct lrn, size, MU_INT, "5", "[1,1001]", "channels, or width of the window; odd"),
    MU_FIELD(struct lrn, alpha, MU_FLOAT, "1", "[0,)", "weight of the mean square of the neighbourhood"),
    MU_FIELD(struct lrn, beta, MU_FLOAT, "0.75", "[0,)", "exponent"),
    MU_FIELD(struct lrn, k, MU_FLOAT, "1", "(0,)", "constant in the denominator"),
    MU_FIELD_ENUM(struct lrn, region, "across", "across|within",
                  "neighbourhood: across channels or within one"),
    {0},
};

static mu_status infer(mu_layer *l, mu_err *err) {
    const struct lrn *s = l->state;
    MU_TRY(mu_infer_4d(l, 0, err));
    if (s->size % 2 == 0)
        return mu_err_hinted(mu_layer_fail(l, err, "size %" PRId64 " is even", s->size), err,
                             "The neighbourhood has a middle: use %" PRId64 " or %" PRId64 ".", s->size - 1,
                             s->size + 1);
    return mu_layer_add_out(l, NULL, *mu_layer_src_shape(l, 0), MU_F32, err);
}

static void cut_rules(const mu_layer *l, mu_cut_rules *rules) {
    if (((const struct lrn *)l->state)->region == 0) rules->cuts = MU_CUT_BATCH;
}

static mu_status setup(mu_layer *l, mu_err *err) {
    const struct lrn *s = l->state;
    const mu_shape *in = mu_layer_src_shape(l, 0);
    mu_lrn_desc d = {.n = in->d[0],
                     .c = in->d[1],
                     .h = in->d[2],
                     .w = in->d[3],
                     .size = s->size,
                     .alpha = s->alpha,
                     .beta = s->beta,
                     .k = s->k,
                     .within = s->region == 1};
    return mu_layer_set_op(l, &(mu_op_desc){.prim = MU_PRIM_LRN, .lrn = d}, err);
}

// With running sums: a square, an add and a subtract for each window axis, and the power.
static void cost(const mu_layer *l, mu_cost *out) {
    const struct lrn *s = l->state;
    double count = (double)mu_shape_count(mu_layer_src_shape(l, 0));
    out->flops_forward = count * (s->region == 1 ? 8 : 6);
    out->flops_backward = 2 * out->flops_forward;
    out->bytes = 2 * (double)sizeof(float) * count;
}

const mu_layer_class mu_layer_lrn = {
    .name = "lrn",
    .help = "local response normalisation across or within channels",
    .fields = fields,
    .state_size = sizeof(struct lrn),
    .flags = MU_BACK_NEEDS_SRC,
    .cuts = MU_CUT_BATCH | MU_CUT_FEATURE,
    .uncut = "with `region: across` channels are neighbours",
    .cut_rules = cut_rules,
    .infer = infer,
    .setup = setup,
    .forward = mu_one_op_forward,
    .backward = mu_one_op_backward,
    .cost = cost,
};
