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

#include "train/facts.h"
#include "train/position.h"

typedef struct mu_worker {
    mu_session  *session;
    mu_net      *net;
    mu_params   *params;
    mu_updater  *updater;
    mu_grad_sink sink;
    bool         fused;
    mu_position  at;                    // of a learner among several: step is the gradient's or the update's
    mu_length    end;
    mu_step_rate step_rate;             // of the current step
    int64_t      step_rows;             // samples of the batches of the current step
    int64_t      bad_in_row;            // steps whose gradient was not finite
    bool         bad;                   // this step is not to be applied any further
    bool         loss_known;
    double       loss;                  // objective of the last step
    double       loss_weight;           // of the losses in it; 0 = this net has none, or no rows for it
    double       accuracy;              // of its batches; NaN when the net has no such metric
    bool         checked;               // gradients done in their layer were checked when they were made
    const mu_param *nonfinite;          // the first of them that was not finite; NULL = none
    int64_t      batch_first;           // sample number of the last batch's first row
    double       compute_s, wait_s;     // time of steps without waiting; waiting for batches
    mu_facts    *facts;                 // told of every batch; NULL = not wanted
    const mu_batch *fixed; // used for every step instead of the source (timing); NULL = the source
} mu_worker;

// Complete when the backward of its layer is; shared parameters and statistics only when all of backward is.
static inline bool mu_grad_done_in_layer(const mu_param *p) { return p->n_users == 1 && !p->is_stat; }

void mu_worker_init(mu_worker *w, mu_session *s);
// One update (train.accumulate batches). MU_EDIVERGED with the layer or parameter named when loss or
// gradient is not finite: the step is not counted; the caller decides by policy.
mu_status mu_worker_step(mu_worker *w, mu_err *err);
void      mu_worker_count_step(mu_worker *w);           // the position moves on by the step just made
// After a step or gradient that was not finite: does the policy pass over it, or have there been too many?
bool      mu_worker_may_skip(mu_worker *w);

// ---- the parts of a step, for one learner among several and for a replay ----

// The next batch through the algorithm, leaving its gradients; s->global_rows 0 = the batch's own rows.
mu_status mu_worker_batch(mu_worker *w, mu_step *s, mu_err *err);
// The gradient of the samples from `first` on, of s, proved finite. *scale is for norm clipping.
mu_status mu_worker_gradient(mu_worker *w, mu_step *s, int64_t first, float *scale, mu_err *err);
// Is this gradient, which goes into a message now, finite? Later what it is made of may be gone.
void      mu_worker_check_finite(mu_worker *w, const mu_param *p);
// Applies all through the updater, except what a fused step has applied already.
void      mu_worker_apply(mu_worker *w, float scale);
// Running statistics move in the forward pass. save: keeps what they are; restore: puts that back.
void      mu_worker_save_stats(mu_worker *w);
void      mu_worker_restore_stats(mu_worker *w);

#endif
