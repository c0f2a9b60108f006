// SPDX-License-Identifier: Apache-2.0
// l_softmax.c - softmax over the values of (n, c), of each step of (n, t, c), or over the channels at each
// place of (n, c, h, w).
//
// Channels are contiguous in memory, so all are rows of c values. For training with labels use
// softmax_loss, which takes the scores themselves and is exact where probabilities underflow.
#include "layer/infer.h"
#include "layer/one_op.h"

static mu_status infer(mu_layer *l, mu_err *err) {
    char text[96];
    MU_TRY(mu_infer_float(l, 0, err));
    const mu_shape *in = mu_layer_src_shape(l, 0);
    if (in->n < 2 || in->n > 4)
        return mu_layer_fail(l, err, "softmax needs a source of 2 to 4 dimensions, `%s` gives %s",
                             mu_infer_src_name(l, 0), mu_shape_text(in, text));
    return mu_layer_add_out(l, NULL, *in, MU_F32, err);
}

static mu_status setup(mu_layer *l, mu_err *err) {
    const mu_shape *in = mu_layer_src_shape(l, 0);
    const int64_t c = in->n == 3 ? in->d[2] : in->d[1];
    mu_softmax_desc d = {.n = mu_shape_count(in) / c, .c = c};
    return mu_layer_set_op(l, &(mu_op_desc){.prim = MU_PRIM_SOFTMAX, .softmax = d}, err);
}

static mu_status forward(mu_layer *l, const mu_step *step, mu_err *err) {
    mu_op_args a = mu_one_op_args(l, step);
    a.rows = 0; // all: the op's rows are places, not samples
    return mu_op_forward(l->op, &a, err);
}

const mu_layer_class mu_layer_softmax = {
    .name = "softmax",
    .help = "probabilities from scores",
    .flags = MU_BACK_NEEDS_DST | MU_LAYER_SAME_SHAPE | MU_LAYER_PROBABILITIES,
    .cuts = MU_CUT_BATCH,
    .infer = infer,
    .setup = setup,
    .forward = forward,
    .backward = mu_one_op_backward,
};
