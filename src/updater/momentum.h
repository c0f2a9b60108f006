// SPDX-License-Identifier: Apache-2.0
// momentum.h - the momentum of a rule, with a smaller one while training is young (Hinton's guide, 9).
//
// A function of the number of the update alone, so that a run that resumes, a server and every learner agree.
// A time in epochs becomes a number of updates once, when the size of the data and the protocol are known.
#ifndef MU_UPDATER_MOMENTUM_H
#define MU_UPDATER_MOMENTUM_H

#include "updater/updater.h"

#include <math.h>

typedef struct mu_momentum {
    float       momentum, early_momentum;
    mu_interval early;                  // how long early_momentum holds: steps or epochs
    int64_t     early_steps;            // the same in updates
} mu_momentum;

// Rows of a field table for `struct type_ { mu_momentum m; ... }`.
#define MU_MOMENTUM_FIELDS(type_, def)                                                                       \
    {"momentum", MU_FLOAT, offsetof(type_, m.momentum), def, "[0,1)", NULL,                                  \
     "share of the last step that is kept"},                                                                 \
    {"early_momentum", MU_FLOAT, offsetof(type_, m.early_momentum), "0.5", "[0,1)", NULL,                    \
     "momentum of the first steps, see `early`"},                                                            \
    {"early", MU_INTERVAL, offsetof(type_, m.early), "never", NULL, NULL,                                    \
     "how long `early_momentum` holds, such as `5 epochs` or `3000 steps`"}

static inline const char *mu_momentum_check(const mu_momentum *m) {
    return m->early.unit == MU_EVERY_SECOND ? "`early` is a number of steps or epochs, not a time" : NULL;
}

static inline void mu_momentum_set_epoch(mu_momentum *m, double updates) {
    const double n = m->early.unit == MU_EVERY_NEVER ? 0 : m->early.n;
    m->early_steps = (int64_t)ceil(m->early.unit == MU_EVERY_EPOCH ? n * updates - 1e-9 : n);
}

static inline float mu_momentum_at(const mu_momentum *m, int64_t step) {
    return step < m->early_steps ? m->early_momentum : m->momentum;
}

#endif
