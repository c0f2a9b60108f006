// SPDX-License-Identifier: Apache-2.0
// live_view.h - one look at a running job: plain numbers, copied out of the shared region.
//
// A look takes no lock and writes nothing: the process that looks may be paused or killed at any moment
// without the run noticing. Each word is read atomically; words of different moments may stand side by side,
// except for the ledger, which is of one moment or marked as unknown.
//
//     mu_live_view_init > mu_live_look ... a while ... mu_live_look > mu_live_rates > mu_live_view_fini
#ifndef MU_WATCH_LIVE_VIEW_H
#define MU_WATCH_LIVE_VIEW_H

#include "ps/shared.h"
#include "train/train.h"

#include <jansson.h>

typedef struct mu_live_learner { // one process
    int32_t  pid;               // 0 = none at the moment
    int32_t  rank;              // that it runs on, where that is not rank 0: only counts are known of it
    uint32_t incarnation;
    mu_doing doing;
    int64_t  samples, gradients, version, records;
    double   compute_s, wait_s, apply_s;        // all incarnations
    double   quiet_s;           // since its last step began; -1 = no step yet
    double   loss, accuracy;    // of its last gradient; NaN before the first
    int64_t  n_stale, stale_sum, stale_max;
    int32_t  losses, slow_us;
    // by mu_live_rates; before it, means since the start
    double   samples_per_s;
    double   compute_share, wait_share; // of its time, 0 to 1
} mu_live_learner;

typedef struct mu_live_view {
    int64_t  now_ns;            // mu_clock_ns of the look
    char     run_id[64], job_name[104], protocol[32], run_dir[512];
    mu_run_state state;
    bool     stop_asked;
    bool     alone;             // one learner in one process: it has no ledger of its own
    bool     warming;           // by hardsync, before the protocol begins
    int32_t  parent_pid, server_pid, evaluator_pid;         // 0 = none
    double   elapsed_s;
    int      server_groups;
    int64_t  merges, merged_bytes;                      // parts merged, by all groups; values given and taken
    int64_t  version;                                   // updates of the weights, of all server groups
    int64_t  step, end_steps;                           // global batches; end 0 = open
    double   epoch, end_epochs;
    int64_t  samples, rows, global_batch;
    int32_t  waiting;                                   // gradients in the queues
    double   rate, loss;                                // loss: mean of the learners' last ones
    int64_t  server_losses, skipped_updates, lock_repairs;
    int64_t  losses;                                    // of learners
    double   compute_s, wait_s, apply_s;        // of the learners of all ranks; apply_s of own executors
    double   overlap;           // mu_overlap; NaN before the first step
    double   stale_mean;                                // NaN before the first
    int64_t  n_stale, stale_max, stale_hist[MU_STALENESS_BINS];
    bool     ledger_known;
    mu_ledger ledger;
    bool     counts_moved;      // else `moved` is not known
    mu_traffic moved;           // bytes between processes, since the run began
    double   run_steps;         // of this run, without those before a resume
    double   samples_per_s;     // by mu_live_rates; before it, the mean since the start
    int n_ranks;                // 0 = one
    mu_rank_times *rank;        // (n_ranks)
    int n_learners, n_processes;
    mu_live_learner *learner; // (n_processes) worker w of learner l at l * workers + w; by server groups
    // private
    mu_core *core;              // room for a copy
    size_t   core_bytes;
} mu_live_view;

// Room for looks at this run. The view keeps no pointer into it.
MU_MUST_CHECK mu_status mu_live_view_init(mu_live_view *v, const mu_shared *g, mu_err *err);
void mu_live_view_fini(mu_live_view *v);        // a zeroed one is fine
void mu_live_look(mu_live_view *v, const mu_shared *g);
// Rates and shares between two looks at the same run. Shares of a learner without a gradient stay means.
void mu_live_rates(mu_live_view *now, const mu_live_view *before);

const char *mu_run_state_name(mu_run_state s);  // "training"
const char *mu_doing_name(mu_doing d);          // "compute"
// {values, gradients, weights, per_step: {the same}}: bytes, null where they are not known. Owned.
json_t *mu_moved_json(bool known, const mu_traffic *moved, double steps);
// {compute_s, wait_s, overlap}: a list each. Owned.
json_t *mu_rank_times_json(const mu_rank_times *rank, int ranks);
// The view as one JSON object; NULL when out of memory. Owned. After mu_json_init.
json_t *mu_live_json(const mu_live_view *v);

#endif
