// SPDX-License-Identifier: Apache-2.0
// learnt.h - what runs of a job have taught about its predictions.
//
// Behind each run what was predicted for its configuration is compared with what it took. The ratios are kept
// beside the costs of the job, the last few of each protocol on one node or several; their geometric mean, in
// the bounds of one half and two, multiplies the terms of the next prediction, which says so. A ratio is of a
// prediction that was not corrected: so a machine that has changed is followed, not pursued.
#ifndef MU_PLAN_LEARNT_H
#define MU_PLAN_LEARNT_H

#include "plan/predict.h"
#include "train/train.h"

enum { MU_LEARNT_ROWS = 32, MU_LEARNT_RUNS = 8, MU_LEARNT_KEY = 48 };

// Terms are compared as a run counts them: computing (with its data), applying (with its lines), and the rest,
// which a run sees as waiting.
enum { MU_LEARNT_COMPUTE, MU_LEARNT_APPLY, MU_LEARNT_WAIT, MU_LEARNT_PARTS };

typedef struct mu_learnt_row {
    char     key[MU_LEARNT_KEY];        // "hogwild", "hardsync on nodes", "alone"
    int      n;                         // runs, the newest last
    double   ratio[MU_LEARNT_PARTS][MU_LEARNT_RUNS];    // measured over predicted; 0 = too small to compare
    mu_plan_factors factors;            // of their means
} mu_learnt_row;

typedef struct mu_learnt {
    uint64_t job;
    int      n;
    mu_learnt_row row[MU_LEARNT_ROWS];
} mu_learnt;

// One run, as seconds of a learner for one of its gradients.
typedef struct mu_learnt_run { double step_s, part_s[MU_LEARNT_PARTS]; } mu_learnt_run;

// False: this run tells nothing (too short, learners lost, mostly a warm start, ranks).
bool mu_learnt_measure(const mu_setup *setup, const mu_run_result *r, mu_learnt_run *out);
// What a prediction says of the same parts.
void mu_learnt_parts(const mu_prediction *p, double out[MU_LEARNT_PARTS]);
// predicted: without corrections.
void mu_learnt_add(mu_learnt *l, const mu_config *c, const mu_prediction *predicted, const mu_learnt_run *run);
const mu_learnt_row *mu_learnt_of(const mu_learnt *l, const mu_config *c);      // NULL = nothing
mu_plan_corrections mu_learnt_corrections(const mu_learnt *l);  // borrows l
// "corrected by 3 runs: compute x 1.04, apply x 0.90"; "" = by none.
void mu_learnt_text(const mu_learnt *l, const mu_config *c, char *out, size_t size);

// Kept beside the costs. MU_ENOTFOUND: nothing yet. MU_EDATA: the file cannot be read.
MU_MUST_CHECK mu_status mu_learnt_find(const mu_costs *k, mu_learnt *out, mu_err *err);
MU_MUST_CHECK mu_status mu_learnt_keep(const mu_costs *k, const mu_learnt *l, mu_err *err);
MU_MUST_CHECK mu_status mu_learnt_parse(const char *text, size_t size, const char *what, mu_learnt *out,
                                        mu_err *err);
char *mu_learnt_write(const mu_learnt *l);      // owned text; NULL when out of memory
#endif
