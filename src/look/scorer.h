// SPDX-License-Identifier: Apache-2.0
// scorer.h - the answers of a net scored in one pass over its data: precision, recall, F1, calibration, R2.
//
//     mu_scorer j = {0};
//     st = mu_scorer_open(&j, p, NULL, err);
//     if (st == MU_OK) st = mu_evaluate(p, phase, mu_scorer_batch, &j, &scores, err);
//     ... j.class_scores where j.classes.layer is set, j.number_scores where j.numbers.layer is ...
//     mu_scorer_close(&j);
#ifndef MU_LOOK_SCORER_H
#define MU_LOOK_SCORER_H

#include "look/head.h"
#include "train/evaluate.h"

typedef struct mu_scorer {     // zeroed = closed
    mu_head classes, numbers; // layer NULL = the net has no such head
    mu_class_scores class_scores;
    mu_number_scores number_scores;
} mu_scorer;

// Takes the first head of each kind, or the one called `head`. MU_EUSAGE when there is none of that name.
// mu_scorer_close is due in any case.
MU_MUST_CHECK mu_status mu_scorer_open(mu_scorer *j, const mu_session_phase *p, const char *head,
                                       mu_err *err);
void mu_scorer_close(mu_scorer *j);
// A mu_batch_visitor; ctx is the scorer.
mu_status mu_scorer_batch(void *ctx, mu_net *net, const mu_batch *batch, mu_err *err);

static inline bool mu_scorer_of_steps(const mu_head *h) { return h->places > 1 || h->n_copies > 1; }

#endif
