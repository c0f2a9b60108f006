// SPDX-License-Identifier: Apache-2.0
// lr_exponential.c - rate = base * gamma ^ (t / every), smooth.
//
// The defaults of gamma 0.5 and a chosen `every` are SINGA's exponential (halved each `every` steps);
// every 1 and gamma near 1 is Caffe's exp.
#include "updater/updater.h"

#include <math.h>

struct exponential {
    double gamma;
    int64_t every;
};

static const mu_field fields[] = {
    MU_FIELD(struct exponential, gamma, MU_DOUBLE, "0.5", "(0,1]", "factor of the rate after each `every`"),
    MU_FIELD(struct exponential, every, MU_INT, "1", "[1,)",
             "steps (or epochs) after which the factor has applied once"),
    {0},
};

static double rate(const void *state, double base, double t, MU_UNUSED double end) {
    const struct exponential *s = state;
    return base * pow(s->gamma, t / (double)s->every);
}

const mu_schedule_class mu_schedule_exponential = {
    .name = "exponential",
    .help = "base * gamma ^ (t / every), smooth",
    .fields = fields,
    .state_size = sizeof(struct exponential),
    .rate = rate,
};
