// SPDX-License-Identifier: Apache-2.0
// lr_poly.c - rate = base * (1 - t / over) ^ power, zero from `over` on (Caffe's poly).
//
// `over` 0 is the planned length of the training; while that is unknown the rate stays `base`. A
// deadline makes it end with the time, where that comes first.
#include "updater/updater.h"

#include <math.h>

struct poly {
    double power;
    int64_t over;
};

static const mu_field fields[] = {
    MU_FIELD(struct poly, power, MU_DOUBLE, "1", "(0,)", "1 falls in a line, more falls faster at first"),
    MU_FIELD(struct poly, over, MU_INT, "0", "[0,)", "length in steps (or epochs); 0 = the whole training"),
    {0},
};

static double ends(const void *state, double end) {
    const struct poly *s = state;
    return s->over ? (double)s->over : end;
}

static double rate(const void *state, double base, double t, double end) {
    const struct poly *s = state;
    const double over = ends(state, end);
    if (over <= 0) return base;
    return t < over ? base * pow(1 - t / over, s->power) : 0;
}

const mu_schedule_class mu_schedule_poly = {
    .name = "poly",
    .help = "base * (1 - t / over) ^ power, zero at the end",
    .fields = fields,
    .state_size = sizeof(struct poly),
    .rate = rate,
    .ends = ends,
    .follows_time = true,
};
