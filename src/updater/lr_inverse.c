// SPDX-License-Identifier: Apache-2.0
// lr_inverse.c - rate = base * (1 + gamma * t) ^ -power, Caffe's inv (its LeNet recipe is the default).
#include "updater/updater.h"

#include <math.h>

struct inverse {
    double gamma, power;
};

static const mu_field fields[] = {
    MU_FIELD(struct inverse, gamma, MU_DOUBLE, "0.0001", "[0,)", "speed of the fall"),
    MU_FIELD(struct inverse, power, MU_DOUBLE, "0.75", "[0,)", "steepness of the fall"),
    {0},
};

static double rate(const void *state, double base, double t, MU_UNUSED double end) {
    const struct inverse *s = state;
    return base * pow(1 + s->gamma * t, -s->power);
}

const mu_schedule_class mu_schedule_inverse = {
    .name = "inverse",
    .help = "base * (1 + gamma * t) ^ -power",
    .fields = fields,
    .state_size = sizeof(struct inverse),
    .rate = rate,
};
