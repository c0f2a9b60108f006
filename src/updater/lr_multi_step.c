// SPDX-License-Identifier: Apache-2.0
// lr_multi_step.c - the rate changes at listed times:
//
//   k = number of entries of `at` that are <= t
//   rate = base * gamma ^ k            without `rates`
//   rate = k ? rates[k - 1] : base     with `rates` (SINGA's fixed step)
//
// A function of t alone, so a resumed run that starts past several entries is right at once.
#include "updater/updater.h"

#include <math.h>

struct multi_step {
    mu_ints at;
    double gamma;
    mu_floats rates;
};

static const mu_field fields[] = {
    MU_FIELD(struct multi_step, at, MU_INTS, NULL, "[0,)", "rising list of the steps (or epochs) of change"),
    MU_FIELD(struct multi_step, gamma, MU_DOUBLE, "0.1", "(0,1]", "factor at each entry of `at`"),
    MU_FIELD(struct multi_step, rates, MU_FLOATS, "[]", "[0,)",
             "rate from each entry of `at` on, instead of gamma"),
    {0},
};

static const char *check(const void *state) {
    const struct multi_step *s = state;
    if (!s->at.n) return "`at` of schedule `multi_step` is empty";
    for (size_t i = 1; i < s->at.n; i++)
        if (s->at.v[i] <= s->at.v[i - 1]) return "the entries of `at` of schedule `multi_step` do not rise";
    if (s->rates.n && s->rates.n != s->at.n)
        return "`rates` and `at` of schedule `multi_step` have different lengths";
    return NULL;
}

static double rate(const void *state, double base, double t, MU_UNUSED double end) {
    const struct multi_step *s = state;
    size_t k = 0;
    while (k < s->at.n && (double)s->at.v[k] <= t + 1e-9) k++;
    if (s->rates.n) return k ? (double)s->rates.v[k - 1] : base;
    return base * pow(s->gamma, (double)k);
}

static double ends(const void *state, MU_UNUSED double end) {
    const struct multi_step *s = state;
    return (double)s->at.v[s->at.n - 1];
}

const mu_schedule_class mu_schedule_multi_step = {
    .name = "multi_step",
    .help = "changes at listed times, by a factor or to listed rates",
    .fields = fields,
    .state_size = sizeof(struct multi_step),
    .check = check,
    .rate = rate,
    .ends = ends,
};
