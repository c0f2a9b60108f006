// SPDX-License-Identifier: Apache-2.0
// choice.h - choices that a net leaves to the validation data (mu_param.options): which of its paths answers.
//
// Every evaluation on validation data tries each option and takes the most accurate one. Option 0 is the
// usual one: another must be better by more than one standard error of its accuracy, so that chance does not
// choose. Without validation data, or without an accuracy to go by, option 0 stays.
//
// Choices change no gradient. While a net is trained its parameters keep those that it began with; the made
// ones are part of the training's progress, and are set in the weights that are evaluated or saved. So runs
// with other learners, and repeated runs, compute the same numbers.
#ifndef MU_TRAIN_CHOICE_H
#define MU_TRAIN_CHOICE_H

#include "train/evaluate.h"

#define MU_MAX_CHOICES 8                // in a net; further ones stay as they are

typedef struct mu_choices { // in the order of the parameters that are choices
    int n;
    float value[MU_MAX_CHOICES];
} mu_choices;

mu_choices mu_choices_read(const mu_params *ps);
void mu_choices_write(mu_params *ps, const mu_choices *c); // does nothing where there are none

// mu_evaluate for each option of each choice in turn; leaves the best in the parameters. `out` is its scores.
MU_MUST_CHECK mu_status mu_choose(mu_session_phase *p, mu_params *ps, mu_batch_visitor visit, void *ctx,
                                  mu_scores *out, mu_err *err);

#endif
