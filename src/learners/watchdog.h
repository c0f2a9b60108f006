// SPDX-License-Identifier: Apache-2.0
// watchdog.h - the children of a training: started, watched, replaced.
//
// Dead: the kernel tells. Hung (stopped, endless loop, lost in the kernel): its pulse, which counts layers
// and rounds of waiting, has not moved for the hang time-out, or it has held the lock that long (one thread
// may hang in there while another still counts); it is killed, reaped, and only then replaced, so two
// incarnations never write the same memory. The evaluator has ten times as long: disks are slow.
// Slow: named, not killed. One line for each event.
#ifndef MU_LEARNERS_WATCHDOG_H
#define MU_LEARNERS_WATCHDOG_H

#include "comm/process.h"
#include "learners/evaluator.h"
#include "learners/learner.h"
#include "learners/speed.h"
#include "train/training.h"

typedef struct mu_child {               // one process
    pid_t   pid;                        // 0 = not running
    int64_t killed_ns;                  // when the watchdog killed it; 0 = it did not
    char    killed_why[80];
} mu_child;

typedef struct mu_watched { // one process of a learner
    mu_role  role;
    mu_child child;
    bool     ended;                     // as the protocol told it to
    uint64_t pulse;                     // last seen
    int64_t  moved_ns;                  // when it last moved
    int64_t  longest_ns;                // longest time between moves that were seen
    int64_t  lost_ns;                   // when its predecessor's end was noticed; 0 = none, or alive since
    int64_t  gradients;                 // when it was started
    int64_t  losses_in_row;             // without one finished gradient
    bool     named_slow;
    // of a learner's first process here: all of them have ended, and are to begin again when they may
    bool     ready;
    int      lost;                      // the process that was lost; -1 = none was: another rank asked for it
    pid_t    lost_pid;
    char     lost_how[80];
} mu_watched;

// Who has to do with a learner whose processes begin again; NULL functions: nobody.
typedef struct mu_partners {
    void *ctx;
    // Its processes here have ended, one of them was lost, while they computed the gradient of this step.
    mu_status (*lost)(void *ctx, int learner, bool computing, int64_t step, mu_err *err);
    bool      (*may_begin)(void *ctx, int learner);     // asked at every look
} mu_partners;

typedef struct mu_pulse_watch {         // as last seen
    uint64_t pulse;
    int64_t  moved_ns;                  // 0 = not yet
} mu_pulse_watch;

enum { MU_REPLACE_TIMES = 4096 };

typedef struct mu_watchdog {
    mu_training   *training;            // for messages
    const mu_partners *partners;        // NULL = there are none; set after start
    mu_shared      *shared;
    int n; // processes of learners
    int first; // of them, counted over all server groups
    mu_watched    *learner;
    mu_child       server, evaluator;
    mu_role        server_role;
    mu_evaluator_role evaluator_role;
    mu_pulse_watch *thread;             // (executors) of the server's threads; those of learners are not used
    mu_pulse_watch lock, task;          // the lock's holder; the evaluator's task
    int64_t        lost, replaced, server_lost;
    int64_t        evaluator_losses_in_row, answers_seen;
    int64_t        server_losses_in_row, server_version;        // without one update between
    mu_speed      *speed;               // (n)
    int64_t        next_slow_ns;
    int64_t        looked_ns;           // when the last look ended; 0 = not yet
    int            n_times;
    float         *times;               // seconds to replace, the first MU_REPLACE_TIMES; sorted by stop
} mu_watchdog;

// role: of the group, without an index. evaluator: NULL = this group has none.
MU_MUST_CHECK mu_status mu_watchdog_start(mu_watchdog *d, mu_training *t, const mu_role *role,
                                          const mu_evaluator_role *evaluator, mu_err *err);
// Reaps, replaces, looks for hung and slow ones. An error ends the run: a learner's own error, or too many
// losses in a row.
MU_MUST_CHECK mu_status mu_watchdog_look(mu_watchdog *d, mu_err *err);
// The step of the gradient that a learner computes now or next. Bounded, as is what follows.
MU_MUST_CHECK mu_status mu_watchdog_step_of(mu_watchdog *d, int learner, int64_t *step, mu_err *err);
// Ends the processes of a learner that are here; the next look begins them again.
MU_MUST_CHECK mu_status mu_watchdog_end_learner(mu_watchdog *d, int learner, mu_err *err);
bool   mu_watchdog_all_ended(const mu_watchdog *d);
void   mu_watchdog_stop(mu_watchdog *d);        // ends and reaps every child; bounded
double mu_watchdog_replace_s(const mu_watchdog *d, double quantile);    // after stop; NaN = none was replaced
void   mu_watchdog_destroy(mu_watchdog *d);     // a zeroed one is fine

#endif
