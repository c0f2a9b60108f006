// SPDX-License-Identifier: Apache-2.0
// lr_sigmoid.c - rate = base / (1 + exp(gamma * (t - at))): falls softly around `at`.
//
// Caffe writes the exponent with the other sign and wants a negative gamma for a fall.
#include "updater/updater.h"

#include <math.h>

struct sigmoid {
    double gamma, at;
};

static const mu_field fields[] = {
    MU_FIELD(struct sigmoid, gamma, MU_DOUBLE, "0.001", "(0,)", "steepness of the fall"),
    MU_FIELD(struct sigmoid, at, MU_DOUBLE, NULL, "[0,)", "step (or epoch) at which half of base is left"),
    {0},
};

static double rate(const void *state, double base, double t, MU_UNUSED double end) {
    const struct sigmoid *s = state;
    return base / (1 + exp(s->gamma * (t - s->at)));
}

// 98 % of the fall is over.
static double ends(const void *state, MU_UNUSED double end) {
    const struct sigmoid *s = state;
    return s->at + 4 / s->gamma;
}

const mu_schedule_class mu_schedule_sigmoid = {
    .name = "sigmoid",
    .help = "base / (1 + exp(gamma * (t - at))), a soft drop",
    .fields = fields,
    .state_size = sizeof(struct sigmoid),
    .rate = rate,
    .ends = ends,
};
