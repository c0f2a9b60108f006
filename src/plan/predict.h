// SPDX-License-Identifier: Apache-2.0
// predict.h - how long a step takes by a configuration, from the costs of a job (costs.h) on a machine.
//
// A pure function: nothing is measured here, and no file is read. A step is a gradient of each learner, which is
// train.batch samples unless the job sets mu itself (docs/protocols.md). Its time is a sum of terms, each of
// which is what a learner spends on the way of its gradient; what overlaps is decided by the protocol:
//
//   compute   forward and backward, with so many processes at work on the node (interference)
//   apply     updates: going over weights, histories and gradients
//   exchange  lines that another core wrote last, events of the core, wake-ups
//   bridges   values between the workers of a learner
//   wire      messages between nodes that no computing hides
//   wait      for others: the slowest learner of a step, a server that is busy, the end of a merge
//   data      records, by the thread that shares the learner's core
//
//   in step      T = E[max over learners of compute] + apply / executors + exchange + wire
//   queued       a closed queue: learners compute, then are served; mean value analysis of so many customers
//   own weights  learners write, or apply everything, themselves: no queue
//   replicas     equations 10 and 11 of the performance model's paper (Yan et al. 2015), with two slots a learner
#ifndef MU_PLAN_PREDICT_H
#define MU_PLAN_PREDICT_H

#include "plan/config.h"
#include "plan/costs.h"
#include "plan/machine.h"

typedef enum mu_plan_term {
    MU_TERM_COMPUTE, MU_TERM_APPLY, MU_TERM_EXCHANGE, MU_TERM_BRIDGES, MU_TERM_WIRE, MU_TERM_WAIT, MU_TERM_DATA,
    MU_PLAN_TERMS
} mu_plan_term;
const char *mu_plan_term_name(mu_plan_term t);

// What earlier runs of the job have taught (learnt.h): what terms are multiplied with.
typedef struct mu_plan_factors { double of[MU_PLAN_TERMS]; } mu_plan_factors;
typedef struct mu_plan_corrections {
    const mu_plan_factors *(*of)(const void *ctx, const mu_config *c);  // NULL = none of this protocol
    const void *ctx;
} mu_plan_corrections;

typedef struct mu_prediction {
    double   step_s;                    // the terms' sum
    double   term_s[MU_PLAN_TERMS];
    double   samples_per_s;
    double   start_s;                   // until the first step
    double   evaluate_s, save_s;        // of one evaluation, one checkpoint, as far as learners wait for them
    double   epoch_s;                   // steps of an epoch with what is due in one
    double   staleness;                 // mean
    double   overlap;                   // computing over all of a learner's time
    double   memory_bytes;              // of the fullest node
    double   wire_bytes;                // that leave a node in a step, at most
    bool     corrected;
} mu_prediction;

// MU_EUNSUPPORTED: this job cannot be trained so; the message says why. corrections: NULL = none.
MU_MUST_CHECK mu_status mu_predict(const mu_costs *costs, const mu_machine *m, const mu_config *c,
                                   const mu_plan_corrections *corrections, mu_prediction *out, mu_err *err);
// No step of this configuration can be shorter: what its processes compute, on the cores that there are. For
// the search, which need not look at what cannot win.
double mu_predict_least_s(const mu_costs *costs, const mu_machine *m, const mu_config *c,
                          const mu_plan_corrections *corrections);
#endif
