// SPDX-License-Identifier: Apache-2.0
// l_accuracy.c - share of samples (of time steps, if scores are (n, t, c)) whose label is among the k best.
#include "layer/infer.h"
#include "layer/score.h"

struct accuracy {
    mu_ints top;
    int64_t ignore_label;
    int64_t n, t, c; // derived
    mu_top hits;
};

static const mu_field fields[] = {
    MU_FIELD(struct accuracy, top, MU_INTS, "[1]", "[1,)", "k: the label is among the k best scores"),
    MU_FIELD(struct accuracy, ignore_label, MU_INT, "-2147483648", "[-2147483648,2147483647]",
             "samples with this label are not counted; the default ignores none"),
    {0},
};

static mu_status infer(mu_layer *l, mu_err *err) {
    struct accuracy *s = l->state;
    MU_TRY(mu_infer_scores(l, 0, &s->n, &s->t, &s->c, err));
    MU_TRY(mu_infer_labels(l, 1, s->n, s->t, s->c, err));
    return mu_top_infer(&s->hits, l, &s->top, s->c, err);
}

static mu_status forward(mu_layer *l, const mu_step *step, mu_err *err) {
    struct accuracy *s = l->state;
    const float *x = l->src[0]->value.f;
    const int32_t *label = l->src[1]->value.i;
    int64_t counted = 0;
    mu_top_begin(&s->hits);
    for (int64_t b = 0; b < step->rows * s->t; b++) {
        if (label[b] == s->ignore_label) continue;
        MU_TRY(mu_label_check(l, label[b], s->c, step->first_sample + b / s->t, err));
        mu_top_count(&s->hits, x + b * s->c, s->c, label[b]);
        counted++;
    }
    mu_top_end(&s->hits, counted);
    return MU_OK;
}

const mu_layer_class mu_layer_accuracy = {
    .name = "accuracy",
    .help = "share of right answers; sources: scores, label",
    .fields = fields,
    .state_size = sizeof(struct accuracy),
    .n_src_min = 2,
    .flags = MU_LAYER_OUTPUT,
    .cuts = MU_CUT_BATCH,
    .infer = infer,
    .forward = forward,
};
