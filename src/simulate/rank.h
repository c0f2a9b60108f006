// SPDX-License-Identifier: Apache-2.0
// rank.h - one simulated rank: its parent, which is the real one (learners/nodes.h, relay.h, joint.h), and
// its learners.
//
// Ranks know each other from the beginning where they are many: that all greet all and say goodbye is n^2
// frames, which are no part of a step. With few they do so, and send just what a real training sends.
#ifndef MU_SIMULATE_RANK_H
#define MU_SIMULATE_RANK_H

#include "learners/joint.h"
#include "learners/relay.h"
#include "simulate/learner.h"

typedef struct mu_simulated_opts {
    mu_session *session; // of rank 0; shaped, its values are zero
    const mu_sim_costs *costs;
    int ranks;
    bool meets; // ranks greet and leave
} mu_simulated_opts;

typedef struct mu_simulated_rank { // what it came to
    bool ended;
    int64_t begin_ns, end_ns;       // of its learners
    int64_t used;                   // samples
    int64_t sent, received;         // bytes of frames, without signs of life; by the end of its steps,
    int64_t all_sent, all_received; // and in all
    mu_learners_result result;      // rank 0 with `meets`: of all
    mu_err error;
} mu_simulated_rank;

MU_MUST_CHECK mu_status mu_simulated_begin(const mu_simulated_opts *o, mu_err *err);
void mu_simulated_main(int rank); // of the machine
const mu_simulated_rank *mu_simulated_at(int rank);
// Called by the last rank that ends, or the first that fails; does not return.
void mu_simulated_set_end(void (*end)(void));

#endif
