// SPDX-License-Identifier: Apache-2.0
// p_kbatch.c - K-batch async (Dutta et al. 2018): an update takes the k oldest gradients, whoever they come
// from. While a learner computes one gradient, learners / k updates pass: that is its staleness.
#include "ps/protocol.h"

struct kbatch {
    int64_t k;
};

static const mu_field fields[] = {
    MU_FIELD(struct kbatch, k, MU_INT, "4", "[1,1M]", "gradients of an update; at most the learners"),
    {0},
};

static int32_t k_of(const void *state, int learners) {
    const int64_t k = ((const struct kbatch *)state)->k;
    return (int32_t)(k < learners ? k : learners);
}

static int take(const mu_core *c, int waiting) {
    const int k = c->config.own;
    // At the end of the samples fewer than k may be left.
    if (waiting == 0 || waiting < mu_core_reachable(c, k)) return -1;
    return waiting < k ? waiting : k;
}

static double expected_staleness(const void *state, int learners) {
    return (double)learners / k_of(state, learners);
}

static void configure(const void *state, mu_core_config *out) {
    out->splits = out->learners / k_of(state, out->learners); // updates of a step
    out->own = k_of(state, out->learners);                    // no other code reads it
}

const mu_protocol_class mu_protocol_kbatch = {
    .name = "kbatch",
    .help = "an update takes the k oldest gradients, whoever they come from",
    .fields = fields,
    .state_size = sizeof(struct kbatch),
    .take = take,
    .expected_staleness = expected_staleness,
    .configure = configure,
};
