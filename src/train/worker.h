// SPDX-License-Identifier: Apache-2.0
// worker.h - station 5: one learner's step, from a batch to updated weights.
//
// Three ways of a gradient, chosen once at init:
//   fused     a layer (fully connected, sentences) hands over rows of its gradient in backward and they are
//             applied at once, so the weights stream through the core once. The normal case.
//   deferred  all gradients are complete before the first is applied: needed to clip by the global
//             norm and to skip a step whose gradient is not finite.
//   summed    dense sums over `train.accumulate` batches, then as deferred.
// Parameters that take no part in fusing are applied when backward has ended.
//
// A step whose loss or gradient is not finite changes nothing in deferred and summed mode; in fused
// mode rows handed over before the bad layer was reached have been applied.
#ifndef MU_TRAIN_WORKER_H
#define MU_TRAIN_WORKER_H

#include "train/session.h"

typedef struct mu_worker {
    mu_session  *session;
    mu_net      *net;
    mu_params   *params;
    mu_updater  *updater;
    mu_grad_sink sink;
    bool         fused;
    int64_t      step;                  // updates done
    int64_t      samples;               // samples used since the job began
    double       rate;                  // of the current step
    bool         early;                 // the current step is, by the updater (mu_pace)
    double       rate_scale;            // 1, halved by each rollback
    double       end_steps, end_epochs; // planned length, for schedules; 0 = unknown
    bool         bad;                   // this step is not to be applied any further
    bool         loss_known;
    double       loss;                  // objective of the last step
    double       accuracy;              // of its batches; NaN when the net has no such metric
    bool         looked;                // at early gradients of this step, when they were made
    const mu_param *wild;               // the first of them that was not finite; NULL = none
    int64_t      extra_updates;         // updates beyond one per step; < 0: some took more than a step
    int64_t      batch_first;           // sample number of the last batch's first row
    double       compute_s, wait_s;     // time of steps without waiting; waiting for batches
    const mu_batch *fixed; // used for every step instead of the source (timing); NULL = the source
} mu_worker;

// Complete when the backward of its layer is; shared parameters and statistics only when all of backward is.
static inline bool mu_grad_done_in_layer(const mu_param *p) { return p->n_users == 1 && !p->is_stat; }

void mu_worker_init(mu_worker *w, mu_session *s);
// One update (train.accumulate batches). MU_EDIVERGED with the layer or parameter named when loss or
// gradient is not finite: the step is not counted; the caller decides by policy.
mu_status mu_worker_step(mu_worker *w, mu_err *err);
// The parts of a step, for a learner of a group. batch: the next batch through the algorithm, leaving its
// gradients; s->global_rows 0 = the batch's own rows. look: at an early gradient that goes into a message
// now; later what it is made of may be gone. measure: proves the gradients finite, *scale is for norm
// clipping. apply: through the updater, except what a fused step has applied already.
mu_status mu_worker_batch(mu_worker *w, mu_step *s, mu_err *err);
void      mu_worker_look(mu_worker *w, const mu_param *p);
mu_status mu_worker_measure(mu_worker *w, float *scale, mu_err *err);
void      mu_worker_apply(mu_worker *w, float scale);
int64_t   mu_worker_samples_per_step(const mu_worker *w);
double    mu_worker_epoch(const mu_worker *w);          // fractional passes done

#endif
