// SPDX-License-Identifier: Apache-2.0
// choice.c - see choice.h.
#include "train/choice.h"

#include <math.h>

mu_choices mu_choices_read(const mu_params *ps) {
    mu_choices c = {0};
    for (int i = 0; i < ps->n && c.n < MU_MAX_CHOICES; i++)
        if (ps->list[i]->options && ps->list[i]->value) c.value[c.n++] = ps->list[i]->value[0];
    return c;
}

void mu_choices_write(mu_params *ps, const mu_choices *c) {
    int k = 0;
    for (int i = 0; i < ps->n && k < c->n; i++)
        if (ps->list[i]->options && ps->list[i]->value) ps->list[i]->value[0] = c->value[k++];
}

// One standard error of an accuracy that was measured on n samples.
static double error_of(const mu_scores *s) {
    return s->samples ? sqrt(s->accuracy * (1 - s->accuracy) / (double)s->samples) : 0;
}

static mu_status try_options(mu_session_phase *p, mu_param *choice, mu_batch_visitor visit, void *ctx,
                             mu_scores *out, mu_err *err) {
    mu_scores usual, now;
    choice->value[0] = 0;
    MU_TRY(mu_evaluate(p, MU_VALIDATION, visit, ctx, &usual, err));
    const double least = usual.accuracy + error_of(&usual);
    int best = 0;
    *out = usual;
    for (int k = 1; k < choice->options && !isnan(usual.accuracy); k++) {
        choice->value[0] = (float)k;
        MU_TRY(mu_evaluate(p, MU_VALIDATION, visit, ctx, &now, err));
        if (!(now.accuracy > least && now.accuracy > out->accuracy)) continue;
        best = k;
        *out = now;
    }
    choice->value[0] = (float)best;
    return MU_OK;
}

mu_status mu_choose(mu_session_phase *p, mu_params *ps, mu_batch_visitor visit, void *ctx, mu_scores *out,
                    mu_err *err) {
    int n = 0;
    for (int i = 0; i < ps->n && n < MU_MAX_CHOICES; i++) {
        if (!ps->list[i]->options) continue;
        MU_TRY(try_options(p, ps->list[i], visit, ctx, out, err));
        n++;
    }
    return n ? MU_OK : mu_evaluate(p, MU_VALIDATION, visit, ctx, out, err);
}
