// SPDX-License-Identifier: Apache-2.0
// trials.h - the table behind `muster tradeoff`: one row for each training, kept as a CSV file.
//
// A row is known by what was asked (protocol, mu, lambda, seed); measuring it again replaces it. The file is
// replaced as a whole after every training, so a reader or a later run never sees half a row. Its columns:
//
//   protocol,mu,lambda,mu*lambda,seed,epochs,wall_s,samples_per_s,test_error,test_loss,
//   staleness_mean,staleness_max,overlap,status
//
// Values that are not known are empty. status is `ok`, `diverged: REASON` or `failed: REASON`.
#ifndef MU_RUN_TRIALS_H
#define MU_RUN_TRIALS_H

#include "base/err.h"

#include <stdint.h>

#define MU_TRIALS_CSV "tradeoff.csv"

typedef struct mu_trial {
    // what was asked
    char protocol[32]; // as the user wrote it: `softsync:2`
    int64_t mu, lambda, seed;
    // what came out; NaN = not known
    double epochs, wall_s, samples_per_s, test_error, test_loss, staleness_mean, staleness_max, overlap;
    char status[200];
} mu_trial;

typedef struct mu_trials {
    size_t n, cap;
    mu_trial *v;
} mu_trials; // zeroed = empty; mu_trials_fini

mu_trial mu_trial_make(const char *protocol, int64_t mu, int64_t lambda, int64_t seed); // nothing known yet
bool mu_trial_ok(const mu_trial *t);
bool mu_trial_same_cell(const mu_trial *a, const mu_trial *b); // they differ by their seeds at most
bool mu_trial_settled(const mu_trial *t); // would come out the same again: ok or diverged

const mu_trial *mu_trials_find(const mu_trials *t, const mu_trial *asked); // same question; NULL
MU_MUST_CHECK mu_status mu_trials_put(mu_trials *t, const mu_trial *row, mu_err *err);
// Adds the rows of folder/tradeoff.csv. MU_ENOTFOUND; MU_EDATA with the line that is wrong.
MU_MUST_CHECK mu_status mu_trials_load(mu_trials *t, const char *folder, mu_err *err);
MU_MUST_CHECK mu_status mu_trials_save(const mu_trials *t, const char *folder, mu_err *err);
void mu_trials_fini(mu_trials *t);

#endif
