// SPDX-License-Identifier: Apache-2.0
// core.c - the events of the protocol core.
//
// Every event is O(1), amortised where the slowest learner is looked for; forming and finishing an update is
// O(its gradients), and O(lambda) in step and under a bound. So is what mu_core_catch_up has to copy after
// it.
//
// Why no learner waits for ever, as long as lost ones are replaced. A learner holds for one of these:
//   no lease, no slot   the prefetch thread leases; slots are freed by updates, and an update is always
//                       possible when all learners that work have full queues (mu_core_reachable)
//   in step             the learners still at the step have leases and free slots for it
//   ssp                 the slowest learner that works is never held by the rule itself
//   bound               an update waits for a computing gradient only: a waiting one that would become too
//                       stale is taken along, with all that came before it
// Nobody holds for an update that waits for its second one (waits_for_pair).
#include "ps/core_inner.h"

#include <assert.h>
#include <string.h>

size_t mu_core_size(int learners) {
    const size_t n = (size_t)learners, parts = (size_t)mu_core_most_parts(learners);
    return sizeof(mu_core) + n * sizeof(mu_core_learner) + parts * sizeof(mu_core_part) + n * sizeof(int32_t);
}

// ---- phases ----

static void enter_phase(mu_core *c, int phase) {
    mu_core_config *g = &c->config;
    const mu_core_phase *p = &g->phase[phase];
    g->protocol = p->protocol;
    g->splits = (int32_t)core_max(1, core_min(p->splits, g->learners));
    g->bound = p->bound;
    g->own = p->own;
    g->rate_rule = p->rate_rule;
    g->gradient_scale = p->gradient_scale;
    c->phase = phase;
    c->phase_version = c->version;
}

// Would it be over after so many more samples?
static bool is_over(const mu_core *c, int64_t more) {
    return c->phase + 1 < c->config.n_phases && mu_core_samples(c) + more >= c->config.phase[c->phase].until;
}

// At an update's end.
static void follow_phases(mu_core *c) {
    const int was = c->phase;
    while (is_over(c, 0)) enter_phase(c, c->phase + 1);
    if (c->phase == was) return;
    for (int i = 0; i < c->config.learners; i++) {
        mu_core_learner *l = core_change(c, i);
        l->phase_step = mu_core_step(l) + l->computing;
    }
    core_recount_all(c);
}

// ---- life ----

void mu_core_init(mu_core *c, const mu_core_config *config) {
    assert(config->learners >= 1 && config->global_batch >= config->learners);
    assert(config->rows >= 1 && config->lease_batches >= 1);
    memset(c, 0, mu_core_size(config->learners));
    c->config = *config;
    c->config.splits = (int32_t)core_max(1, core_min(config->splits, config->learners));
    c->version = config->first_version;
    if (config->n_phases > 0) enter_phase(c, 0);
    while (is_over(c, 0)) enter_phase(c, c->phase + 1);
    c->phase_version = -1;
    c->halt = c->given = INT64_MAX;
    c->next_sample = config->first_sample;
    c->sync_end = core_sync_steps(config);
    core_recount_all(c);
    c->n_touched = config->learners + 1;
}

const mu_core_learner *mu_core_learner_at(const mu_core *c, int learner) {
    return &core_learners(c)[learner];
}
const mu_core_part *mu_core_part_at(const mu_core *c, int i) { return core_ring_at(c, i); }
const mu_core_part *mu_core_waiting(const mu_core *c, int i) { return core_waiting(c, i); }

// ---- two copies ----

const int32_t *mu_core_touched(const mu_core *c) { return core_touched(c); }

// The rows that `noted` names.
static size_t copy_rows(mu_core *to, const mu_core *from, const mu_core *noted) {
    const int32_t n = noted->n_touched, learners = from->config.learners;
    mu_core_learner *row = (mu_core_learner *)(to + 1);
    if (n > learners) {
        memcpy(row, core_learners(from), (size_t)learners * sizeof *row);
        return (size_t)learners * sizeof *row;
    }
    for (int i = 0; i < n; i++) row[core_touched(noted)[i]] = core_learners(from)[core_touched(noted)[i]];
    return (size_t)n * sizeof *row;
}

// The spare differs by what the last change made of good, and by what a change in vain made of the spare.
// Both lists stay readable until all rows are copied; so after a death in here the next process does it
// again.
size_t mu_core_catch_up(mu_core *spare, const mu_core *good) {
    if (!spare->config.learners) spare->config.learners = good->config.learners; // never used: all zero
    size_t n = copy_rows(spare, good, good) + copy_rows(spare, good, spare);
    const int used = good->n_parts + good->fifo_n;
    for (int i = used - good->n_appended; i < used; i++) {
        if (i < 0) continue;
        core_ring(spare)[core_ring_at(good, i) - core_ring(good)] = *core_ring_at(good, i);
        n += sizeof(mu_core_part);
    }
    atomic_signal_fence(memory_order_seq_cst);
    *spare = *good;
    spare->n_touched = spare->n_appended = 0;
    atomic_signal_fence(memory_order_seq_cst);
    return n + sizeof *good;
}

// ---- learners come and go ----

void mu_core_lost(mu_core *c, int learner) {
    if (!core_learners(c)[learner].present) return;
    mu_core_learner *l = core_change(c, learner);
    const bool again = l->computing && mu_core_pace(l) < 0; // what was in hand begins once more, and now here
    l->lost += l->computing;
    c->computing -= l->computing;
    l->present = l->computing = l->handed = 0;
    if (!again) return;
    l->phase_step--;
    core_recount_all(c);
}

void mu_core_leave(mu_core *c, int learner) {
    mu_core_lost(c, learner);
    mu_core_learner *l = core_change(c, learner);
    c->n_left += !l->left;
    l->left = 1;
    core_recount_all(c);
}

uint32_t mu_core_join(mu_core *c, int learner) {
    mu_core_lost(c, learner);
    mu_core_learner *l = core_change(c, learner);
    l->present = 1;
    return ++l->incarnation;
}

// ---- ask ----

// A gradient sees the updates of all others that are on the way with it, so the mean staleness is their
// number less those of its own update, in updates: n with lambda + lambda / n of them. A fifth more lets the
// first ones of a run go on while it is applied. Beyond that a learner whose gradient is in the run waits for
// it, and helps: one that begins earlier gets the weights of before the whole run. Returns the version to
// wait for, 0 = none.
static int64_t run_ahead(const mu_core *c, const mu_core_learner *l) {
    const int lambda = c->config.learners, most = lambda + lambda / 5 + lambda / c->config.splits;
    const bool in_run = l->accepted - l->applied > l->waiting;
    if (!in_run || mu_core_is_in_step(c) || c->computing + c->fifo_n + c->n_parts < most) return 0;
    return c->version + c->applying;
}

static int64_t version_for(const mu_core *c, const mu_core_learner *l) {
    const mu_protocol_class *p = core_class(c);
    return p->granted ? p->granted(c, l) : c->version;
}

// Weights of the halt may still change. Gradients that wait in queues meanwhile do no harm: they are a little
// stale.
static bool behind_halt(const mu_core *c, const mu_core_learner *l) {
    const bool in_queue = core_class(c)->take && !mu_core_is_in_step(c);
    return !in_queue && version_for(c, l) >= c->halt;
}

// In step an update needs the weights of the one before, so there is never a second one to form. A learner
// may begin during a run, on weights of before: the run must not be longer than the bound.
static int longest_run(const mu_core *c) {
    const int64_t left = core_max(0, c->halt - c->version);
    if (mu_core_is_in_step(c)) return (int)core_min(1, left);
    const int64_t n = core_min(c->config.longest_run, c->config.bound > 0 ? c->config.bound : MU_CORE_RUN);
    return (int)core_min(core_max(1, core_min(n, MU_CORE_RUN)), left);
}

// One gradient, an update of its own, waits for the next one, and both are formed together. Its learner goes
// on meanwhile, as all others do: any of them brings that next one, so at most lambda + 1 gradients are on
// the way. Once none has work left it is formed alone. Where learners wait for others they would wait for
// this, too: not there.
static bool waits_for_pair(const mu_core *c) {
    const mu_protocol_class *p = core_class(c);
    if (!c->config.pairs || c->fifo_n != 1 || c->applying || !c->working) return false;
    if (c->config.learners < 2 || c->config.bound > 0 || longest_run(c) < 2) return false;
    return p->take && !p->may_begin && p->take(c, 1) == 1;
}

static bool may_begin(const mu_core *c, int learner) {
    const mu_core_learner *l = &core_learners(c)[learner];
    const mu_protocol_class *p = core_class(c);
    if (l->handed == 0 || l->accepted - l->applied >= MU_CORE_SLOTS) return false;
    // The first samples behind a warm start wait for its end.
    if (mu_core_is_in_step(c) && mu_core_step(l) >= core_sync_end(c, learner)) return false;
    // Its last gradient may wait for others to make an update, but not for a server that is behind.
    if (l->waiting > 0 && p->take && p->take(c, c->fifo_n) >= 0 && !waits_for_pair(c)) return false;
    if (run_ahead(c, l) > 0 || behind_halt(c, l)) return false;
    return !p->may_begin || p->may_begin(c, l);
}

// Step, samples and version of the gradient in hand.
static mu_grant grant_of(const mu_core *c, const mu_core_learner *l) {
    const mu_lease *s = &l->lease[0];
    mu_grant g = {.step = mu_core_step(l), .version = l->version, .rows = mu_lease_rows(s, l->used)};
    g.first = s->first + l->used * s->stride;
    g.global_rows = g.step < c->sync_end ? core_sync_rows(c, g.step) : g.rows;
    return g;
}

static void begin(mu_core *c, int learner) {
    mu_core_learner *l = core_change(c, learner);
    l->version = version_for(c, l);
    l->computing = 1;
    l->begun++;
    c->computing++;
}

mu_answer mu_core_ask(mu_core *c, int learner, uint32_t incarnation, mu_grant *out) {
    const mu_core_learner *l = &core_learners(c)[learner];
    if (!l->present || l->incarnation != incarnation) return MU_END;
    if (!l->computing) {
        if (!core_work_left(c, learner)) return MU_END;
        if (!may_begin(c, learner)) {
            out->version = run_ahead(c, l);
            return MU_HOLD;
        }
        begin(c, learner);
    }
    *out = grant_of(c, l);
    return MU_GO;
}

mu_answer mu_core_ask_with(mu_core *c, int learner, uint32_t incarnation, int64_t has, mu_grant *out) {
    const bool begins = !core_learners(c)[learner].computing;
    const mu_answer a = mu_core_ask(c, learner, incarnation, out);
    if (a != MU_GO || !begins || mu_core_is_in_step(c) || has >= out->version) return a;
    core_change(c, learner)->version = out->version = has;
    return a;
}

// ---- push ----

static mu_push_result examine(const mu_core *c, const mu_gradient_id *id) {
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
    return mu_core_is_bound(c, id->learner, id->step) &&
           c->version + c->applying - id->version > c->config.bound;
}

static mu_core_learner *finish(mu_core *c, int learner) {
    mu_core_learner *l = core_change(c, learner);
    l->computing = 0;
    c->computing--;
    core_use_batch(c, l);
    return l;
}

static void reject(mu_core *c, const mu_gradient_id *id) {
    finish(c, id->learner)->rejected++;
    c->samples_rejected += id->rows;
    core_recount_step(c, id->learner);
}

static void count_applied(mu_core *c, const mu_gradient_id *id) {
    core_change(c, id->learner)->applied++;
    c->samples_applied += id->rows;
}

static void enqueue(mu_core *c, mu_core_learner *l, const mu_gradient_id *id) {
    *core_waiting(c, c->fifo_n) = (mu_core_part){.id = *id, .slot = mu_core_slot(l)};
    c->fifo_n++;
    c->n_appended++;
    l->waiting++;
}

mu_push_result mu_core_push(mu_core *c, const mu_gradient_id *id) {
    const mu_push_result v = examine(c, id);
    if (v != MU_ACCEPTED) return v;
    if (too_stale(c, id)) {
        reject(c, id);
        return MU_TOO_STALE;
    }
    const bool waits = core_class(c)->take != NULL;
    mu_core_learner *l = finish(c, id->learner);
    if (waits) {
        enqueue(c, l, id);
    } else { // it is in the weights
        c->version++;
        count_applied(c, id);
    }
    l->accepted++;
    core_recount_step(c, id->learner);
    return MU_ACCEPTED;
}

// ---- updates ----

// How many of the oldest gradients keep the bound when they are taken, at least n; -1 when one that is being
// computed would break it.
static int within_bound(const mu_core *c, int n) {
    const mu_core_learner *l = core_learners(c);
    const int64_t oldest = c->version + c->applying + 1 - c->config.bound; // allowed to stay behind
    for (int i = 0; i < c->config.learners; i++)
        if (l[i].computing && l[i].version < oldest && mu_core_is_bound(c, i, mu_core_step(&l[i]))) return -1;
    for (int i = n; i < c->fifo_n; i++) {
        const mu_gradient_id *id = &core_waiting(c, i)->id;
        if (id->version < oldest && mu_core_is_bound(c, id->learner, id->step)) n = i + 1;
    }
    return n;
}

// One more update of the oldest gradients that wait. False: not now.
static bool form_one(mu_core *c, const mu_protocol_class *p) {
    int n = p->take(c, c->fifo_n);
    if (n > 0 && c->config.bound > 0) n = within_bound(c, n);
    if (n <= 0) return false;
    for (int i = 0; i < n; i++) core_change(c, core_waiting(c, i)->id.learner)->waiting--;
    c->fifo_n -= n;
    c->n_parts += n;
    c->run_end[c->applying++] = (uint16_t)c->n_parts;
    return true;
}

static int64_t rows_taken(const mu_core *c) {
    int64_t rows = 0;
    for (int i = 0; i < c->n_parts; i++) rows += core_ring_at(c, i)->id.rows;
    return rows;
}

bool mu_core_form(mu_core *c) {
    const mu_protocol_class *p = core_class(c);
    if (c->applying || !p->take || waits_for_pair(c)) return false;
    const int most = longest_run(c);
    // The first one may come behind a phase that was over with a rejected gradient: it ends it.
    while (c->applying < most && !(c->applying && is_over(c, rows_taken(c))) && form_one(c, p)) {}
    return c->applying > 0;
}

int mu_core_update_of(const mu_core *c, int part) {
    int i = 0;
    while (part >= c->run_end[i]) i++;
    return i;
}

int64_t mu_core_staleness(const mu_core *c, int part) {
    return c->version + mu_core_update_of(c, part) - core_ring_at(c, part)->id.version;
}

// What waits will not be applied any more: its samples are used, its slots free.
static void reject_waiting(mu_core *c) {
    for (int i = 0; i < c->fifo_n; i++) {
        const mu_gradient_id *id = &core_waiting(c, i)->id;
        mu_core_learner *l = core_change(c, id->learner);
        l->accepted--;
        l->waiting--;
        l->rejected++;
        c->samples_rejected += id->rows;
    }
    c->fifo_n = 0;
}

void mu_core_applied(mu_core *c) {
    if (!c->applying) return;
    for (int i = 0; i < c->n_parts; i++) count_applied(c, &core_ring_at(c, i)->id);
    c->version += c->applying;
    c->applying = 0;
    c->ring_head = (c->ring_head + c->n_parts) % mu_core_most_parts(c->config.learners);
    c->n_parts = 0;
    follow_phases(c);
}

float mu_core_rate_weight(const mu_core *c, int64_t staleness, int parts) {
    const float scale = c->config.gradient_scale > 0 ? c->config.gradient_scale : 1;
    const float share = scale / (float)parts;
    switch (c->config.rate_rule) {
    case MU_RATE_MEAN:
        return share / (float)c->config.splits;
    case MU_RATE_EACH:
        return share / (float)core_max(1, staleness);
    default:
        return share;
    }
}

float mu_core_weight(const mu_core *c, int64_t staleness, int parts) {
    const mu_protocol_class *p = core_class(c);
    return (p->weight ? p->weight : mu_core_rate_weight)(c, staleness, parts);
}

float mu_core_rate_share(const mu_core *c, int64_t staleness) {
    return c->config.scale_free && !mu_core_is_in_step(c) ? 1 : mu_core_weight(c, staleness, 1);
}

bool mu_core_step_complete(const mu_core *c) {
    const int64_t step = c->version - c->config.first_version, lambda = c->config.learners;
    if (step >= c->sync_end || step >= c->given) return false;
    for (int i = 0; c->n_left > 0 && i < lambda; i++) {
        const mu_core_learner *l = &core_learners(c)[i];
        if (!l->left && mu_core_step(l) <= step) return false;
    }
    if (c->n_left > 0) return c->fifo_n > 0;
    return c->pushed >= lambda * step + core_min(lambda, core_sync_rows(c, step));
}

int mu_core_reachable(const mu_core *c, int wanted) {
    const int64_t most = core_max(c->working, c->fifo_n + c->computing);
    return (int)core_min(most, wanted);
}

// ---- the halt ----

void mu_core_set_halt(mu_core *c, int64_t version) { c->halt = version; }

void mu_core_set_given(mu_core *c, int64_t steps) { c->given = steps; }

bool mu_core_at_halt(const mu_core *c) { return c->version >= c->halt && !c->applying; }

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

// Samples are leased a little ahead, and in step each learner has rows of every global batch: the first one
// that is not applied is that of a gradient on its way, or the first of a learner's next gradient.
int64_t mu_core_cursor(const mu_core *c) {
    int64_t at = c->next_sample;
    for (int i = 0; i < c->n_parts + c->fifo_n; i++) at = core_min(at, core_ring_at(c, i)->id.first);
    for (int i = 0; i < c->config.learners; i++) {
        const mu_core_learner *l = &core_learners(c)[i];
        int64_t rows, first = at;
        if (mu_core_step(l) < core_sync_steps(&c->config)) {
            first = core_sync_first(c, i, mu_core_step(l), &rows);
            if (rows == 0) continue; // the last batch is too small for all
        } else if (l->n_leases) {
            first = l->lease[0].first + (int64_t)l->used * l->lease[0].stride;
        }
        at = core_min(at, first);
    }
    return at;
}

// Behind the steps made in step every lease is one range.
static mu_range open_lease(const mu_core_learner *l, int k) {
    const mu_lease *s = &l->lease[k];
    return (mu_range){s->first + (k == 0 ? l->used : 0) * s->stride,
                      s->first + (s->batches - 1) * s->stride + s->last_rows};
}

int mu_core_open(const mu_core *c, mu_range *out) {
    int n = 0;
    if (c->version - c->config.first_version < core_sync_steps(&c->config)) {
        out[0] = (mu_range){mu_core_cursor(c), c->next_sample};
        return out[0].first < out[0].end;
    }
    for (int i = 0; i < c->n_parts + c->fifo_n; i++) {
        const mu_gradient_id *id = &core_ring_at(c, i)->id;
        out[n++] = (mu_range){id->first, id->first + id->rows};
    }
    for (int i = 0; i < c->config.learners; i++) {
        const mu_core_learner *l = &core_learners(c)[i];
        for (int k = 0; k < l->n_leases; k++) out[n++] = open_lease(l, k);
    }
    return n;
}

bool mu_core_idle(const mu_core *c) { return c->fifo_n == 0 && c->computing == 0 && !c->applying; }

mu_ledger mu_core_ledger(const mu_core *c) {
    mu_ledger sum = mu_core_ledger_of(c, 0, c->config.learners);
    sum.in_flight = c->fifo_n + c->n_parts + c->computing;
    return sum;
}

mu_ledger mu_core_ledger_of(const mu_core *c, int first, int n) {
    const mu_core_learner *l = core_learners(c);
    mu_ledger sum = {0};
    for (int i = first; i < first + n; i++) {
        sum.produced += l[i].begun;
        sum.applied += l[i].applied;
        sum.rejected += l[i].rejected;
        sum.lost += l[i].lost;
    }
    return sum;
}
