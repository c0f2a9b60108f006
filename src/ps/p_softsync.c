// SPDX-License-Identifier: Apache-2.0
// p_softsync.c - n-softsync (Zhang, Gupta et al. 2015): an update takes the floor(lambda / n) oldest
// gradients.
//
// Nobody waits for anybody. While a learner computes one gradient the others push about lambda, which is n
// updates: the mean staleness is n. n = 1 takes as many gradients as there are learners, n = lambda is async.
#include "ps/protocol.h"

struct softsync {
    int64_t n, bound;
};

static const mu_field fields[] = {
    MU_FIELD(struct softsync, n, MU_INT, "1", "[1,1M]",
             "an update takes learners / n gradients; also the mean staleness; at most the learners"),
    MU_FIELD(struct softsync, bound, MU_INT, "0", "[0,1M]", "largest staleness of a gradient, 0 = no bound"),
    {0},
};

static int32_t splits(const void *state, int learners) {
    const int64_t n = ((const struct softsync *)state)->n;
    return (int32_t)(n < learners ? n : learners);
}

static bool may_begin(const mu_core *c, const mu_core_learner *l) {
    (void)c;
    (void)l;
    return true;
}

static int take(const mu_core *c, int waiting) {
    const int n = c->config.learners / c->config.splits;
    if (waiting == 0 || waiting < mu_core_reachable(c, n)) return -1;
    return waiting < n ? waiting : n;
}

static double expected_staleness(const void *state, int learners) { return splits(state, learners); }

static void configure(const void *state, mu_core_config *out) {
    out->splits = splits(state, out->learners);
    out->bound = (int32_t)((const struct softsync *)state)->bound;
}

const mu_protocol_class mu_protocol_softsync = {
    .name = "softsync",
    .help = "an update takes the oldest learners / n gradients; nobody waits; staleness about n",
    .fields = fields,
    .state_size = sizeof(struct softsync),
    .bounds_staleness = true,
    .own_turn = true,
    .may_begin = may_begin,
    .take = take,
    .expected_staleness = expected_staleness,
    .configure = configure,
};
