// SPDX-License-Identifier: Apache-2.0
// lr_cooldown.c - constant, then straight down to 0 in the last share of the training:
//
//   from = (1 - share) * end;  rate = base * (t < from ? 1 : (end - t) / (end - from))
#include "updater/updater.h"

struct cooldown {
    double share;
};

static const mu_field fields[] = {
    MU_FIELD(struct cooldown, share, MU_DOUBLE, "0.2", "(0,1]",
             "part of the training in which the rate falls"),
    {0},
};

static double rate(const void *state, double base, double t, double end) {
    const struct cooldown *s = state;
    const double from = (1 - s->share) * end;
    if (end <= 0 || t < from) return base; // end 0: the length is not known
    return t < end ? base * (end - t) / (end - from) : 0;
}

const mu_schedule_class mu_schedule_cooldown = {
    .name = "cooldown",
    .help = "constant, then linear to zero at the end",
    .fields = fields,
    .state_size = sizeof(struct cooldown),
    .rate = rate,
};
