// SPDX-License-Identifier: Apache-2.0
// costs.h - what computing takes: seconds of each layer, forward and backward, and of an update, as
// `muster time --json` measures them.
#ifndef MU_SIMULATE_COSTS_H
#define MU_SIMULATE_COSTS_H

#include "net/net.h"

typedef struct mu_sim_costs {
    int n;                          // layers of the net, without the first, its input
    double *forward_s, *backward_s; // (n) owned
    double update_s;                // of all weights, by one gradient
    int64_t batch;                  // samples that were timed
} mu_sim_costs;

// Scaled to `rows` samples where others were timed. MU_EMODEL: not a text of `muster time`, or of another
// net.
MU_MUST_CHECK mu_status mu_sim_costs_load(const char *path, const mu_net *net, int64_t rows, mu_sim_costs *out,
                                      mu_err *err);
void mu_sim_costs_fini(mu_sim_costs *c);
double mu_sim_costs_gradient_s(const mu_sim_costs *c); // of all layers
// What updates cost from now on (wraps.h): by the rank that applies them. threads: so many share the work.
void mu_sim_costs_set_update(const mu_sim_costs *c, size_t floats, int threads);

#endif
