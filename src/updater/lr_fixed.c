// SPDX-License-Identifier: Apache-2.0
// lr_fixed.c - the rate stays `base`. Also what a plain number means: `rate: 0.01`.
#include "updater/updater.h"

static double rate(MU_UNUSED const void *state, double base, MU_UNUSED double t, MU_UNUSED double end) {
    return base;
}

const mu_schedule_class mu_schedule_fixed = {
    .name = "fixed", .help = "the same rate all the time", .rate = rate};
