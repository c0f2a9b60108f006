// SPDX-License-Identifier: Apache-2.0
// core_check.c - every invariant of the core, recomputed from scratch. For tests, the simulator and the end
// of a run; changes nothing and allocates nothing.
#include "ps/core_inner.h"

#include "base/attr.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

typedef struct report {
    char *why;
    size_t size;
} report;

MU_PRINTF(2, 3) static bool wrong(const report *r, const char *format, ...) {
    va_list args;
    va_start(args, format);
    if (r->size) vsnprintf(r->why, r->size, format, args);
    va_end(args);
    return false;
}

// learner -1: of all.
static bool same(const report *r, int64_t got, int64_t want, const char *text, int learner) {
    return got == want || wrong(r, "%s (learner %d): %" PRId64 ", not %" PRId64, text, learner, got, want);
}

// Leases follow each other without a gap from the step the learner is at.
static bool leases(const mu_core *c, int i, const report *r, int64_t *unused) {
    const mu_core_learner *l = mu_core_learner_at(c, i);
    int64_t step = mu_core_step(l), rows;
    if (l->n_leases > MU_CORE_LEASES || l->handed > l->n_leases)
        return wrong(r, "learner %d: %d leases, %d handed", i, l->n_leases, l->handed);
    for (int k = 0; k < l->n_leases; k++) {
        const mu_lease *s = &l->lease[k];
        const int32_t used = k == 0 ? l->used : 0, left = s->batches - used;
        if (left <= 0) return wrong(r, "learner %d: lease %d has no batch left", i, k);
        if (step < l->sync_leased) {
            if (!same(r, s->stride, c->config.global_batch, "stride of a synchronous lease", i)) return false;
            if (!same(r, s->first + used * s->stride, core_sync_first(c, i, step, &rows), "first sample", i))
                return false;
            if (!same(r, s->rows, rows, "rows of a synchronous lease", i)) return false;
        } else if (s->first < c->config.first_sample || s->stride != c->config.rows ||
                   s->rows != c->config.rows)
            return wrong(r, "learner %d: lease at %" PRId64 " with stride %" PRId64, i, s->first, s->stride);
        if (s->last_rows < 1 || s->last_rows > s->rows)
            return wrong(r, "learner %d: last batch has %d rows of %d", i, s->last_rows, s->rows);
        const int64_t end = s->first + (s->batches - 1) * s->stride + s->last_rows;
        if (end > c->config.end_sample || end > c->next_sample)
            return wrong(r, "learner %d: a lease ends at %" PRId64 ", samples at %" PRId64, i, end,
                         c->next_sample);
        *unused += (int64_t)(left - 1) * s->rows + s->last_rows;
        step += left;
    }
    if (step < l->sync_leased) return wrong(r, "learner %d: leased steps end at %" PRId64, i, step);
    return true;
}

static bool learner(const mu_core *c, int i, const report *r) {
    const mu_core_learner *l = mu_core_learner_at(c, i);
    const int64_t queued = l->accepted - l->applied;
    if (!same(r, l->begun, l->accepted + l->rejected + l->lost + l->computing, "gradients begun", i))
        return false;
    if (queued < 0 || queued > MU_CORE_SLOTS)
        return wrong(r, "learner %d: %" PRId64 " gradients queued", i, queued);
    if (l->computing && (!l->present || l->handed == 0 || queued == MU_CORE_SLOTS))
        return wrong(r, "learner %d computes without process, lease or slot", i);
    if (l->present && l->incarnation == 0) return wrong(r, "learner %d is present without incarnation", i);
    if (!same(r, l->working, core_work_left(c, i), "working", i)) return false;
    if (l->working && mu_core_pace(l) < c->slowest)
        return wrong(r, "learner %d is slower than the slowest", i);
    return true;
}

// The k-th queued gradient: part of the run in progress (taken) or waiting.
static bool gradient(const mu_core *c, int k, const report *r) {
    const mu_core_part *p = core_ring_at(c, k);
    const bool taken = k < c->n_parts;
    const int i = p->id.learner;
    if (i < 0 || i >= c->config.learners) return wrong(r, "a gradient of learner %d", i);
    const mu_core_learner *l = mu_core_learner_at(c, i);
    if (p->id.incarnation < 1 || p->id.incarnation > l->incarnation || p->id.step >= mu_core_step(l))
        return wrong(r, "learner %d: a queued gradient of incarnation %u, step %" PRId64, i,
                     p->id.incarnation, p->id.step);
    const int64_t stale = taken ? mu_core_staleness(c, k) : c->version + c->applying - p->id.version;
    const bool in_step = p->id.step < c->sync_end;
    if (stale < 0 || (!in_step && p->id.version > c->version))
        return wrong(r, "learner %d: a gradient of version %" PRId64 " at %" PRId64, i, p->id.version,
                     c->version);
    if (in_step && stale != 0) return wrong(r, "learner %d: staleness %" PRId64 " in step", i, stale);
    if (mu_core_is_bound(c, i, p->id.step) && stale > c->config.bound)
        return wrong(r, "learner %d: staleness %" PRId64 " over the bound %d", i, stale, c->config.bound);
    return true;
}

// The queued gradients of learners [begin, end) lie in their slots [applied, accepted) modulo MU_CORE_SLOTS,
// oldest first. Done for a block of learners at a time, to need no memory for all.
enum { BLOCK = 1024 };
static bool slots(const mu_core *c, int begin, int end, const report *r) {
    int64_t next[BLOCK];
    for (int i = begin; i < end; i++) next[i - begin] = mu_core_learner_at(c, i)->applied;
    for (int k = 0; k < c->n_parts + c->fifo_n; k++) {
        const mu_core_part *p = core_ring_at(c, k);
        const int i = p->id.learner;
        if (i < begin || i >= end) continue;
        if (!same(r, p->slot, next[i - begin]++ % MU_CORE_SLOTS, "slot", i)) return false;
    }
    for (int i = begin; i < end; i++)
        if (!same(r, next[i - begin], mu_core_learner_at(c, i)->accepted, "gradients queued", i))
            return false;
    return true;
}

// Every update of the run has gradients, and together they have all that were taken.
static bool run(const mu_core *c, const report *r) {
    int end = 0;
    if (c->applying < 0 || c->applying > MU_CORE_RUN) return wrong(r, "a run of %d updates", c->applying);
    if (c->applying > 1 && mu_core_is_in_step(c)) return wrong(r, "a run of %d updates in step", c->applying);
    for (int i = 0; i < c->applying; i++) {
        if (c->run_end[i] <= end) return wrong(r, "update %d of a run has no gradient", i);
        end = c->run_end[i];
    }
    return same(r, end, c->n_parts, "gradients of a run", -1);
}

static bool queue(const mu_core *c, const report *r, int64_t *rows) {
    if (c->fifo_n < 0 || c->n_parts < 0 || c->fifo_n + c->n_parts > mu_core_most_parts(c->config.learners) ||
        (c->applying > 0) != (c->n_parts > 0))
        return wrong(r, "%d gradients wait, %d are being applied", c->fifo_n, c->n_parts);
    if (!run(c, r)) return false;
    for (int k = 0; k < c->n_parts + c->fifo_n; k++) {
        if (!gradient(c, k, r)) return false;
        *rows += core_ring_at(c, k)->id.rows;
    }
    for (int i = 0; i < c->config.learners; i += BLOCK)
        if (!slots(c, i, (int)core_min(i + BLOCK, c->config.learners), r)) return false;
    return true;
}

// A gradient being computed can still be applied within the bound.
static bool computing(const mu_core *c, int i, const report *r) {
    const mu_core_learner *l = mu_core_learner_at(c, i);
    const int64_t now = c->version + c->applying;
    if (!l->computing) return true;
    if (l->version > (mu_core_step(l) < c->sync_end ? now : c->version))
        return wrong(r, "learner %d computes on version %" PRId64, i, l->version);
    if (mu_core_is_bound(c, i, mu_core_step(l)) && now - l->version > c->config.bound)
        return wrong(r, "learner %d: what it computes will be staler than the bound", i);
    return true;
}

// The protocol in force is that of the first phase that is not over.
static bool phases(const mu_core *c, const report *r) {
    const mu_core_config *g = &c->config;
    const mu_core_phase *p = &g->phase[c->phase];
    if (c->phase_version > c->version || (c->phase_version != -1 && c->phase_version < g->first_version))
        return wrong(r, "a protocol in force since version %" PRId64, c->phase_version);
    if (g->n_phases == 0) return same(r, c->phase, 0, "phase", -1);
    if (c->phase < 0 || c->phase >= g->n_phases) return wrong(r, "phase %d of %d", c->phase, g->n_phases);
    if (c->phase + 1 < g->n_phases && mu_core_samples(c) >= p->until && !c->stopping)
        return wrong(r, "phase %d is over since sample %" PRId64, c->phase, p->until);
    if (c->phase > 0 && mu_core_samples(c) < g->phase[c->phase - 1].until)
        return wrong(r, "phase %d before sample %" PRId64, c->phase, g->phase[c->phase - 1].until);
    return same(r, g->protocol, p->protocol, "protocol in force", -1) &&
           same(r, g->bound, p->bound, "bound in force", -1) && same(r, g->own, p->own, "own in force", -1);
}

bool mu_core_check(const mu_core *c, char *why, size_t size) {
    const report rep = {why, size}, *r = &rep;
    int64_t rows = 0, pushed = 0, n_computing = 0, n_working = 0, n_slowest = 0;
    for (int i = 0; i < c->config.learners; i++) {
        const mu_core_learner *l = mu_core_learner_at(c, i);
        if (!learner(c, i, r) || !leases(c, i, r, &rows) || !computing(c, i, r)) return false;
        pushed += mu_core_step(l);
        n_computing += l->computing;
        n_working += l->working;
        n_slowest += l->working && mu_core_pace(l) == c->slowest;
    }
    if (!queue(c, r, &rows) || !phases(c, r)) return false;
    if (!same(r, c->pushed, pushed, "gradients pushed", -1) ||
        !same(r, c->computing, n_computing, "learners computing", -1) ||
        !same(r, c->working, n_working, "learners working", -1) ||
        !same(r, c->n_slowest, n_slowest, "slowest learners", -1) ||
        !same(r, c->samples_leased, rows + c->samples_applied + c->samples_rejected, "samples leased", -1))
        return false;
    if (core_sync_steps(&c->config) == 0 &&
        !same(r, c->next_sample - c->config.first_sample, c->samples_leased, "samples passed", -1))
        return false;
    if (core_class(c)->take && c->applying && c->version + c->applying > c->halt)
        return wrong(r, "updates up to %" PRId64 ", behind a halt", c->version + c->applying);
    if (c->version < c->config.first_version)
        return wrong(r, "clock %" PRId64 " before its beginning", c->version);
    const mu_ledger sum = mu_core_ledger(c);
    return same(r, sum.produced, sum.applied + sum.rejected + sum.lost + sum.in_flight, "ledger", -1);
}
