// SPDX-License-Identifier: Apache-2.0
// l_euclidean_loss.c - half the squared distance of two sources a and b.
//
//   loss = loss_weight * sum of (a - b)^2 / (2 * batch);  da = loss_weight * (a - b) / batch,  db = -da
// This is Caffe's loss, and SINGA's gradient (SINGA reports twice the value). Either source may be the
// target; both get a gradient if something below them learns.
#include "layer/infer.h"

#include <string.h>

struct euclidean_loss {
    float loss_weight;
    bool squared_error;
    mu_metric *loss, *error; // error NULL = not reported
};

static const mu_field fields[] = {
    MU_FIELD(struct euclidean_loss, loss_weight, MU_FLOAT, "1", NULL,
             "factor of this loss in the training objective"),
    MU_FIELD(struct euclidean_loss, squared_error, MU_BOOL, "false", NULL,
             "also report the squared distance of a sample"),
    {0},
};

static mu_status infer(mu_layer *l, mu_err *err) {
    struct euclidean_loss *s = l->state;
    MU_TRY(mu_infer_paired(l, err));
    s->loss = mu_layer_add_metric(l, "loss", true);
    if (s->squared_error) s->error = mu_layer_add_metric(l, "squared_error", false);
    return MU_OK;
}

static mu_status forward(mu_layer *l, const mu_step *step, MU_UNUSED mu_err *err) {
    const struct euclidean_loss *s = l->state;
    const float *a = l->src[0]->value.f, *b = l->src[1]->value.f;
    int64_t per_row = mu_shape_inner(mu_layer_src_shape(l, 0), 1);
    double sum = 0;
    for (int64_t r = 0; r < step->rows; r++) {
        for (int64_t i = r * per_row; i < (r + 1) * per_row; i++)
            sum += (double)((a[i] - b[i]) * (a[i] - b[i]));
    }
    s->loss->sum = (double)s->loss_weight * sum / 2;
    s->loss->weight = (double)step->rows;
    if (s->error) s->error->sum = sum, s->error->weight = (double)step->rows;
    return MU_OK;
}

static mu_status backward(mu_layer *l, const mu_step *step, MU_UNUSED mu_err *err) {
    const struct euclidean_loss *s = l->state;
    const float *a = l->src[0]->value.f, *b = l->src[1]->value.f;
    const mu_shape *in = mu_layer_src_shape(l, 0);
    int64_t valid = step->rows * mu_shape_inner(in, 1), all = mu_shape_count(in);
    for (int k = 0; k < 2; k++) {
        float *d = l->src[k]->grad.f, scale = (k ? -1 : 1) * s->loss_weight / (float)step->global_rows;
        if (!d) continue;
        for (int64_t i = 0; i < valid; i++) d[i] = scale * (a[i] - b[i]);
        memset(d + valid, 0, (size_t)(all - valid) * sizeof *d);
    }
    return MU_OK;
}

const mu_layer_class mu_layer_euclidean_loss = {
    .name = "euclidean_loss",
    .help = "half the squared distance; sources: values, targets",
    .fields = fields,
    .state_size = sizeof(struct euclidean_loss),
    .n_src_min = 2,
    .flags = MU_LAYER_LOSS | MU_BACK_NEEDS_SRC,
    .cuts = MU_CUT_BATCH,
    .infer = infer,
    .forward = forward,
    .backward = backward,
};
