// SPDX-License-Identifier: Apache-2.0
// stale.c - see stale.h.
#include "ps/stale.h"

#include <math.h>

// On a parabola the largest stable rate is highest when weights look ahead by half as many updates again as a
// gradient is old, at least of those of fixed age, and hardly lower where ages are spread.
#define LEAD 1.5

mu_stale mu_stale_make(const mu_stale_task *t, const mu_updater *updater) {
    const mu_step_size size = updater ? updater->class->size : MU_STEP_FOLLOWS;
    const double k = t->share > 0 ? fmax(1 / t->share, 1) : 1;
    mu_stale s = {.n = fmax(t->n, 1),
                  .own_histories = t->own_histories > 1,
                  .rate_rule = t->rate_rule,
                  .momentum_rule = t->momentum_rule,
                  .scale_free = size != MU_STEP_FOLLOWS,
                  .divisor = 1,
                  .gradient = 1,
                  .parts = k};
    s.span = fmax(s.n / t->own_histories, 1);
    if (t->rate_rule == MU_RATE_PLAIN) return s;
    s.divisor = size == MU_STEP_FOLLOWS ? s.n : size == MU_STEP_OWN ? sqrt(k) : sqrt(s.n / s.span);
    if (!s.own_histories && s.scale_free) s.gradient = size == MU_STEP_OWN ? 1 / sqrt(k) : 1 / k;
    return s;
}

mu_momentum_rule mu_stale_usual(const mu_updater *updater) {
    return updater && updater->class->momentum ? MU_MOMENTUM_AHEAD : MU_MOMENTUM_PLAIN;
}

mu_stale_step mu_stale_step_of(const mu_stale *s, const mu_updater *u, double own, double *rate) {
    double keep = own;
    *rate = 1;
    if (!(own > 0) || s->momentum_rule == MU_MOMENTUM_PLAIN) return (mu_stale_step){0};
    if (s->momentum_rule == MU_MOMENTUM_TOTAL) keep = fmax(0, own - s->span / (1 + s->span));
    else keep = 1 - (1 - own) / s->span;
    if (u->class->adds_up) *rate = (1 - keep) / (1 - own);
    const bool ahead = s->momentum_rule == MU_MOMENTUM_AHEAD && u->class->adds_up; // else it is no step
    return (mu_stale_step){.lowers = true, .keep = (float)keep, .ahead = ahead ? (float)(LEAD * s->span) : 0};
}

void mu_stale_change(const mu_stale *s, const mu_updater *u, double before, mu_step_rate *rate) {
    double factor;
    rate->stale = mu_stale_step_of(s, u, mu_updater_momentum(u, rate->young), &factor);
    rate->rate *= factor / s->divisor;
    rate->stale.share = (float)s->gradient;
    rate->stale.descent = (float)(s->divisor / (s->gradient * mu_stale_updates(s) * factor));
    if (before <= 0 || s->own_histories || !rate->stale.lowers || !u->class->adds_up) return;
    rate->stale.keep *= (float)(before / mu_stale_updates(s));
    rate->stale.ahead = 0;
}

float mu_stale_share(const mu_stale *s, const mu_updater *u) {
    const double lambda = s->n / s->span;
    if (s->rate_rule == MU_RATE_PLAIN) return 1;
    if (u->class->size == MU_STEP_SHRINKS) return (float)(s->parts * s->parts / lambda);
    return u->class->adds_up && s->momentum_rule != MU_MOMENTUM_PLAIN ? (float)(1 / s->n) : 1;
}
