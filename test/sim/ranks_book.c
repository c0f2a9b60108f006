// SPDX-License-Identifier: Apache-2.0
// ranks_book.c - what must be true over both levels, by the simulator's own account.
//
// The book follows what learners push, what the root grants, and each update as the updater's rule is called
// for it. Of the root's memory it reads which gradients an update takes, and in ranks_book_look and
// ranks_book_end the numbers that it compares with its own.
#include "sim/ranks.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

bool ranks_wrong(ranks_world *w, const char *format, ...) {
    if (!ranks_good(w)) return false;
    va_list args;
    va_start(args, format);
    vsnprintf(w->book.why, sizeof w->book.why, format, args);
    va_end(args);
    return false;
}

void ranks_check(ranks_world *w, mu_status st, const mu_err *err) {
    if (st != MU_OK) ranks_wrong(w, "root: %s", err->msg);
}

uint64_t ranks_hash(const float *from, int n) {
    uint64_t h = 0xCBF29CE484222325u;
    for (int i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &from[i], sizeof bits);
        h = (h ^ bits) * 0x9E3779B97F4A7C15u;
        h ^= h >> 29;
    }
    return h;
}

int64_t ranks_book_number(int group, int64_t step, int learner) {
    return 1 + (7 * group + 3 * step + 5 * learner) % 11;
}

static int64_t first_version(const ranks_world *w) { return w->plan.at.step + w->plan.at.extra_updates; }
static int64_t width_of(const ranks_world *w) { return w->plan.setup.global_batch / w->plan.groups; }

static ranks_gradient *gradient_of(ranks_world *w, int group, int64_t step) {
    return &w->book.gradient[group][step % RANKS_KEPT];
}

// ---- samples ----

static bool all_dealt(const ranks_world *w) {
    return w->plan.end != INT64_MAX && w->book.steps_dealt == w->plan.steps * w->plan.groups;
}

static void move(ranks_world *w, int group, int64_t first, int64_t rows, uint8_t from, uint8_t to) {
    for (int64_t k = first; k < first + rows; k++) {
        const int64_t at = k - w->plan.at.samples;
        if (at < 0 || k >= w->plan.end || at >= RANKS_SAMPLES) {
            ranks_wrong(w, "sample %" PRId64 " of group %d does not exist", k, group);
            return;
        }
        if (w->book.sample[at] != from)
            ranks_wrong(w, "sample %" PRId64 " of group %d became %d from %d, not from %d", k, group, to,
                        w->book.sample[at], from);
        w->book.sample[at] = to;
        if (at >= w->book.top) w->book.top = at + 1;
    }
}

// ---- what groups do ----

static void remember(ranks_world *w) {
    uint64_t *h = w->book.history + w->book.version % RANKS_HISTORY * RANKS_CHUNKS;
    for (int c = 0; c < RANKS_CHUNKS; c++)
        h[c] = ranks_hash(w->root.value + (ptrdiff_t)c * RANKS_CHUNK, RANKS_CHUNK);
}

// The protocol of the first phase that is not over: at the beginning, and at the end of each update.
static void follow_phases(ranks_world *w) {
    const mu_setup *p = &w->plan.setup;
    ranks_book *b = &w->book;
    int64_t samples = w->plan.at.samples;
    for (int g = 0; g < w->plan.groups; g++) samples += b->fated[g] * width_of(w);
    while (b->phase + 1 < p->n_phases && samples >= p->phase[b->phase].until) b->phase++;
}

void ranks_book_init(ranks_world *w) {
    ranks_book *b = &w->book;
    uint8_t *sample = b->sample;
    uint64_t *history = b->history;
    memset(sample, BOOK_FREE, (size_t)b->top);
    memset(b, 0, sizeof *b);
    b->sample = sample;
    b->history = history;
    b->version = first_version(w);
    for (int g = 0; g < RANKS_GROUPS; g++)
        for (int k = 0; k < RANKS_KEPT; k++) b->gradient[g][k].step = -1;
    remember(w);
    follow_phases(w);
}

void ranks_book_computed(ranks_world *w, ranks_group *g, const ranks_learner *l) {
    const int64_t version = g->used[l->grant.step % MU_CORE_SLOTS], old = w->book.version - version;
    const uint64_t *h = w->book.history + version % RANKS_HISTORY * RANKS_CHUNKS;
    for (int c = 0; c < RANKS_CHUNKS; c++) {
        if (ranks_hash(g->weights + (ptrdiff_t)c * RANKS_CHUNK, RANKS_CHUNK) != l->seen[c])
            ranks_wrong(w, "group %d step %" PRId64 ": weights changed while learners computed", g->number,
                        l->grant.step);
        if (old >= 0 && old < RANKS_HISTORY && h[c] != l->seen[c])
            ranks_wrong(w, "group %d step %" PRId64 ": the weights are not those of version %" PRId64,
                        g->number, l->grant.step, version);
    }
    if (old < 0) ranks_wrong(w, "group %d computes on weights that are not made yet", g->number);
}

void ranks_book_dealt(ranks_world *w, int group, const mu_lease *lease) {
    ranks_book *b = &w->book;
    if (lease->batches != 1 || lease->last_rows != width_of(w))
        ranks_wrong(w, "group %d is dealt %d batches, %d samples", group, lease->batches, lease->last_rows);
    if (b->n_dealt[group] - b->granted[group] >= RANKS_DEALT)
        ranks_wrong(w, "group %d is dealt %" PRId64 " steps", group, b->n_dealt[group]);
    move(w, group, lease->first, width_of(w), BOOK_FREE, BOOK_PROMISED);
    b->dealt[group][b->n_dealt[group]++ % RANKS_DEALT] = lease->first;
    b->steps_dealt++;
}

void ranks_book_go(ranks_world *w, ranks_group *g, const mu_grant *grant) {
    const int64_t known = atomic_load(&g->deal.known);
    if (grant->step >= known || known > w->book.n_dealt[g->number])
        ranks_wrong(w, "group %d begins step %" PRId64 ", %" PRId64 " are dealt", g->number, grant->step,
                    known);
}

static bool never_stops(MU_UNUSED void *unused) { return false; }

// What its learners take for the samples of a number; of a step that is dealt.
static int64_t sample_of(ranks_world *w, ranks_group *g, int64_t number) {
    const int64_t n = number - w->plan.at.samples, step = n / width_of(w);
    const int64_t wanted = w->book.dealt[g->number][step % RANKS_DEALT] + n % width_of(w);
    int64_t got = -1;
    if (atomic_load(&g->deal.known) > step) (void)mu_deal_sample(&g->deal, number, never_stops, NULL, &got);
    if (got != wanted)
        ranks_wrong(w, "group %d step %" PRId64 " is of sample %" PRId64 ", it was dealt %" PRId64, g->number,
                    step, got, wanted);
    return wanted;
}

void ranks_book_push(ranks_world *w, ranks_group *g, const mu_gradient_id *id) {
    ranks_book *b = &w->book;
    ranks_gradient *k = gradient_of(w, g->number, id->step);
    if (k->step != id->step) {
        if (k->step >= 0 && k->fate < RANKS_APPLIED)
            ranks_wrong(w, "group %d: step %" PRId64 " is computed, and %" PRId64 " is not applied",
                        g->number, id->step, k->step);
        *k = (ranks_gradient){.step = id->step, .first = INT64_MAX, .fate = RANKS_OPEN};
        k->version = g->used[id->step % MU_CORE_SLOTS];
    }
    const int64_t first = sample_of(w, g, id->first);
    move(w, g->number, first, id->rows, BOOK_PROMISED, BOOK_WAITING);
    if (first < k->first) k->first = first;
    k->rows += id->rows;
    k->sum += ranks_book_number(g->number, id->step, id->learner);
    k->learners++;
    b->taken[g->number] += id->rows;
    b->pushed++;
}

void ranks_book_whole(ranks_world *w, const ranks_group *g) {
    ranks_gradient *k = gradient_of(w, g->number, g->step);
    if (k->step != g->step || k->fate != RANKS_OPEN)
        ranks_wrong(w, "group %d says that step %" PRId64 " is complete", g->number, g->step);
    k->fate = RANKS_WHOLE;
}

void ranks_book_left(ranks_world *w, int group) {
    w->book.n_left += !w->book.left[group];
    w->book.left[group] = true;
}

// ---- permission ----

static const mu_setup_phase *phase_now(const ranks_world *w) {
    const mu_setup *p = &w->plan.setup;
    return &p->phase[w->book.phase];
}

// How many updates are made in step, the first ones of this training.
static int64_t in_step(const ranks_world *w) {
    const int64_t warm = w->plan.setup.warm_versions - w->plan.at.step;
    if (!strcmp(w->plan.setup.protocol->name, "hardsync")) return INT64_MAX;
    return warm > 0 ? warm : 0;
}

static bool is_in_step(const ranks_world *w) { return w->book.version - first_version(w) < in_step(w); }

static bool has_work(const ranks_world *w, int group) {
    const ranks_book *b = &w->book;
    return !b->left[group] && (!all_dealt(w) || b->n_dealt[group] > w->root.group[group].next);
}

// By ssp no group is granted more than `own` gradients beyond the slowest.
static void check_ahead(ranks_world *w, int group, int64_t step) {
    int64_t slowest = INT64_MAX;
    for (int g = 0; g < w->plan.groups; g++)
        if (has_work(w, g) && w->root.group[g].next < slowest) slowest = w->root.group[g].next;
    if (step - slowest > phase_now(w)->own)
        ranks_wrong(w, "group %d is granted step %" PRId64 ", the slowest is at %" PRId64, group, step,
                    slowest);
}

static void told_of_end(ranks_world *w, int group) {
    ranks_book *b = &w->book;
    if (!all_dealt(w) || b->granted[group] != b->n_dealt[group] || b->ended[group])
        ranks_wrong(w, "group %d is told of the end behind %" PRId64 " of %" PRId64 " steps", group,
                    b->granted[group], b->n_dealt[group]);
    b->ended[group] = true;
}

void ranks_book_granted(ranks_world *w, int group, const mu_grant *grant) {
    ranks_book *b = &w->book;
    if (!grant) {
        told_of_end(w, group);
        return;
    }
    if (grant->step >= b->n_dealt[group] || grant->first != b->dealt[group][grant->step % RANKS_DEALT])
        ranks_wrong(w, "group %d is granted step %" PRId64 " of sample %" PRId64, group, grant->step,
                    grant->first);
    if (grant->step != b->granted[group])
        ranks_wrong(w, "group %d is granted step %" PRId64 " behind %" PRId64 " others", group, grant->step,
                    b->granted[group]);
    b->granted[group] = grant->step + 1;
    const ranks_gradient *before = gradient_of(w, group, grant->step + RANKS_KEPT - MU_CORE_SLOTS);
    if (grant->step >= MU_CORE_SLOTS && before->fate < RANKS_APPLIED)
        ranks_wrong(w, "group %d is granted step %" PRId64 ", whose place is not free", group, grant->step);
    if (b->left[group]) ranks_wrong(w, "group %d is granted a gradient, and has left", group);
    const bool ssp = !strcmp(mu_protocol_at(phase_now(w)->protocol)->name, "ssp");
    if (ssp && !is_in_step(w) && w->plan.setup.n_phases == 1 && w->plan.setup.warm_versions == 0)
        check_ahead(w, group, grant->step);
}

// ---- updates ----

static double weight(const ranks_world *w, int64_t sigma, int parts) {
    const mu_setup_phase *p = phase_now(w);
    const float scale = mu_stale_gradient_scale(&p->stale);
    double share = (scale > 0 ? (double)scale : 1.0) / parts;
    if (p->rate_rule == MU_RATE_MEAN) share /= p->splits;
    if (p->rate_rule == MU_RATE_EACH && sigma > 1) share /= (double)sigma;
    return share;
}

static void seal(ranks_world *w, int group, ranks_gradient *k, ranks_fate fate) {
    ranks_book *b = &w->book;
    const bool applied = fate == RANKS_APPLIED;
    k->fate = fate;
    b->fated[group]++;
    *(applied ? &b->applied : &b->rejected) += k->learners;
    *(applied ? &b->samples_applied : &b->samples_rejected) += k->rows;
    b->used[group] += k->rows;
    move(w, group, k->first, k->rows, BOOK_WAITING, applied ? BOOK_APPLIED : BOOK_REJECTED);
    ranks_progress(w);
}

// Gradients that went into the core and have no place any more were too stale. With adv* the weights may be
// older than the clock, so these can be; else what is granted keeps the bound.
static void find_rejected(ranks_world *w) {
    const bool may = w->plan.architecture == MU_ARCHITECTURE_ADV_STAR;
    for (int g = 0; g < w->plan.groups; g++)
        for (int i = 0; i < RANKS_KEPT; i++) {
            ranks_gradient *k = &w->book.gradient[g][i];
            if (k->step < 0 || k->fate != RANKS_WHOLE || k->step >= w->root.group[g].next) continue;
            if (w->root.group[g].place[k->step % MU_CORE_SLOTS].step == k->step) continue;
            const int bound = phase_now(w)->bound;
            if (!may || bound == 0 || w->book.version - k->version <= bound)
                ranks_wrong(w, "group %d step %" PRId64 ", staleness %" PRId64 " bound %d, is not applied", g,
                            k->step, w->book.version - k->version, bound);
            seal(w, g, k, RANKS_REJECTED);
        }
}

// How many gradients an update has, where that is fixed; 0 = it depends, as where groups run out of work.
static int parts_wanted(const ranks_world *w) {
    const mu_setup_phase *p = phase_now(w);
    if (p->bound > 0) return 0;
    if (strcmp(mu_protocol_at(p->protocol)->name, "softsync") != 0) return 1;
    return w->book.n_left || all_dealt(w) ? 0 : w->plan.groups / p->splits;
}

// In step everybody has a part who has not left, and who has left if its gradient waits.
static void check_in_step(ranks_world *w) {
    const mu_core *c = w->root.core;
    const int64_t step = w->book.version - first_version(w);
    for (int g = 0; g < w->plan.groups; g++) {
        const ranks_gradient *k = gradient_of(w, g, step);
        bool has = false;
        for (int j = 0; j < c->n_parts; j++)
            has |= mu_core_part_at(c, j)->id.learner == g && mu_core_part_at(c, j)->id.step == step;
        const bool wants = !w->book.left[g] || (k->step == step && k->fate == RANKS_WHOLE);
        if (has != wants) ranks_wrong(w, "group %d %s step %" PRId64, g, has ? "is in" : "misses", step);
    }
}

// The staleness of a warm start is not counted.
static bool warms(const ranks_world *w) {
    return w->book.version - first_version(w) < w->root.core->config.warm_versions;
}

static void take_part(ranks_world *w, int j, double rows, double lr) {
    ranks_book *b = &w->book;
    const mu_core *c = w->root.core;
    const mu_gradient_id *id = &mu_core_part_at(c, j)->id;
    const int g = id->learner;
    ranks_gradient *k = gradient_of(w, g, id->step);
    const int64_t sigma = b->version - k->version;
    const int bound = phase_now(w)->bound;
    if (k->step != id->step || k->fate != RANKS_WHOLE)
        ranks_wrong(w, "group %d: step %" PRId64 " is applied in fate %d", g, id->step, (int)k->fate);
    if (id->version != k->version)
        ranks_wrong(w, "group %d: step %" PRId64 " says version %" PRId64 ", it is of %" PRId64, g, id->step,
                    id->version, k->version);
    if (sigma < 0 || (is_in_step(w) && sigma > 0))
        ranks_wrong(w, "group %d: step %" PRId64 " has staleness %" PRId64, g, id->step, sigma);
    if (!is_in_step(w) && bound > 0 && sigma > bound && w->plan.setup.n_phases == 1 && in_step(w) == 0)
        ranks_wrong(w, "group %d: staleness %" PRId64 ", bound %d", g, sigma, bound);
    const double share = is_in_step(w) ? (double)k->rows / rows : weight(w, sigma, c->n_parts);
    b->wanted[g] -= lr * share * (double)k->sum;
    b->wanted[RANKS_PART + g] -= lr * share * (double)k->sum;
    if (!warms(w)) {
        b->n_stale += k->learners;
        b->stale_sum += sigma * k->learners;
        if (sigma > b->stale_max) b->stale_max = sigma;
    }
    seal(w, g, k, RANKS_APPLIED);
}

static void take_update(ranks_world *w, double lr) {
    ranks_book *b = &w->book;
    const mu_core *c = w->root.core;
    double rows = 0;
    if (c->version != b->version)
        ranks_wrong(w, "an update of version %" PRId64 ", %" PRId64 " is made", c->version, b->version);
    const int wanted = is_in_step(w) ? 0 : parts_wanted(w);
    if (c->n_parts < 1 || (wanted && c->n_parts != wanted))
        ranks_wrong(w, "an update of %d gradients, not %d", c->n_parts, wanted);
    if (is_in_step(w)) check_in_step(w);
    memcpy(b->was, w->root.value, sizeof b->was);
    for (int i = 0; i < RANKS_FLOATS; i++) b->wanted[i] = (double)b->was[i];
    for (int j = 0; j < c->n_parts; j++) {
        const mu_gradient_id *id = &mu_core_part_at(c, j)->id;
        rows += (double)gradient_of(w, id->learner, id->step)->rows;
    }
    for (int j = 0; j < c->n_parts; j++) take_part(w, j, rows, lr);
    b->predicted = true;
}

// The update is over: are the weights what they should be?
static void compare(ranks_world *w) {
    ranks_book *b = &w->book;
    if (!b->predicted) return;
    b->predicted = false;
    for (int i = 0; i < RANKS_FLOATS; i++) {
        const double off = (double)w->root.value[i] - b->wanted[i];
        const double slack = 1e-6 * (fabs((double)b->was[i]) + fabs(b->wanted[i])) + 1e-6;
        if (!(fabs(off) <= slack))
            ranks_wrong(w, "version %" PRId64 ": float %d is %.7g, not %.7g", b->version + 1, i,
                        (double)w->root.value[i], b->wanted[i]);
    }
    b->version++;
    remember(w);
    follow_phases(w);
}

void ranks_book_update(void *world, float lr, int64_t update) {
    ranks_world *w = world;
    if (w->book.predicted && w->book.version == update) return; // another piece of it
    compare(w);
    find_rejected(w);
    take_update(w, (double)lr);
}

void ranks_book_look(ranks_world *w) {
    const mu_root *r = &w->root;
    compare(w);
    find_rejected(w);
    if (r->core->version != w->book.version || r->skipped)
        ranks_wrong(w, "the clock of the root is %" PRId64 ", not %" PRId64, r->core->version,
                    w->book.version);
    if (mu_core_samples(r->core) - w->plan.at.samples != w->book.samples_applied + w->book.samples_rejected)
        ranks_wrong(w, "%" PRId64 " samples are used, not %" PRId64, mu_core_samples(r->core),
                    w->book.samples_applied + w->book.samples_rejected);
    if (r->rejected != w->book.rejected)
        ranks_wrong(w, "%" PRId64 " gradients are rejected, not %" PRId64, r->rejected, w->book.rejected);
}

static bool is_open(const mu_server_point *p, int64_t sample) {
    bool open = sample >= p->next;
    for (int i = 0; i < p->n_open && !open; i++) open = sample >= p->open[i].first && sample < p->open[i].end;
    return open;
}

void ranks_book_stands(ranks_world *w) {
    const ranks_book *b = &w->book;
    mu_standing_part part;
    mu_root_part(&w->root, &part);
    if (part.point.version != b->version || part.point.applied != b->samples_applied)
        ranks_wrong(w, "the root stands at %" PRId64 " samples of version %" PRId64, part.point.applied,
                    part.point.version);
    for (int64_t i = 0; i < b->top; i++)
        if ((b->sample[i] < BOOK_APPLIED) != is_open(&part.point, w->plan.at.samples + i))
            ranks_wrong(w, "a run that goes on here has sample %" PRId64 " %s", i,
                        b->sample[i] < BOOK_APPLIED ? "never" : "twice");
}

// ---- the end ----

static void end_group(ranks_world *w, int i) {
    const ranks_book *b = &w->book;
    const ranks_group *g = &w->group[i];
    const mu_ledger l = mu_core_ledger(g->core);
    const int64_t stop_at = w->rank[0].stop_at, steps = w->plan.steps;
    if (!mu_core_idle(g->core) || l.produced != l.applied + l.lost || l.rejected)
        ranks_wrong(w, "group %d: %" PRId64 " produced, %" PRId64 " applied, %" PRId64 " lost", i, l.produced,
                    l.applied, l.lost);
    for (int k = 0; k < RANKS_KEPT; k++)
        if (b->gradient[i][k].step >= 0 && b->gradient[i][k].fate < RANKS_APPLIED)
            ranks_wrong(w, "group %d: step %" PRId64 " is left over", i, b->gradient[i][k].step);
    if (b->taken[i] != b->used[i]) ranks_wrong(w, "group %d: samples are left over", i);
    if (!w->stopping && (!b->ended[i] || g->step != b->n_dealt[i]))
        ranks_wrong(w, "group %d made %" PRId64 " of %" PRId64 " steps", i, g->step, b->n_dealt[i]);
    if (stop_at && g->step != stop_at && g->step != steps)
        ranks_wrong(w, "group %d ended before step %" PRId64 ", not %" PRId64, i, g->step, stop_at);
}

static void end_rank(ranks_world *w, int i) {
    const ranks_rank *r = &w->rank[i];
    const mu_relay_tree *above = &w->rank[(i - 1) / 2].tree;
    if (!r->closed) ranks_wrong(w, "rank %d does not know of the end", i);
    for (int t = 0; t < MU_TOPICS; t++)
        if (r->owed[t]) ranks_wrong(w, "rank %d owes frames", i);
    if (i > 0 && r->tree.asked && above->wanted[(i - 1) % 2] < 0)
        ranks_wrong(w, "rank %d waits for weights, and nobody knows", i);
}

void ranks_book_end(ranks_world *w) {
    const ranks_book *b = &w->book;
    const mu_root *r = &w->root;
    const int n = w->plan.groups * w->plan.own;
    int64_t applied = 0, hist = 0, counted[BOOK_REJECTED + 1] = {0};
    for (int i = 0; i < n; i++)
        if (w->learner[i].state != RANKS_ENDED)
            ranks_wrong(w, "nothing moves: learner %d is in state %d at version %" PRId64, i,
                        w->learner[i].state, b->version);
    for (int i = 0; i < w->plan.groups; i++) {
        end_group(w, i);
        applied += mu_core_ledger(w->group[i].core).applied;
    }
    for (int i = 0; i < w->plan.ranks; i++) end_rank(w, i);
    for (int i = 0; i < MU_WIRE_BINS; i++) hist += r->stale_hist[i];
    for (int64_t i = 0; i < b->top; i++) counted[b->sample[i]]++;
    if (!mu_root_is_left(r)) ranks_wrong(w, "the root waits for groups");
    if (!w->stopping && (!all_dealt(w) || counted[BOOK_PROMISED]))
        ranks_wrong(w, "%" PRId64 " samples are dealt and not used", counted[BOOK_PROMISED]);
    ranks_book_stands(w);
    // What all groups together have produced: in the weights or rejected there, and lost only within them.
    if (applied != b->pushed || b->pushed != b->applied + b->rejected)
        ranks_wrong(
            w, "groups gave %" PRId64 " gradients, of which %" PRId64 " are applied, %" PRId64 " rejected",
            applied, b->applied, b->rejected);
    if (r->n_stale != b->n_stale || r->stale_sum != b->stale_sum || r->stale_max != b->stale_max ||
        hist != b->n_stale || r->loss_n != b->pushed)
        ranks_wrong(w, "the root has staleness %" PRId64 " of %" PRId64 ", the book %" PRId64 " of %" PRId64,
                    r->stale_sum, r->n_stale, b->stale_sum, b->n_stale);
    if (counted[BOOK_APPLIED] != b->samples_applied || counted[BOOK_REJECTED] != b->samples_rejected ||
        counted[BOOK_WAITING])
        ranks_wrong(w, "%" PRId64 " samples are in the weights, not %" PRId64, counted[BOOK_APPLIED],
                    b->samples_applied);
}
