// SPDX-License-Identifier: Apache-2.0
// watchdog.c - see watchdog.h.
//
// One look reaps what has ended, repairs shared memory after it, starts its successor, and sends SIGKILL to
// what hangs. A killed child is replaced by the look that finds it gone, and the others are watched
// meanwhile; for the other workers of a lost one alone it waits. Only a change of the core needs the lock,
// and there a hanging holder is killed.
//
// Invariant: shared memory of a child is repaired after the child was reaped and before its successor starts.
// How a learner ended is read from its row, not from its exit status, which a program that ignores SIGCHLD
// never gets.
#include "learners/watchdog.h"

#include "base/clock.h"
#include "comm/stall_timer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SLOW_EVERY_NS 5000000000LL
#define PAUSE_FACTOR 3          // times the longest pause seen: a net whose layers take seconds is not hung
#define EVALUATOR_FACTOR 10
#define TRY_S 0.25              // more than a try at the lock takes
#define SECOND_NS 1000000000LL
#define BUSY_HINT "The machine is very busy or a device hangs; go on with `--resume` when that is over."

enum { HOW = sizeof((mu_child *)0)->killed_why };

// ---- starting ----

static mu_status start_learner(mu_watchdog *d, int i, mu_err *err) {
    mu_watched *l = &d->learner[i];
    mu_shared_learner *row = &d->shared->learner[i];
    char name[24];
    snprintf(name, sizeof name, "muster:l%d", d->first + i);
    l->gradients = atomic_load(&row->gradients);
    d->speed[i].is_new = true;
    atomic_store(&row->first_pulse_ns, 0);
    l->pulse = atomic_load(&row->pulse);
    l->moved_ns = mu_clock_ns();
    MU_TRY(mu_process_start(name, mu_learner_main, &l->role, &l->child.pid, err));
    atomic_store(&row->pid, (int32_t)l->child.pid);
    return MU_OK;
}

static mu_status start_server(mu_watchdog *d, mu_err *err) {
    MU_TRY(mu_process_start("muster:server", mu_server_main, &d->server_role, &d->server.pid, err));
    atomic_store(&d->shared->head->server_pid, (int32_t)d->server.pid);
    for (int e = d->n; e < d->shared->head->n_executors; e++) d->thread[e].moved_ns = 0;
    return MU_OK;
}

static mu_status start_evaluator(mu_watchdog *d, mu_err *err) {
    MU_TRY(mu_process_start("muster:eval", mu_evaluator_main, &d->evaluator_role, &d->evaluator.pid, err));
    atomic_store(&d->shared->head->evaluator_pid, (int32_t)d->evaluator.pid);
    return MU_OK;
}

static bool has_server(const mu_shared *g) {
    return g->setup->server_threads > 0;
}

static mu_status start_all(mu_watchdog *d, mu_err *err) {
    if (has_server(d->shared)) MU_TRY(start_server(d, err));
    if (d->evaluator_role.session) MU_TRY(start_evaluator(d, err));
    for (int i = 0; i < d->n; i++) {
        d->learner[i].ended = mu_shared_is_far_process(d->shared, i); // another rank's
        if (!d->learner[i].ended) MU_TRY(start_learner(d, i, err));
    }
    return MU_OK;
}

mu_status mu_watchdog_start(mu_watchdog *d, mu_training *t, const mu_role *role,
                            const mu_evaluator_role *evaluator, mu_err *err) {
    mu_shared *g = role->shared;
    *d = (mu_watchdog){.training = t,
                       .shared = g,
                       .n = g->head->n_processes,
                       .first = role->first,
                       .server_role = *role};
    if (evaluator) d->evaluator_role = *evaluator;
    d->learner = mu_alloc_array((size_t)d->n, sizeof *d->learner, "watchdog");
    d->times = mu_alloc_array(MU_REPLACE_TIMES, sizeof *d->times, "watchdog");
    d->thread = mu_alloc_array((size_t)g->head->n_executors, sizeof *d->thread, "watchdog");
    d->speed = mu_alloc_array((size_t)d->n, sizeof *d->speed, "watchdog");
    if (!d->learner || !d->times || !d->thread || !d->speed) return MU_FAIL_NOMEM(err, "the watchdog");
    for (int i = 0; i < d->n; i++) {
        d->learner[i].role = *role;
        d->learner[i].role.index = i;
    }
    d->next_slow_ns = mu_clock_ns() + SLOW_EVERY_NS;
    return start_all(d, err);
}

// ---- losses ----

static void look_at_lock(mu_watchdog *d, int64_t now);

// The parent was away itself, stopped (Ctrl-Z stops all processes) or starved: how long the children gave no
// sign meanwhile says nothing. Every child's time begins anew.
static void reset_hang_timers(mu_watchdog *d, int64_t now, double limit_s) {
    const double away = d->looked_ns ? 1e-9 * (double)(now - d->looked_ns) : 0;
    if (away < limit_s) return;
    for (int i = 0; i < d->n; i++) {
        d->learner[i].pulse = atomic_load(&d->shared->learner[i].pulse);
        d->learner[i].moved_ns = now;
    }
    for (int e = d->n; e < d->shared->head->n_executors; e++) d->thread[e].moved_ns = 0;
    d->lock.moved_ns = d->task.moved_ns = 0;
}

// The lock, for a change that cannot wait for the next look. A holder that hangs is killed.
static mu_core *lock_or_kill_holder(mu_watchdog *d, mu_err *err) {
    const double limit = d->shared->setup->hang_timeout;
    for (mu_stall_timer p = mu_stall_timer_new(); !mu_stall_timer_is_over(&p, 5 * limit);) {
        mu_core *c = mu_shared_begin(d->shared);
        if (c) return c;
        const int64_t now = mu_clock_ns();
        reset_hang_timers(d, now, fmax(limit / 2, TRY_S));
        d->looked_ns = now;
        look_at_lock(d, now);
    }
    MU_FAIL(err, MU_EBACKEND, "process %d does not give the protocol's lock back",
            (int)atomic_load(&d->shared->head->holder));
    mu_err_hint(err, BUSY_HINT);
    return NULL;
}

// The processes of a learner that are on this rank: [*first, *end).
static void processes_of(const mu_watchdog *d, int learner, int *first, int *end) {
    *first = learner * d->shared->head->n_workers + mu_shared_first_worker(d->shared);
    *end = *first + mu_shared_own_workers(d->shared);
}

// What dead processes may have left half done of the weights. *computing: they had the gradient of this step
// in hand.
static mu_status repair_weights(mu_watchdog *d, int learner, bool *computing, int64_t *step, mu_err *err) {
    mu_shared *g = d->shared;
    int first, end;
    processes_of(d, learner, &first, &end);
    for (int i = first; i < end; i++) {
        atomic_store(&g->learner[i].pid, 0);
        mu_shared_lost(g, i);
    }
    const mu_core *c = lock_or_kill_holder(d, err);
    if (!c) return MU_EBACKEND;
    const mu_core_learner *l = mu_core_learner_at(c, learner);
    *computing = l->computing;
    *step = mu_core_step(l);
    mu_shared_cancel(g);
    return MU_OK;
}

// What they had in hand is lost, and what they told each other forgotten.
static mu_status repair_learner(mu_watchdog *d, int learner, mu_err *err) {
    mu_shared *g = d->shared;
    mu_workers_clear(g, learner);
    mu_core *c = lock_or_kill_holder(d, err);
    if (!c) return MU_EBACKEND;
    mu_core_lost(c, learner);
    mu_shared_commit(g);
    mu_shared_ring_all(g);
    return MU_OK;
}

// The workers of a learner live and die together: one cannot go on with what another has begun.
static mu_status end_workers(mu_watchdog *d, int learner, mu_err *err) {
    int first, end;
    processes_of(d, learner, &first, &end);
    for (int k = first; k < end; k++) mu_process_kill(d->learner[k].child.pid);
    for (int k = first; k < end; k++) {
        mu_child *c = &d->learner[k].child;
        mu_process_end e;
        mu_process_end_all(&c->pid, 1, 0);
        if (c->pid && !mu_process_reap(c->pid, &e))
            return mu_err_hinted(MU_FAIL(err, MU_EBACKEND,
                                         "process %d is still there %d s after it was killed", (int)c->pid,
                                         MU_PROCESS_GONE_S),
                                 err, BUSY_HINT);
        *c = (mu_child){0};
    }
    return MU_OK;
}

static mu_status start_workers(mu_watchdog *d, int learner, mu_err *err) {
    int first, end;
    processes_of(d, learner, &first, &end);
    for (int i = first; i < end; i++) {
        d->learner[i].ended = false; // what it was told before is told again
        atomic_store(&d->shared->learner[i].ended, 0);
        MU_TRY(start_learner(d, i, err));
    }
    return MU_OK;
}

// "learner 2", or "worker 1 of learner 2".
static const char *name_of(const mu_watchdog *d, int i, char out[48]) {
    const int workers = d->shared->head->n_workers;
    const int learner = (mu_shared_has_far(d->shared) ? i : d->first + i) / workers;
    if (workers == 1) snprintf(out, 48, "learner %d", learner);
    else snprintf(out, 48, "worker %d of learner %d", i % workers, learner);
    return out;
}

// Once nobody needs what they have left.
static mu_status begin_again(mu_watchdog *d, int learner, mu_err *err) {
    int first, end;
    processes_of(d, learner, &first, &end);
    mu_watched *l = &d->learner[first];
    if (d->partners && !d->partners->may_begin(d->partners->ctx, learner)) return MU_OK;
    l->ready = false;
    MU_TRY(repair_learner(d, learner, err));
    MU_TRY(start_workers(d, learner, err));
    if (l->lost < 0) return MU_OK;
    char name[48];
    d->replaced++;
    mu_training_say(d->training, "%s (pid %d) %s at version %lld; replaced by pid %d",
                    name_of(d, l->lost, name), (int)l->lost_pid, l->lost_how,
                    (long long)atomic_load(&d->shared->head->version), (int)d->learner[l->lost].child.pid);
    return MU_OK;
}

static void get_ready(mu_watchdog *d, int learner, int lost, pid_t pid, const char *how) {
    int first, end;
    processes_of(d, learner, &first, &end);
    mu_watched *l = &d->learner[first];
    if (l->ready && lost < 0) return; // it is said already why
    l->ready = true;
    l->lost = lost;
    l->lost_pid = pid;
    snprintf(l->lost_how, sizeof l->lost_how, "%s", how);
}

mu_status mu_watchdog_step_of(mu_watchdog *d, int learner, int64_t *step, mu_err *err) {
    const mu_core *c = lock_or_kill_holder(d, err);
    if (!c) return MU_EBACKEND;
    *step = mu_core_step(mu_core_learner_at(c, learner));
    mu_shared_cancel(d->shared);
    return MU_OK;
}

// Its own error ends the training: that of the worker that was the first to fail, where others followed.
static mu_status own_error(mu_watchdog *d, int i, mu_err *err) {
    const int first_failed = mu_workers_first_failed(d->shared, i / d->shared->head->n_workers);
    const mu_shared_learner *cause = &d->shared->learner[first_failed < 0 ? i : first_failed];
    const int32_t failed = atomic_load(&cause->failed);
    return failed ? mu_err_pass((mu_status)failed, &cause->error, err) : MU_OK;
}

mu_status mu_watchdog_end_learner(mu_watchdog *d, int learner, mu_err *err) {
    bool computing;
    int64_t step;
    int first, end;
    processes_of(d, learner, &first, &end);
    MU_TRY(end_workers(d, learner, err));
    MU_TRY(own_error(d, first, err));
    MU_TRY(repair_weights(d, learner, &computing, &step, err));
    get_ready(d, learner, -1, 0, "");
    return MU_OK;
}

static mu_status learner_gone(mu_watchdog *d, int i, pid_t pid, const char *how, mu_err *err) {
    mu_watched *l = &d->learner[i];
    mu_shared_learner *row = &d->shared->learner[i];
    const int learner = i / d->shared->head->n_workers;
    char name[48];
    bool computing;
    int64_t now = mu_clock_ns(), step;
    l->ended = atomic_load(&row->ended);
    if (l->ended) {
        atomic_store(&row->pid, 0);
        return MU_OK;
    }
    MU_TRY(end_workers(d, learner, err));
    MU_TRY(repair_weights(d, learner, &computing, &step, err));
    MU_TRY(own_error(d, i, err));
    d->lost++;
    atomic_fetch_add(&row->losses, 1);
    l->losses_in_row = atomic_load(&row->gradients) > l->gradients ? 1 : l->losses_in_row + 1;
    if (l->losses_in_row > d->shared->setup->max_losses)
        return mu_err_hinted(MU_FAIL(err, MU_EBACKEND,
                                     "%s was lost %lld times in a row without finishing a gradient",
                                     name_of(d, i, name), (long long)l->losses_in_row),
                             err, "Its last end: %s.", how);
    l->lost_ns = now;
    get_ready(d, learner, i, pid, how);
    if (d->partners) MU_TRY(d->partners->lost(d->partners->ctx, learner, computing, step, err));
    return begin_again(d, learner, err);
}

// Lost again and again without one update between: it will not get better.
static bool server_is_lost(mu_watchdog *d) {
    const int64_t version = atomic_load(&d->shared->head->version);
    d->server_losses_in_row = version == d->server_version ? d->server_losses_in_row + 1 : 1;
    d->server_version = version;
    return d->server_losses_in_row > d->shared->setup->max_losses;
}

static mu_status server_gone(mu_watchdog *d, pid_t pid, const char *how, mu_err *err) {
    mu_shared *g = d->shared;
    for (int e = d->n; e < g->head->n_executors; e++) mu_server_repair(g, e);
    if (atomic_load(&g->head->state) >= MU_RUN_ENDED) return MU_OK;
    const int32_t failed = atomic_load(&g->head->server_failed);
    if (failed) return mu_err_pass((mu_status)failed, &g->head->server_error, err);
    d->server_lost++;
    atomic_fetch_add(&g->head->server_losses, 1);
    if (server_is_lost(d))
        return MU_FAIL(err, MU_EBACKEND, "the server was lost %lld times without an update; its last end: %s",
                       (long long)d->server_losses_in_row, how);
    MU_TRY(start_server(d, err));
    mu_bell_ring(&g->head->work);
    mu_training_say(d->training, "the server (pid %d) %s at version %lld; replaced by pid %d", (int)pid, how,
                    (long long)atomic_load(&g->head->version), (int)d->server.pid);
    return MU_OK;
}

// A request the dead evaluator was working on is simply done again by the next one: the box is as it was.
static mu_status evaluator_gone(mu_watchdog *d, pid_t pid, const char *how, mu_err *err) {
    const mu_evaluator_box *box = d->shared->extra;
    d->task.moved_ns = 0;
    if (atomic_load(&d->shared->head->state) >= MU_RUN_ENDED) return MU_OK;
    int64_t answers = atomic_load(&box->answers);
    if (answers != d->answers_seen) d->evaluator_losses_in_row = 0;
    d->answers_seen = answers;
    if (++d->evaluator_losses_in_row > d->shared->setup->max_losses)
        return MU_FAIL(err, MU_EBACKEND,
                       "the statistics process was lost %lld times without an answer; its last end: %s",
                       (long long)d->evaluator_losses_in_row, how);
    MU_TRY(start_evaluator(d, err));
    mu_training_say(d->training, "the statistics process (pid %d) %s; replaced by pid %d", (int)pid, how,
                    (int)d->evaluator.pid);
    return MU_OK;
}

static void describe(const mu_child *c, const mu_process_end *e, char *out, size_t size) {
    if (c->killed_ns) snprintf(out, size, "%s", c->killed_why);
    else if (e->signal) snprintf(out, size, "was killed by signal %d (%s)", e->signal, strsignal(e->signal));
    else if (e->exit_code >= 0) snprintf(out, size, "ended with status %d", e->exit_code);
    else snprintf(out, size, "ended (SIGCHLD is ignored: it is not known how)");
}

// *pid is 0 while it runs; else it has ended and is reaped, and *how says how.
static mu_status look_for_end(mu_child *c, int64_t now, pid_t *pid, char how[HOW], mu_err *err) {
    mu_process_end e;
    *pid = 0;
    if (mu_process_reap(c->pid, &e)) {
        *pid = e.pid;
        describe(c, &e, how, HOW);
        *c = (mu_child){0};
        return MU_OK;
    }
    if (!c->killed_ns || now - c->killed_ns < MU_PROCESS_GONE_S * SECOND_NS) return MU_OK;
    return mu_err_hinted(MU_FAIL(err, MU_EBACKEND, "process %d is still there %d s after it was killed",
                                 (int)c->pid, MU_PROCESS_GONE_S),
                         err, BUSY_HINT);
}

static mu_status reap(mu_watchdog *d, mu_err *err) {
    const int64_t now = mu_clock_ns();
    char how[HOW];
    pid_t pid;
    for (int i = 0; i < d->n; i++) {
        MU_TRY(look_for_end(&d->learner[i].child, now, &pid, how, err));
        if (pid) MU_TRY(learner_gone(d, i, pid, how, err));
        if (d->learner[i].ready) MU_TRY(begin_again(d, i / d->shared->head->n_workers, err));
    }
    MU_TRY(look_for_end(&d->server, now, &pid, how, err));
    if (pid) MU_TRY(server_gone(d, pid, how, err));
    MU_TRY(look_for_end(&d->evaluator, now, &pid, how, err));
    return pid ? evaluator_gone(d, pid, how, err) : MU_OK;
}

// ---- hung and slow ----

static void note_alive(mu_watchdog *d, mu_watched *l, const mu_shared_learner *row, int64_t now) {
    int64_t first = atomic_load(&row->first_pulse_ns);
    if (l->lost_ns && first) {
        if (d->n_times < MU_REPLACE_TIMES)
            d->times[d->n_times++] = (float)(1e-9 * (double)(first - l->lost_ns));
        l->lost_ns = 0;
    }
    if (first && now - l->moved_ns > l->longest_ns) l->longest_ns = now - l->moved_ns;
    l->moved_ns = now;
}

// Seconds since the pulse last moved.
static double quiet_s(mu_pulse_watch *w, uint64_t pulse, int64_t now) {
    if (pulse != w->pulse || !w->moved_ns) *w = (mu_pulse_watch){pulse, now};
    return 1e-9 * (double)(now - w->moved_ns);
}

static void kill_hung(mu_child *c, const char *what, double quiet, int64_t now) {
    if (c->killed_ns) return;
    snprintf(c->killed_why, sizeof c->killed_why, "%s for %.1f s and was killed", what, quiet);
    c->killed_ns = now;
    mu_process_kill(c->pid);
}

static mu_child *find_child(mu_watchdog *d, pid_t pid) {
    if (d->server.pid == pid) return &d->server;
    if (d->evaluator.pid == pid) return &d->evaluator;
    for (int i = 0; i < d->n; i++)
        if (d->learner[i].child.pid == pid) return &d->learner[i].child;
    return NULL;
}

static void look_at_lock(mu_watchdog *d, int64_t now) {
    const mu_shared_head *h = d->shared->head;
    pid_t pid = atomic_load_explicit(&h->holder, memory_order_acquire);
    double quiet = quiet_s(&d->lock, atomic_load(&h->held), now);
    if (!pid || pid == d->shared->self || quiet < d->shared->setup->hang_timeout) return;
    d->lock.moved_ns = 0; // once: a holder that died inside stays written there until the next one comes
    mu_child *c = find_child(d, pid);
    if (c) kill_hung(c, "held the protocol's lock", quiet, now);
}

static void look_at_server(mu_watchdog *d, int64_t now) {
    const mu_shared *g = d->shared;
    for (int e = d->n; d->server.pid && e < g->head->n_executors; e++) {
        double quiet = quiet_s(&d->thread[e], atomic_load(&g->executor[e].pulse), now);
        if (quiet >= g->setup->hang_timeout) kill_hung(&d->server, "gave no sign of life", quiet, now);
    }
}

static void look_at_evaluator(mu_watchdog *d, int64_t now) {
    const mu_evaluator_box *box = d->shared->extra;
    if (!d->evaluator.pid || atomic_load(&box->state) != MU_EVALUATOR_ASKED) {
        d->task.moved_ns = 0;
        return;
    }
    double quiet = quiet_s(&d->task, atomic_load(&box->pulse), now);
    if (quiet >= EVALUATOR_FACTOR * d->shared->setup->hang_timeout)
        kill_hung(&d->evaluator, "gave no sign of life", quiet, now);
}

static void look_at_learners(mu_watchdog *d, int64_t now) {
    for (int i = 0; i < d->n; i++) {
        mu_watched *l = &d->learner[i];
        const mu_shared_learner *row = &d->shared->learner[i];
        if (!l->child.pid) continue;
        uint64_t pulse = atomic_load(&row->pulse);
        if (pulse != l->pulse) {
            l->pulse = pulse;
            note_alive(d, l, row, now);
            continue;
        }
        double limit = d->shared->setup->hang_timeout, quiet = 1e-9 * (double)(now - l->moved_ns);
        double slowest = PAUSE_FACTOR * 1e-9 * (double)l->longest_ns;
        if (quiet >= fmax(slowest, limit)) kill_hung(&l->child, "gave no sign of life", quiet, now);
    }
}

static void look_for_slow(mu_watchdog *d, int64_t now) {
    if (now < d->next_slow_ns) return;
    d->next_slow_ns = now + SLOW_EVERY_NS;
    for (int i = 0; i < d->n; i++) {
        d->speed[i].gradients = atomic_load(&d->shared->learner[i].gradients);
        d->speed[i].running = d->learner[i].child.pid != 0;
    }
    mu_speed_compare(d->speed, d->n);
    for (int i = 0; i < d->n; i++) {
        const mu_speed *s = &d->speed[i];
        if (!s->slow || d->learner[i].named_slow) continue;
        char name[48];
        d->learner[i].named_slow = true;
        mu_training_say(d->training, "%s is slow: %lld gradients, %d others made more than %d times that",
                        name_of(d, i, name), (long long)s->done, s->n_faster, MU_SLOW_FACTOR);
    }
}

mu_status mu_watchdog_look(mu_watchdog *d, mu_err *err) {
    reset_hang_timers(d, mu_clock_ns(), d->shared->setup->hang_timeout / 2);
    MU_TRY(reap(d, err));
    int64_t now = mu_clock_ns();
    look_at_lock(d, now);
    look_at_learners(d, now);
    look_at_server(d, now);
    look_at_evaluator(d, now);
    look_for_slow(d, now);
    d->looked_ns = mu_clock_ns();
    return MU_OK;
}

// ---- the end ----

bool mu_watchdog_all_ended(const mu_watchdog *d) {
    for (int i = 0; i < d->n; i++)
        if (!d->learner[i].ended) return false;
    return true;
}

static int by_size(const void *a, const void *b) {
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

void mu_watchdog_stop(mu_watchdog *d) {
    pid_t pids[2] = {d->server.pid, d->evaluator.pid};
    atomic_store(&d->shared->head->state, MU_RUN_ENDED);
    mu_shared_ring_all(d->shared);
    for (int i = 0; d->learner && i < d->n; i++) mu_process_kill(d->learner[i].child.pid);
    for (int i = 0; d->learner && i < d->n; i++) {
        mu_process_end_all(&d->learner[i].child.pid, 1, 0);
        atomic_store(&d->shared->learner[i].pid, 0);
    }
    mu_process_let_end(pids, 2, 1.0, 1.0); // a server in the middle of an update ends it first
    if (d->n_times) qsort(d->times, (size_t)d->n_times, sizeof *d->times, by_size);
}

double mu_watchdog_replace_s(const mu_watchdog *d, double quantile) {
    return d->n_times ? (double)d->times[(int)(quantile * (d->n_times - 1))] : NAN;
}

void mu_watchdog_destroy(mu_watchdog *d) {
    mu_free(d->learner);
    mu_free(d->thread);
    mu_free(d->speed);
    mu_free(d->times);
    *d = (mu_watchdog){0};
}
