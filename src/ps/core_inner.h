// SPDX-License-Identifier: Apache-2.0
// core_inner.h - what the files of the core share: the arrays behind the struct, whose samples are whose,
// which learners have work left. core.c holds the events, core_lease.c the samples, core_check.c the
// invariants.
#ifndef MU_PS_CORE_INNER_H
#define MU_PS_CORE_INNER_H

#include "ps/protocol.h"

#include <stdatomic.h>

static inline const mu_core_learner *core_learners(const mu_core *c) {
    return (const mu_core_learner *)(c + 1);
}
static inline mu_core_part *core_ring(const mu_core *c) {
    return (mu_core_part *)(uintptr_t)(core_learners(c) + c->config.learners);
}
static inline int32_t *core_touched(const mu_core *c) {
    return (int32_t *)(core_ring(c) + mu_core_most_parts(c->config.learners));
}
// The i-th gradient of the ring: first the parts of the update in progress, then those that wait.
static inline mu_core_part *core_ring_at(const mu_core *c, int i) {
    return core_ring(c) + (c->ring_head + i) % mu_core_most_parts(c->config.learners);
}
// The i-th waiting gradient, oldest first; i = fifo_n: the place of the next one.
static inline mu_core_part *core_waiting(const mu_core *c, int i) { return core_ring_at(c, c->n_parts + i); }

// The row of a learner, to be changed. It is noted first, so that a process killed in the middle of a change
// leaves a copy that says what may be wrong in it; the fence keeps the compiler from turning the two around.
static inline mu_core_learner *core_change(mu_core *c, int learner) {
    const int32_t n = c->n_touched, all = c->config.learners + 1;
    if (n < c->config.learners) core_touched(c)[n] = learner;
    if (n < all && (n == 0 || n == all - 1 || core_touched(c)[n - 1] != learner)) c->n_touched++;
    atomic_signal_fence(memory_order_seq_cst);
    return (mu_core_learner *)(uintptr_t)&core_learners(c)[learner];
}

static inline int64_t core_min(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t core_max(int64_t a, int64_t b) { return a > b ? a : b; }

// The protocol in force.
static inline const mu_protocol_class *core_class(const mu_core *c) {
    return mu_core_is_in_step(c) ? mu_warm_protocol : mu_protocol_at(c->config.protocol);
}

// ---- core_lease.c ----
int64_t core_sync_steps(const mu_core_config *config);          // made in step, before any stop
int64_t core_sync_rows(const mu_core *c, int64_t step);         // of all learners in one of them
int64_t core_sync_end(const mu_core *c, int learner);           // how many of them have rows for it
int64_t core_sync_first(const mu_core *c, int learner, int64_t step, int64_t *rows);   // its samples of one
bool    core_more(const mu_core *c, int learner);               // samples are left to be leased to it
bool    core_work_left(const mu_core *c, int learner);          // its next gradient has samples, now or later
void    core_use_batch(mu_core *c, mu_core_learner *l);         // the batch in hand is accepted or rejected
// Brings working, slowest and n_slowest up to date after a learner has made a step; after the work of all has
// changed.
void    core_recount_step(mu_core *c, int learner);
void    core_recount_all(mu_core *c);

#endif
