// SPDX-License-Identifier: Apache-2.0
// tradeoff.h - trainings of protocol x mu x lambda x seed on one job, and the table of what came out.
//
// Each cell that the table in `out` does not have yet is trained (run/trial.h), and the table is replaced
// after each. So the work can be broken off anywhere, gone on with by the same call, and extended by other
// words.
#ifndef MU_RUN_TRADEOFF_H
#define MU_RUN_TRADEOFF_H

#include "job/job.h"
#include "ps/protocol.h"
#include "run/trials.h"

#define MU_TRADEOFF_NO_GROUPS "cluster.groups=0"       // another name of `cluster.learners`, which cells set

typedef struct mu_tradeoff_protocol {
    const char *word;           // as the user wrote it: `softsync:2`
    const char *yaml;           // as the job has it: `{type: softsync, n: 2}`
    const mu_protocol_class *class;
} mu_tradeoff_protocol;

typedef struct mu_tradeoff {    // what is asked; all borrowed
    const char *job_path;       // file or run folder, for the trainings
    const mu_job *job;          // the same, loaded with the edits
    const char *out;            // folder of the table and the runs
    const char *const *set;     // edits of the user
    size_t n_sets;
    const mu_tradeoff_protocol *protocol;
    const int64_t *mu, *lambda;
    int n_protocols, n_mu, n_lambda;
    int64_t seed, repeat;       // the first seed, and how many
    double limit_s;             // a training still running then is ended
    bool again;                 // also cells that the table has; a table of another job is begun anew
    bool keep;                  // leave checkpoints and models of all trainings
    void *ctx;
    void (*begins)(void *ctx, const mu_trial *row, int64_t number, int64_t of); // a training, number from 1
    void (*ended)(void *ctx, const mu_trial *row);      // a row is known, from a training or from the table
} mu_tradeoff;

typedef struct mu_tradeoff_count {
    int64_t cells, done;        // asked; known by now
    int64_t trained, failed;    // by this call; without a result
} mu_tradeoff_count;

// Fills *table (zeroed before; mu_trials_fini) and *n, also when it was broken off. MU_EUSAGE when `out` is
// about another job or in use, a status of mu_stop_was_asked when this process was told to stop.
MU_MUST_CHECK mu_status mu_tradeoff_run(const mu_tradeoff *t, mu_trials *table, mu_tradeoff_count *n,
                                        mu_err *err);

#endif
