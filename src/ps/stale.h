// SPDX-License-Identifier: Apache-2.0
// stale.h - what is done against the staleness of gradients: the rate and the momentum of an update.
//
// An asynchronous protocol makes n updates in the time of one gradient, of a share of the samples of a step
// each, and every gradient is n updates old when it is applied. Left alone, a step would go n times as far,
// and late gradients make momentum overshoot. Two rules, which do not depend on each other:
//
//   rate_rule      how far: by `mean` and `each` n updates move weights as far as one of fresh gradients
//   momentum_rule  how: which momentum gets there with late gradients. It never changes how far.
//
// By `ahead` momentum keeps its memory in samples, n times as many updates, and (where it adds up, so that
// the history is a step) the weights that learners read look ahead by more updates than a gradient takes. So
// that is computed about where it will be applied. By
// `total` momentum is lowered by what late gradients do anyway: of staleness n in the mean they act like a
// momentum of n / (1 + n) (Mitliagkas et al. 2016: 1 - 1 / lambda).
//
// The division by n is one of the rate, and weight decay is divided with it. Rules that divide by the size
// of gradients (mu_step_size) go by the rate alone, however small a gradient is, and how often they may go as
// far depends on the samples of an update. With a k-th of the job's batch its gradient is about sqrt(k) times
// as large: 1 / sqrt(k) of it makes the history that of a single learner, and the rate is divided by sqrt(k),
// too. k is n where learners share the job's batch, and 1 where each has one of that size. Where the history
// grows with every update (adagrad), more of them divide the rate enough, and 1 / k of the gradient makes the
// sum the same.
#ifndef MU_PS_STALE_H
#define MU_PS_STALE_H

#include "ps/core.h"
#include "updater/updater.h"

typedef enum mu_momentum_rule { MU_MOMENTUM_PLAIN, MU_MOMENTUM_TOTAL, MU_MOMENTUM_AHEAD } mu_momentum_rule;

typedef struct mu_stale {
    double n;                   // updates in the time of a gradient: the expected staleness; at least 1
    double histories;           // lambda where every learner has one, which sees its own gradients alone
    double gathers;             // gradients of an update of such a history
    double late;                // updates that go through one history in the time of a gradient
    double span;                // the same, at least 1
    mu_rate_rule rate_rule;
    mu_momentum_rule momentum_rule;
    bool   scale_free;          // the updater divides by the size of gradients
    double divisor;             // of the rate
    double gradient;            // what a gradient counts that is an update of its own
    double parts;               // k of a gradient that is an update of its own
} mu_stale;

typedef struct mu_stale_task {
    double n;                   // the expected staleness
    double share;               // of the job's batch in an update, 1 / k
    int    own_histories;       // lambda where each learner has a history of its own; else 1
    int    gathers;             // gradients of an update of such a history; else 1
    mu_rate_rule rate_rule;
    mu_momentum_rule momentum_rule;
} mu_stale_task;

// updater: NULL = not known.
mu_stale mu_stale_make(const mu_stale_task *t, const mu_updater *updater);
// How many updates go as far as one of fresh gradients; with own histories: gradients.
static inline double mu_stale_updates(const mu_stale *s) {
    return s->rate_rule == MU_RATE_PLAIN ? 1 : s->histories > 1 ? s->histories : s->n;
}
// For mu_core_config: the core divides it by n again, by the rate rule.
static inline float mu_stale_gradient_scale(const mu_stale *s) {
    return (float)(s->gradient * mu_stale_updates(s));
}
// The momentum rule that is best as far as is known (docs/protocols.md, "Measured").
mu_momentum_rule mu_stale_usual(const mu_updater *updater);
// The momentum in force in place of the rule's own, and what the rate is multiplied with for it.
mu_stale_step mu_stale_step_of(const mu_stale *s, const mu_updater *u, double own, double *rate);
// Makes the rate of fresh gradients that of stale ones. before: the first update since a change of protocol,
// whose history has steps of so many to one of fresh gradients; 0 = no change. Own histories are filled with
// shorter ones (mu_stale_share).
void mu_stale_change(const mu_stale *s, const mu_updater *u, double before, mu_step_rate *rate);
// What of the first history of fresh gradients an own one takes over: steps of an n-th, as many as it
// gathers; of a sum of squares what its learner alone would have put in: a lambda-th of k times as many
// gradients, with k times as large squares.
float mu_stale_share(const mu_stale *s, const mu_updater *u);

#endif
