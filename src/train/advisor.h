// SPDX-License-Identifier: Apache-2.0
// advisor.h - when a training looks for advice (advice.h), and that it says each line once.
//
// Lines go where all messages of a training go (mu_training_say): the watch and log.txt. A process says each
// kind once; a resumed run may say it again. Everything here is called by the owner of the training, between
// two advances.
#ifndef MU_TRAIN_ADVISOR_H
#define MU_TRAIN_ADVISOR_H

#include "train/advice.h"
#include "train/evaluate.h"

struct mu_training;

typedef struct mu_advisor {             // zeroed = nothing known and nothing said
    unsigned   given;                   // bit of each kind of advice that was said
    mu_facts  *facts;                   // of the source of gradients, as long as it runs; NULL = none
    int64_t    n_classes;               // of the labels; 0 = not known
    mu_overfit overfit;
    mu_flat    flat;
    int        n_slow;                  // measurements in a row by which one learner would be faster
    double     next_s;                  // clock of the next look
} mu_advisor;

void mu_advisor_begin(struct mu_training *t);                   // of the job itself
void mu_advisor_look(struct mu_training *t);                    // cheap; does something now and then
void mu_advisor_end(struct mu_training *t);                     // the same once more, before the source stops
void mu_advisor_logged(struct mu_training *t, double loss);     // a line of metrics
void mu_advisor_evaluated(struct mu_training *t, const char *set, double epoch, double train_loss,
                          double loss);
void mu_advisor_measured(struct mu_training *t, const mu_learners_load *load);

#endif
