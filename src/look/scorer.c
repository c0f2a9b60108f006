// SPDX-License-Identifier: Apache-2.0
// scorer.c - see scorer.h.
#include "look/scorer.h"

#include <string.h>

static mu_status no_such_head(const mu_session_phase *p, const char *name, mu_err *err) {
    const char *names[64];
    size_t n = 0;
    for (int i = 1; i < p->net->n_layers && n < MU_COUNT(names); i++)
        if (p->net->layer[i]->class->flags & (MU_LAYER_LOSS | MU_LAYER_OUTPUT))
            names[n++] = mu_head_name(p->net->layer[i]);
    MU_FAIL(err, MU_EUSAGE, "no layer `%s` compares answers with classes or targets", name);
    mu_err_suggest(MU_EUSAGE, err, "", mu_nearest(name, names, n));
    return mu_err_hinted(MU_EUSAGE, err,
                         "Such layers are `accuracy`, `softmax_loss`, `sigmoid_loss` of one "
                         "label and `euclidean_loss` with a target from the data.");
}

mu_status mu_scorer_open(mu_scorer *j, const mu_session_phase *p, const char *head, mu_err *err) {
    *j = (mu_scorer){0};
    MU_TRY(mu_head_find(p->net, p->source, MU_HEAD_CLASSES, head, &j->classes, err));
    MU_TRY(mu_head_find(p->net, p->source, MU_HEAD_NUMBERS, head, &j->numbers, err));
    if (head && !j->classes.layer && !j->numbers.layer) return no_such_head(p, head, err);
    if (j->classes.layer) MU_TRY(mu_class_scores_init(&j->class_scores, j->classes.width, err));
    if (j->numbers.layer) MU_TRY(mu_number_scores_init(&j->number_scores, j->numbers.width, err));
    j->class_scores.confusion.of_steps = mu_scorer_of_steps(&j->classes);
    j->class_scores.confusion.names = j->classes.names;
    j->class_scores.confusion.n_names = j->classes.n_names;
    return MU_OK;
}

void mu_scorer_close(mu_scorer *j) {
    mu_head_fini(&j->classes);
    mu_head_fini(&j->numbers);
    mu_class_scores_fini(&j->class_scores);
    mu_number_scores_fini(&j->number_scores);
}

static void add_answer(void *ctx, const float *score, int64_t truth) {
    mu_scorer *j = ctx;
    mu_class_scores_add(&j->class_scores, score, truth, j->classes.confidence);
}

mu_status mu_scorer_batch(void *ctx, MU_UNUSED mu_net *net, const mu_batch *batch, MU_UNUSED mu_err *err) {
    mu_scorer *j = ctx;
    if (j->classes.layer) mu_head_each_class(&j->classes, batch->n, add_answer, j);
    if (j->numbers.layer) mu_head_add_numbers(&j->numbers, batch->n, &j->number_scores);
    return MU_OK;
}
