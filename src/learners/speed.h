// SPDX-License-Identifier: Apache-2.0
// speed.h - which learners are slow: a comparison of how many gradients each made since the last look.
//
// Since the last look, not since the start: a learner that becomes slow in the second hour has made about as
// many as the others in all. One that was started since then did not have the whole time: it is left out.
#ifndef MU_LEARNERS_SPEED_H
#define MU_LEARNERS_SPEED_H

#include <stdbool.h>
#include <stdint.h>

enum { MU_SLOW_FACTOR = 3 };    // under softsync's bound others get no further than 5 times ahead

typedef struct mu_speed {       // of one learner
    // given at every look
    int64_t gradients;          // by all its incarnations, since the start
    bool    running;
    bool    is_new;             // started since the last look; taken back by the look
    // the answer
    int64_t done;               // since the last look
    int     n_faster;           // learners that made more than MU_SLOW_FACTOR times that
    bool    slow;               // it made some, and at least half of all learners are that much faster
    // between looks
    int64_t seen;               // gradients at the last one
} mu_speed;

void mu_speed_compare(mu_speed *s, int n);

#endif
