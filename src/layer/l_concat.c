// SPDX-License-Identifier: Apache-2.0
// l_concat.c - joins sources along one axis.
#include "layer/axis.h"
#include "layer/infer.h"

struct concat {
    int64_t axis;
};

static const mu_field fields[] = {
    MU_FIELD(struct concat, axis, MU_INT, "1", "[1,5]",
             "axis along which sources are joined; 1 = channels or values"),
    {0},
};

static mu_status infer(mu_layer *l, mu_err *err) {
    const struct concat *s = l->state;
    char t0[96], t1[96];
    MU_TRY(mu_axis_check(l, s->axis, err));
    mu_shape out = *mu_layer_src_shape(l, 0);
    for (int k = 1; k < l->n_src; k++) {
        mu_shape other = *mu_layer_src_shape(l, k), same = other;
        if (other.n == out.n) same.d[s->axis] = out.d[s->axis];
        if (!mu_shape_equal(&same, &out) || l->src[k]->value.dtype != l->src[0]->value.dtype) {
            const mu_shape *first = mu_layer_src_shape(l, 0);
            mu_status st = mu_layer_fail(l, err, "`%s` %s and `%s` %s cannot be joined along axis %d",
                                         mu_infer_src_name(l, 0), mu_shape_text(first, t0),
                                         mu_infer_src_name(l, k), mu_shape_text(&other, t1), (int)s->axis);
            mu_err_hint(err, "All other axes must be equal, and all sources numbers or all integers.");
            return st;
        }
        out.d[s->axis] += other.d[s->axis];
    }
    return mu_layer_add_out(l, NULL, out, l->src[0]->value.dtype, err);
}

static void cut_rules(const mu_layer *l, mu_cut_rules *rules) {
    const struct concat *s = l->state;
    if (s->axis == mu_feature_axis(mu_layer_src_shape(l, 0))) rules->cuts = MU_CUT_BATCH;
}

static mu_status forward(mu_layer *l, MU_UNUSED const mu_step *step, MU_UNUSED mu_err *err) {
    const struct concat *s = l->state;
    mu_axis_view whole = mu_axis_of(&l->out[0].value.shape, (int)s->axis);
    int64_t at = 0;
    for (int k = 0; k < l->n_src; k++) {
        mu_axis_view part = mu_axis_of(mu_layer_src_shape(l, k), (int)s->axis);
        mu_axis_put(l->out[0].value.data, whole, at, l->src[k]->value.data, part);
        at += part.len;
    }
    return MU_OK;
}

static mu_status backward(mu_layer *l, MU_UNUSED const mu_step *step, MU_UNUSED mu_err *err) {
    const struct concat *s = l->state;
    mu_axis_view whole = mu_axis_of(&l->out[0].value.shape, (int)s->axis);
    int64_t at = 0;
    for (int k = 0; k < l->n_src; k++) {
        mu_axis_view part = mu_axis_of(mu_layer_src_shape(l, k), (int)s->axis);
        if (l->src[k]->grad.data) mu_axis_take(l->src[k]->grad.data, part, l->out[0].grad.data, whole, at);
        at += part.len;
    }
    return MU_OK;
}

const mu_layer_class mu_layer_concat = {
    .name = "concat",
    .help = "joins sources along one axis",
    .fields = fields,
    .state_size = sizeof(struct concat),
    .n_src_max = MU_MAX_SRC,
    .cuts = MU_CUT_BATCH | MU_CUT_FEATURE,
    .uncut = "sources are joined along the features",
    .cut_rules = cut_rules,
    .infer = infer,
    .forward = forward,
    .backward = backward,
};
