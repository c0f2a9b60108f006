// SPDX-License-Identifier: Apache-2.0
// lr_step.c - rate = base * gamma ^ floor(t / every).
//
// Epochs arrive as fractions, so the boundary is met with a tolerance far below one step.
#include "updater/updater.h"

#include <math.h>

struct step {
    double gamma;
    int64_t every;
};

static const mu_field fields[] = {
    MU_FIELD(struct step, gamma, MU_DOUBLE, "0.1", "(0,1]", "factor at each drop"),
    MU_FIELD(struct step, every, MU_INT, NULL, "[1,)", "steps (or epochs) between drops"),
    {0},
};

static double rate(const void *state, double base, double t, MU_UNUSED double end) {
    const struct step *s = state;
    return base * pow(s->gamma, floor(t / (double)s->every + 1e-9));
}

const mu_schedule_class mu_schedule_step = {
    .name = "step",
    .help = "base * gamma ^ floor(t / every), drops in equal distances",
    .fields = fields,
    .state_size = sizeof(struct step),
    .rate = rate,
};
