// SPDX-License-Identifier: Apache-2.0
// lr_linear.c - a straight line from `base` to `final`, constant after it:
//
//   p = min(t / over, 1);  rate = (1 - p) * base + p * final
//
// `over` 0 is the planned length of the training; while that is unknown the rate stays `base`. A
// deadline makes it end with the time, where that comes first.
#include "updater/updater.h"

struct linear {
    double final;
    int64_t over;
};

static const mu_field fields[] = {
    MU_FIELD(struct linear, final, MU_DOUBLE, "0", "[0,)", "rate at the end of the line"),
    MU_FIELD(struct linear, over, MU_INT, "0", "[0,)", "length in steps (or epochs); 0 = the whole training"),
    {0},
};

static double ends(const void *state, double end) {
    const struct linear *s = state;
    return s->over ? (double)s->over : end;
}

static double rate(const void *state, double base, double t, double end) {
    const struct linear *s = state;
    const double over = ends(state, end);
    if (over <= 0) return base;
    double p = t < over ? t / over : 1;
    return (1 - p) * base + p * s->final;
}

const mu_schedule_class mu_schedule_linear = {
    .name = "linear",
    .help = "straight line from base to final",
    .fields = fields,
    .state_size = sizeof(struct linear),
    .rate = rate,
    .ends = ends,
    .follows_time = true,
};
