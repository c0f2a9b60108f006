// SPDX-License-Identifier: Apache-2.0
// costs_inner.h - what the files that measure costs share: costs_measure.c (the process, the sizes),
// costs_time.c (clocks), costs_split.c (workers).
#ifndef MU_PLAN_COSTS_INNER_H
#define MU_PLAN_COSTS_INNER_H

#include "plan/costs_measure.h"
#include "train/session.h"

// Times the net of a session that is ready, into place k of the sizes; the largest size comes first, and fills
// what is the same for all.
mu_status mu_cost_time(mu_session *s, int k, bool first, double seconds, mu_costs *out, mu_err *err);
// The same on all cores at once: crowd, crowd_gradient, crowd_apply.
mu_status mu_cost_time_crowd(mu_session *s, int k, int cores, double seconds, mu_costs *out, mu_err *err);

// A job as it is measured: one learner, batches of so many. *s is open where MU_OK.
typedef struct mu_cost_job { mu_job *job; mu_session *s; } mu_cost_job;
mu_status mu_cost_open(const mu_cost_task *t, int64_t batch, bool check_only, mu_cost_job *out, mu_err *err);
void      mu_cost_close(mu_cost_job *j);

// How workers would share the net, once all sizes are timed.
mu_status mu_cost_splits(const mu_cost_task *t, mu_costs *c, mu_err *err);
#endif
