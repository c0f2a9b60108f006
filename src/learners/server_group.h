// SPDX-License-Identifier: Apache-2.0
// server_group.h - one server group of a training, seen by the parent: its shared memory, its children, its
// share of the samples.
//
// A training has one, or several that merge their weights now and then (merging.h). Each counts versions and
// samples for itself; what is said of the whole training is added up in standing.h.
#ifndef MU_LEARNERS_SERVER_GROUP_H
#define MU_LEARNERS_SERVER_GROUP_H

#include "learners/watchdog.h"
#include "train/gradients.h"

typedef struct mu_server_group {
    mu_training *t;
    mu_setup     setup;                 // its part of the session's
    mu_stripe    stripe;                // its samples
    mu_position  begin;                 // where the training began, of all groups
    mu_shared    shared;
    mu_watchdog  dog;
    mu_range    *open;                  // (mu_core_most_open) for mu_server_point; owned
    mu_server_point point;              // of the last snapshot
    int          first_process;         // of this rank's, on its host: ranks that share it have others before
    bool         opened, started;       // the shared memory; the children
    bool         pausing;               // a snapshot is wanted; no update begins
    int64_t      merged;                // parts of its weights, by this run
    int64_t      merged_version, merged_ns;     // when last; 0 = not yet
    bool         waits;                 // at its halt, at the last look (merging.h)
    int64_t      waited_ns;             // in all
    int64_t      halt;                 // next version it is merged at; INT64_MAX = none
    mu_advance   seen;                  // sums already taken from the learners' rows
} mu_server_group;

typedef struct mu_server_group_opts {
    mu_training     *training;
    const char      *run_id;
    mu_server_group *first;             // NULL = this is the first one
    int              index, of;         // among those of this rank
    int              before_on_host;    // ranks
} mu_server_group_opts;

// Makes the shared memory, with the weights that the session has.
MU_MUST_CHECK mu_status mu_server_group_open(mu_server_group *g, const mu_server_group_opts *o, mu_err *err);
// Starts the children, the first group's of rank 0 with the evaluator, which saves `center`. hold: no update
// begins before a snapshot.
MU_MUST_CHECK mu_status mu_server_group_start(mu_server_group *g, bool hold, struct mu_merge_blocks *center,
                                              mu_err *err);
void mu_server_group_pause(mu_server_group *g, bool on);
// Tells its learners to end. False: the lock is not to be had now.
bool mu_server_group_end(mu_server_group *g);
// Losses since the last time, and learners alive, are added to *sum.
void mu_server_group_add(mu_server_group *g, mu_advance *sum);
// No child is left: what dead executors left half done is put right, and what waits is applied; `between` is
// called before each update.
MU_MUST_CHECK mu_status mu_server_group_drain(mu_server_group *g, void (*between)(void *ctx), void *ctx,
                                              mu_err *err);
// No child is left: where its weights stand, and how many samples it has used.
MU_MUST_CHECK mu_status mu_server_group_settle(mu_server_group *g, int64_t *used, mu_err *err);
// No child is left: what has become of its gradients is added to *r; checks the ledger.
MU_MUST_CHECK mu_status mu_server_group_sum_up(mu_server_group *g, mu_learners_result *r, mu_err *err);
void mu_server_group_close(mu_server_group *g);         // after the later ones; also one that was not opened

#endif
