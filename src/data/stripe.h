// SPDX-License-Identifier: Apache-2.0
// stripe.h - the samples of a training dealt to groups, and numbered for each from the same beginning.
//
// With 2 groups and a width of 3, where g is the number in group g and all the number in the training:
//
//     all      base  1  2  3  4  5  6  7  8  9 10 11 ...
//     group 0  base  1  2           3  4  5          ...
//     group 1           base 1  2           3  4  5  ...
//
// The width is the batch of a group, so a step of all groups is one stretch of samples, the same one whatever
// the number of groups. A batch of a group never crosses a stripe: its samples are one stretch in both
// numbers. With one group both numbers are the same.
#ifndef MU_DATA_STRIPE_H
#define MU_DATA_STRIPE_H

#include "data/finished.h"

#include <stdbool.h>

typedef struct mu_stripe {              // of = 0 counts as 1
    int64_t base;                       // the first sample to be dealt, in both numbers
    int64_t width;
    int     index, of;
} mu_stripe;

int64_t mu_stripe_sample(const mu_stripe *s, int64_t number);   // in the training, of the group's number
// How the group counts when the training is at `sample`: base and what lies below is its own. INT64_MAX
// stays.
int64_t mu_stripe_count(const mu_stripe *s, int64_t sample);
// Samples of the training that are done when the group has used this many, if all groups are like it.
static inline int64_t mu_stripe_level(const mu_stripe *s, int64_t number) {
    return s->of < 2 ? number : s->base + (number - s->base) * s->of;
}
// Calls `add` with the stretches of the training's samples that the group's numbers are; stops when it says
// no.
bool mu_stripe_each(const mu_stripe *s, mu_range numbers, bool (*add)(void *ctx, mu_range samples),
                    void *ctx);

#endif
