// SPDX-License-Identifier: Apache-2.0
// server.h - applying: from accepted gradients to new weights.
//
// An executor calls mu_server_turn in a loop: a thread of the server process, or a learner that has nothing
// else to do. A turn forms a run of updates when the protocol allows it, helps with the slices of the one in
// progress, and commits it when the last slice is done. Any number of executors may take turns at once; every
// slice is applied once, whichever of them dies.
#ifndef MU_PS_SERVER_H
#define MU_PS_SERVER_H

#include "ps/shared.h"

typedef enum mu_turn { MU_TURN_IDLE, MU_TURN_WORKED } mu_turn;

// rate_at: rate of an update that begins after `samples` (schedules; asked once per update).
typedef struct mu_server {
    mu_shared *shared;
    int       executor;                 // row of the executor table
    mu_step_rate (*rate_at)(void *ctx, int64_t version, int64_t samples);
    void     *ctx;
    int64_t   spin_ns;                  // of its idle waits
    int64_t   look_ns, looked_ns;       // so seldom it looks for what dead executors left; when it did
    mu_params params;                   // a view: the group's blocks, also where the learner has a copy
    mu_grad *grads;                     // (most parts x workers) of the run, for the slice in hand; owned
    const mu_grad **grad_at;            // (the same) by address
    float *weights;                     // (the same)
} mu_server;

typedef struct mu_server_point {        // what has been done up to a snapshot
    int64_t   version;
    int64_t   applied;                  // samples, by this run
    int64_t   next;                     // samples from here on were promised to no learner
    int       n_open;
    mu_range *open;                     // not in the weights: mu_core_open; memory of the caller
} mu_server_point;

MU_MUST_CHECK mu_status mu_server_init(mu_server *s, mu_shared *g, int executor,
                                       mu_step_rate (*rate_at)(void *, int64_t, int64_t), void *ctx,
                                       mu_err *err);
void    mu_server_fini(mu_server *s);
mu_turn mu_server_turn(mu_server *s);
// After an executor's process was reaped: puts its half-written piece back and frees its slice for others.
void    mu_server_repair(mu_shared *g, int executor);
void    mu_server_note_staleness(mu_shared *g, int learner, int64_t sigma);
// Between pause(true) and pause(false) no update begins, and no learner a gradient that it applies itself.
void    mu_server_pause(mu_shared *g, bool on);
// For a merge: true when the core is at its halt (core.h), and with `anywhere` wherever it is, and nothing is
// being written. Then nothing changes the weights until the halt is moved, no learner computes on weights
// that must be of its version, and with locks none copies them until mu_server_let_go. False: not now.
bool    mu_server_hold(mu_shared *g, bool anywhere);
void    mu_server_let_go(mu_shared *g);
bool    mu_server_set_halt(mu_shared *g, int64_t version);      // false: the lock is not to be had now
void    mu_server_read_point(const mu_core *c, mu_server_point *out);
// Copies weights and history into the snapshot. False: something is still writing, try again shortly. Only
// while paused.
bool    mu_server_snapshot(mu_shared *g, mu_server_point *out);

#endif
