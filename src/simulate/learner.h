// SPDX-License-Identifier: Apache-2.0
// learner.h - a simulated learner: it asks, computes for as long as its layers take, and pushes, by the
// client of shared memory that a learner process has (ps/client_shared.h).
//
// It is no process: its rank calls mu_simulated_go whenever something may have changed, and the learner goes
// on until it has to wait, for permission, for a layer's weights or for the end of a layer.
#ifndef MU_SIMULATE_LEARNER_H
#define MU_SIMULATE_LEARNER_H

#include "learners/server_group.h"
#include "ps/client_shared.h"
#include "simulate/costs.h"

typedef enum mu_simulated_state {
    MU_SIMULATED_ASKS,    // for permission to begin
    MU_SIMULATED_FORWARD, // layer by layer; those that it has not begun need their weights
    MU_SIMULATED_BACKWARD,
    MU_SIMULATED_ENDED
} mu_simulated_state;

typedef struct mu_simulated {
    mu_server_group *group;
    const mu_net *net;
    const mu_sim_costs *costs;
    mu_role role; // for rates
    mu_shared_client client;
    mu_watched *watched; // its row at the watchdog
    mu_simulated_state state;
    int layer; // in hand, or next
    bool busy; // with it, until due_ns
    int64_t due_ns;
    int64_t since_ns;            // it waits; 0 = it does not
    int64_t compute_ns, wait_ns; // of the gradient in hand
} mu_simulated;

MU_MUST_CHECK mu_status mu_simulated_open(mu_simulated *l, mu_server_group *group, int index,
                                          const mu_net *net, const mu_sim_costs *costs, mu_err *err);
MU_MUST_CHECK mu_status mu_simulated_go(mu_simulated *l, mu_err *err);
// When it has something to do next by itself; INT64_MAX = it waits for others, or has ended.
static inline int64_t mu_simulated_due(const mu_simulated *l) { return l->busy ? l->due_ns : INT64_MAX; }

#endif
