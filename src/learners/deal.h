// SPDX-License-Identifier: Apache-2.0
// deal.h - samples that rank 0 deals to a group, a step's at a time (root.h), for its learners to read ahead. In
// memory that they share with their parent, which alone writes it.
//
// The group numbers its samples without a gap: step k has [base + k * width, + width). Which samples of the
// training these are it is told a few steps ahead; what was dealt long ago is forgotten.
#ifndef MU_LEARNERS_DEAL_H
#define MU_LEARNERS_DEAL_H

#include "comm/wait.h"

#include <stdbool.h>

enum { MU_DEAL = 256 };                 // steps: far more than are dealt and not done

typedef struct mu_deal {                // zeroed: samples are dealt by stripes (data/stripe.h)
    int64_t base, width;                // width 0 = so
    _Atomic int64_t known;              // steps
    mu_bell more;
    _Atomic int64_t first[MU_DEAL];
} mu_deal;

void mu_deal_begin(mu_deal *d, int64_t base, int64_t width);
// The samples of the next step begin here.
void mu_deal_add(mu_deal *d, int64_t first);
// The sample of the training that a number stands for. Waits until it is dealt; false: `stops` said so.
bool mu_deal_sample(mu_deal *d, int64_t number, bool (*stops)(void *), void *ctx, int64_t *out);

#endif
