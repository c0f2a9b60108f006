// SPDX-License-Identifier: Apache-2.0
// search.h - the best ways to train a job on a cluster, of all that are allowed.
//
// A configuration is a choice of nodes, learners of each, workers of each learner and how they cut the net,
// samples of a gradient, protocol, architecture, who applies. What is left open by it is found in polynomial
// time elsewhere: how layers are cut by the dynamic programme of net/partition_auto.h, whose results are in the
// costs; workers of a learner are on one node, and nodes are alike, so no segment has a better place than
// another. The choices here are few (their product is below a million for 1,024 nodes), and most are passed over:
// all ways to train with the same processes and samples compute equally long, and where that alone takes longer
// than the best that are known, none of them is looked at. So what is found is what looking at all finds
// (test_plan_search compares them).
#ifndef MU_PLAN_SEARCH_H
#define MU_PLAN_SEARCH_H

#include "plan/predict.h"

enum { MU_PLAN_BEST = 10, MU_PLAN_PROTOCOLS = 16, MU_PLAN_MUS = 8 };

typedef struct mu_plan_protocol { char text[48]; mu_class_ref how; } mu_plan_protocol;

typedef struct mu_plan_space {          // what is allowed
    int      least_nodes, most_nodes;
    int      most_learners;             // of all nodes; 0 = one for each core
    int      most_workers;              // of a learner
    bool     merges;                    // groups with weights of their own, one a node
    int64_t  sync_every;                // of these
    bool     roots;                     // rank 0 with the only weights: base, adv, adv*
    int      n_protocols;
    mu_plan_protocol protocol[MU_PLAN_PROTOCOLS];
    int      n_mu;                      // samples of a gradient, beside what sharing the job's batch gives
    int64_t  mu[MU_PLAN_MUS];
    bool     share;                     // learners may share the job's batch
    double   memory_bytes;              // of a node; 0 = what the machine has
    double   deadline_s;                // of the training; 0 = none
    double   epochs;                    // of it
    bool     everything;                // pass over nothing (tests)
} mu_plan_space;

typedef struct mu_plan_choice { mu_config config; mu_prediction prediction; } mu_plan_choice;

typedef struct mu_plan {
    int      n;
    mu_plan_choice choice[MU_PLAN_BEST];        // the fastest first
    mu_plan_choice alone;               // one learner, to compare with; step_s 0 = not possible
    int      wanted;                    // of these: the simplest within 1 % of the first; with a deadline the cheapest
                                        // that keeps it
    bool     late;                      // none keeps it
    int64_t  looked_at, possible;       // predictions made; configurations that there are
    int64_t  too_large;                 // for the memory
} mu_plan;

// MU_EUNSUPPORTED: nothing is possible; says what stands in the way.
MU_MUST_CHECK mu_status mu_plan_search(const mu_costs *k, const mu_machine *m, const mu_plan_space *space,
                                       const mu_plan_corrections *corrections, mu_plan *out, mu_err *err);
double mu_plan_total_s(const mu_plan_space *space, const mu_prediction *p);     // of the training

// What limits a choice, and what else would help: the same with one number of the machine doubled.
typedef struct mu_plan_change {
    const char *what;                   // "a network twice as fast"
    double   gain;                      // times as fast
} mu_plan_change;
enum { MU_PLAN_CHANGES = 5 };
// Sorted by gain; how many.
int mu_plan_changes(const mu_costs *k, const mu_machine *m, const mu_plan_space *space,
                    const mu_plan_corrections *corrections, const mu_plan_choice *of,
                    mu_plan_change out[MU_PLAN_CHANGES]);
#endif
