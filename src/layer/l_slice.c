// SPDX-License-Identifier: Apache-2.0
// l_slice.c - cuts a source along one axis into outputs `name.0`, `name.1`, ...
#include "layer/axis.h"
#include "layer/infer.h"

#include <inttypes.h>
#include <stdio.h>

struct slice {
    int64_t axis, outputs;
    mu_ints points;
};

static const mu_field fields[] = {
    MU_FIELD(struct slice, axis, MU_INT, "1", "[1,5]", "axis to cut; 1 = channels or values"),
    MU_FIELD(struct slice, outputs, MU_INT, "2", "[1,16]",
             "number of equal parts, unless `points` are given"),
    MU_FIELD(struct slice, points, MU_INTS, "[]", "[1,)",
             "where to cut: each is the first place of the next part"),
    {0},
};

// Ends of the parts in end[0..*n).
static mu_status cut(const mu_layer *l, int64_t len, int64_t end[MU_MAX_OUT], int *n, mu_err *err) {
    const struct slice *s = l->state;
    mu_status st;
    if (s->points.n == 0) {
        if (len % s->outputs == 0) {
            *n = (int)s->outputs;
            for (int i = 0; i < *n; i++) end[i] = len / s->outputs * (i + 1);
            return MU_OK;
        }
        st = mu_layer_fail(l, err,
                           "axis %" PRId64 " of size %" PRId64 " cannot be cut into %" PRId64 " equal parts",
                           s->axis, len, s->outputs);
        mu_err_hint(err, "Give the places with `points`.");
        return st;
    }
    if (s->points.n >= MU_MAX_OUT) return mu_layer_fail(l, err, "more than %d outputs", MU_MAX_OUT);
    *n = (int)s->points.n + 1;
    for (int i = 0; i < *n; i++) {
        int64_t before = i ? end[i - 1] : 0;
        end[i] = i + 1 < *n ? s->points.v[i] : len;
        if (end[i] > before && end[i] <= len && (i + 1 == *n || end[i] < len)) continue;
        st = mu_layer_fail(l, err, "point %" PRId64 " is not between %" PRId64 " and %" PRId64,
                           s->points.v[i < *n - 1 ? i : i - 1], before, len);
        mu_err_hint(err, "`points` rise, and lie inside axis %" PRId64 " of size %" PRId64 ".", s->axis, len);
        return st;
    }
    return MU_OK;
}

static mu_status infer(mu_layer *l, mu_err *err) {
    const struct slice *s = l->state;
    int64_t end[MU_MAX_OUT];
    int n = 0;
    MU_TRY(mu_axis_check(l, s->axis, err));
    mu_shape part = *mu_layer_src_shape(l, 0);
    MU_TRY(cut(l, part.d[s->axis], end, &n, err));
    for (int i = 0; i < n; i++) {
        char suffix[16];
        snprintf(suffix, sizeof suffix, "%d", i);
        part.d[s->axis] = end[i] - (i ? end[i - 1] : 0);
        MU_TRY(mu_layer_add_out(l, suffix, part, l->src[0]->value.dtype, err));
    }
    return MU_OK;
}

static void cut_rules(const mu_layer *l, mu_cut_rules *rules) {
    const struct slice *s = l->state;
    if (s->axis == mu_feature_axis(mu_layer_src_shape(l, 0))) rules->cuts = MU_CUT_BATCH;
}

static mu_status forward(mu_layer *l, MU_UNUSED const mu_step *step, MU_UNUSED mu_err *err) {
    const struct slice *s = l->state;
    mu_axis_view whole = mu_axis_of(mu_layer_src_shape(l, 0), (int)s->axis);
    int64_t at = 0;
    for (int k = 0; k < l->n_out; k++) {
        mu_axis_view part = mu_axis_of(&l->out[k].value.shape, (int)s->axis);
        mu_axis_take(l->out[k].value.data, part, l->src[0]->value.data, whole, at);
        at += part.len;
    }
    return MU_OK;
}

static mu_status backward(mu_layer *l, MU_UNUSED const mu_step *step, MU_UNUSED mu_err *err) {
    const struct slice *s = l->state;
    if (!l->src[0]->grad.data) return MU_OK;
    mu_axis_view whole = mu_axis_of(mu_layer_src_shape(l, 0), (int)s->axis);
    int64_t at = 0;
    for (int k = 0; k < l->n_out; k++) {
        mu_axis_view part = mu_axis_of(&l->out[k].value.shape, (int)s->axis);
        mu_axis_put(l->src[0]->grad.data, whole, at, l->out[k].grad.data, part);
        at += part.len;
    }
    return MU_OK;
}

const mu_layer_class mu_layer_slice = {
    .name = "slice",
    .help = "cuts a source along one axis; outputs NAME.0, NAME.1, ...",
    .fields = fields,
    .state_size = sizeof(struct slice),
    .cuts = MU_CUT_BATCH | MU_CUT_FEATURE,
    .uncut = "the source is cut along the features",
    .cut_rules = cut_rules,
    .infer = infer,
    .forward = forward,
    .backward = backward,
};
