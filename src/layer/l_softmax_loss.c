// SPDX-License-Identifier: Apache-2.0
// l_softmax_loss.c - softmax and cross entropy of scores (n, c) against integer labels (n), or of sequences
// (n, t, c) against (n, t): then every time step is a row.
//
//   p = softmax(x);   loss = loss_weight * sum over rows of -log p[label] / batch
//   dx = loss_weight * (p - onehot(label)) / batch,  zero for ignored and invalid rows
// "batch" is the rows of the whole batch over all learners, also with `ignore_label`, so that the gradient
// does not depend on how samples are spread; the reported loss is the mean over the rows that count.
//
// -log p[label] is taken as x[m] - x[label] - log p[m] with m the largest score: p[m] >= 1/c never
// underflows. Forward leaves p - onehot in `keep`; backward needs nothing else.
#include "layer/infer.h"
#include "layer/score.h"

#include <math.h>
#include <string.h>

struct softmax_loss {
    mu_ints top;
    float loss_weight;
    int64_t ignore_label;
    // derived
    int64_t n, t, c;
    mu_top hits;
    mu_metric *loss;
    size_t op_keep; // bytes of the op in front of our p - onehot
};

static const mu_field fields[] = {
    MU_FIELD(struct softmax_loss, top, MU_INTS, "[1]", "[1,)",
             "report the share of labels among the k best scores"),
    MU_FIELD(struct softmax_loss, loss_weight, MU_FLOAT, "1", NULL,
             "factor of this loss in the training objective"),
    MU_FIELD(struct softmax_loss, ignore_label, MU_INT, "-2147483648", "[-2147483648,2147483647]",
             "samples with this label count nothing; the default ignores none"),
    {0},
};

static mu_status infer(mu_layer *l, mu_err *err) {
    struct softmax_loss *s = l->state;
    MU_TRY(mu_infer_scores(l, 0, &s->n, &s->t, &s->c, err));
    MU_TRY(mu_infer_labels(l, 1, s->n, s->t, s->c, err));
    s->loss = mu_layer_add_metric(l, "loss", true);
    return mu_top_infer(&s->hits, l, &s->top, s->c, err);
}

static mu_status setup(mu_layer *l, mu_err *err) {
    struct softmax_loss *s = l->state;
    mu_softmax_desc d = {.n = s->n * s->t, .c = s->c};
    MU_TRY(mu_layer_set_op(l, &(mu_op_desc){.prim = MU_PRIM_SOFTMAX, .softmax = d}, err));
    s->op_keep = l->keep_bytes;
    l->keep_bytes += (size_t)(s->n * s->t * s->c) * sizeof(float);
    return MU_OK;
}

static float *probabilities(const mu_layer *l) {
    const struct softmax_loss *s = l->state;
    return (float *)(void *)((char *)l->keep + s->op_keep);
}

static int64_t largest(const float *x, int64_t c) {
    int64_t m = 0;
    for (int64_t j = 1; j < c; j++)
        if (x[j] > x[m]) m = j;
    return m;
}

static mu_status forward(mu_layer *l, const mu_step *step, mu_err *err) {
    struct softmax_loss *s = l->state;
    float *prob = probabilities(l);
    const int64_t rows = step->rows * s->t;
    mu_op_args a = {
        .src = l->src[0]->value.f, .dst = prob, .keep = l->keep, .scratch = l->scratch, .rows = rows};
    MU_TRY(mu_op_forward(l->op, &a, err));
    const int32_t *label = l->src[1]->value.i;
    int64_t counted = 0;
    double sum = 0;
    mu_top_begin(&s->hits);
    for (int64_t b = 0; b < rows; b++) {
        const float *x = a.src + b * s->c;
        float *p = prob + b * s->c;
        if (label[b] == s->ignore_label) {
            memset(p, 0, (size_t)s->c * sizeof *p);
            continue;
        }
        MU_TRY(mu_label_check(l, label[b], s->c, step->first_sample + b / s->t, err));
        int64_t m = largest(x, s->c);
        sum += (double)x[m] - (double)x[label[b]] - log((double)p[m]);
        mu_top_count(&s->hits, x, s->c, label[b]);
        p[label[b]] -= 1;
        counted++;
    }
    s->loss->sum = (double)s->loss_weight * sum;
    s->loss->weight = (double)counted;
    mu_top_end(&s->hits, counted);
    return MU_OK;
}

static mu_status backward(mu_layer *l, const mu_step *step, MU_UNUSED mu_err *err) {
    const struct softmax_loss *s = l->state;
    float *dx = l->src[0]->grad.f;
    if (!dx) return MU_OK;
    const float *p = probabilities(l);
    float scale = s->loss_weight / (float)(step->global_rows * s->t);
    int64_t valid = step->rows * s->t * s->c, all = s->n * s->t * s->c;
    for (int64_t i = 0; i < valid; i++) dx[i] = scale * p[i];
    memset(dx + valid, 0, (size_t)(all - valid) * sizeof *dx);
    return MU_OK;
}

const mu_layer_class mu_layer_softmax_loss = {
    .name = "softmax_loss",
    .help = "softmax cross entropy with top-k accuracy; sources: scores, label",
    .fields = fields,
    .state_size = sizeof(struct softmax_loss),
    .n_src_min = 2,
    .flags = MU_LAYER_LOSS,
    .cuts = MU_CUT_BATCH,
    .infer = infer,
    .setup = setup,
    .forward = forward,
    .backward = backward,
};
