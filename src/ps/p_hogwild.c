// SPDX-License-Identifier: Apache-2.0
// p_hogwild.c - learners write the shared weights themselves, without locks (Niu et al. 2011).
//
// There is no queue and no server: a push says that the gradient is in the weights already, and the clock
// ticks at once. Two learners that write the same weight at the same moment may lose one of the two changes;
// that is the price, small when gradients are sparse or small.
#include "ps/protocol.h"

static bool may_begin(const mu_core *c, const mu_core_learner *l) {
    (void)c;
    (void)l;
    return true;
}

static double expected_staleness(const void *state, int learners) {
    (void)state;
    return learners;
}

static void configure(const void *state, mu_core_config *out) {
    (void)state;
    out->splits = out->learners;
    out->bound = 0;
}

const mu_protocol_class mu_protocol_hogwild = {
    .name = "hogwild",
    .help = "learners change the shared weights themselves, without locks; fastest at small batches",
    .applies_itself = true,
    .starts_at_once = true,
    .own_turn = true,
    .may_begin = may_begin,
    .expected_staleness = expected_staleness,
    .configure = configure,
};
