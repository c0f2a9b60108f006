// SPDX-License-Identifier: Apache-2.0
// p_hardsync.c - one gradient of every learner makes an update; no learner computes on older weights.
//
// Update s takes the gradients of step s. Together they are the gradient of one global batch, so the weights
// are those of a single learner with that batch, whatever the number of learners. A learner may begin step
// s + 1 while update s is still being applied: it waits for each layer's weights just before it needs them.
//
// Other protocols begin their trainings with it: the warm start.
#include "ps/protocol.h"

#include <math.h>

static bool may_begin(const mu_core *c, const mu_core_learner *l) {
    const int64_t ahead = mu_core_step(l) - (c->version - c->config.first_version);
    return ahead == 0 || (ahead == 1 && c->applying);
}

static int take(const mu_core *c, int waiting) { return mu_core_step_complete(c) ? waiting : -1; }

static int64_t granted(const mu_core *c, const mu_core_learner *l) {
    return c->config.first_version + mu_core_step(l);
}

static float weight(MU_UNUSED const mu_core *c, MU_UNUSED int64_t staleness, MU_UNUSED int parts) {
    return 1; // losses are divided by the global batch already
}

static int64_t sync_versions(MU_UNUSED int64_t warm_versions) { return INT64_MAX; }

static double expected_staleness(MU_UNUSED const void *state, MU_UNUSED int learners) { return 0; }

static void configure(MU_UNUSED const void *state, mu_core_config *out) { out->rate_rule = MU_RATE_PLAIN; }

static double warm_steps(MU_UNUSED double asked, MU_UNUSED double epoch, MU_UNUSED double end) {
    return 0; // it is warm
}

// Shares may differ by one, so that the global batch is always exact. A mu of its own leaves the job's batch,
// and the rate follows (rudra 3.2, SPEC D3).
static void share_batch(mu_setup *p, int64_t asked) {
    const int64_t batch = p->reference_batch, n = p->learners;
    p->rows = asked ? asked : (batch + n - 1) / n;
    p->global_batch = asked ? asked * n : batch;
    p->rate_factor = asked ? sqrt((double)p->global_batch / (double)batch) : 1;
}

static bool objects(mu_choice choice, mu_objection *out) {
    if (choice != MU_CHOICE_CLIP_NORM) return false;
    *out = (mu_objection){.why = "`clip_norm` limits the gradient of each learner, not their mean"};
    return true;
}

const mu_protocol_class mu_protocol_hardsync = {
    .name = "hardsync",
    .help = "every update takes one gradient of each learner; the result of one learner with the whole batch",
    .may_begin = may_begin,
    .take = take,
    .granted = granted,
    .weight = weight,
    .sync_versions = sync_versions,
    .expected_staleness = expected_staleness,
    .configure = configure,
    .warm_steps = warm_steps,
    .share_batch = share_batch,
    .objects = objects,
};

const mu_protocol_class *const mu_warm_protocol = &mu_protocol_hardsync;
