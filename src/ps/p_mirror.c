// SPDX-License-Identifier: Apache-2.0
// p_mirror.c - async with the weights mirrored: every learner has weights of its own, gradients go to all, and all
// apply all of them in one order. So all mirrors are the same weights at the same version, bit for bit, and what
// travels between cores is gradients in their cheapest form instead of lines of weights (compare sufficient
// factor broadcasting, Xie et al. 2016). Pays where gradients are factors: fully connected nets, small batches.
#include "ps/protocol.h"

static bool may_begin(const mu_core *c, const mu_core_learner *l) {
    (void)c;
    (void)l;
    return true;
}

static int take(const mu_core *c, int waiting) {
    (void)c;
    (void)waiting;
    return -1; // a push is an update by itself
}

static double expected_staleness(const void *state, int learners) {
    (void)state;
    return learners;
}

static void configure(const void *state, mu_core_config *out) {
    (void)state;
    out->splits = out->learners;
}

const mu_protocol_class mu_protocol_mirror = {
    .name = "mirror",
    .help = "async, but each learner keeps its own weights and applies everybody's gradients, in one order for all",
    .own_turn = true,
    .applies_itself = true,
    .mirrors = true,
    .may_begin = may_begin,
    .take = take,
    .expected_staleness = expected_staleness,
    .configure = configure,
};
