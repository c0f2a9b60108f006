// SPDX-License-Identifier: Apache-2.0
// p_softsync.c - n-softsync (Zhang, Gupta et al. 2015): an update takes the floor(lambda / n) oldest
// gradients.
//
// While a learner computes one gradient the others push about lambda, which is n updates: the mean staleness
// is n. Rudra found nearly none staler than 2 n; by default that is the bound: an update waits for a learner
// that would fall further behind. n = 1 takes as many gradients as there are learners, n = lambda one.
#include "ps/protocol.h"

struct softsync {
    int64_t n, bound;
};

static const mu_field fields[] = {
    MU_FIELD(struct softsync, n, MU_INT, "1", "[1,1M]",
             "an update takes learners / n gradients; also the mean staleness; at most the learners"),
    MU_FIELD(struct softsync, bound, MU_INT_OR_AUTO, "auto", "[0,1M]",
             "largest staleness of a gradient, 0 = no bound; auto = 2 n"),
    {0},
};

static int32_t splits(const void *state, int learners) {
    const int64_t n = ((const struct softsync *)state)->n;
    return (int32_t)(n < learners ? n : learners);
}

static int take(const mu_core *c, int waiting) {
    const int n = c->config.learners / c->config.splits;
    if (waiting == 0 || waiting < mu_core_reachable(c, n)) return -1;
    return waiting < n ? waiting : n;
}

static double expected_staleness(const void *state, int learners) { return splits(state, learners); }

static void configure(const void *state, mu_core_config *out) {
    const int64_t bound = ((const struct softsync *)state)->bound;
    out->splits = splits(state, out->learners);
    out->bound = bound == MU_AUTO ? 2 * out->splits : (int32_t)bound;
}

static const char *needs(const void *state, int64_t *learners) {
    *learners = ((const struct softsync *)state)->n;
    return "n";
}

const mu_protocol_class mu_protocol_softsync = {
    .name = "softsync",
    .help = "an update takes the oldest learners / n gradients; staleness about n, at most 2 n",
    .fields = fields,
    .state_size = sizeof(struct softsync),
    .take = take,
    .expected_staleness = expected_staleness,
    .configure = configure,
    .needs = needs,
};
