// SPDX-License-Identifier: Apache-2.0
// evaluate.h - one pass over a data set, every sample counted exactly once. Where streams are parts of one
// text a warm-up that is not counted goes before it (mu_source_seek_warmup): figures are those of a text
// under way, do not depend on the batch, and hardly on the number of streams.
#ifndef MU_TRAIN_EVALUATE_H
#define MU_TRAIN_EVALUATE_H

#include "train/session.h"

#define MU_SCORES_MAX 8

typedef struct mu_scores {              // metrics of all layers, averaged over the data set
    int         n;
    const char *name[MU_SCORES_MAX];    // "loss", "accuracy", ...; borrowed from the layers
    double      value[MU_SCORES_MAX];
    double      loss;                   // sum of the losses; NaN without a loss layer
    double      accuracy;               // NaN without one
    int64_t     samples;
    double      seconds;
} mu_scores;

// Called after each batch, e.g. to write predictions; may be NULL.
typedef mu_status (*mu_batch_visitor)(void *ctx, mu_net *net, const mu_batch *batch, mu_err *err);

mu_status mu_evaluate(mu_session_phase *p, mu_phase phase, mu_batch_visitor visit, void *ctx, mu_scores *out,
                      mu_err *err);

#endif
