// SPDX-License-Identifier: Apache-2.0
// momentum.h - the momentum of a rule, with a smaller one while training is young (Hinton's guide, 9).
//
// Young is a matter of samples, as rates are: `early: 3000 steps` ends at the same sample with one learner
// and with sixteen, however many updates they make of a step. The process that forms an update says so in its
// mu_rule_step, and all that apply it read that: a resumed run, a server and every learner agree.
#ifndef MU_UPDATER_MOMENTUM_H
#define MU_UPDATER_MOMENTUM_H

#include "updater/updater.h"

typedef struct mu_momentum {
    float       momentum;
    float       early_momentum;         // below 0: not given
    mu_interval early;                  // how long early_momentum holds: steps or epochs
} mu_momentum;

// Rows of a field table for `struct type_ { mu_momentum m; ... }`.
#define MU_MOMENTUM_FIELDS(type_, def)                                                                       \
    {"momentum", MU_FLOAT, offsetof(type_, m.momentum), def, "[0,1)", NULL,                                  \
     "share of the last step that is kept"},                                                                 \
    {"early_momentum", MU_FLOAT, offsetof(type_, m.early_momentum), "-1", "[-1,1)", NULL,                    \
     "momentum of the first steps, see `early`; -1 = 0.5"},                                                  \
    {"early", MU_INTERVAL, offsetof(type_, m.early), "never", NULL, NULL,                                    \
     "how long `early_momentum` holds, such as `5 epochs` or `3000 steps`"}

static inline const char *mu_momentum_check(const mu_momentum *m) {
    if (m->early.unit == MU_EVERY_SECOND) return "`early` is a number of steps or epochs, not a time";
    if (m->early_momentum < 0 && m->early_momentum > -1)
        return "`early_momentum` is a share of at least 0; leave it out for 0.5";
    if (m->early.unit == MU_EVERY_NEVER && m->early_momentum >= 0)
        return "`early_momentum` needs `early`, such as `early: 5 epochs`";
    return NULL;
}

static inline bool mu_momentum_is_young(const mu_momentum *m, int64_t step, double epoch) {
    return (m->early.unit == MU_EVERY_STEP && (double)step < m->early.n) ||
           (m->early.unit == MU_EVERY_EPOCH && epoch < m->early.n);
}

static inline float mu_momentum_young(const mu_momentum *m) {
    return m->early_momentum < 0 ? 0.5f : m->early_momentum;
}

static inline double mu_momentum_own(const mu_momentum *m, bool young) {
    return (double)(young ? mu_momentum_young(m) : m->momentum);
}

static inline float mu_momentum_at(const mu_momentum *m, mu_rule_step step) {
    return step.stale.lowers ? step.stale.keep : (float)mu_momentum_own(m, step.young);
}

// A constant gradient ends up at rate / (1 - momentum) a step.
static inline void mu_momentum_usual_rates(const mu_momentum *m, double range[2]) {
    range[0] = 1e-6;
    range[1] = 10 * (1 - (double)m->momentum);
}

// Does any part of the training have momentum?
static inline bool mu_momentum_is_used(const mu_momentum *m) {
    return m->momentum > 0 || (m->early.unit != MU_EVERY_NEVER && mu_momentum_young(m) > 0);
}

#endif
