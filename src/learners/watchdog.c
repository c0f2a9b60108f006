// SPDX-License-Identifier: Apache-2.0
// watchdog.c - see watchdog.h.
#include "learners/watchdog.h"

#include "base/clock.h"
#include "comm/stall_timer.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SLOW_EVERY_NS 5000000000
#define SLOW_FACTOR 3           // under softsync's bound others get no further than 5 times ahead
#define PAUSE_FACTOR 3          // times the longest pause seen: a net whose layers take seconds is not hung
#define JUDGE_FACTOR 10
#define TRY_S 0.25              // more than a try at the lock takes

// ---- starting ----

static mu_status start_learner(mu_watchdog *d, int i, mu_err *err) {
    mu_watched *l = &d->learner[i];
    mu_shared_learner *row = &d->shared->learner[i];
    char name[24];
    snprintf(name, sizeof name, "muster:l%d", i);
    l->gradients = atomic_load(&row->gradients);
    l->is_new = true;
    atomic_store(&row->first_pulse_ns, 0);
    l->pulse = atomic_load(&row->pulse);
    l->moved_ns = mu_clock_ns();
    MU_TRY(mu_process_start(name, mu_learner_main, &l->role, &l->pid, err));
    atomic_store(&row->pid, (int32_t)l->pid);
    return MU_OK;
}

static mu_status start_server(mu_watchdog *d, mu_err *err) {
    MU_TRY(mu_process_start("muster:server", mu_server_main, &d->server_role, &d->server, err));
    atomic_store(&d->shared->head->server_pid, (int32_t)d->server);
    for (int e = 0; e < d->shared->head->n_executors; e++) d->thread[e].moved_ns = 0;
    return MU_OK;
}

static mu_status start_judge(mu_watchdog *d, mu_err *err) {
    MU_TRY(mu_process_start("muster:judge", mu_evaluator_main, &d->judge_role, &d->judge, err));
    atomic_store(&d->shared->head->judge_pid, (int32_t)d->judge);
    return MU_OK;
}

static bool has_server(const mu_shared *g) {
    return g->setup->server == MU_SERVER_PROCESS;
}

static mu_status start_all(mu_watchdog *d, mu_err *err) {
    if (has_server(d->shared)) MU_TRY(start_server(d, err));
    MU_TRY(start_judge(d, err));
    for (int i = 0; i < d->n; i++) MU_TRY(start_learner(d, i, err));
    return MU_OK;
}

mu_status mu_watchdog_start(mu_watchdog *d, mu_training *t, mu_shared *g, const mu_worker *at,
                            const char *ckpt_dir, mu_err *err) {
    mu_role role = {.session = t->s, .shared = g, .at = at};
    *d = (mu_watchdog){.training = t, .shared = g, .n = g->head->n_learners, .server_role = role};
    d->judge_role = (mu_judge_role){.session = t->s, .shared = g, .at = at, .ckpt_dir = ckpt_dir};
    d->learner = mu_alloc_array((size_t)d->n, sizeof *d->learner, "watchdog");
    d->times = mu_alloc_array(MU_REPLACE_TIMES, sizeof *d->times, "watchdog");
    d->thread = mu_alloc_array((size_t)g->head->n_executors, sizeof *d->thread, "watchdog");
    if (!d->learner || !d->times || !d->thread) return MU_FAIL_NOMEM(err, "the watchdog");
    for (int i = 0; i < d->n; i++) {
        d->learner[i].role = role;
        d->learner[i].role.index = i;
    }
    d->next_slow_ns = mu_clock_ns() + SLOW_EVERY_NS;
    return start_all(d, err);
}

// ---- losses ----

static mu_status look_at_lock(mu_watchdog *d, int64_t now, mu_err *err);

// The parent was away itself, stopped (Ctrl-Z stops the whole group) or starved: how long the others gave no
// sign meanwhile says nothing. Everybody's time begins anew.
static void forgive(mu_watchdog *d, int64_t now, double limit_s) {
    const double away = d->looked_ns ? 1e-9 * (double)(now - d->looked_ns) : 0;
    if (away < limit_s) return;
    for (int i = 0; i < d->n; i++) {
        d->learner[i].pulse = atomic_load(&d->shared->learner[i].pulse);
        d->learner[i].moved_ns = now;
    }
    for (int e = 0; e < d->shared->head->n_executors; e++) d->thread[e].moved_ns = 0;
    d->lock.moved_ns = d->task.moved_ns = 0;
}

// The lock, for a change that cannot wait for the next look. Whoever hangs inside it is killed.
static mu_core *insist(mu_watchdog *d, mu_err *err) {
    for (mu_stall_timer p = mu_stall_timer_new(); !mu_stall_timer_is_over(&p, 5 * d->shared->setup->hang_timeout);) {
        mu_core *c = mu_shared_begin(d->shared);
        if (c) return c;
        const int64_t now = mu_clock_ns();
        forgive(d, now, fmax(d->shared->setup->hang_timeout / 2, TRY_S));
        d->looked_ns = now;
        if (look_at_lock(d, now, err) != MU_OK) return NULL;
    }
    MU_FAIL(err, MU_EBACKEND, "the protocol's lock is held by nobody who lives");
    return NULL;
}

// Everything of shared memory that the dead process may have left half done.
static mu_status clear_away(mu_watchdog *d, int i, mu_err *err) {
    mu_shared *g = d->shared;
    atomic_store(&g->learner[i].pid, 0);
    mu_shared_lost(g, i);
    mu_core *c = insist(d, err);
    if (!c) return MU_EBACKEND;
    mu_core_lost(c, i);
    mu_shared_commit(g);
    mu_shared_ring_all(g);
    return MU_OK;
}

static mu_status take_error(const mu_shared_learner *row, mu_err *err) {
    if (err && err->status == MU_OK) *err = row->error;
    return (mu_status)atomic_load(&row->failed);
}

static mu_status learner_gone(mu_watchdog *d, int i, const mu_process_end *e, const char *how, mu_err *err) {
    mu_watched *l = &d->learner[i];
    mu_shared_learner *row = &d->shared->learner[i];
    int64_t now = mu_clock_ns();
    l->pid = 0;
    if (e->exit_code == 0) {
        l->ended = true;
        atomic_store(&row->pid, 0);
        return MU_OK;
    }
    MU_TRY(clear_away(d, i, err));
    if (e->exit_code > 0 && atomic_load(&row->failed)) return take_error(row, err);
    d->lost++;
    atomic_fetch_add(&row->losses, 1);
    l->losses_in_row = atomic_load(&row->gradients) > l->gradients ? 1 : l->losses_in_row + 1;
    if (l->losses_in_row > d->shared->setup->max_losses) {
        MU_FAIL(err, MU_EBACKEND, "learner %d was lost %lld times in a row without finishing a gradient", i,
                (long long)l->losses_in_row);
        mu_err_hint(err, "Its last end: %s.", how);
        return MU_EBACKEND;
    }
    l->lost_ns = now;
    MU_TRY(start_learner(d, i, err));
    d->replaced++;
    mu_training_say(d->training, "learner %d (pid %d) %s at version %lld; replaced by pid %d", i, (int)e->pid,
                    how, (long long)atomic_load(&d->shared->head->version), (int)l->pid);
    return MU_OK;
}

// Lost again and again without one update between: it will not get better.
static bool server_is_lost(mu_watchdog *d) {
    const int64_t version = atomic_load(&d->shared->head->version);
    d->server_losses_in_row = version == d->server_version ? d->server_losses_in_row + 1 : 1;
    d->server_version = version;
    return d->server_losses_in_row > d->shared->setup->max_losses;
}

static mu_status server_gone(mu_watchdog *d, const char *how, mu_err *err) {
    mu_shared *g = d->shared;
    pid_t pid = d->server;
    for (int e = 0; e < g->head->n_executors; e++) mu_server_repair(g, e);
    d->server = 0;
    if (atomic_load(&g->head->state) >= MU_RUN_ENDED) return MU_OK;
    d->server_lost++;
    atomic_fetch_add(&g->head->server_losses, 1);
    if (server_is_lost(d))
        return MU_FAIL(err, MU_EBACKEND, "the server was lost %lld times without an update; its last end: %s",
                       (long long)d->server_losses_in_row, how);
    MU_TRY(start_server(d, err));
    mu_bell_ring(&g->head->work);
    mu_training_say(d->training, "the server (pid %d) %s at version %lld; replaced by pid %d", (int)pid, how,
                    (long long)atomic_load(&g->head->version), (int)d->server);
    return MU_OK;
}

// A request the dead judge was working on is simply done again by the next one: the box is as it was.
static mu_status judge_gone(mu_watchdog *d, const char *how, mu_err *err) {
    const mu_evaluator_box *box = d->shared->extra;
    pid_t pid = d->judge;
    d->judge = 0;
    d->task.moved_ns = 0;
    if (atomic_load(&d->shared->head->state) >= MU_RUN_ENDED) return MU_OK;
    int64_t answers = atomic_load(&box->answers);
    if (answers != d->judge_answers) d->judge_losses_in_row = 0;
    d->judge_answers = answers;
    if (++d->judge_losses_in_row > d->shared->setup->max_losses)
        return MU_FAIL(err, MU_EBACKEND,
                       "the statistics process was lost %lld times without an answer; its last end: %s",
                       (long long)d->judge_losses_in_row, how);
    MU_TRY(start_judge(d, err));
    mu_training_say(d->training, "the statistics process (pid %d) %s; replaced by pid %d", (int)pid, how,
                    (int)d->judge);
    return MU_OK;
}

static void describe(const mu_process_end *e, char *out, size_t size) {
    if (e->signal) snprintf(out, size, "was killed by signal %d (%s)", e->signal, strsignal(e->signal));
    else snprintf(out, size, "ended with status %d", e->exit_code);
}

static mu_status gone(mu_watchdog *d, const mu_process_end *e, const char *how, mu_err *err) {
    if (e->pid == d->server) return server_gone(d, how, err);
    if (e->pid == d->judge) return judge_gone(d, how, err);
    for (int i = 0; i < d->n; i++)
        if (d->learner[i].pid == e->pid) return learner_gone(d, i, e, how, err);
    return MU_OK; // somebody else's child
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

static mu_status end_hung(mu_watchdog *d, pid_t pid, const char *what, double quiet, mu_err *err) {
    char how[80];
    snprintf(how, sizeof how, "%s for %.1f s and was killed", what, quiet);
    mu_process_end e = {.pid = pid, .exit_code = -1, .signal = SIGKILL};
    if (!mu_process_kill(pid)) return MU_FAIL(err, MU_EBACKEND, "process %d cannot be killed", (int)pid);
    return gone(d, &e, how, err);
}

static mu_status look_at_lock(mu_watchdog *d, int64_t now, mu_err *err) {
    const mu_shared_head *h = d->shared->head;
    pid_t pid = atomic_load_explicit(&h->holder, memory_order_acquire);
    double quiet = quiet_s(&d->lock, atomic_load(&h->held), now);
    if (!pid || pid == d->shared->self || quiet < d->shared->setup->hang_timeout) return MU_OK;
    d->lock.moved_ns = 0; // once: whoever died inside stays written there until the next one comes
    return end_hung(d, pid, "held the protocol's lock", quiet, err);
}

static mu_status look_at_server(mu_watchdog *d, int64_t now, mu_err *err) {
    const mu_shared *g = d->shared;
    for (int e = 0; d->server && e < g->head->n_executors; e++) {
        double quiet = quiet_s(&d->thread[e], atomic_load(&g->executor[e].pulse), now);
        if (quiet >= g->setup->hang_timeout) return end_hung(d, d->server, "gave no sign of life", quiet, err);
    }
    return MU_OK;
}

static mu_status look_at_judge(mu_watchdog *d, int64_t now, mu_err *err) {
    const mu_evaluator_box *box = d->shared->extra;
    if (!d->judge || atomic_load(&box->state) != MU_EVALUATOR_ASKED) {
        d->task.moved_ns = 0;
        return MU_OK;
    }
    double quiet = quiet_s(&d->task, atomic_load(&box->pulse), now);
    if (quiet < JUDGE_FACTOR * d->shared->setup->hang_timeout) return MU_OK;
    return end_hung(d, d->judge, "gave no sign of life", quiet, err);
}

static mu_status look_at_learners(mu_watchdog *d, int64_t now, mu_err *err) {
    for (int i = 0; i < d->n; i++) {
        mu_watched *l = &d->learner[i];
        const mu_shared_learner *row = &d->shared->learner[i];
        if (!l->pid) continue;
        uint64_t pulse = atomic_load(&row->pulse);
        if (pulse != l->pulse) {
            l->pulse = pulse;
            note_alive(d, l, row, now);
            continue;
        }
        double limit = d->shared->setup->hang_timeout, quiet = 1e-9 * (double)(now - l->moved_ns);
        double slowest = PAUSE_FACTOR * 1e-9 * (double)l->longest_ns;
        if (quiet < (slowest > limit ? slowest : limit)) continue;
        MU_TRY(end_hung(d, l->pid, "gave no sign of life", quiet, err));
    }
    return MU_OK;
}

static int64_t done_since_look(const mu_watchdog *d, int i) {
    return atomic_load(&d->shared->learner[i].gradients) - d->learner[i].looked_at;
}

// Learners that got much less done than the middle one since the last look, said once.
static void look_for_slow(mu_watchdog *d, int64_t now) {
    if (now < d->next_slow_ns || d->n < 2) return;
    d->next_slow_ns = now + SLOW_EVERY_NS;
    for (int i = 0; i < d->n; i++) {
        int64_t own = done_since_look(d, i), faster = 0;
        for (int k = 0; k < d->n; k++) faster += done_since_look(d, k) > SLOW_FACTOR * own;
        mu_watched *l = &d->learner[i];
        if (l->named_slow || l->is_new || !l->pid || 2 * faster < d->n || own < 1) continue;
        l->named_slow = true;
        mu_training_say(d->training,
                        "learner %d is slow: %lld gradients, %lld others made more than %d times that", i,
                        (long long)own, (long long)faster, SLOW_FACTOR);
    }
    for (int i = 0; i < d->n; i++) {
        d->learner[i].looked_at += done_since_look(d, i);
        d->learner[i].is_new = false;
    }
}

mu_status mu_watchdog_look(mu_watchdog *d, mu_err *err) {
    mu_process_end e;
    char how[80];
    forgive(d, mu_clock_ns(), d->shared->setup->hang_timeout / 2);
    while (mu_process_reap(&e)) {
        describe(&e, how, sizeof how);
        MU_TRY(gone(d, &e, how, err));
    }
    int64_t now = mu_clock_ns();
    MU_TRY(look_at_lock(d, now, err));
    MU_TRY(look_at_learners(d, now, err));
    MU_TRY(look_at_server(d, now, err));
    MU_TRY(look_at_judge(d, now, err));
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

void mu_watchdog_stop(mu_watchdog *d) {
    pid_t pids[2] = {d->server, d->judge};
    atomic_store(&d->shared->head->state, MU_RUN_ENDED);
    mu_shared_ring_all(d->shared);
    for (int i = 0; d->learner && i < d->n; i++) {
        if (d->learner[i].pid) (void)mu_process_kill(d->learner[i].pid);
        atomic_store(&d->shared->learner[i].pid, 0);
    }
    mu_process_end_all(pids, 2, 1.0);
    mu_free(d->learner);
    mu_free(d->thread);
    d->learner = NULL;
    d->thread = NULL;
}

static int by_size(const void *a, const void *b) {
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

double mu_watchdog_replace_s(const mu_watchdog *d, double quantile) {
    if (!d->n_times) return NAN;
    qsort(d->times, (size_t)d->n_times, sizeof *d->times, by_size);
    return (double)d->times[(int)(quantile * (d->n_times - 1))];
}
