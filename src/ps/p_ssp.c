// SPDX-License-Identifier: Apache-2.0
// p_ssp.c - stale synchronous parallel (Ho et al. 2013): async, but the fastest learner is never more than
// `bound` gradients ahead of the slowest one that still has work.
//
// A learner that died counts with what it had done: its replacement goes on there. Bound 0 lets every learner
// do one gradient, then waits for all: half of the others' updates fall into a gradient's time, not all of
// them.
#include "ps/protocol.h"

struct ssp {
    int64_t bound;
};

static const mu_field fields[] = {
    MU_FIELD(struct ssp, bound, MU_INT, "3", "[0,1M]",
             "gradients by which the fastest learner may be ahead of the slowest"),
    {0},
};

static bool may_begin(const mu_core *c, const mu_core_learner *l) {
    return mu_core_pace(l) - c->slowest <= c->config.own;
}

static int take(MU_UNUSED const mu_core *c, int waiting) { return waiting > 0 ? 1 : -1; }

// A learner waits for the slowest one, and each gradient taken may have been that one's.
static int wakes(MU_UNUSED const mu_core *c) { return -1; }

static int32_t splits(const void *state, int learners) {
    return ((const struct ssp *)state)->bound > 0 ? learners : (learners + 1) / 2;
}

static double expected_staleness(const void *state, int learners) { return splits(state, learners); }

static void configure(const void *state, mu_core_config *out) {
    out->splits = splits(state, out->learners);
    out->own = (int32_t)((const struct ssp *)state)->bound;
}

const mu_protocol_class mu_protocol_ssp = {
    .name = "ssp",
    .help = "every gradient is an update; the fastest learner waits when too far ahead of the slowest",
    .fields = fields,
    .state_size = sizeof(struct ssp),
    .may_begin = may_begin,
    .take = take,
    .wakes = wakes,
    .expected_staleness = expected_staleness,
    .configure = configure,
};
