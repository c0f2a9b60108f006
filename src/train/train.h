// SPDX-License-Identifier: Apache-2.0
// train.h - what a training is asked for, how it is watched, what it returns.
//
// The program (cli/) and the C API fill mu_run_opts and read mu_run_result; run/driver.h trains.
#ifndef MU_TRAIN_TRAIN_H
#define MU_TRAIN_TRAIN_H

#include "store/rundir.h"
#include "train/evaluate.h"
#include "train/state.h"

#include <math.h>

typedef struct mu_run_moment {          // one look at a running training
    int64_t step, end_steps;            // end_steps 0 = open end
    double  epoch, end_epochs;
    double  loss;                       // mean over the last log interval
    double  rate;                       // effective (mu_effective_rate_at)
    double  samples_per_s;              // over the last log interval
    double  trained_s, eta_s;           // eta NaN = unknown
    int     learners, of_learners;      // alive and planned
} mu_run_moment;

typedef struct mu_run_watch {           // entries may be NULL
    void *ctx;
    void (*started)(void *ctx, const mu_session *s, const mu_run_moment *m, const char *run_dir,
                    bool resumed);
    void (*progress)(void *ctx, const mu_run_moment *m);        // a few times a second
    void (*evaluated)(void *ctx, const mu_run_moment *m, mu_phase phase, const mu_scores *scores,
                      bool is_best);
    void (*message)(void *ctx, const char *text); // rare: skipped steps, rollbacks, failed saves
} mu_run_watch;

typedef struct mu_run_position {        // where a training stands, besides the arrays of the session
    mu_position       at;
    mu_progress_state progress;
    mu_finished       finished;         // as many samples as `at` says
    unsigned          advised;          // advice that was given (advisor.h): it is not said again
} mu_run_position;
#define MU_RUN_BEGINNING ((mu_run_position){.at = MU_POSITION_START, .progress = {.best = NAN}})

typedef struct mu_run_opts {
    const char *out;                    // run folder; NULL = runs/<name>-<id>
    const char *resume;                 // run folder to resume; "" = newest run of this job; NULL = no
    bool        no_files;               // no run folder: nothing is written, `out` and `resume` are ignored
    // The session holds parameters and history already: the training begins at *at, no model or checkpoint is
    // loaded, and *at says afterwards where it ended. NULL = from the beginning, or the newest checkpoint.
    mu_run_position  *at;
    const _Atomic int *stop;            // not 0 = save and end as after SIGINT, "stop"; NULL = no such flag
    // record: writes the order of updates into this new file. replay: repeats the run of this log instead
    // (learners/g_replay.c); the session must be opened with the log's learners, protocol and batch. NULL =
    // no.
    const char *record, *replay;
    const char *const *sets;            // edits of the job by the command line, to stand in the log
    size_t      n_sets;
    struct mu_nodes *nodes; // other ranks that train with this one (learners/nodes.h); NULL = none
    mu_run_watch watch;
} mu_run_opts;

enum { MU_RANKS_TOLD = 128 };

typedef struct mu_rank_times { double compute_s, wait_s; } mu_rank_times; // of its learners

typedef struct mu_learners_result {     // who computed the gradients, and what became of them
    int         count, most_staleness;        // most: bins of staleness_hist in use
    const char *protocol;
    int64_t     rows, global_batch, versions;   // mu, mu * lambda, updates
    double      rate_effective;                 // of the last update (mu_effective_rate_at)
    double      staleness_mean, n_stale;        // mean of so many gradients
    int64_t     staleness_max, staleness_hist[128];
    int64_t     produced, applied, rejected, lost;      // gradients: the ledger
    int64_t     learners_lost, learners_replaced, server_lost, lock_repairs, torn_updates;
    int         server_groups, ranks;
    mu_rank_times rank[MU_RANKS_TOLD];          // of several ranks, the first ones of them
    int64_t     wire_sent, wire_received;       // bytes, by the rank that tells
    int64_t     bridged_sent, bridged_received; // of these: values between workers on different ranks
    int64_t     merges, merged_bytes;           // parts merged by all groups; values they gave and took
    int64_t     bad_records;                    // passed over by all learners
    int64_t     records_read;                   // by all processes, also ahead of what was used
    double      steps;                          // made by this run
    bool        counts_moved;                   // else `moved` is not known
    mu_traffic  moved;                          // bytes between processes, in all these steps
    double      compute_s, wait_s, apply_s, overlap;    // over all learners
    double      replace_p50_s, replace_p99_s;   // from a learner's death to its successor's first sign
} mu_learners_result;

// Communication overlap, the one definition: computing over computing and waiting for data, weights and
// permission. 0 where nothing was done.
static inline double mu_overlap(double compute_s, double wait_s) {
    return compute_s > 0 ? compute_s / (compute_s + wait_s) : 0;
}
// Of several ranks the one whose learners waited least (sign 1), or most (sign -1).
static inline int mu_rank_by_overlap(const mu_rank_times *rank, int ranks, int sign) {
    int best = 0;
    for (int i = 1; i < ranks; i++) {
        const double more = mu_overlap(rank[i].compute_s, rank[i].wait_s) -
                            mu_overlap(rank[best].compute_s, rank[best].wait_s);
        if (sign * more > 0) best = i;
    }
    return best;
}

typedef struct mu_run_result {
    int64_t     steps;
    double      epochs, wall_s, samples_per_s;
    double      train_loss;             // mean of the last log interval
    mu_scores   test, validation;       // the last ones measured, when tested / validated
    bool        tested, validated;
    int64_t     scored_step;            // whose weights they are of; before `steps` when stopped
    double      best;                   // best evaluated accuracy, or loss of a net without one; NaN = none
    int64_t     best_step;
    int64_t     samples;                // of the job that are done
    int64_t     applied_samples, repeated_samples;      // in the weights, over all resumes; more than once
    int64_t     skipped, rollbacks;
    double      rate;
    char        run_dir[MU_FS_PATH], checkpoint[MU_FS_PATH], model[MU_FS_PATH];
    mu_learners_result learners;
    const char *why; // "epochs", "steps", "deadline", "target", "patience", "signal", "stop", "replay"
} mu_run_result;

#endif
