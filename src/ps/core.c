// SPDX-License-Identifier: Apache-2.0
// core.c - the events of the protocol core.
//
// Every event is O(1), amortised where the slowest learner is looked for; forming and finishing an update is
// O(its gradients), and O(lambda) for hardsync and under a bound.
//
// Why nobody waits for ever, as long as lost learners are replaced. A learner holds for one of these:
//   no lease, no slot   the prefetch thread leases; slots are freed by updates, and an update is always
//                       possible when all learners that work have full queues (mu_core_reachable)
//   hardsync            the learners still at the step have leases and free slots for it
//   ssp                 the slowest learner that works is never held by the rule itself
//   bound               an update waits for a computing gradient only: a waiting one that would become too
//                       stale is taken along, with all that came before it
//   end_version         the gradients of the last updates are waiting or computed; one that is lost or
//                       dropped makes room for another. Groups are smaller only when nothing is being
//                       computed, so none is computed in vain
#include "ps/core_inner.h"

#include <assert.h>
#include <string.h>

static const mu_protocol_class *class_of(const mu_core *c) { return mu_protocol_at(c->protocol); }

size_t mu_core_size(int learners) {
    const size_t parts = (size_t)mu_core_most_parts(learners);
    return sizeof(mu_core) + (size_t)learners * sizeof(mu_core_learner) + 2 * parts * sizeof(mu_core_part);
}

void mu_core_init(mu_core *c, const mu_core_config *config) {
    assert(config->learners >= 1 && config->global_batch >= config->learners);
    assert(config->rows >= 1 && config->lease_batches >= 1);
    memset(c, 0, mu_core_size(config->learners));
    c->config = *config;
    c->config.splits = (int32_t)core_max(1, core_min(config->splits, config->learners));
    c->config.every = (int32_t)core_max(1, config->every);
    c->version = config->first_version;
    c->next_sample = config->first_sample;
    c->sync_end = core_sync_steps(config);
    c->protocol = config->protocol;
    if (c->sync_end > 0 && !class_of(c)->synchronous) c->protocol = mu_protocol_index("hardsync");
    core_recount_all(c);
}

const mu_core_learner *mu_core_learner_at(const mu_core *c, int learner) {
    return &core_learners(c)[learner];
}
const mu_core_part *mu_core_parts(const mu_core *c) { return core_parts(c); }
const mu_core_part *mu_core_waiting(const mu_core *c, int i) { return core_waiting(c, i); }

// ---- learners come and go ----

void mu_core_lost(mu_core *c, int learner) {
    mu_core_learner *l = &core_learners(c)[learner];
    if (!l->present) return;
    l->lost += l->computing;
    c->computing -= l->computing;
    l->present = l->computing = l->handed = 0;
}

uint32_t mu_core_join(mu_core *c, int learner) {
    mu_core_learner *l = &core_learners(c)[learner];
    mu_core_lost(c, learner);
    l->present = 1;
    return ++l->incarnation;
}

// ---- ask ----

// Enough gradients wait or are computed for all updates that may still come.
static bool end_is_covered(const mu_core *c) {
    const mu_protocol_class *p = class_of(c);
    const int group = p->applies_itself ? 1 : p->take(c, mu_core_most_parts(c->config.learners));
    const int64_t updates = c->config.end_version - c->version - c->applying;
    return group > 0 && (c->fifo_n + c->computing) / group >= updates;
}

static bool may_begin(const mu_core *c, int learner) {
    const mu_core_learner *l = &core_learners(c)[learner];
    const mu_protocol_class *p = class_of(c);
    if (l->handed == 0 || l->accepted - l->applied >= MU_CORE_SLOTS) return false;
    if (p->synchronous) { // the first samples behind a warm start wait for its end
        if (mu_core_step(l) >= core_sync_end(c, learner)) return false;
    } else {
        if (end_is_covered(c)) return false;
        // Its last gradient may wait for others to make an update, but not for a server that is behind: with
        // one gradient each on the way the mean staleness is n.
        if (l->waiting > 0 && p->take(c, c->fifo_n) >= 0) return false;
    }
    return p->may_begin(c, l);
}

// Step, samples and version of the gradient in hand.
static mu_grant grant_of(const mu_core *c, const mu_core_learner *l) {
    const mu_lease *s = &l->lease[0];
    mu_grant g = {.step = mu_core_step(l), .version = l->version, .rows = mu_lease_rows(s, l->used)};
    g.first = s->first + l->used * s->stride;
    g.global_rows = g.step < c->sync_end ? core_sync_rows(c, g.step) : g.rows;
    return g;
}

mu_answer mu_core_ask(mu_core *c, int learner, uint32_t incarnation, mu_grant *out) {
    mu_core_learner *l = &core_learners(c)[learner];
    if (!l->present || l->incarnation != incarnation) return MU_END;
    if (!l->computing) {
        if (!core_work_left(c, learner)) return MU_END;
        if (!may_begin(c, learner)) return MU_HOLD;
        l->version = class_of(c)->synchronous ? c->config.first_version + mu_core_step(l) : c->version;
        l->computing = 1;
        l->begun++;
        c->computing++;
    }
    *out = grant_of(c, l);
    return MU_GO;
}

// ---- push and drop ----

static mu_verdict examine(const mu_core *c, const mu_gradient_id *id) {
    if (id->learner < 0 || id->learner >= c->config.learners) return MU_UNEXPECTED;
    const mu_core_learner *l = &core_learners(c)[id->learner];
    if (!l->present || l->incarnation != id->incarnation) return MU_FENCED;
    if (!l->computing) return MU_UNEXPECTED;
    const mu_grant g = grant_of(c, l);
    if (id->step != g.step || id->first != g.first || id->rows != g.rows) return MU_UNEXPECTED;
    // Weights that were copied a little after the grant may be newer.
    if (id->version < g.version || id->version > core_max(g.version, c->version)) return MU_UNEXPECTED;
    return MU_ACCEPTED;
}

static bool too_stale(const mu_core *c, const mu_gradient_id *id) {
    if (!class_of(c)->bounds_staleness || c->config.bound == 0) return false;
    return c->version + c->applying - id->version > c->config.bound;
}

static void finish(mu_core *c, mu_core_learner *l) {
    l->computing = 0;
    c->computing--;
    core_use_batch(c, l);
}

static void reject(mu_core *c, const mu_gradient_id *id) {
    mu_core_learner *l = &core_learners(c)[id->learner];
    finish(c, l);
    l->rejected++;
    c->samples_rejected += id->rows;
    core_recount(c, id->learner);
}

static void count_applied(mu_core *c, const mu_gradient_id *id) {
    core_learners(c)[id->learner].applied++;
    c->samples_applied += id->rows;
}

mu_verdict mu_core_push(mu_core *c, const mu_gradient_id *id) {
    const mu_verdict v = examine(c, id);
    if (v != MU_ACCEPTED) return v;
    if (too_stale(c, id)) {
        reject(c, id);
        return MU_TOO_STALE;
    }
    mu_core_learner *l = &core_learners(c)[id->learner];
    finish(c, l);
    if (class_of(c)->applies_itself) {
        c->version++;
        count_applied(c, id);
    } else {
        *core_waiting(c, c->fifo_n) = (mu_core_part){.id = *id, .slot = mu_core_slot(l)};
        c->fifo_n++;
        l->waiting++;
    }
    l->accepted++;
    core_recount(c, id->learner);
    if (core_over(c)) core_recount_all(c);
    return MU_ACCEPTED;
}

void mu_core_drop(mu_core *c, const mu_gradient_id *id) {
    if (examine(c, id) == MU_ACCEPTED) reject(c, id);
}

// ---- updates ----

// How many of the oldest gradients keep the bound when they are taken, at least n; -1 when one that is being
// computed would break it.
static int within_bound(const mu_core *c, int n) {
    const mu_core_learner *l = core_learners(c);
    const int64_t oldest = c->version + 1 - c->config.bound; // allowed to stay behind
    for (int i = 0; i < c->config.learners; i++)
        if (l[i].computing && l[i].version < oldest) return -1;
    for (int i = n; i < c->fifo_n; i++)
        if (core_waiting(c, i)->id.version < oldest) n = i + 1;
    return n;
}

// Hardsync adds its gradients in the order of the learners, so that the sum does not depend on who was first.
static void take_in_order(mu_core *c, int n) {
    mu_core_part *part = core_parts(c);
    for (int i = 0; i < c->config.learners; i++) part[i].id.learner = -1;
    for (int i = 0; i < n; i++) part[core_waiting(c, i)->id.learner] = *core_waiting(c, i);
    int kept = 0;
    for (int i = 0; i < c->config.learners; i++)
        if (part[i].id.learner >= 0) part[kept++] = part[i];
}

bool mu_core_form(mu_core *c) {
    const mu_protocol_class *p = class_of(c);
    if (c->applying || p->applies_itself || core_over(c)) return false;
    int n = p->take(c, c->fifo_n);
    if (n >= 0 && p->bounds_staleness && c->config.bound > 0) n = within_bound(c, n);
    if (n < 0) return false;
    mu_core_part *part = core_parts(c);
    if (p->synchronous) take_in_order(c, n);
    else
        for (int i = 0; i < n; i++) part[i] = *core_waiting(c, i);
    for (int i = 0; i < n; i++) {
        part[i].weight = mu_core_weight(c, mu_core_staleness(c, &part[i]), n);
        core_learners(c)[part[i].id.learner].waiting--;
    }
    c->fifo_head = (c->fifo_head + n) % mu_core_most_parts(c->config.learners);
    c->fifo_n -= n;
    c->n_parts = n;
    c->applying = 1;
    if (core_over(c)) core_recount_all(c);
    return true;
}

// What waits will not be applied any more: its samples are used, its slots free.
static void reject_waiting(mu_core *c) {
    for (int i = 0; i < c->fifo_n; i++) {
        const mu_gradient_id *id = &core_waiting(c, i)->id;
        mu_core_learner *l = &core_learners(c)[id->learner];
        l->accepted--;
        l->waiting--;
        l->rejected++;
        c->samples_rejected += id->rows;
    }
    c->fifo_n = 0;
}

void mu_core_applied(mu_core *c) {
    if (!c->applying) return;
    const mu_core_part *part = core_parts(c);
    for (int i = 0; i < c->n_parts; i++) count_applied(c, &part[i].id);
    c->version++;
    c->applying = 0;
    c->n_parts = 0;
    if (c->version - c->config.first_version >= c->sync_end) c->protocol = c->config.protocol;
}

float mu_core_weight(const mu_core *c, int64_t staleness, int parts) {
    if (class_of(c)->synchronous) return 1; // its losses are divided by the global batch already
    const float share = 1 / (float)parts;
    switch (c->config.rate_rule) {
    case MU_RATE_MEAN:
        return share / (float)c->config.splits / (0.5f * (float)(1 + c->config.every));
    case MU_RATE_EACH:
        return share / (float)core_max(1, staleness);
    default:
        return share;
    }
}

bool mu_core_step_complete(const mu_core *c) {
    const int64_t step = c->version - c->config.first_version, lambda = c->config.learners;
    if (step >= c->sync_end) return false;
    return c->pushed >= lambda * step + core_min(lambda, core_sync_rows(c, step));
}

int mu_core_reachable(const mu_core *c, int wanted) {
    const int64_t most = core_max(c->working, c->fifo_n + c->computing);
    return (int)core_min(most, wanted);
}

// ---- the end ----

void mu_core_stop(mu_core *c) {
    const mu_core_learner *l = core_learners(c);
    int64_t begun = 0;
    for (int i = 0; i < c->config.learners; i++)
        begun = core_max(begun, mu_core_step(&l[i]) + l[i].computing);
    c->stopping = 1;
    c->sync_end = core_min(c->sync_end, begun);
    core_recount_all(c);
}

void mu_core_abandon(mu_core *c) {
    for (int i = 0; i < c->config.learners; i++) mu_core_lost(c, i);
    reject_waiting(c);
    c->stopping = 1;
    c->sync_end = core_min(c->sync_end, c->version + c->applying - c->config.first_version);
    core_recount_all(c);
}

bool mu_core_idle(const mu_core *c) { return c->fifo_n == 0 && c->computing == 0 && !c->applying; }

mu_ledger mu_core_ledger(const mu_core *c) {
    const mu_core_learner *l = core_learners(c);
    mu_ledger sum = {0};
    for (int i = 0; i < c->config.learners; i++) {
        sum.produced += l[i].begun;
        sum.applied += l[i].applied;
        sum.rejected += l[i].rejected;
        sum.lost += l[i].lost;
    }
    sum.in_flight = c->fifo_n + c->n_parts + c->computing;
    return sum;
}
