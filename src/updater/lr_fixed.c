// SPDX-License-Identifier: Apache-2.0
// lr_fixed.c - the rate stays `base`. Also what a plain number means: `rate: 0.01`.
#include "updater/updater.h"

static double rate(const void *state, double base, double t, double end) {
    (void)state, (void)t, (void)end;
    return base;
}

const mu_schedule_class mu_schedule_fixed = {
    .name = "fixed", .help = "the same rate all the time", .rate = rate};
