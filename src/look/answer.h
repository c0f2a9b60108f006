// SPDX-License-Identifier: Apache-2.0
// answer.h - what the outputs of a layer mean to a person who asks: classes with probabilities, or values.
//
// A net that predicts has no losses, so its outputs do not say what they are. The same net as it is evaluated
// does: the layer that compares them with the truth (look/head.h). It is shaped here for that question alone.
#ifndef MU_LOOK_ANSWER_H
#define MU_LOOK_ANSWER_H

#include "look/head.h"
#include "train/session.h"

typedef enum mu_answer_form {
    MU_ANSWER_SCORES,           // of classes: their softmax are probabilities
    MU_ANSWER_PROBABILITIES,    // of classes, as they are
    MU_ANSWER_YES_NO,           // one score, of class 1 against class 0: its sigmoid is the probability
    MU_ANSWER_VALUES            // numbers, codes or pictures: no classes at all
} mu_answer_form;

typedef struct mu_class_answer {
    int64_t class;
    double  probability;
} mu_class_answer;

// What `layer` of the session's net for prediction gives. Where nothing compares it with anything, the losses
// of the net decide if `is_last`: with losses and none of classes they are values. Otherwise they are scores.
MU_MUST_CHECK mu_status mu_answer_find_form(const mu_session *s, const mu_layer *layer, bool is_last,
                                            mu_answer_form *out, mu_err *err);

// Number of classes that n outputs answer; 0 of values.
int64_t mu_answer_classes(mu_answer_form form, int64_t n);
// The `top` most probable classes of the n outputs `v`, in falling order; of equal ones the first. Returns
// how many there are, at most `top`.
int64_t mu_answer_best(mu_answer_form form, const float *v, int64_t n, int64_t top, mu_class_answer *out);

#endif
