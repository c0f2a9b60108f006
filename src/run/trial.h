// SPDX-License-Identifier: Apache-2.0
// trial.h - one training in a process of its own, as `muster train` on a command line would do it.
//
// A fresh process has the memory, threads and caches of a first training, and what ends it (divergence, a
// crash, the out-of-memory killer) is a result of that training and no more. It dies with its parent.
#ifndef MU_RUN_TRIAL_H
#define MU_RUN_TRIAL_H

#include "base/err.h"
#include "run/trials.h"

typedef struct mu_trial_opts {
    const char *job;        // file or run folder
    const char *protocol;   // the value of `cluster.protocol`, as YAML
    const char *out;        // run folder; what is there is removed first
    const char *const *set; // edits
    size_t n_sets;
    double limit_s; // a training still running then is ended; its row says so
    bool keep;      // leave checkpoints and model in the run folder
} mu_trial_opts;

// Trains *row's mu, lambda and seed and fills in what came out. MU_OK also when the training failed: the
// status of the row has the reason. One of mu_stop_was_asked, row untouched, when this process was told to
// stop; others when no process could be started.
MU_MUST_CHECK mu_status mu_trial_run(const mu_trial_opts *o, mu_trial *row, mu_err *err);

#endif
