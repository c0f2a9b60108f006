// SPDX-License-Identifier: Apache-2.0
// wrong_learner.c - learners/learner.c whose learners sleep in each step, for 30 to 90 ms by chance: how many
// of them work at a time does not depend on how fast, or how busy, the machine is.
#include "wrong/wrong.h"

#include "learners/learner.h"

#include "base/rng.h"

#include <time.h>
#include <unistd.h>

static mu_status slow_gradient(mu_worker *w, mu_step *s, int64_t first, float *scale, mu_err *err) {
    uint32_t word[4];
    mu_rng_block(mu_rng_key_make((uint64_t)getpid(), "slow"), 0, (uint64_t)s->step, word);
    const struct timespec nap = {.tv_nsec = 30000000 + (long)(word[0] % 60000000)};
    if (wrong("slow")) nanosleep(&nap, NULL);
    return mu_worker_gradient(w, s, first, scale, err);
}

#define mu_worker_gradient slow_gradient
#include "../../src/learners/learner.c"
