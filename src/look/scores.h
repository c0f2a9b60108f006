// SPDX-License-Identifier: Apache-2.0
// scores.h - how good answers are: classes against true classes, numbers against targets.
//
// Answers are added one by one. Memory depends on the number of classes or outputs, never on that of the
// answers. Of class k, with `right` of its `support` samples answered by k, and `answers` times k in all:
//
//   precision = right / answers            undefined when k was never answered
//   recall    = right / support            undefined when no sample is of class k
//   f1        = 2 right / (answers + support)      undefined when both are 0
//   macro mean = sum over the classes where the value is defined / their number
//   weighted mean = the same with the weight `support` for each
// These are the numbers of scikit-learn's precision_recall_fscore_support with `labels` of all classes and
// zero_division=nan. Undefined values are NaN here.
//
//   calibration error = sum over bins b of n_b / n * |right_b / n_b - mean confidence in b|
// of MU_CALIBRATION_BINS bins of equal width, bin b = (b / bins, (b + 1) / bins]; the confidence is the
// probability of the answered class (the expected calibration error of Guo et al. 2017).
//
//   rmse = sqrt(mean of (answer - target)^2),  mae = mean of |answer - target|
//   r2   = 1 - sum of (answer - target)^2 / sum of (target - mean target)^2, undefined where the target is
//          constant. In all: rmse and mae over all values, r2 the mean of the outputs that have one.
#ifndef MU_LOOK_SCORES_H
#define MU_LOOK_SCORES_H

#include "base/err.h"
#include "look/confusion.h"

#include <stdint.h>

#define MU_CALIBRATION_BINS 15
#define MU_CONFUSION_MOST 2000 // classes that scores keep a confusion matrix of: 16 MB

// ---- classes ----

typedef enum mu_confidence { // what scores are
    MU_SCORES_LOGITS,        // their softmax is a probability
    MU_SCORES_PROBABILITIES,
    MU_SCORES_ONLY // only their order means something: no calibration
} mu_confidence;

typedef struct mu_rates {
    double precision, recall, f1;
} mu_rates;

typedef struct mu_class_scores { // mu_class_scores_init, mu_class_scores_fini; zeroed = empty
    int64_t classes, samples, right;
    int64_t broken;                    // samples with scores that are no numbers: never right
    int64_t in_top5;                   // counted as by an accuracy layer with `top: [5]`
    int64_t *support, *answers, *hits; // [classes]
    mu_confusion confusion;            // count NULL = more than MU_CONFUSION_MOST classes
    struct {
        int64_t n, right;
        double confidence;
    } bin[MU_CALIBRATION_BINS]; // confidence: their sum
} mu_class_scores;

MU_MUST_CHECK mu_status mu_class_scores_init(mu_class_scores *s, int64_t classes, mu_err *err);
void mu_class_scores_fini(mu_class_scores *s);
// `score` has one value a class; truth in [0, classes).
void mu_class_scores_add(mu_class_scores *s, const float *score, int64_t truth, mu_confidence what);

mu_rates mu_class_scores_of(const mu_class_scores *s, int64_t k);
mu_rates mu_class_scores_mean(const mu_class_scores *s, bool weighted);
double mu_class_scores_accuracy(const mu_class_scores *s);    // NaN without samples
double mu_class_scores_top5(const mu_class_scores *s);        // NaN for fewer than 6 classes
double mu_class_scores_calibration(const mu_class_scores *s); // NaN without probabilities
double mu_class_scores_confidence(const mu_class_scores *s);  // its mean; NaN without probabilities

typedef enum mu_class_order { MU_BY_WORST_F1, MU_BY_SUPPORT } mu_class_order;
// Writes the first `most` classes of that order and returns how many there are: worst F1 first (of equal ones
// the larger class; classes without F1 are left out), or largest support first. Of equals the lower number.
int mu_class_scores_order(const mu_class_scores *s, mu_class_order by, int64_t *out, int most);

// The largest of the scores, of equal ones the first; -1 = one of them is no number.
int64_t mu_scores_answer(const float *score, int64_t classes);
// The probability of an answer by mu_scores_answer. Infinite scores share it.
double mu_scores_confidence(const float *score, int64_t classes, int64_t answer, mu_confidence what);

// ---- numbers ----

typedef struct mu_errors {
    double rmse, mae, r2;
} mu_errors;

typedef struct mu_number_sums {
    int64_t n;
    double square, absolute; // sums of the errors
    double mean, spread;     // of the targets: mean, sum of squared distances from it
} mu_number_sums;

typedef struct mu_number_scores { // mu_number_scores_init, mu_number_scores_fini; zeroed = empty
    int64_t outputs;
    mu_number_sums *of; // [outputs]
} mu_number_scores;

MU_MUST_CHECK mu_status mu_number_scores_init(mu_number_scores *s, int64_t outputs, mu_err *err);
void mu_number_scores_fini(mu_number_scores *s);
void mu_number_scores_add(mu_number_scores *s, int64_t output, double answer, double target);
mu_errors mu_number_scores_of(const mu_number_scores *s, int64_t output);
mu_errors mu_number_scores_all(const mu_number_scores *s);
// The first `most` outputs, worst R2 first; outputs without one are left out. Returns how many.
int mu_number_scores_worst(const mu_number_scores *s, int64_t *out, int most);

#endif
