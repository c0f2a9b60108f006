// SPDX-License-Identifier: Apache-2.0
// l_dropout.c - in training each value is zeroed with probability `ratio`, the others grow by
// 1 / (1 - ratio), so that nothing has to be scaled in other phases, where the layer does nothing.
//
// The mask is a function of (seed, layer, sample number, element): the same for every batch size, number of
// learners and way of cutting the layer. It is kept for backward, which therefore needs neither source nor
// output.
#include "layer/infer.h"
#include "layer/pass.h"

struct dropout {
    float ratio;
};

static const mu_field fields[] = {
    MU_FIELD(struct dropout, ratio, MU_FLOAT, "0.5", "[0,1)", "share of values set to zero in training"),
    {0},
};

static bool active(const mu_layer *l) {
    const struct dropout *s = l->state;
    return mu_layer_trains(l) && s->ratio > 0;
}

static mu_status infer(mu_layer *l, mu_err *err) {
    MU_TRY(mu_infer_float(l, 0, err));
    return mu_layer_add_out(l, NULL, *mu_layer_src_shape(l, 0), MU_F32, err);
}

static mu_status setup(mu_layer *l, mu_err *err) {
    const struct dropout *s = l->state;
    const mu_shape *in = mu_layer_src_shape(l, 0);
    if (!active(l)) return MU_OK;
    mu_dropout_desc d = {.n = in->d[0], .per_sample = mu_shape_inner(in, 1), .ratio = s->ratio,
                          .draws = mu_cut_draws(&l->cut)};
    return mu_layer_set_op(l, &(mu_op_desc){.prim = MU_PRIM_DROPOUT, .dropout = d}, err);
}

static mu_op_args args(const mu_layer *l, const mu_step *step) {
    return (mu_op_args){.keep = l->keep,
                        .scratch = l->scratch,
                        .key = l->key,
                        .step = step->step,
                        .first_sample = step->first_sample};
}

static mu_status forward(mu_layer *l, const mu_step *step, mu_err *err) {
    mu_op_args a = args(l, step);
    a.src = l->src[0]->value.f;
    a.dst = l->out[0].value.f;
    if (active(l)) return mu_op_forward(l->op, &a, err);
    mu_pass_on(a.dst, a.src, &l->out[0].value);
    return MU_OK;
}

static mu_status backward(mu_layer *l, const mu_step *step, mu_err *err) {
    mu_op_args a = args(l, step);
    a.ddst = l->out[0].grad.f;
    a.dsrc = l->src[0]->grad.f;
    if (active(l)) return a.dsrc ? mu_op_backward(l->op, &a, err) : MU_OK;
    mu_pass_on(a.dsrc, a.ddst, &l->out[0].value);
    return MU_OK;
}

const mu_layer_class mu_layer_dropout = {
    .name = "dropout",
    .help = "zeroes a random share of the values in training",
    .fields = fields,
    .state_size = sizeof(struct dropout),
    .flags = MU_LAYER_IN_PLACE,
    .infer = infer,
    .setup = setup,
    .forward = forward,
    .backward = backward,
};
