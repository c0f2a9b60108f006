// SPDX-License-Identifier: Apache-2.0
// core_inner.h - what the files of the core share: the arrays behind the struct, whose samples are whose,
// who has work left. core.c holds the events, core_lease.c the samples, core_check.c the invariants.
#ifndef MU_PS_CORE_INNER_H
#define MU_PS_CORE_INNER_H

#include "ps/protocol.h"

static inline mu_core_learner *core_learners(const mu_core *c) {
    return (mu_core_learner *)(c + 1);
}
static inline mu_core_part *core_parts(const mu_core *c) {
    return (mu_core_part *)(core_learners(c) + c->config.learners);
}
// The i-th waiting gradient, oldest first; i = fifo_n: the place of the next one.
static inline mu_core_part *core_waiting(const mu_core *c, int i) {
    const int size = mu_core_most_parts(c->config.learners);
    return core_parts(c) + size + (c->fifo_head + i) % size;
}

static inline int64_t core_min(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t core_max(int64_t a, int64_t b) { return a > b ? a : b; }

// Nothing is applied beyond the update in progress.
static inline bool core_over(const mu_core *c) { return c->version + c->applying >= c->config.end_version; }

// ---- core_lease.c ----
int64_t core_sync_steps(const mu_core_config *config);          // by hardsync, before any stop
int64_t core_sync_rows(const mu_core *c, int64_t step);         // of all learners in a step of hardsync
int64_t core_sync_end(const mu_core *c, int learner);           // steps of hardsync that have rows for it
int64_t core_sync_first(const mu_core *c, int learner, int64_t step, int64_t *rows);   // its samples of one
bool    core_more(const mu_core *c, int learner);               // samples are left to be leased to it
bool    core_work_left(const mu_core *c, int learner);          // its next gradient has samples, now or later
void    core_use_batch(mu_core *c, mu_core_learner *l);         // the batch in hand is accepted or rejected
// Brings working, slowest and n_slowest up to date after learner's, or everybody's, work has changed.
void    core_recount(mu_core *c, int learner);
void    core_recount_all(mu_core *c);

#endif
