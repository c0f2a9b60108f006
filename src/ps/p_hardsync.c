// SPDX-License-Identifier: Apache-2.0
// p_hardsync.c - one gradient of every learner makes an update; nobody computes on older weights.
//
// Update s takes the gradients of step s. Together they are the gradient of one global batch, so the weights
// are those of a single learner with that batch, whatever the number of learners. A learner may begin step
// s + 1 while update s is still being applied: it waits for each layer's weights just before it needs them.
#include "ps/protocol.h"

static bool may_begin(const mu_core *c, const mu_core_learner *l) {
    const int64_t ahead = mu_core_step(l) - (c->version - c->config.first_version);
    return ahead == 0 || (ahead == 1 && c->applying);
}

static int take(const mu_core *c, int waiting) { return mu_core_step_complete(c) ? waiting : -1; }

static double expected_staleness(const void *state, int learners) {
    (void)state;
    (void)learners;
    return 0;
}

const mu_protocol_class mu_protocol_hardsync = {
    .name = "hardsync",
    .help = "every update takes one gradient of each learner; the result of one learner with the whole batch",
    .synchronous = true,
    .may_begin = may_begin,
    .take = take,
    .expected_staleness = expected_staleness,
};
