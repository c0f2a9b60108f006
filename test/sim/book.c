// SPDX-License-Identifier: Apache-2.0
// book.c - what must be true, by the simulator's own account.
//
// The book follows the calls and answers only. It knows each sample's state, each learner's promised batches
// in order, the waiting gradients in order of arrival, and recomputes staleness and weights as core.h
// defines them. The core's memory is read in book_form (which parts), book_check and book_end alone.
#include "sim/sim.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

bool book_wrong(book *b, const char *format, ...) {
    if (!book_good(b)) return false;
    va_list args;
    va_start(args, format);
    vsnprintf(b->why, sizeof b->why, format, args);
    va_end(args);
    return false;
}

static int64_t min64(int64_t a, int64_t b) { return a < b ? a : b; }

static int64_t step_of(const book_learner *l) { return l->accepted + l->rejected; }
static int64_t pace_of(const book_learner *l) { return step_of(l) - l->phase_step; }

// The protocol of the first phase that is not over, at the end of an update.
static void follow_phases(book *b) {
    const mu_core_config *g = &b->config;
    const int was = b->phase;
    while (b->phase + 1 < g->n_phases &&
           (b->phase < 0 || g->first_sample + b->sum_applied + b->sum_rejected >= g->phase[b->phase].until)) {
        const mu_core_phase *p = &g->phase[++b->phase];
        b->config.protocol = p->protocol, b->config.splits = p->splits, b->config.bound = p->bound;
        b->config.own = p->own, b->config.rate_rule = p->rate_rule;
        b->config.gradient_scale = p->gradient_scale;
        b->target = mu_protocol_at(p->protocol);
    }
    if (b->phase == was) return;
    for (int i = 0; i < g->learners; i++)
        b->learner[i].phase_step = step_of(&b->learner[i]) + b->learner[i].computing;
}

void book_init(book *b, const mu_core_config *config) {
    if (b->top > 0) memset(b->sample, BOOK_FREE, (size_t)b->top);
    b->config = *config;
    b->target = mu_protocol_at(config->protocol);
    b->version = config->first_version;
    b->top = b->sum_applied = b->sum_rejected = 0;
    b->applying = 0;
    b->stopping = false;
    b->n_parts = b->n_computing = b->fifo_head = b->fifo_n = 0;
    b->fifo_size = mu_core_most_parts(config->learners);
    b->sync_end = config->warm_versions;
    if (strcmp(b->target->name, "hardsync") == 0) b->sync_end = INT64_MAX;
    if (config->end_sample < INT64_MAX) {
        int64_t samples = config->end_sample - config->first_sample;
        b->sync_end = min64(b->sync_end, (samples + config->global_batch - 1) / config->global_batch);
    }
    for (int i = 0; i < config->learners; i++) {
        book_learner *l = &b->learner[i];
        memset(l, 0, offsetof(book_learner, owed));
    }
    b->phase = -1;
    follow_phases(b);
    b->why[0] = 0;
}

static bool is_sync(const book *b) { return b->version - b->config.first_version < b->sync_end; }

// Moves the samples of a gradient from one state to the next; each must have been in the first.
static void move(book *b, int64_t first, int64_t rows, uint8_t from, uint8_t to) {
    int64_t at = first - b->config.first_sample;
    if (rows < 1 || at < 0 || at + rows > SIM_MAX_SAMPLES || first + rows > b->config.end_sample) {
        book_wrong(b, "samples %" PRId64 " + %" PRId64 " do not exist", first, rows);
        return;
    }
    for (int64_t i = at; i < at + rows; i++) {
        if (b->sample[i] != from)
            book_wrong(b, "sample %" PRId64 " became %d from %d, not from %d", first - at + i, to,
                       b->sample[i], from);
        b->sample[i] = to;
    }
    if (at + rows > b->top) b->top = at + rows;
}

void book_join(book *b, int learner, uint32_t incarnation) {
    book_learner *l = &b->learner[learner];
    book_lost(b, learner);
    if (incarnation != l->incarnation + 1)
        book_wrong(b, "learner %d: incarnation %u after %u", learner, incarnation, l->incarnation);
    l->incarnation = incarnation;
    l->present = true;
}

void book_lost(book *b, int learner) {
    book_learner *l = &b->learner[learner];
    if (!l->present) return;
    if (l->computing && step_of(l) < l->phase_step) l->phase_step--; // begins once more
    l->lost += l->computing;
    b->n_computing -= l->computing;
    l->present = l->computing = false;
    l->handed = 0;
}

// ---- samples ----

static sim_batch *owed_at(book_learner *l, int i) {
    return &l->owed[(l->head + i) % (MU_CORE_LEASES * SIM_MAX_BATCHES)];
}

void book_lease(book *b, int learner, const mu_lease *lease) {
    book_learner *l = &b->learner[learner];
    for (int k = 0; k < lease->batches; k++) {
        sim_batch batch = {lease->first + k * lease->stride, mu_lease_rows(lease, k)};
        if (l->handed < l->n_owed) { // left over by an incarnation before
            const sim_batch *old = owed_at(l, l->handed);
            if (old->first != batch.first || old->rows != batch.rows)
                book_wrong(b, "learner %d: leased %" PRId64 " again, %" PRId64 " was promised", learner,
                           batch.first, old->first);
        } else if (l->n_owed == MU_CORE_LEASES * SIM_MAX_BATCHES) {
            book_wrong(b, "learner %d holds more leases than allowed", learner);
        } else {
            move(b, batch.first, batch.rows, BOOK_FREE, BOOK_PROMISED);
            *owed_at(l, l->n_owed++) = batch;
        }
        l->handed++;
    }
}

static void use_batch(book *b, book_learner *l) {
    l->head = (l->head + 1) % (MU_CORE_LEASES * SIM_MAX_BATCHES);
    l->n_owed--;
    l->handed--;
    l->computing = false;
    b->n_computing--;
}

static bool samples_left(const book *b) { return b->config.first_sample + b->top < b->config.end_sample; }

// ---- permission ----

// ssp: no learner begins more than `own` gradients ahead of the slowest that still has work.
static void check_ahead(book *b, int learner) {
    int64_t slowest = INT64_MAX;
    const bool open = samples_left(b);
    for (int i = 0; i < b->config.learners; i++)
        if (open || b->learner[i].n_owed > 0) slowest = min64(slowest, pace_of(&b->learner[i]));
    int64_t ahead = pace_of(&b->learner[learner]) - slowest;
    if (ahead > b->config.own)
        book_wrong(b, "learner %d begins %" PRId64 " ahead, bound %d", learner, ahead, b->config.own);
}

static int64_t sync_rows(const book *b, int64_t step) {
    int64_t first = b->config.first_sample + step * b->config.global_batch;
    return min64(b->config.global_batch, b->config.end_sample - first);
}

void book_go(book *b, int learner, const mu_grant *g) {
    book_learner *l = &b->learner[learner];
    const bool sync = step_of(l) < b->sync_end;
    if (!l->present || l->computing) book_wrong(b, "learner %d: GO for a process that cannot begin", learner);
    if (l->handed < 1 || owed_at(l, 0)->first != g->first || owed_at(l, 0)->rows != g->rows)
        book_wrong(b, "learner %d: granted samples %" PRId64 ", its next are %" PRId64, learner, g->first,
                   l->handed < 1 ? -1 : owed_at(l, 0)->first);
    if (g->step != step_of(l)) book_wrong(b, "learner %d: granted step %" PRId64, learner, g->step);
    int64_t version = sync ? b->config.first_version + g->step : b->version;
    if (g->version != version || version > b->version + b->applying)
        book_wrong(b, "learner %d: granted version %" PRId64 ", the clock is %" PRId64, learner, g->version,
                   b->version);
    if (l->accepted - l->applied >= MU_CORE_SLOTS) book_wrong(b, "learner %d: GO without a slot", learner);
    if (b->stopping && !sync) book_wrong(b, "learner %d: GO after the end", learner);
    if (g->global_rows != (sync ? sync_rows(b, g->step) : g->rows))
        book_wrong(b, "learner %d: %" PRId64 " rows in all", learner, g->global_rows);
    if (!sync && strcmp(b->target->name, "ssp") == 0) check_ahead(b, learner);
    l->now = (mu_gradient_id){learner, l->incarnation, g->step, g->version, g->first, g->rows};
    l->computing = true;
    l->begun++;
    b->n_computing++;
}

// ---- push ----

mu_push_result book_expect(const book *b, const mu_gradient_id *id) {
    if (id->learner < 0 || id->learner >= b->config.learners) return MU_UNEXPECTED;
    const book_learner *l = &b->learner[id->learner];
    if (!l->present || l->incarnation != id->incarnation) return MU_FENCED;
    if (!l->computing || id->step != l->now.step || id->first != l->now.first || id->rows != l->now.rows)
        return MU_UNEXPECTED;
    if (id->version < l->now.version) return MU_UNEXPECTED;
    if (id->version > l->now.version && id->version > b->version) return MU_UNEXPECTED;
    return MU_ACCEPTED; // never too stale: what was granted keeps the bound until it is applied
}

static void note_staleness(book *b, int64_t sigma) {
    b->n_stale++;
    b->stale_sum += sigma;
    if (sigma > b->stale_max) b->stale_max = sigma;
    b->stale_bin[sigma < 0 ? 0 : min64(sigma, SIM_BINS - 1)]++;
}

void book_push(book *b, const mu_gradient_id *id, mu_push_result verdict) {
    const mu_push_result want = book_expect(b, id);
    if (verdict != want) {
        book_wrong(b, "learner %d step %" PRId64 ": push answered %d, expected %d", id->learner, id->step,
                   (int)verdict, (int)want);
        return;
    }
    if (verdict != MU_ACCEPTED) return;
    book_learner *l = &b->learner[id->learner];
    const bool itself = !is_sync(b) && !b->target->take;
    use_batch(b, l);
    l->accepted++;
    if (itself) {
        note_staleness(b, b->version - id->version);
        b->version++;
        l->applied++;
        b->sum_applied += id->rows;
    } else {
        b->fifo[(b->fifo_head + b->fifo_n++) % b->fifo_size] = *id;
    }
    move(b, id->first, id->rows, BOOK_PROMISED, itself ? BOOK_APPLIED : BOOK_WAITING);
}

// ---- updates ----

static float weight(const book *b, int64_t sigma, int parts) {
    if (is_sync(b)) return 1;
    double w = (b->config.gradient_scale > 0 ? (double)b->config.gradient_scale : 1.0) / parts;
    if (b->config.rate_rule == MU_RATE_MEAN) w /= b->config.splits;
    if (b->config.rate_rule == MU_RATE_EACH && sigma > 1) w /= (double)sigma;
    return (float)w;
}

// Part i of the run, in an update of n that makes version `made`.
static void check_part(book *b, const mu_core *c, int i, int64_t made, int n) {
    const mu_core_part *p = mu_core_part_at(c, i);
    const mu_gradient_id *id = &b->part[i];
    const int64_t sigma = made - 1 - id->version;
    if (memcmp(&p->id, id, sizeof *id) != 0)
        book_wrong(b, "took learner %d step %" PRId64 ", the oldest is of %d step %" PRId64, p->id.learner,
                   p->id.step, id->learner, id->step);
    if (mu_core_staleness(c, i) != sigma || sigma < 0)
        book_wrong(b, "learner %d: staleness %" PRId64 ", not %" PRId64, id->learner, mu_core_staleness(c, i),
                   sigma);
    if (is_sync(b) && (sigma != 0 || id->step != b->version - b->config.first_version))
        book_wrong(b, "learner %d: step %" PRId64 " in hardsync", id->learner, id->step);
    const bool bound = b->config.bound > 0 && id->step >= b->learner[id->learner].phase_step;
    if (!is_sync(b) && bound && sigma > b->config.bound)
        book_wrong(b, "learner %d: staleness %" PRId64 ", bound %d", id->learner, sigma, b->config.bound);
    const float got = mu_core_weight(c, sigma, n), want = weight(b, sigma, n);
    if (fabsf(got - want) > 1e-6f * got)
        book_wrong(b, "learner %d: weight %g, not %g", id->learner, (double)got, (double)want);
    note_staleness(b, sigma);
}

// How many gradients an update must have, where that is fixed; 0 = it depends.
static int parts_wanted(const book *b) {
    if (is_sync(b)) {
        const int64_t step = b->version - b->config.first_version, rows = sync_rows(b, step);
        return (int)min64(rows, b->config.learners);
    }
    if (b->config.bound > 0) return 0;
    if (strcmp(b->target->name, "softsync") != 0) return 1;
    return samples_left(b) && !b->stopping ? b->config.learners / b->config.splits : 0;
}

// Update k of the run, of the gradients [begin, end) of it.
static void check_update(book *b, const mu_core *c, int k, int begin, int end) {
    const int n = end - begin, wanted = parts_wanted(b);
    if (n <= 0) book_wrong(b, "update %d of a run has no gradient", k);
    if ((wanted > 0 || is_sync(b)) && n != wanted)
        book_wrong(b, "an update of %d gradients, not %d", n, wanted);
    for (int i = begin; i < end; i++) check_part(b, c, i, b->version + 1 + k, n);
}

// Is a protocol that others follow over with the first n gradients of the run?
static bool ends_phase(const book *b, int n) {
    const mu_core_config *g = &b->config;
    int64_t samples = g->first_sample + b->sum_applied + b->sum_rejected;
    for (int i = 0; i < n; i++) samples += b->part[i].rows;
    return b->phase + 1 < g->n_phases && samples >= g->phase[b->phase].until;
}

// What could still make an update must be part of the run, unless that is as long as it may be.
static void check_length(book *b, const mu_core *c) {
    int most = is_sync(b) || b->config.longest_run < 1 ? 1 : b->config.longest_run;
    if (b->config.bound > 0 && most > b->config.bound) most = b->config.bound;
    if (c->halt - b->version < most) most = (int)(c->halt - b->version);
    if (c->applying < 1 || c->applying > most)
        book_wrong(b, "a run of %d updates, not %d", c->applying, most);
    const bool each = !is_sync(b) && b->config.bound == 0 && strcmp(b->target->name, "softsync") != 0;
    if (each && c->applying < most && b->fifo_n > 0 && !ends_phase(b, c->n_parts))
        book_wrong(b, "a run of %d updates leaves %d gradients", c->applying, b->fifo_n);
}

void book_form(book *b, const mu_core *c) {
    const int n = c->n_parts;
    if (b->applying || n > b->fifo_n || n == 0) {
        book_wrong(b, "a run of %d of %d waiting gradients", n, b->fifo_n);
        return;
    }
    for (int i = 0; i < n; i++) b->part[i] = b->fifo[(b->fifo_head + i) % b->fifo_size];
    b->fifo_head = (b->fifo_head + n) % b->fifo_size;
    b->fifo_n -= n;
    for (int k = 0; k < c->applying; k++)
        check_update(b, c, k, mu_core_update_begin(c, k), mu_core_update_end(c, k));
    if (c->applying > 0 && mu_core_update_end(c, c->applying - 1) != n)
        book_wrong(b, "a run of %d gradients ends with %d", n, mu_core_update_end(c, c->applying - 1));
    check_length(b, c);
    for (int k = 0; k + 1 < c->applying; k++)
        if (ends_phase(b, mu_core_update_end(c, k)))
            book_wrong(b, "update %d of a run is of the next phase", k + 1);
    b->n_parts = n;
    b->applying = c->applying;
}

void book_applied(book *b) {
    for (int i = 0; i < b->n_parts; i++) {
        const mu_gradient_id *id = &b->part[i];
        move(b, id->first, id->rows, BOOK_WAITING, BOOK_APPLIED);
        b->learner[id->learner].applied++;
        b->sum_applied += id->rows;
    }
    b->version += b->applying;
    b->applying = 0;
    b->n_parts = 0;
    follow_phases(b);
}

// In step, the step that some learner has begun is still finished by all.
void book_stop(book *b) {
    int64_t begun = 0;
    for (int i = 0; i < b->config.learners; i++) {
        int64_t step = step_of(&b->learner[i]) + b->learner[i].computing;
        if (step > begun) begun = step;
    }
    b->sync_end = min64(b->sync_end, begun);
    b->stopping = true;
}

// What waits will not be applied any more.
static void reject_waiting(book *b) {
    for (; b->fifo_n > 0; b->fifo_n--) {
        const mu_gradient_id *id = &b->fifo[b->fifo_head];
        move(b, id->first, id->rows, BOOK_WAITING, BOOK_REJECTED);
        b->learner[id->learner].accepted--;
        b->learner[id->learner].rejected++;
        b->sum_rejected += id->rows;
        b->fifo_head = (b->fifo_head + 1) % b->fifo_size;
    }
}

void book_abandon(book *b) {
    book_stop(b);
    for (int i = 0; i < b->config.learners; i++) book_lost(b, i);
    reject_waiting(b);
}

// ---- comparison with the core ----

static bool same_learner(const book_learner *l, const mu_core_learner *k) {
    return l->incarnation == k->incarnation && l->present == k->present && l->computing == k->computing &&
           l->begun == k->begun && l->accepted == k->accepted && l->applied == k->applied &&
           l->rejected == k->rejected && l->lost == k->lost;
}

// What a checkpoint taken now would call open is what is not in the weights, sample for sample. Not after an
// abandon: where a run stands is asked before.
static void check_open(book *b, const mu_core *c) {
    static mu_range open[SIM_MAX_LEARNERS * (MU_CORE_SLOTS + MU_CORE_LEASES)];
    const int64_t begin = b->config.first_sample;
    if (b->sum_rejected > 0) return;
    const int n = mu_core_open(c, open);
    int64_t closed = c->next_sample - begin;
    for (int k = 0; k < n; k++) {
        closed -= open[k].end - open[k].first;
        if (open[k].first < begin || open[k].end > c->next_sample || open[k].end - begin > SIM_MAX_SAMPLES) {
            book_wrong(b, "samples %" PRId64 " to %" PRId64 " are open", open[k].first, open[k].end);
            return;
        }
        for (int64_t i = open[k].first; i < open[k].end; i++)
            if (b->sample[i - begin] >= BOOK_APPLIED) book_wrong(b, "open sample %" PRId64 " is applied", i);
    }
    if (closed != b->sum_applied)
        book_wrong(b, "%" PRId64 " samples are closed, %" PRId64 " applied", closed, b->sum_applied);
}

void book_check(book *b, const mu_core *c) {
    mu_ledger sum = {0};
    for (int i = 0; i < b->config.learners; i++) {
        const book_learner *l = &b->learner[i];
        if (!same_learner(l, mu_core_learner_at(c, i)))
            book_wrong(b, "learner %d: the core's account differs from the book's", i);
        sum.produced += l->begun;
        sum.applied += l->applied;
        sum.rejected += l->rejected;
        sum.lost += l->lost;
    }
    sum.in_flight = b->n_computing + b->fifo_n + b->n_parts;
    const mu_ledger core = mu_core_ledger(c);
    if (memcmp(&core, &sum, sizeof sum) != 0)
        book_wrong(b, "the core's ledger differs: %" PRId64 " produced, the book has %" PRId64, core.produced,
                   sum.produced);
    if (sum.produced != sum.applied + sum.rejected + sum.lost + sum.in_flight)
        book_wrong(b, "the book's own ledger is out of balance");
    if (c->samples_applied != b->sum_applied)
        book_wrong(b, "%" PRId64 " samples applied, not %" PRId64, c->samples_applied, b->sum_applied);
    if (b->config.learners <= 16) check_open(b, c); // after every event
}

void book_end(book *b, const mu_core *c) {
    if (!mu_core_idle(c) || b->fifo_n || b->applying || b->n_computing)
        book_wrong(b, "the run ended with %d waiting, %d computing", b->fifo_n, b->n_computing);
    book_check(b, c);
    check_open(b, c);
    const bool whole = !b->stopping; // then every sample was used
    if (whole && samples_left(b)) book_wrong(b, "the run ended before its samples did");
    int64_t applied = 0;
    for (int64_t i = 0; i < b->top; i++) {
        applied += b->sample[i] == BOOK_APPLIED;
        if (b->sample[i] == BOOK_WAITING || (whole && b->sample[i] < BOOK_APPLIED))
            book_wrong(b, "sample %" PRId64 " is left over in state %d", b->config.first_sample + i,
                       b->sample[i]);
    }
    if (applied != b->sum_applied) book_wrong(b, "%" PRId64 " samples in the weights", applied);
}
