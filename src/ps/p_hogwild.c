// SPDX-License-Identifier: Apache-2.0
// p_hogwild.c - learners write the shared weights themselves, without locks (Niu et al. 2011).
//
// There is no queue and no server: a push says that the gradient is in the weights already, and the clock
// ticks at once. Two learners that write the same weight at the same moment may lose one of the two changes;
// that is the price, small when gradients are sparse or small. History is each learner's own: what one core
// alone writes does not travel between them.
#include "ps/client_shared.h"

#include <string.h>

static double expected_staleness(MU_UNUSED const void *state, int learners) { return learners; }

static void configure(MU_UNUSED const void *state, mu_core_config *out) { out->splits = out->learners; }

// ---- the exchange ----

static int own_blocks(int n_history) { return n_history; }

static mu_status enter(mu_shared_client *c, MU_UNUSED mu_err *err) {
    mu_shared *g = c->shared;
    float *own[MU_MAX_SLOTS] = {0};
    // What it has done in this run before was in step.
    mu_own_fill(g, c->base.learner, c->accepted > 0 ? mu_stale_share(&g->setup->stale, g->updater) : 1);
    for (int k = 0; k < g->head->n_history; k++) own[k] = mu_own_history(g, c->base.learner, k);
    if (c->params) mu_params_rebase(c->params, g->weights, own);
    return MU_OK;
}

static mu_status begin(mu_shared_client *c, MU_UNUSED mu_err *err) {
    c->base.writes = true;
    const int64_t samples = atomic_load(&c->shared->head->samples);
    c->base.step_rate = c->rate_at(c->rate_ctx, c->base.grant.version, samples);
    c->base.step_rate.rate *= (double)c->rate_share;
    atomic_store_explicit(&c->shared->head->rate, c->base.step_rate.rate, memory_order_relaxed);
    return MU_OK;
}

static void accepted(mu_shared_client *c, const mu_core *core, const mu_gradient_id *id) {
    mu_shared_client_note_staleness(c, core->version - 1 - id->version);
}

// The weights, and the mean of the histories of those that have one: all learners wait for this.
static void copy_out(mu_shared *g, float *value, float *const *slot) {
    const size_t n = g->head->count;
    int filled = 0;
    for (int l = 0; l < g->head->n_learners; l++) filled += mu_own_is_filled(g, l);
    if (!filled) {
        mu_exchange_queue.copy_out(g, value, slot);
        return;
    }
    const float share = 1.0f / (float)filled;
    memcpy(value, g->weights, n * sizeof(float));
    for (int k = 0; k < g->head->n_history; k++) {
        float *restrict sum = slot[k];
        memset(sum, 0, n * sizeof(float));
        for (int l = 0; l < g->head->n_learners; l++) {
            if (!mu_own_is_filled(g, l)) continue;
            const float *restrict own = mu_own_history(g, l, k);
            for (size_t i = 0; i < n; i++) sum[i] += share * own[i];
        }
    }
}

static const mu_exchange exchange = {
    .slots = MU_CORE_SLOTS,
    .own_blocks = own_blocks,
    .enter = enter,
    .is_held = mu_own_is_held,
    .begin = begin,
    .accepted = accepted,
    .is_quiet = mu_own_is_quiet,
    .copy_out = copy_out,
};

const mu_protocol_class mu_protocol_hogwild = {
    .name = "hogwild",
    .help = "learners change the shared weights themselves, without locks; fastest at small batches",
    .expected_staleness = expected_staleness,
    .configure = configure,
    .objects = mu_own_objects,
    .exchange = &exchange,
    .own_histories = true,
};
