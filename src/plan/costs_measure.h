// SPDX-License-Identifier: Apache-2.0
// costs_measure.h - measures what a job costs (costs.h), in a process of its own: it has the memory and caches of
// a first training, leaves nothing behind in the one that asks, and what ends it is an error and no more.
#ifndef MU_PLAN_COSTS_MEASURE_H
#define MU_PLAN_COSTS_MEASURE_H

#include "job/job.h"
#include "plan/costs.h"

typedef struct mu_cost_task {
    const char *job;                    // file or run folder, as for mu_model_load_job
    const char *const *set;             // edits
    size_t      n_sets;
    double      seconds;                // about, for all of it
    int         cores;
    // Told now and then what is being measured; NULL = nobody wants to know.
    void      (*progress)(void *ctx, const char *text, double share);
    void       *ctx;
} mu_cost_task;

// MU_EJOB: the job cannot be trained as it is; others. One of mu_stop_was_asked when told to stop.
MU_MUST_CHECK mu_status mu_costs_measure(const mu_cost_task *t, mu_costs *out, mu_err *err);

// Of what costs depend on: net, training data, algorithm, updater, batch.
uint64_t mu_costs_hash(const mu_job *job);
// How often an epoch is evaluated and saved, from the job: it may change while costs stay.
void     mu_costs_of_job(const mu_job *job, mu_costs *c);
#endif
