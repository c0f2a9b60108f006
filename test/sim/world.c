// SPDX-License-Identifier: Apache-2.0
// world.c - processes, messages, the server and the loop of events.
#include "sim/sim.h"

#include "base/alloc.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

// ---- time and events ----

void sim_post(sim_world *w, int64_t delay, sim_kind kind, int learner, uint32_t mark) {
    if (!sim_queue_put(&w->queue, w->now + delay, (int)kind, learner, mark)) {
        book_wrong(&w->book, "the simulator's queue is full");
        return;
    }
    w->n_own += kind != SIM_FAULT;
}

int64_t sim_time(sim_world *w, int64_t mean) { return sim_below(&w->rng, 2 * mean + 1); }

void sim_trace(int64_t event, int64_t now, const char *format, ...) {
    va_list args;
    va_start(args, format);
    printf("%6" PRId64 " %9" PRId64 "  ", event, now);
    vprintf(format, args);
    printf("\n");
    va_end(args);
}

static int64_t compute_time(sim_world *w, const sim_process *p) {
    int64_t t = w->plan.compute * p->slow / 16;
    t = t * (900 + sim_below(&w->rng, 201)) / 1000;
    if (w->plan.spread == SIM_HEAVY && sim_chance(&w->rng, 50)) t *= 1 + sim_below(&w->rng, 40);
    return t;
}

// ---- the server ----

// The parent sees that a halt is reached, and takes its time.
static void look_at_halt(sim_world *w) {
    if (!w->plan.halts || w->moving || !mu_core_at_halt(w->core) || w->core->halt == INT64_MAX) return;
    w->moving = true;
    if (!sim_mutant_is(w, SIM_M_NO_MOVE)) sim_post(w, sim_time(w, 2 * w->plan.compute), SIM_MOVE, 0, 0);
}

static void set_halt(sim_world *w) {
    mu_core_set_halt(w->core, w->core->version + 1 + sim_below(&w->rng, w->plan.halts));
}

static void move_halt(sim_world *w) {
    w->moving = false;
    if (w->core->halt == INT64_MAX) return; // the run is being stopped
    SIM_TRACE(w, "halt     of version %" PRId64 " is moved", w->core->halt);
    if (!mu_core_at_halt(w->core)) book_wrong(&w->book, "a halt was left before it was moved");
    if (mu_core_is_in_step(w->core) && w->core->computing)
        book_wrong(&w->book, "%d learners compute at a halt", w->core->computing);
    set_halt(w);
    sim_wake(w);
    sim_look(w);
}

void sim_look(sim_world *w) {
    const int32_t n = w->core->fifo_n;
    look_at_halt(w);
    if (w->server_dead || w->book.applying || !mu_core_form(w->core)) return;
    if (w->core->version + w->core->applying > w->core->halt)
        book_wrong(&w->book, "an update behind the halt at %" PRId64, w->core->halt);
    if (sim_mutant_is(w, SIM_M_DOUBLE_APPLY)) w->core->fifo_n = n;
    book_form(&w->book, w->core);
    SIM_TRACE(w, "form     version %" PRId64 " of %d gradients", w->core->version + 1, w->core->n_parts);
    sim_post(w, sim_time(w, w->plan.apply), SIM_APPLY, 0, w->server_mark);
}

void sim_wake(sim_world *w) {
    if (sim_mutant_is(w, SIM_M_NO_WAKE)) return;
    for (; w->n_held > 0; w->n_held--) {
        const int i = w->held[w->n_held - 1];
        w->process[i].state = SIM_ASKING;
        sim_post(w, sim_time(w, w->plan.message), SIM_ASK, i, w->process[i].mark);
    }
}

static void unhold(sim_world *w, sim_process *p) {
    const int last = w->held[--w->n_held];
    w->held[p->held_at] = last;
    w->process[last].held_at = p->held_at;
}

static void apply(sim_world *w, uint32_t mark) {
    if (mark != w->server_mark) return; // died in the middle of it
    mu_core_applied(w->core);
    book_applied(&w->book);
    SIM_TRACE(w, "applied  version %" PRId64, w->core->version);
    if (sim_mutant_is(w, SIM_M_COMMIT_TWICE) && mu_core_form(w->core)) mu_core_applied(w->core);
    w->since_progress = 0;
    sim_wake(w);
    sim_look(w);
}

void sim_stop(sim_world *w) {
    SIM_TRACE(w, "stop");
    mu_core_set_halt(w->core, INT64_MAX);
    mu_core_stop(w->core);
    book_stop(&w->book);
    sim_wake(w);
    sim_look(w);
    w->until_check = 0;
}

void sim_abandon(sim_world *w) {
    SIM_TRACE(w, "abandon");
    mu_core_set_halt(w->core, INT64_MAX);
    mu_core_abandon(w->core);
    book_abandon(&w->book);
    for (int i = 0; i < w->plan.config.learners; i++) {
        w->process[i].state = SIM_ENDED;
        w->process[i].mark++;
    }
    w->n_held = 0;
    w->until_check = 0;
}

// ---- a process ----

static void start(sim_world *w, int i) {
    sim_process *p = &w->process[i];
    if (p->state != SIM_STARTING) return;
    if (!sim_mutant_is(w, SIM_M_NO_JOIN) || p->incarnation == 0) {
        p->incarnation = mu_core_join(w->core, i);
        book_join(&w->book, i, p->incarnation);
    }
    SIM_TRACE(w, "join     learner %d incarnation %u", i, p->incarnation);
    p->state = SIM_ASKING;
    w->until_check = 0;
    sim_post(w, sim_time(w, w->plan.message), SIM_ASK, i, p->mark);
    sim_wake(w);
    sim_look(w);
}

// The prefetch thread: some leases ahead, at least one.
static void lease(sim_world *w, int i) {
    const book_learner *l = &w->book.learner[i];
    mu_lease out;
    bool ended = false;
    const int64_t most = w->plan.config.global_batch * SIM_MAX_BATCHES; // samples of a lease, gaps included
    for (int n = 0; n < w->plan.prefetch; n++) {
        if (l->handed > 0 && (n > 0 || l->handed >= 2 * w->plan.prefetch)) break;
        if (w->book.top + most > SIM_MAX_SAMPLES && !w->book.stopping) sim_stop(w);
        if (!mu_core_lease(w->core, i, &out, &ended)) break;
        if (sim_mutant_is(w, SIM_M_LEASE_TWICE) && !mu_core_lease(w->core, i, &out, &ended)) break;
        book_lease(&w->book, i, &out);
        SIM_TRACE(w, "lease    learner %d: %d batches from %" PRId64, i, out.batches, out.first);
    }
}

static void ask(sim_world *w, int i) {
    sim_process *p = &w->process[i];
    if (p->state == SIM_HELD) unhold(w, p); // asked on its own
    lease(w, i);
    const mu_answer answer = mu_core_ask(w->core, i, p->incarnation, &p->grant);
    SIM_TRACE(w, "ask      learner %d: %s version %" PRId64 " step %" PRId64, i,
              answer == MU_GO     ? "go"
              : answer == MU_HOLD ? "hold"
                                  : "end",
              w->core->version, answer == MU_GO ? p->grant.step : -1);
    w->hash = (w->hash ^ (uint64_t)answer) * 0x100000001B3u;
    if (answer == MU_GO) {
        book_go(&w->book, i, &p->grant);
        p->state = SIM_COMPUTING;
        sim_post(w, compute_time(w, p), SIM_DONE, i, p->mark);
    } else if (answer == MU_HOLD) {
        p->state = SIM_HELD;
        p->held_at = w->n_held;
        w->held[w->n_held++] = i;
    } else {
        const book_learner *l = &w->book.learner[i];
        const bool left = l->n_owed > 0 && !w->book.stopping;
        if (left) book_wrong(&w->book, "learner %d: END with %d batches promised", i, l->n_owed);
        p->state = SIM_ENDED;
        w->since_progress = 0;
        sim_look(w); // with one learner less, fewer gradients may make an update
    }
}

void sim_send(sim_world *w, const sim_message *m, int64_t delay) {
    int32_t k = w->free_message;
    if (k < 0) return; // as if the network had lost a duplicate
    w->free_message = w->message[k].next;
    w->message[k] = *m;
    sim_post(w, delay, SIM_PUSH, m->id.learner, (uint32_t)k);
}

static sim_message message_of(sim_world *w, int i) {
    const sim_process *p = &w->process[i];
    const mu_grant *g = &p->grant;
    sim_message m = {.id = {i, p->incarnation, g->step, g->version, g->first, g->rows}, .mark = p->mark};
    if (w->plan.copies && !mu_core_is_in_step(w->core) && w->core->version > g->version)
        m.id.version += sim_below(&w->rng, w->core->version - g->version + 1);
    if (sim_mutant_is(w, SIM_M_WRONG_SAMPLES)) m.id.first++;
    return m;
}

static void done(sim_world *w, int i) {
    sim_process *p = &w->process[i];
    sim_message m = message_of(w, i);
    p->state = SIM_PUSHING;
    sim_send(w, &m, sim_time(w, w->plan.message));
    if (w->faults_on && (w->plan.faults & SIM_F_DUPLICATE) && sim_chance(&w->rng, 50)) {
        m.copy = true;
        sim_send(w, &m, sim_time(w, w->plan.message) + sim_below(&w->rng, 5 * w->plan.compute));
    }
}

// A push arrives. The book knows what the answer must be, for originals, duplicates and zombies alike.
static void arrive(sim_world *w, int k) {
    sim_message m = w->message[k];
    sim_process *p = &w->process[m.id.learner];
    w->message[k].next = w->free_message;
    w->free_message = k;
    mu_gradient_id sent = m.id;
    if (sim_mutant_is(w, SIM_M_NO_FENCE)) sent.incarnation = p->incarnation;
    if (sim_mutant_is(w, SIM_M_FALSE_CLOCK)) sent.version = w->core->version;
    if (sim_mutant_is(w, SIM_M_TORN_COMMIT)) memcpy(w->spare, w->core, w->core_bytes);
    const mu_push_result v = mu_core_push(w->core, &sent);
    if (sim_mutant_is(w, SIM_M_TORN_COMMIT)) memcpy(w->core, w->spare, w->core_bytes);
    book_push(&w->book, &m.id, v);
    w->hash = (w->hash ^ (uint64_t)v ^ (uint64_t)m.id.step) * 0x100000001B3u;
    SIM_TRACE(w, "push     learner %d incarnation %u step %" PRId64 " version %" PRId64 ": %d%s",
              m.id.learner, m.id.incarnation, m.id.step, m.id.version, (int)v, m.copy ? " (copy)" : "");
    if (v == MU_ACCEPTED) {
        w->since_progress = 0;
        if (!w->book.target->take) sim_wake(w);
        sim_look(w);
    }
    if (!m.copy && p->mark == m.mark && p->state == SIM_PUSHING) {
        p->state = SIM_ASKING;
        sim_post(w, sim_time(w, w->plan.message), SIM_ASK, m.id.learner, p->mark);
    }
}

// ---- death and replacement ----

void sim_die(sim_world *w, int i, bool zombie) {
    sim_process *p = &w->process[i];
    SIM_TRACE(w, "%s     learner %d incarnation %u", zombie ? "hang" : "dies", i, p->incarnation);
    if (p->state == SIM_HELD) unhold(w, p);
    if (zombie && p->state == SIM_COMPUTING) { // what it computes arrives some day
        sim_message m = message_of(w, i);
        sim_send(w, &m, sim_below(&w->rng, 4 * (w->plan.detect + w->plan.restart) + w->plan.compute));
    }
    p->state = SIM_GONE;
    p->paused = false;
    p->deferred = -1;
    p->mark++;
    sim_post(w, sim_time(w, w->plan.detect), SIM_LOST, i, p->mark);
}

static void lost(sim_world *w, int i) {
    sim_process *p = &w->process[i];
    if (sim_mutant_is(w, SIM_M_NO_WATCHDOG)) return;
    if (!sim_mutant_is(w, SIM_M_NO_JOIN) && sim_chance(&w->rng, 900)) { // else the join itself finds it
        mu_core_lost(w->core, i);
        book_lost(&w->book, i);
    }
    SIM_TRACE(w, "lost     learner %d", i);
    w->until_check = 0;
    p->state = SIM_STARTING;
    sim_post(w, sim_time(w, w->plan.restart), SIM_START, i, p->mark);
    sim_wake(w);
    sim_look(w);
}

void sim_pause(sim_world *w, int i, int64_t length) {
    sim_process *p = &w->process[i];
    if (p->paused || p->state == SIM_GONE || p->state == SIM_STARTING || p->state == SIM_ENDED) return;
    SIM_TRACE(w, "pause    learner %d", i);
    p->paused = true;
    sim_post(w, length, SIM_RESUME, i, p->mark);
}

// ---- the loop ----

static void process_event(sim_world *w, const sim_event *e) {
    sim_process *p = &w->process[e->learner];
    if (e->mark != p->mark) return;
    if (p->paused && (e->kind == SIM_ASK || e->kind == SIM_DONE)) {
        p->deferred = (int8_t)e->kind;
        return;
    }
    switch ((sim_kind)e->kind) {
    case SIM_START:
        start(w, e->learner);
        break;
    case SIM_ASK:
        ask(w, e->learner);
        break;
    case SIM_DONE:
        done(w, e->learner);
        break;
    case SIM_LOST:
        lost(w, e->learner);
        break;
    case SIM_PAUSE:
        sim_pause(w, e->learner, 1 + sim_below(&w->rng, 10 * w->plan.compute));
        break;
    case SIM_RESUME:
        p->paused = false;
        if (p->deferred >= 0) sim_post(w, 0, (sim_kind)p->deferred, e->learner, p->mark);
        p->deferred = -1;
        break;
    default:
        break;
    }
}

static void dispatch(sim_world *w, const sim_event *e) {
    switch ((sim_kind)e->kind) {
    case SIM_PUSH:
        arrive(w, (int)e->mark);
        break;
    case SIM_APPLY:
        apply(w, e->mark);
        break;
    case SIM_SERVER:
        SIM_TRACE(w, "server   goes on");
        w->server_dead = false;
        if (w->book.applying) sim_post(w, sim_time(w, w->plan.apply), SIM_APPLY, 0, w->server_mark);
        else sim_look(w);
        break;
    case SIM_MOVE:
        move_halt(w);
        break;
    case SIM_FAULT:
        if (w->faults_on) sim_fault(w);
        break;
    case SIM_STOP:
        if (w->book.stopping) break;
        if (sim_chance(&w->rng, 300)) sim_abandon(w);
        else sim_stop(w);
        break;
    default:
        process_event(w, e);
        break;
    }
}

// As shared.c does it: an event is made in the spare copy, which becomes the good one. What others threw
// away in there must not be seen.
static void switch_cores(sim_world *w) {
    mu_core *spare = w->spare;
    if (sim_mutant_is(w, SIM_M_NOT_NOTED)) spare->n_touched = 0;
    if (sim_mutant_is(w, SIM_M_NOT_COPIED)) w->core->n_touched = 0;
    (void)mu_core_catch_up(spare, w->core);
    mu_core_retire(w->core);
    w->spare = w->core;
    w->core = spare;
}

// Both copies, right after they were made the same.
static void compare_cores(sim_world *w) {
    const mu_core *a = w->core, *b = w->spare;
    bool same = a->version == b->version && a->fifo_n == b->fifo_n && a->next_sample == b->next_sample;
    for (int i = 0; same && i < a->config.learners; i++)
        same = !memcmp(mu_core_learner_at(a, i), mu_core_learner_at(b, i), sizeof(mu_core_learner));
    for (int i = 0; same && i < a->n_parts + a->fifo_n; i++)
        same = !memcmp(mu_core_part_at(a, i), mu_core_part_at(b, i), sizeof(mu_core_part));
    if (!same) book_wrong(&w->book, "the two copies of the core differ");
}

void sim_full_check(sim_world *w) {
    char why[160];
    if (!mu_core_check(w->core, why, sizeof why)) book_wrong(&w->book, "core: %s", why);
    book_check(&w->book, w->core);
    w->until_check = w->check_every;
}

static void begin_episode(sim_world *w) {
    sim_plan_draw(&w->plan, &w->opts, &w->rng);
    const mu_core_config *c = &w->plan.config;
    w->core_bytes = mu_core_size(c->learners);
    mu_core_init(w->core, c);
    memset(w->spare, 0, w->core_bytes);
    book_init(&w->book, c);
    w->now = 0;
    sim_queue_clear(&w->queue);
    w->n_own = w->n_held = 0;
    w->since_progress = 0;
    w->server_dead = w->moving = false;
    if (w->plan.halts) set_halt(w);
    w->check_every = (c->learners + 15) / 16;
    w->until_check = 0;
    w->faults_on = w->plan.faults != 0;
    w->free_message = -1;
    for (int32_t k = 4 * c->learners + 64; k-- > 0;) {
        w->message[k].next = w->free_message;
        w->free_message = k;
    }
    const int slow = (int)sim_below(&w->rng, c->learners);
    for (int i = 0; i < c->learners; i++) {
        sim_process *p = &w->process[i];
        *p = (sim_process){.state = SIM_STARTING, .deferred = -1, .slow = 16, .mark = p->mark + 1};
        if (w->plan.spread == SIM_UNEQUAL) p->slow = 8 + (int)sim_below(&w->rng, 25);
        if (w->plan.spread == SIM_STRAGGLER && i == slow) p->slow = 160;
        sim_post(w, sim_below(&w->rng, w->plan.compute), SIM_START, i, p->mark);
    }
    sim_post(w, sim_time(w, w->plan.fault_gap), SIM_FAULT, 0, 0);
    SIM_TRACE(w, "episode  %s, %d learners, splits %d, bound %d, warm %" PRId64 ", faults %d",
              mu_protocol_at(c->protocol)->name, c->learners, c->splits, c->bound, c->warm_versions,
              w->plan.faults);
}

static void end_episode(sim_world *w) {
    for (int i = 0; i < w->plan.config.learners; i++)
        if (w->process[i].state != SIM_ENDED)
            book_wrong(&w->book, "nothing moves: learner %d is in state %d, version %" PRId64, i,
                       w->process[i].state, w->core->version);
    sim_full_check(w);
    book_end(&w->book, w->core);
}

// Faults end at some event; what is left must come to its end without them, and without a pause in progress.
static void run_episode(sim_world *w, int64_t budget) {
    const int64_t quiet = w->events + sim_below(&w->rng, budget + 1);
    const int64_t patience = 2000 + 100 * w->plan.config.learners;
    const int64_t end = w->opts.events;
    while (w->n_own > 0 && book_good(&w->book)) {
        const sim_event e = sim_queue_take(&w->queue);
        w->n_own -= e.kind != SIM_FAULT;
        w->now = sim_event_time(&e);
        w->events++;
        w->hash = (w->hash ^ e.key ^ ((uint64_t)e.kind << 56 | (uint64_t)e.learner << 40)) * 0x100000001B3u;
        switch_cores(w);
        if (w->until_check <= 0) compare_cores(w);
        dispatch(w, &e);
        if (w->opts.mutant >= SIM_M_SCRIBBLE) sim_mutant_scribble(w);
        if (--w->until_check < 0) sim_full_check(w);
        if (w->events == quiet) w->faults_on = false;
        if (w->events >= end && !w->book.stopping) {
            w->faults_on = false;
            sim_stop(w);
        }
        if (!w->faults_on && ++w->since_progress > patience)
            book_wrong(&w->book, "no progress in %" PRId64 " events", w->since_progress);
    }
    if (book_good(&w->book)) end_episode(w);
}

bool sim_world_run(sim_world *w, int64_t seed) {
    w->seed = seed;
    w->rng = (uint64_t)seed * 0xD1342543DE82EF95u + 1;
    w->hash = 0xCBF29CE484222325u;
    w->events = 0;
    w->book.why[0] = 0;
    while (w->events < w->opts.events && book_good(&w->book)) {
        begin_episode(w);
        run_episode(w, w->opts.events - w->events);
    }
    return book_good(&w->book);
}

bool sim_world_create(sim_world *w, const sim_opts *o) {
    const size_t n = SIM_MAX_LEARNERS;
    memset(w, 0, sizeof *w);
    w->opts = *o;
    w->core = mu_alloc(mu_core_size((int)n), "sim");
    w->spare = mu_alloc(mu_core_size((int)n), "sim");
    w->process = mu_alloc_array(n, sizeof *w->process, "sim");
    w->held = mu_alloc_array(n, sizeof *w->held, "sim");
    const bool queue = sim_queue_create(&w->queue, 16 * (int64_t)n);
    w->message = mu_alloc_array(4 * n + 64, sizeof *w->message, "sim");
    w->book.learner = mu_alloc_array(n, sizeof *w->book.learner, "sim");
    w->book.fifo = mu_alloc_array((size_t)mu_core_most_parts((int)n), sizeof *w->book.fifo, "sim");
    w->book.part = mu_alloc_array((size_t)mu_core_most_parts((int)n), sizeof *w->book.part, "sim");
    w->book.sample = mu_alloc(SIM_MAX_SAMPLES, "sim");
    w->book.stale_bin = mu_alloc_array(SIM_BINS, sizeof *w->book.stale_bin, "sim");
    if (w->core && w->spare && w->process && w->held && queue && w->message && w->book.learner &&
        w->book.fifo && w->book.part && w->book.sample && w->book.stale_bin)
        return true;
    sim_world_destroy(w);
    return false;
}

void sim_world_destroy(sim_world *w) {
    void *all[] = {w->core,         w->spare,     w->process,   w->held,        w->message,
                   w->book.learner, w->book.fifo, w->book.part, w->book.sample, w->book.stale_bin};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) mu_free(all[i]);
    sim_queue_destroy(&w->queue);
    memset(w, 0, sizeof *w);
}
