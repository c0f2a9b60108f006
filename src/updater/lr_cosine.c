// SPDX-License-Identifier: Apache-2.0
// lr_cosine.c - half a cosine from `base` to `final`, constant after it (Loshchilov, Hutter 2017):
//
//   p = min(t / over, 1);  rate = final + (base - final) * (1 + cos(pi * p)) / 2
//
// `over` 0 is the planned length of the training; while that is unknown the rate stays `base`. A
// deadline makes it end with the time, where that comes first.
#include "updater/updater.h"

#include <math.h>

struct cosine {
    double final;
    int64_t over;
};

static const mu_field fields[] = {
    MU_FIELD(struct cosine, final, MU_DOUBLE, "0", "[0,)", "rate at the end"),
    MU_FIELD(struct cosine, over, MU_INT, "0", "[0,)", "length in steps (or epochs); 0 = the whole training"),
    {0},
};

static double ends(const void *state, double end) {
    const struct cosine *s = state;
    return s->over ? (double)s->over : end;
}

static double rate(const void *state, double base, double t, double end) {
    const struct cosine *s = state;
    const double over = ends(state, end);
    if (over <= 0) return base;
    double p = t < over ? t / over : 1;
    return s->final + (base - s->final) * 0.5 * (1 + cos(M_PI * p));
}

const mu_schedule_class mu_schedule_cosine = {
    .name = "cosine",
    .help = "half a cosine from base to final",
    .fields = fields,
    .state_size = sizeof(struct cosine),
    .rate = rate,
    .ends = ends,
    .follows_time = true,
};
