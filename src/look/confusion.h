// SPDX-License-Identifier: Apache-2.0
// confusion.h - how often samples of one class were taken for another.
#ifndef MU_LOOK_CONFUSION_H
#define MU_LOOK_CONFUSION_H

#include "look/inspect.h"

typedef struct mu_confusion { // zeroed = empty; mu_confusion_fini
    int64_t classes;
    int32_t *count; // (classes, classes): true class, predicted class
    int64_t samples, right;
    bool of_steps;  // a sample has many labels, one a time step: each counts as one sample
    int64_t broken; // samples with scores that are no numbers: in no square, never right
    const char *const *names; // [n_names] of the first classes, borrowed; NULL = they have none
    int64_t n_names;
} mu_confusion;

typedef struct mu_mistake {
    int64_t truth, answer, count;
} mu_mistake;

MU_MUST_CHECK mu_status mu_confusion_init(mu_confusion *c, int64_t classes, mu_err *err);
void mu_confusion_fini(mu_confusion *c);
// The answer is the largest of the scores, of equal ones the first: right is what accuracy layers count.
// truth in [0, classes).
void mu_confusion_count(mu_confusion *c, const float *score, int64_t truth);
void mu_confusion_add(mu_confusion *c, int64_t truth, int64_t answer); // answer -1: broken
int64_t mu_confusion_truths(const mu_confusion *c, int64_t truth); // samples of a class
// The most frequent mistakes, most frequent first; returns how many of `most`.
int mu_confusion_mistakes(const mu_confusion *c, mu_mistake *out, int most);

// Runs the net over its data and counts what its head (look/head.h) compares. Of sequences, unrolled or not,
// every time step counts. *found = false: no layer compares scores of classes with labels.
MU_MUST_CHECK mu_status mu_confusion_measure(mu_confusion *c, mu_inspect *in, bool *found, mu_err *err);

#endif
