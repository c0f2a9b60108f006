// SPDX-License-Identifier: Apache-2.0
// server.c - see server.h.
//
// Life of a run of updates, and what is true if all processes die at that point:
//   formed     the core takes gradients out of the queues, under the lock; the record is filled before the
//              commit, so a record that is not yet committed is simply filled again
//   opened     slices may be claimed. Opening and closing happen under the lock, too, so no executor opens
//              an update that others have finished meanwhile. A death between commit and opening leaves an
//              update that is in progress and closed: the next turn opens it
//   slices     each is claimed by one executor and marked with its version when done (slices.h: exactly once)
//   committed  by the executor that sees the last slice done, under the lock; then the record closes. A death
//              in between leaves an open record of a version that exists: the next turn closes it
//
// With locks, the weights' write lock is held from before the opening until after the commit. So a
// process that reads under the lock sees the weights of exactly the version that the clock shows.
#include "ps/server.h"

#include "ps/exchange.h"
#include "ps/moved.h"

#include "base/clock.h"
#include "base/failpoint.h"

#include <string.h>

#define LOOK_NS 1000000         // between two looks for what dead executors left
#define HELP_NS 1000000000      // so long slices wait for those who have the piece
#define READERS_S 0.2           // longest wait for readers of the weights while the lock of the core is held
#define HOLD_NS 2000000         // the same of the parent that merges; it looks again shortly

mu_status mu_server_init(mu_server *s, mu_shared *g, int executor,
                         mu_step_rate (*rate_at)(void *, int64_t, int64_t), void *ctx, mu_err *err) {
    *s = (mu_server){.shared = g,
                     .executor = executor,
                     .rate_at = rate_at,
                     .ctx = ctx,
                     .look_ns = LOOK_NS,
                     .holder = MU_HOLDS_ALL,
                     .scanned = -1,
                     .idle_at = -1,
                     .params = *g->pieces};
    s->params.value = g->weights;
    for (int k = 0; k < g->head->n_history; k++) s->params.slot[k] = g->history[k];
    const size_t most = (size_t)mu_core_most_parts(g->head->n_learners) * (size_t)g->head->n_workers;
    s->grads = mu_alloc_array(most, sizeof *s->grads, "server");
    s->grad_at = mu_alloc_array(most, sizeof *s->grad_at, "server");
    s->weights = mu_alloc_array(most, sizeof *s->weights, "server");
    if (s->grads && s->grad_at && s->weights) return MU_OK;
    mu_server_fini(s);
    return MU_FAIL_NOMEM(err, "the server");
}

void mu_server_fini(mu_server *s) {
    mu_free(s->grads);
    mu_free(s->grad_at);
    mu_free(s->weights);
    s->grads = NULL;
    s->grad_at = NULL;
    s->weights = NULL;
}

// ---- forming ----

// The parts of update i in the order of learners, so that sums do not depend on arrival. Returns the
// effective rate: of these gradients, were each an update of its own.
static double fill_update(mu_server *s, const mu_core *c, int i, int64_t samples) {
    mu_shared *g = s->shared;
    mu_shared_update *u = g->update;
    const int begin = mu_core_update_begin(c, i), end = mu_core_update_end(c, i);
    const mu_step_rate r = s->rate_at(s->ctx, c->version + i, samples);
    mu_run_update *one = &u->update[i];
    double alone = 0;
    *one = (mu_run_update){begin, end, 0, r.rate, {c->version + i, r.young, r.stale}};
    for (int j = begin; j < end; j++) {
        const mu_core_part *p = mu_core_part_at(c, j);
        int at = j;
        for (; at > begin && u->part[at - 1].id.learner > p->id.learner; at--) u->part[at] = u->part[at - 1];
        const mu_slot_head *h = mu_shared_slot_head(g, p->id.learner, p->slot);
        const int64_t sigma = mu_core_staleness(c, j);
        const float weight = mu_core_weight(c, sigma, end - begin);
        alone += (double)mu_core_rate_share(c, sigma);
        u->part[at] = (mu_update_part){p->id, p->slot, weight * h->scale};
        one->skip |= h->bad;
    }
    return r.rate * alone / (end - begin);
}

static void fill_record(mu_server *s, const mu_core *c) {
    mu_shared *g = s->shared;
    mu_shared_update *u = g->update;
    int64_t samples = mu_core_samples(c);
    double rate = 0;
    u->n_updates = c->applying;
    for (int i = 0; i < c->applying; i++) {
        rate = fill_update(s, c, i, samples);
        for (int j = u->update[i].begin; j < u->update[i].end; j++) samples += u->part[j].id.rows;
    }
    const int64_t number = c->version + c->applying;
    for (int i = 0; i < g->head->n_slices; i++) {
        atomic_store_explicit(&g->slice[i].done, 0, memory_order_relaxed);
        atomic_store_explicit(&g->slice[i].claim, number * 4096, memory_order_relaxed);
    }
    atomic_store_explicit(&u->next, 0, memory_order_relaxed);
    atomic_store_explicit(&u->left, g->head->n_slices, memory_order_relaxed);
    atomic_store_explicit(&u->number, number, memory_order_release); // see mu_server_turn
    atomic_store(&g->head->rate, rate); // of the last one
}

// only: -1 = all. All workers of a learner: those that wait may help.
static void ring_learners(mu_shared *g, int only) {
    for (int i = 0; i < g->head->n_processes; i++)
        if (only < 0 || i / g->head->n_workers == only) mu_bell_ring(&g->learner[i].turn);
}

// Readers of the weights (copy mode with locks) leave before the first slice is touched. False: one did not,
// in the time that others may be kept from the lock of the core. The flag of a writer that died is taken
// over.
static bool keep_readers_out(mu_shared *g) {
    double s = g->setup->hang_timeout / 4;
    return !g->setup->locks || mu_rwlock_write(g->rw, (int64_t)(1e9 * (s < READERS_S ? s : READERS_S)));
}

// True: an update is open now.
static bool form(mu_server *s) {
    mu_shared *g = s->shared;
    if (!atomic_load_explicit(&g->head->waiting, memory_order_relaxed)) return false;
    mu_core *c = mu_shared_begin(g);
    if (!c) return false;
    // A record that is open behind its commit is of an executor that died there: this turn closes it first.
    const bool was = c->applying, open = atomic_load(&g->update->open);
    if (open || (!was && (atomic_load(&g->head->pause) || !mu_core_form(c)))) {
        mu_shared_cancel(g); // another was faster, or there is nothing to do
        return open;
    }
    if (!keep_readers_out(g)) { // tried again in the next turn
        mu_shared_cancel(g);
        return false;
    }
    if (!was) fill_record(s, c);
    mu_failpoint("server/formed");
    mu_shared_switch(g);
    mu_failpoint("server/not-opened");
    // Asked under the lock: behind it the record may already be that of the next update.
    const int only = mu_protocol_wakes(mu_protocol_at(c->config.protocol), c);
    atomic_store_explicit(&g->update->open, 1, memory_order_release);
    mu_shared_unlock(g);
    mu_failpoint("server/opened");
    mu_bell_ring(&g->head->turn);
    mu_bell_ring(&g->head->work);
    ring_learners(g, only);
    return true;
}

// ---- slices ----

// Where results are a function of the job or of its record, also after deaths. Other updates spare the copy:
// a slice that a dead executor left may be applied twice, and is counted.
static bool keeps_undo(const mu_shared *g, int64_t number) {
    return mu_shared_is_in_step(g, number) || g->journal;
}

// What a worker gave to a gradient for this piece; `message`: its part of the slot.
static mu_grad given(const mu_share *by, const char *message, int piece) {
    const int i = by->index[piece];
    if (i < 0) return (mu_grad){.form = MU_GRAD_NONE};
    return mu_message_get(&by->message, message, i, by->params->list[i]);
}

// The gradients and weights of the whole run for one piece: of each part those of all workers, in their
// order.
static void prepare(mu_server *s, int piece) {
    mu_shared *g = s->shared;
    const mu_shared_update *u = g->update;
    const int n = u->update[u->n_updates - 1].end, workers = g->head->n_workers;
    for (int j = 0, k = 0; j < n; j++) {
        const char *slot = mu_shared_slot(g, u->part[j].id.learner, u->part[j].slot);
        for (int w = 0; w < workers; w++, k++) {
            s->grads[k] = given(&g->share[w], slot + g->share[w].at, piece);
            s->grad_at[k] = &s->grads[k];
            s->weights[k] = u->part[j].weight;
        }
    }
}

static mu_update update_at(const mu_server *s, int i) {
    const mu_run_update *one = &s->shared->update->update[i];
    const int workers = s->shared->head->n_workers, at = one->begin * workers;
    return (mu_update){(one->end - one->begin) * workers, s->grad_at + at, s->weights + at, one->rate,
                       one->rule_step};
}

// Every update of the run, in order, on one slice, which stays in the cache meanwhile.
static void apply_run(mu_server *s, int i, int64_t number) {
    mu_shared *g = s->shared;
    const mu_shared_update *u = g->update;
    const mu_slice_range *r = &g->slices.range[i];
    mu_update updates[MU_CORE_RUN];
    int n = 0;
    prepare(s, r->param);
    for (int k = 0; k < u->n_updates; k++)
        if (!u->update[k].skip) updates[n++] = update_at(s, k);
    mu_moved_read_slice(s, i);
    mu_apply_slice(&(mu_apply){g->updater, &s->params, n, updates}, r, &g->slice[i].done,
                   keeps_undo(g, number) ? &g->executor[s->executor].undo : NULL);
    mu_moved_apply(s, i, n, updates);
}

// Workers apply the pieces that they have, so that these stay where they are used. Those that no worker of
// this rank has, whoever is free.
static bool holds(const mu_server *s, int slice) {
    const mu_shared *g = s->shared;
    if (!g->partition || s->holder == MU_HOLDS_ALL) return true;
    const uint32_t have = g->partition->piece[g->slices.range[slice].param].workers;
    const int n = mu_shared_own_workers(g);
    if (n == g->head->n_workers) return have & s->holder;
    const uint32_t here = ((UINT32_C(1) << n) - 1) << mu_shared_first_worker(g);
    return (have & s->holder) || !(have & here);
}

// Claims and applies slice i for update `number`. False: it is not free for it.
static bool try_slice(mu_server *s, int i, int64_t number) {
    mu_shared *g = s->shared;
    mu_shared_slice *sl = &g->slice[i];
    int64_t free_claim = number * 4096;
    if (!holds(s, i)) return false;
    if (atomic_load_explicit(&sl->claim, memory_order_relaxed) != free_claim) return false;
    if (atomic_load_explicit(&sl->version, memory_order_acquire) >= number) return false;
    if (!atomic_compare_exchange_strong(&sl->claim, &free_claim, number * 4096 + s->executor + 1))
        return false;
    if (atomic_load_explicit(&g->owner[i], memory_order_relaxed) != s->executor + 1)
        atomic_store_explicit(&g->owner[i], s->executor + 1, memory_order_relaxed);
    if (g->pulse) atomic_fetch_add_explicit(g->pulse, 1, memory_order_relaxed);
    mu_failpoint("server/claimed");
    apply_run(s, i, number);
    mu_failpoint("server/slice-done");
    atomic_store_explicit(&sl->version, number, memory_order_release);
    if (mu_shared_is_in_step(g, number)) mu_bell_ring(&g->head->turn); // a learner may wait for these weights
    return true;
}

// Those that are in this core's cache, as it had them last.
static int own_slices(mu_server *s, int64_t number) {
    const mu_shared *g = s->shared;
    int done = 0;
    for (int i = 0; i < g->head->n_slices; i++)
        if (atomic_load_explicit(&g->owner[i], memory_order_relaxed) == s->executor + 1)
            done += try_slice(s, i, number);
    return done;
}

static int all_slices(mu_server *s, int64_t number) {
    const int n = s->shared->head->n_slices;
    int done = 0;
    for (int i = n - 1; i >= 0; i--) done += try_slice(s, i, number);
    return done;
}

// Those whose owners are busy elsewhere. Owners begin at the front. Who may not apply all does not take the
// others from the counter.
static int other_slices(mu_server *s, int64_t number) {
    mu_shared_update *u = s->shared->update;
    const int n = s->shared->head->n_slices;
    int done = 0;
    if (s->holder != MU_HOLDS_ALL) {
        if (s->scanned == number) return 0;
        s->scanned = number;
        return all_slices(s, number);
    }
    for (int i; atomic_load_explicit(&u->next, memory_order_relaxed) < n &&
                (i = atomic_fetch_add_explicit(&u->next, 1, memory_order_relaxed)) < n;)
        done += try_slice(s, n - 1 - i, number);
    return done;
}

// Those that dead executors have left, and the parent has freed: nothing else tells of them. When nobody who
// has a piece comes for it, others apply it.
static int left_slices(mu_server *s, int64_t number) {
    const uint32_t holder = s->holder;
    if (s->idle_at != number) {
        s->idle_at = number;
        s->idle_ns = s->looked_ns;
    }
    if (s->looked_ns - s->idle_ns > HELP_NS) s->holder = MU_HOLDS_ALL;
    const int done = all_slices(s, number);
    s->holder = holder;
    return done;
}

static bool all_done(const mu_shared *g, int64_t number) {
    for (int i = 0; i < g->head->n_slices; i++)
        if (atomic_load_explicit(&g->slice[i].version, memory_order_acquire) < number) return false;
    return true;
}

// ---- committing ----

void mu_server_note_staleness(mu_shared *g, int learner, int64_t sigma) {
    mu_shared_learner *l = mu_shared_first(g, learner);
    int64_t bin = sigma < MU_STALENESS_BINS ? sigma : MU_STALENESS_BINS - 1;
    atomic_fetch_add_explicit(&l->n_stale, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&l->stale_sum, sigma, memory_order_relaxed);
    atomic_fetch_add_explicit(&l->stale_hist[bin], 1, memory_order_relaxed);
    if (sigma > atomic_load(&l->stale_max)) atomic_store(&l->stale_max, sigma);
}

// One update of the run into the journal; there is room.
static void write_update(mu_shared *g, const mu_run_update *one, int64_t version) {
    mu_journal *j = g->journal;
    const int n = one->end - one->begin;
    if (mu_journal_has(j, version)) return;
    for (int i = 0; i < n; i++) {
        mu_journal_entry *e = mu_journal_next(j, i);
        *e = (mu_journal_entry){.update = {version, one->rate, n, one->skip}};
        const mu_update_part *p = &g->update->part[one->begin + i];
        const mu_slot_head *h = mu_shared_slot_head(g, p->id.learner, p->slot);
        e->part = (mu_journal_part){p->id, h->global_rows, h->loss, p->weight, h->scale, h->bad};
    }
    mu_journal_publish(j, n);
    mu_failpoint("server/journaled");
}

// The run in progress into the journal. False: no room now; the parent is told.
static bool write_journal(mu_shared *g) {
    mu_journal *j = g->journal;
    const mu_shared_update *u = g->update;
    if (!j) return true;
    const int64_t before = atomic_load(&u->number) - u->n_updates;
    const uint64_t room = mu_journal_free(j);
    if (room < j->n / 2) mu_bell_ring(g->parent);
    if (room < (uint64_t)u->update[u->n_updates - 1].end) return false;
    for (int i = 0; i < u->n_updates; i++) write_update(g, &u->update[i], before + 1 + i);
    return true;
}

static void count_run(mu_shared *g, const mu_core *c, int64_t number) {
    for (int j = 0; j < c->n_parts && !mu_shared_is_warming(g, number); j++)
        mu_server_note_staleness(g, mu_core_part_at(c, j)->id.learner, mu_core_staleness(c, j));
    for (int i = 0; i < g->update->n_updates; i++)
        if (g->update->update[i].skip) atomic_fetch_add(&g->head->skipped_updates, 1);
}

// False: it cannot be finished now.
static bool finish(mu_server *s, int64_t number) {
    mu_shared *g = s->shared;
    mu_core *c = mu_shared_begin(g);
    if (!c) return false;
    bool mine = c->applying && c->version + c->applying == number;
    int only = mine && c->n_parts == 1 ? mu_core_part_at(c, 0)->id.learner : -1;
    if (mine && !write_journal(g)) {
        mu_shared_cancel(g);
        return false;
    }
    if (mine) {
        count_run(g, c, number);
        const int32_t phase = c->phase;
        mu_core_applied(c);
        if (c->phase != phase) only = -1; // another protocol may let any of them begin
        mu_shared_switch(g);
    }
    if (atomic_load(&g->update->number) == number && atomic_load(&g->update->open)) {
        if (g->setup->locks) mu_rwlock_write_end(g->rw); // first: an open record is closed by the next turn
        atomic_store(&g->update->open, 0);
        mu_failpoint("server/closed");
    }
    mu_shared_unlock(g);
    mu_failpoint("server/committed");
    mu_bell_ring(&g->head->turn);
    mu_bell_ring(&g->head->work);
    if (mine) ring_learners(g, only); // they may have waited for just this
    return true;
}

mu_turn mu_server_turn(mu_server *s) {
    mu_shared *g = s->shared;
    mu_shared_update *u = g->update;
    if (!atomic_load_explicit(&u->open, memory_order_acquire) && !form(s)) return MU_TURN_IDLE;
    int64_t number = atomic_load(&u->number), began = mu_clock_ns();
    // The one that was open may have ended, and the number may be that of the next, which is being filled. It
    // is filled after the one before was closed, so if it is still, or again, open, the number belongs to an
    // open one.
    if (!atomic_load(&u->open)) return MU_TURN_IDLE;
    int done = own_slices(s, number);
    done += other_slices(s, number);
    const bool look = !done && began - s->looked_ns >= s->look_ns;
    if (look) {
        s->looked_ns = began;
        done = left_slices(s, number);
    }
    // The number left only says when it is worth looking at all: an executor that dies leaves it too high,
    // one that comes here late takes from the next run's.
    const bool last = done > 0 && atomic_fetch_sub(&u->left, done) <= done;
    if ((last || look) && all_done(g, number)) {
        mu_failpoint("server/all-done");
        done += finish(s, number);
    }
    if (done) atomic_fetch_add_explicit(&g->head->apply_ns, mu_clock_ns() - began, memory_order_relaxed);
    return done ? MU_TURN_WORKED : MU_TURN_IDLE;
}

// ---- repair and snapshot: the parent's ----

void mu_server_repair(mu_shared *g, int executor) {
    (void)mu_undo_restore(&g->executor[executor].undo, g->pieces);
    for (int i = 0; i < g->head->n_slices; i++) {
        int64_t claim = atomic_load(&g->slice[i].claim), number = claim / 4096;
        if (claim % 4096 != executor + 1 || atomic_load(&g->slice[i].version) >= number) continue;
        if (!keeps_undo(g, number)) atomic_fetch_add(&g->head->torn_updates, 1);
        atomic_store(&g->slice[i].claim, number * 4096);
    }
    mu_shared_ring_all(g);
}

// Nothing changes the weights while this holds: no update is in progress, and the exchange in force says so.
static bool is_quiet(const mu_shared *g, const mu_core *c) {
    const mu_exchange *x = mu_exchange_at(g, c->version);
    if (c->applying || atomic_load(&g->update->open)) return false;
    return !x->is_quiet || x->is_quiet(g, c);
}

void mu_server_pause(mu_shared *g, bool on) {
    atomic_store(&g->head->pause, on);
    if (!on) mu_shared_ring_all(g);
}

// ---- merging: the parent's ----

static bool stands_still(mu_shared *g, bool anywhere) {
    mu_core *c = mu_shared_begin(g);
    if (!c) return false;
    const bool quiet = is_quiet(g, c), there = quiet && mu_core_at_halt(c);
    const bool stop = quiet && anywhere && !there; // a server process may have more to apply
    if (stop) mu_core_set_halt(c, c->version);
    if (stop) mu_shared_commit(g);
    else mu_shared_cancel(g);
    return there || stop;
}

bool mu_server_hold(mu_shared *g, bool anywhere) {
    return stands_still(g, anywhere) && (!g->setup->locks || mu_rwlock_write(g->rw, HOLD_NS));
}

void mu_server_let_go(mu_shared *g) {
    if (g->setup->locks) mu_rwlock_write_end(g->rw);
}

bool mu_server_set_halt(mu_shared *g, int64_t version) {
    mu_core *c = mu_shared_begin(g);
    if (!c) return false;
    mu_core_set_halt(c, version);
    mu_shared_commit(g);
    mu_shared_ring_all(g);
    return true;
}

void mu_server_read_point(const mu_core *c, mu_server_point *out) {
    out->version = c->version;
    out->applied = c->samples_applied;
    out->next = c->next_sample;
    out->n_open = mu_core_open(c, out->open);
}

bool mu_server_snapshot(mu_shared *g, mu_server_point *out) {
    mu_core *c = mu_shared_begin(g);
    if (!c) return false;
    bool quiet = is_quiet(g, c);
    if (quiet) mu_server_read_point(c, out);
    mu_shared_cancel(g);
    if (!quiet) return false;
    mu_shared_copy_out(g, g->snapshot, g->snapshot_history);
    return true;
}
