// SPDX-License-Identifier: Apache-2.0
// failpoint.h - places where a child of a training by several learners can be made to die, hang or stop, for
// tests.
//
// Always compiled in: what is shipped is what was tested. Until a child arms them a point is one
// predictable branch. MUSTER_FAILPOINTS chooses, e.g.
//     server/piece-written=kill@40;shared/inside-lock=hang@0.001*3;seed=7
//
//     NAME=ACTION[@WHEN][*TIMES]     entries are separated by `;`
//     ACTION   kill (SIGKILL), abort, exit, stop (SIGSTOP), hang (an endless loop)
//     WHEN     5 = at every fifth pass, 0.01 = at each pass with this probability; without: at the first pass
//     TIMES    so often at most; without: once, or as often as it happens where WHEN is a probability
//     seed=N   of the probabilities; without: by the clock. It is logged.
//
// Passes are counted over all processes and incarnations, in a shared page, so `kill@5` kills one process,
// not every replacement at its fifth pass.
#ifndef MU_BASE_FAILPOINT_H
#define MU_BASE_FAILPOINT_H

#include "base/err.h"

//        name                      where
#define MU_FAILPOINT_MAP(X)                                                                                  \
    X("shared/inside-lock", "the lock is held, the spare core is a copy")                                    \
    X("shared/switched", "the lock is held, the cores are switched, not published")                          \
    X("server/formed", "the record is filled, the core not committed")                                       \
    X("server/not-opened", "the update is committed, not yet opened; the lock is held")                      \
    X("server/opened", "slices may be claimed")                                                              \
    X("server/claimed", "a slice is claimed, nothing of it written")                                         \
    X("server/piece-saved", "the old values of a piece are kept")                                            \
    X("server/piece-written", "a piece has its new values, but does not count as done")                      \
    X("server/slice-done", "a slice is complete, its version still the old one")                             \
    X("server/all-done", "the last slice is complete, the update not committed")                             \
    X("server/journaled", "the update is in the journal, not committed")                                     \
    X("server/closed", "the update is committed and closed; the lock is held")                               \
    X("server/committed", "the same, the lock is given back, no bell was rung")                              \
    X("client/granted", "a learner may begin")                                                               \
    X("client/copying", "the weights are copied under the read lock")                                        \
    X("client/pushed", "a gradient is in its queue, no bell was rung")                                       \
    X("hogwild/writing", "a slice of a sum is begun, nothing of it written")                                 \
    X("workers/announced", "the first worker has told the others of a gradient, rung no bell")               \
    X("workers/completed", "another worker's part of a gradient is complete, no bell was rung")              \
    X("learner/forward", "before a layer's forward")                                                         \
    X("learner/backward", "after a layer's backward")                                                        \
    X("evaluator/evaluate", "before an evaluation")                                                          \
    X("evaluator/evaluated", "after it, the answer not given")                                               \
    X("evaluator/save", "before a checkpoint is saved")                                                      \
    X("evaluator/saved", "after it, the answer not given")

// Reads MUSTER_FAILPOINTS; in the parent, before its children. Nothing set: nothing happens. Called again it
// keeps the counters. MU_EUSAGE names what is wrong: a point that does not exist would test nothing.
MU_MUST_CHECK mu_status mu_failpoints_open(mu_err *err);
void mu_failpoints_close(void);
// In a child: its passes count from now on. role is for the log and is kept by address.
void mu_failpoints_arm(const char *role);

extern bool mu_failpoints_armed;        // of this process
void mu_failpoint_pass(const char *name);

static inline void mu_failpoint(const char *name) {
    if (MU_UNLIKELY(mu_failpoints_armed)) mu_failpoint_pass(name);
}

#endif
