// SPDX-License-Identifier: Apache-2.0
// core_lease.c - whose samples are whose, and who has work left.
//
// Samples are numbered through all epochs. In step, step s is samples [first + s * B, + B) of the run and
// learner l owns rows [B * l / lambda, B * (l + 1) / lambda) of each; its leases follow from its steps alone.
// Otherwise leases are cut one after the other from next_sample, for the learner that asks first. A lease
// belongs to its learner for good: a lost process leaves it to the next incarnation.
#include "ps/core_inner.h"

#include <string.h>

int64_t core_sync_steps(const mu_core_config *config) {
    const mu_protocol_class *p = mu_protocol_at(config->protocol);
    int64_t n = p->sync_versions ? p->sync_versions(config->warm_versions) : config->warm_versions;
    const int64_t samples = core_max(config->end_sample - config->first_sample, 0);
    n = core_min(n, samples / config->global_batch + (samples % config->global_batch > 0));
    return core_max(n, 0);
}

int64_t core_sync_rows(const mu_core *c, int64_t step) {
    const mu_core_config *g = &c->config;
    const int64_t left = (g->end_sample - g->first_sample) / g->global_batch; // whole batches
    if (step < left) return g->global_batch;
    return core_max(0, g->end_sample - g->first_sample - step * g->global_batch);
}

int64_t core_sync_first(const mu_core *c, int learner, int64_t step, int64_t *rows) {
    const int64_t batch = core_sync_rows(c, step), from = batch * learner / c->config.learners;
    *rows = batch * (learner + 1) / c->config.learners - from;
    return c->config.first_sample + step * c->config.global_batch + from;
}

int64_t core_sync_end(const mu_core *c, int learner) {
    int64_t rows;
    if (c->sync_end == 0) return 0;
    (void)core_sync_first(c, learner, c->sync_end - 1, &rows);
    return c->sync_end - (rows == 0); // the last batch may be too small for all
}

// Where samples for asynchronous gradients go on; behind the warm start even while that still runs.
static int64_t next_free(const mu_core *c) {
    const mu_core_config *g = &c->config;
    if (c->sync_end > (g->end_sample - g->first_sample) / g->global_batch) return g->end_sample;
    return core_max(c->next_sample, g->first_sample + c->sync_end * g->global_batch);
}

static bool lease_free(const mu_core *c) {
    return !c->stopping && next_free(c) < c->config.end_sample;
}

bool core_more(const mu_core *c, int learner) {
    return core_learners(c)[learner].sync_leased < core_sync_end(c, learner) || lease_free(c);
}

bool core_work_left(const mu_core *c, int learner) {
    const mu_core_learner *l = &core_learners(c)[learner];
    if (l->left) return false;
    if (mu_core_step(l) < core_sync_end(c, learner)) return true;
    if (c->stopping) return false;
    return l->n_leases > 0 || lease_free(c);
}

static mu_lease sync_lease(mu_core *c, mu_core_learner *l, int learner) {
    const mu_core_config *g = &c->config;
    const int64_t step = l->sync_leased;
    int64_t n = core_min(g->lease_batches, core_sync_end(c, learner) - step), rows;
    if (n > 1 && core_sync_rows(c, step + n - 1) < g->global_batch) n--; // a cut batch has its own rows
    const int64_t first = core_sync_first(c, learner, step, &rows);
    l->sync_leased += n;
    c->samples_leased += n * rows;
    const int64_t end = core_sync_rows(c, step + n - 1) + (step + n - 1) * g->global_batch;
    c->next_sample = core_max(c->next_sample, g->first_sample + end);
    return (mu_lease){first, (int32_t)n, (int32_t)rows, g->global_batch, (int32_t)rows};
}

static mu_lease free_lease(mu_core *c) {
    const mu_core_config *g = &c->config;
    const int64_t first = next_free(c), left = g->end_sample - first;
    const int64_t n = core_min(g->lease_batches, (left - 1) / g->rows + 1);
    const int64_t last = core_min(g->rows, left - (n - 1) * g->rows);
    c->next_sample = first + (n - 1) * g->rows + last;
    c->samples_leased += c->next_sample - first;
    return (mu_lease){first, (int32_t)n, (int32_t)g->rows, g->rows, (int32_t)last};
}

static int core_max_leases(const mu_core *c) {
    const int most = c->config.max_leases;
    return most > 0 && most < MU_CORE_LEASES ? most : MU_CORE_LEASES;
}

// A new lease for a learner that has been handed all of its old ones. False: none now, or (*ended) none left.
static bool cut_lease(mu_core *c, int learner, bool *ended) {
    *ended = !core_more(c, learner);
    if (*ended || core_learners(c)[learner].n_leases >= core_max_leases(c)) return false;
    mu_core_learner *l = core_change(c, learner);
    const bool sync = l->sync_leased < core_sync_end(c, learner);
    l->lease[l->n_leases++] = sync ? sync_lease(c, l, learner) : free_lease(c);
    if (!sync && !lease_free(c)) core_recount_all(c); // nothing is left for those without a lease
    return true;
}

bool mu_core_lease(mu_core *c, int learner, mu_lease *out, bool *ended) {
    const mu_core_learner *now = &core_learners(c)[learner];
    *ended = !now->present || !core_work_left(c, learner);
    if (*ended || (now->handed == now->n_leases && !cut_lease(c, learner, ended))) return false;
    mu_core_learner *l = core_change(c, learner);
    *out = l->lease[l->handed];
    if (l->handed++ == 0) { // after a loss the first may be used in part
        out->first += l->used * out->stride;
        out->batches -= l->used;
    }
    return true;
}

void core_use_batch(mu_core *c, mu_core_learner *l) {
    c->pushed++;
    if (++l->used < l->lease[0].batches) return;
    l->used = 0;
    l->n_leases--;
    l->handed--;
    memmove(l->lease, l->lease + 1, l->n_leases * sizeof l->lease[0]);
}

// ---- who has work left, and the slowest of them ----

static void set_working(mu_core *c, int learner, uint8_t working) {
    const uint8_t was = core_learners(c)[learner].working;
    if (was != working) core_change(c, learner)->working = working;
    c->working += working - was;
}

static bool is_slowest(const mu_core *c, const mu_core_learner *l) {
    return l->working && mu_core_pace(l) == c->slowest;
}

void core_recount_all(mu_core *c) {
    const mu_core_learner *l = core_learners(c);
    c->n_slowest = 0;
    c->slowest = INT64_MAX;
    for (int i = 0; i < c->config.learners; i++) {
        set_working(c, i, core_work_left(c, i));
        if (l[i].working) c->slowest = core_min(c->slowest, mu_core_pace(&l[i]));
    }
    for (int i = 0; i < c->config.learners; i++) c->n_slowest += is_slowest(c, &l[i]);
}

// The slowest learners are counted. So all are looked at only when the last of the slowest has moved on:
// once for every gradient of all, O(1) each.
void core_recount_step(mu_core *c, int learner) {
    const mu_core_learner *l = &core_learners(c)[learner];
    c->n_slowest -= l->working && mu_core_pace(l) - 1 == c->slowest;
    set_working(c, learner, core_work_left(c, learner));
    if (c->n_slowest == 0) core_recount_all(c);
}
