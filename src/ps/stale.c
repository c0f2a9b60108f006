// SPDX-License-Identifier: Apache-2.0
// stale.c - see stale.h.
#include "ps/stale.h"

#include <math.h>

// On a parabola the largest stable rate is highest when weights look ahead by half as many updates again as a
// gradient is old, at least of those of fixed age, and hardly lower where ages are spread.
#define LEAD 1.5

mu_stale mu_stale_make(double expected, int own_histories, mu_rate_rule rate, mu_momentum_rule momentum,
                       const mu_updater *updater) {
    const mu_step_size size = updater ? updater->class->size : MU_STEP_FOLLOWS;
    mu_stale s = {.n = fmax(expected, 1), .rate_rule = rate, .momentum_rule = momentum, .divisor = 1,
                  .scale_free = size != MU_STEP_FOLLOWS};
    s.own_histories = own_histories > 1;
    s.span = fmax(s.n / own_histories, 1);
    if (rate == MU_RATE_PLAIN) return s;
    s.divisor = size == MU_STEP_FOLLOWS ? s.n : size == MU_STEP_OWN ? sqrt(s.n) : sqrt(s.n / s.span);
    return s;
}

mu_momentum_rule mu_stale_usual(const mu_updater *updater) {
    return updater && updater->class->adds_up ? MU_MOMENTUM_AHEAD : MU_MOMENTUM_PLAIN;
}

mu_stale_step mu_stale_step_of(const mu_stale *s, const mu_updater *u, double own, double *rate) {
    double keep = own;
    *rate = 1;
    if (!(own > 0) || s->momentum_rule == MU_MOMENTUM_PLAIN) return (mu_stale_step){0};
    if (s->momentum_rule == MU_MOMENTUM_TOTAL) keep = fmax(0, own - s->span / (1 + s->span));
    else keep = 1 - (1 - own) / s->span;
    if (u->class->adds_up) *rate = (1 - keep) / (1 - own);
    const bool ahead = s->momentum_rule == MU_MOMENTUM_AHEAD;
    return (mu_stale_step){.lowers = true, .keep = (float)keep, .ahead = ahead ? (float)(LEAD * s->span) : 0};
}

void mu_stale_change(const mu_stale *s, const mu_updater *u, bool begins, mu_step_rate *rate) {
    double factor;
    rate->stale = mu_stale_step_of(s, u, mu_updater_momentum(u, rate->young), &factor);
    rate->rate *= factor / s->divisor;
    const double rest = s->rate_rule == MU_RATE_PLAIN ? 1 : s->divisor / s->n; // of the division by n
    rate->stale.share = s->own_histories ? 1 : (float)rest; // those gradients are not scaled
    rate->stale.descent = (float)((s->own_histories ? rest : 1) / factor);
    if (!begins || s->own_histories || !rate->stale.lowers || !u->class->adds_up) return;
    if (s->rate_rule != MU_RATE_PLAIN) rate->stale.keep /= (float)s->n;
    rate->stale.ahead = 0;
}

float mu_stale_share(const mu_stale *s, const mu_updater *u) {
    const bool shorter = u->class->adds_up && s->momentum_rule != MU_MOMENTUM_PLAIN;
    return shorter && s->rate_rule != MU_RATE_PLAIN ? (float)(1 / s->n) : 1;
}
