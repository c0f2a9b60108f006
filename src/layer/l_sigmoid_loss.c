// SPDX-License-Identifier: Apache-2.0
// l_sigmoid_loss.c - cross entropy of sigmoid(x) against targets t in [0, 1], element by element.
//
//   loss = loss_weight * sum of max(x, 0) - x*t + log(1 + exp(-|x|)) / batch
//   dx   = loss_weight * (sigmoid(x) - t) / batch,   dt = -loss_weight * x / batch
// which never overflows. Targets are numbers of the source's shape (several labels for a sample,
// or the input of an auto-encoder), or one integer label 0 or 1 for a single score.
#include "layer/infer.h"
#include "layer/score.h"
#include "ops/vec.h"

#include <string.h>

struct sigmoid_loss {
    float loss_weight;
    bool squared_error;
    mu_metric *loss, *error; // error NULL = not reported
    bool labels; // targets are integers
};

static const mu_field fields[] = {
    MU_FIELD(struct sigmoid_loss, loss_weight, MU_FLOAT, "1", NULL,
             "factor of this loss in the training objective"),
    MU_FIELD(struct sigmoid_loss, squared_error, MU_BOOL, "false", NULL,
             "also report the squared distance of sigmoid(scores) and targets of a sample"),
    {0},
};

static mu_status infer(mu_layer *l, mu_err *err) {
    struct sigmoid_loss *s = l->state;
    char text[96];
    s->labels = l->src[1]->value.dtype == MU_I32;
    if (s->labels) {
        const mu_shape *in = mu_layer_src_shape(l, 0);
        MU_TRY(mu_infer_float(l, 0, err));
        if (in->n < 1 || mu_shape_inner(in, 1) != 1)
            return mu_err_hinted(mu_layer_fail(l, err, "an integer label needs a single score, `%s` gives %s",
                                               mu_infer_src_name(l, 0), mu_shape_text(in, text)),
                                 err, "Use softmax_loss for one of several classes.");
        MU_TRY(mu_infer_label(l, 1, in->d[0], 2, err));
    } else {
        MU_TRY(mu_infer_paired(l, err));
    }
    s->loss = mu_layer_add_metric(l, "loss", true);
    if (s->squared_error) s->error = mu_layer_add_metric(l, "squared_error", false);
    return MU_OK;
}

// Up to MU_LANES targets from element i on.
static mu_vec targets(const mu_layer *l, int64_t i, int64_t left) {
    const struct sigmoid_loss *s = l->state;
    if (!s->labels) return mu_vec_load(l->src[1]->value.f + i, left);
    mu_vec t = mu_vec_set(0);
    for (int64_t k = 0; k < left && k < MU_LANES; k++) t[k] = (float)l->src[1]->value.i[i + k];
    return t;
}

// With e = exp(-|x|), which the loss needs, too.
static mu_vec sigmoid(mu_vec x, mu_vec e) {
    return mu_vec_select(mu_vec_gt(x, mu_vec_set(0)), mu_vec_set(1), e) / (1.0f + e);
}

// Adds up the loss of n elements, and their squared error when it is wanted.
static void add_up(const mu_layer *l, int64_t n, double *loss, double *error) {
    const struct sigmoid_loss *s = l->state;
    const float *x = l->src[0]->value.f;
    for (int64_t i = 0; i < n; i += MU_LANES) {
        mu_vec v = mu_vec_load(x + i, n - i), t = targets(l, i, n - i), e = mu_vec_exp(-mu_vec_abs(v));
        mu_vec each = mu_vec_max(v, mu_vec_set(0)) - v * t + mu_vec_log(1.0f + e), d = sigmoid(v, e) - t;
        int64_t lanes = n - i < MU_LANES ? n - i : MU_LANES;
        if (lanes == MU_LANES) *loss += (double)mu_vec_sum(each);
        for (int64_t k = 0; lanes < MU_LANES && k < lanes; k++) *loss += (double)each[k];
        for (int64_t k = 0; s->error && k < lanes; k++) *error += (double)(d[k] * d[k]);
    }
}

static mu_status forward(mu_layer *l, const mu_step *step, mu_err *err) {
    const struct sigmoid_loss *s = l->state;
    int64_t n = step->rows * mu_shape_inner(mu_layer_src_shape(l, 0), 1);
    double loss = 0, error = 0;
    for (int64_t i = 0; s->labels && i < n; i++)
        MU_TRY(mu_label_check(l, l->src[1]->value.i[i], 2, step->first_sample + i, err));
    add_up(l, n, &loss, &error);
    s->loss->sum = (double)s->loss_weight * loss;
    s->loss->weight = (double)step->rows;
    if (s->error) s->error->sum = error, s->error->weight = (double)step->rows;
    return MU_OK;
}

static mu_status backward(mu_layer *l, const mu_step *step, MU_UNUSED mu_err *err) {
    const struct sigmoid_loss *s = l->state;
    const float *x = l->src[0]->value.f;
    float *dx = l->src[0]->grad.f, *dt = l->src[1]->grad.f, scale = s->loss_weight / (float)step->global_rows;
    const mu_shape *in = mu_layer_src_shape(l, 0);
    int64_t valid = step->rows * mu_shape_inner(in, 1), all = mu_shape_count(in);
    for (int64_t i = 0; dx && i < valid; i += MU_LANES) {
        mu_vec v = mu_vec_load(x + i, valid - i), p = sigmoid(v, mu_vec_exp(-mu_vec_abs(v)));
        mu_vec_store(dx + i, scale * (p - targets(l, i, valid - i)), valid - i);
    }
    for (int64_t i = 0; dt && i < valid; i++) dt[i] = -scale * x[i];
    if (dx) memset(dx + valid, 0, (size_t)(all - valid) * sizeof *dx);
    if (dt) memset(dt + valid, 0, (size_t)(all - valid) * sizeof *dt);
    return MU_OK;
}

const mu_layer_class mu_layer_sigmoid_loss = {
    .name = "sigmoid_loss",
    .help = "sigmoid cross entropy; sources: scores, targets",
    .fields = fields,
    .state_size = sizeof(struct sigmoid_loss),
    .n_src_min = 2,
    .flags = MU_LAYER_LOSS | MU_BACK_NEEDS_SRC,
    .cuts = MU_CUT_BATCH,
    .infer = infer,
    .forward = forward,
    .backward = backward,
};
