// SPDX-License-Identifier: Apache-2.0
// curves.h - metrics.jsonl read back: for each key the points it had, ready to be drawn.
//
// A file is what a run left, perhaps while it was killed: lines that are no JSON object or have no step are
// counted and left out, and so is a last line without an end. A run that went back (a rollback, a resume by
// hand) tells the same steps twice; the later word counts, for each key by itself, because evaluations of
// several learners lag behind their steps.
#ifndef MU_LOOK_CURVES_H
#define MU_LOOK_CURVES_H

#include "base/err.h"

typedef struct mu_curve_point {
    double step, epoch, time_s; // NaN = the line does not say
    double value;               // NaN = not finite when it was written: a gap
} mu_curve_point;

typedef struct mu_curve {
    char *key; // "train_loss"
    size_t n, cap;
    mu_curve_point *v; // steps ascend
} mu_curve;

typedef struct mu_curves { // zeroed = empty; mu_curves_fini
    size_t n, cap;
    mu_curve *v; // in the order in which the keys came
    size_t n_lines, n_bad;
} mu_curves;

#define MU_CURVES_MAX 64 // keys; further ones are left out

// MU_ENOTFOUND without a file, MU_EDATA when nothing in it can be drawn; both say what to do.
MU_MUST_CHECK mu_status mu_curves_load(mu_curves *c, const char *run, mu_err *err);
// The same from text; `name` is for messages.
MU_MUST_CHECK mu_status mu_curves_parse(mu_curves *c, const char *text, size_t size, const char *name,
                                        mu_err *err);
void mu_curves_fini(mu_curves *c);

const mu_curve *mu_curves_find(const mu_curves *c, const char *key); // NULL
double mu_curve_last(const mu_curve *c); // the last finite value; NaN, also for NULL

#endif
