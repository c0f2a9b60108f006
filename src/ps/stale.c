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
                  .histories = t->own_histories,
                  .gathers = t->gathers,
                  .rate_rule = t->rate_rule,
                  .momentum_rule = t->momentum_rule,
                  .scale_free = size != MU_STEP_FOLLOWS,
                  .divisor = 1,
                  .gradient = 1,
                  .parts = t->share > 0 ? fmax(t->gathers / t->share, 1) : 1};
    s.late = s.n / (s.histories * s.gathers);
    s.span = fmax(s.late, 1);
    if (t->rate_rule == MU_RATE_PLAIN) return s;
    s.divisor = size == MU_STEP_FOLLOWS ? mu_stale_updates(&s)
                : size == MU_STEP_OWN   ? sqrt(k)
                                        : sqrt(s.histories);
    if (s.histories <= 1 && s.scale_free) s.gradient = size == MU_STEP_OWN ? 1 / sqrt(k) : 1 / k;
    return s;
}

mu_momentum_rule mu_stale_usual(const mu_updater *updater) {
    return updater && updater->class->momentum ? MU_MOMENTUM_AHEAD : MU_MOMENTUM_PLAIN;
}

mu_stale_step mu_stale_step_of(const mu_stale *s, const mu_updater *u, double own, double *rate) {
    const double same = s->gathers > 1 ? pow(own, s->gathers) : own; // memory in gradients
    double keep;
    *rate = 1;
    if (!(own > 0) || s->momentum_rule == MU_MOMENTUM_PLAIN) return (mu_stale_step){0};
    if (s->momentum_rule == MU_MOMENTUM_TOTAL) keep = fmax(0, same - s->span / (1 + s->span));
    else keep = 1 - (1 - same) / s->span;
    if (u->class->adds_up) *rate = (1 - keep) / (1 - own);
    const bool ahead = s->momentum_rule == MU_MOMENTUM_AHEAD && u->class->adds_up; // else it is no step
    return (mu_stale_step){.lowers = true, .keep = (float)keep, .ahead = ahead ? (float)(LEAD * s->late) : 0};
}

void mu_stale_change(const mu_stale *s, const mu_updater *u, double before, mu_step_rate *rate) {
    double factor;
    rate->stale = mu_stale_step_of(s, u, mu_updater_momentum(u, rate->young), &factor);
    rate->rate *= factor / s->divisor;
    rate->stale.share = (float)s->gradient;
    rate->stale.descent = (float)(s->divisor / (s->gradient * mu_stale_updates(s) * factor));
    if (before <= 0 || s->histories > 1 || !rate->stale.lowers || !u->class->adds_up) return;
    rate->stale.keep *= (float)(before / mu_stale_updates(s));
    rate->stale.ahead = 0;
}

float mu_stale_share(const mu_stale *s, const mu_updater *u) {
    if (s->rate_rule == MU_RATE_PLAIN) return 1;
    if (u->class->size == MU_STEP_SHRINKS) return (float)(s->parts * s->parts / s->histories);
    const bool steps = u->class->adds_up && s->momentum_rule != MU_MOMENTUM_PLAIN;
    return steps ? (float)(s->gathers / s->histories) : 1;
}
