// SPDX-License-Identifier: Apache-2.0
// p_async.c - every gradient is an update of its own, in order of arrival; no learner waits.
#include "ps/protocol.h"

struct async {
    int64_t bound;
};

static const mu_field fields[] = {
    MU_FIELD(struct async, bound, MU_INT, "0", "[0,1M]", "largest staleness of a gradient, 0 = no bound"),
    {0},
};

static int take(MU_UNUSED const mu_core *c, int waiting) { return waiting > 0 ? 1 : -1; }

static double expected_staleness(MU_UNUSED const void *state, int learners) { return learners; }

static void configure(const void *state, mu_core_config *out) {
    out->splits = out->learners;
    out->bound = (int32_t)((const struct async *)state)->bound;
}

const mu_protocol_class mu_protocol_async = {
    .name = "async",
    .help = "every gradient is an update; no learner waits; staleness about the number of learners",
    .fields = fields,
    .state_size = sizeof(struct async),
    .take = take,
    .expected_staleness = expected_staleness,
    .configure = configure,
};
