// SPDX-License-Identifier: Apache-2.0
// advice.h - what a training can tell its user to do about itself: the findings.
//
// Each finding is a function of numbers alone: no clock, no files, no training under way. It returns true
// when there is something to say, with one line in `out` that names what was seen and what to do. Who
// measures, when, and that a line is said once, is advisor.h. docs/operations.md lists the lines.
//
// A finding has to be right rather than early: every limit here is one that a training which goes well does
// not come near.
#ifndef MU_TRAIN_ADVICE_H
#define MU_TRAIN_ADVICE_H

#include "train/facts.h"

enum { MU_ADVICE_TEXT = 400 };
typedef struct mu_advice_text { char s[MU_ADVICE_TEXT]; } mu_advice_text;

// ---- the loss ----

typedef struct mu_eval_point {          // one evaluation
    double      epoch, train_loss, loss;        // train_loss: NaN = not known
    const char *set;                    // "validation" or "test"
    int64_t     patience;               // of the job; 0 = it has none
} mu_eval_point;

typedef struct mu_overfit {             // evaluations so far; zeroed = none
    bool   any;
    double epoch, train_loss, loss;     // of the one with the lowest loss
    int    n_above;                     // those since, in a row, that were clearly above it
} mu_overfit;

// Overfitting: three evaluations in a row clearly above the lowest loss, the last by a tenth, while the
// training loss fell.
bool mu_advise_overfitting(mu_overfit *o, const mu_eval_point *p, mu_advice_text *out);

typedef struct mu_flat {                // lines of metrics so far; zeroed = none
    int    n;                           // lines at the loss of guessing, in a row
    double share, loss;                 // of the training, and the loss, when that began
} mu_flat;

// The training loss stays that of guessing for a fifth of the training. share: how much of it is done.
bool mu_advise_flat(mu_flat *f, double share, double loss, int64_t n_classes, mu_advice_text *out);

// ---- the data ----

// name: what class `first` is called; NULL = it has no name.
bool mu_advise_classes(int64_t n_missing, int64_t first, const char *name, int64_t n_classes,
                       mu_advice_text *out);
bool mu_advise_outputs(int64_t n_outputs, int64_t n_classes, mu_advice_text *out);
bool mu_advise_inputs(const char *field, const mu_field_facts *f, mu_advice_text *out);

// ---- rate and time ----

bool mu_advise_rate(const char *rule, double base, const double usual[2], mu_advice_text *out);

// A schedule with moments of its own: `ends` and `now` in steps or epochs (`unit`), `here` of them
// in `spent` of `deadline` seconds.
bool mu_advise_schedule(const char *schedule, double ends, const char *unit, double now, double here,
                        double spent, double deadline, mu_advice_text *out);
// A run that goes on at this share of the time, where its schedule follows that.
bool mu_advise_ended(const char *schedule, double time_share, double rate, mu_advice_text *out);
// n checkpoints took `took_s` of `trained_s` seconds.
bool mu_advise_saving(int64_t n, double took_s, double trained_s, mu_advice_text *out);

typedef struct mu_learners_load {       // several learners, over some seconds
    int     learners, cores;
    int     workers;                    // of each learner; 0 = 1
    double  seconds;
    int64_t samples, updates;           // applied
    int64_t global_batch;
    double  compute_s, apply_s;         // of all learners, by the clock: while others had the core, too
    double  cpu_s, queue_s;             // in which they had a core; in which they stood in line for one
    double  data_s;                     // in which their prefetch threads had a core
} mu_learners_load;

// Programs of others that one has to share the cores with: as many of equal right as would explain how long
// learners queue. Fewer than are there where those have less right (nice), or cores are free.
double mu_other_programs(const mu_learners_load *l);
// What one learner would at least make of this, in samples/s. A gradient takes the time in which its learner
// had a core, and reading its data the prefetch thread's; an update comes once a batch; and the core is
// shared with the others.
double mu_one_learner_speed(const mu_learners_load *l);
bool   mu_advise_learners(const mu_learners_load *l, mu_advice_text *out);

#endif
