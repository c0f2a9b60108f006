// SPDX-License-Identifier: Apache-2.0
// lr_inverse_t.c - rate = base / (1 + t / scale): half of base after `scale`, a third after twice that.
#include "updater/updater.h"

struct inverse_t {
    double scale;
};

static const mu_field fields[] = {
    MU_FIELD(struct inverse_t, scale, MU_DOUBLE, NULL, "(0,)",
             "steps (or epochs) after which the rate is halved"),
    {0},
};

static double rate(const void *state, double base, double t, MU_UNUSED double end) {
    return base / (1 + t / ((const struct inverse_t *)state)->scale);
}

const mu_schedule_class mu_schedule_inverse_t = {
    .name = "inverse_t",
    .help = "base / (1 + t / scale)",
    .fields = fields,
    .state_size = sizeof(struct inverse_t),
    .rate = rate,
};
