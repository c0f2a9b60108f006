// SPDX-License-Identifier: Apache-2.0
// chaos.c - see chaos.h.
//
// A tick does three things: it looks which killed processes are back, lets go what was stopped or slowed long
// enough, and fires what is due. Single thread; the region is read and written by atomics only, and nothing
// here keeps a pointer into it, so the caller may attach to a restarted run in between. Every stop or
// slowness that was fired has its release in the list, and with a full list none is fired.
#include "watch/chaos.h"

#include "base/alloc.h"
#include "base/rng.h"
#include "store/live.h"

#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TAG "chaos"
#define POLL_NS 5000000         // while something is awaited
#define IDLE_NS 100000000
#define PATIENCE_NS 30000000000 // for the last recoveries
#define MAX_RELEASES 1024

enum { EVALUATOR = -1, SERVER = -2 }; // beside the learners' numbers; that of server group i is SERVER - i

typedef struct release {        // a process to let go
    int64_t      due_ns;        // INT64_MAX = at the end
    mu_chaos_act act;
    int          who;
    pid_t        pid;           // STOP
    int32_t      slow_us;       // SLOW
} release;

typedef struct awaited {        // a learner that was killed
    bool     pending;
    pid_t    killed;            // last pid killed; it stands in the table until the parent has reaped it
    int64_t  killed_ns;
    uint32_t incarnation;       // that was killed
    uint32_t last;              // incarnation seen last, for counting replacements
} awaited;

typedef struct awaited_server {
    bool    pending;
    int64_t killed_ns;
    int64_t version;            // when its successor was first seen; -1 = not yet
    pid_t   killed;
} awaited_server;

typedef struct times { int64_t n, cap; double *s; } times;

typedef struct rule_state { int64_t next_ns, fired; bool done; } rule_state;

struct mu_chaos {
    mu_chaos_script   script;
    rule_state      rule[MU_CHAOS_RULES];
    mu_shared       *g;
    mu_chaos_watch  watch;
    mu_rng_key      key;
    uint64_t        draws;
    int64_t         start_ns, last_shot_ns;
    mu_chaos_report report;
    times           learner_times, server_times;
    awaited        *learner;    // (learners)
    int             n_learners;
    awaited_server *server;     // (groups)
    int             n_groups;
    release         list[MAX_RELEASES];
    int             n_releases;
};

// ---- processes ----------------------------------------------------------------------------------

static bool is_server(int who) { return who <= SERVER; }

static mu_shared_head *head_of(const mu_shared *g, int group) {
    while (group-- > 0) g = g->next;
    return g->head;
}

static _Atomic int32_t *pid_slot(const mu_shared *g, int who) {
    if (is_server(who)) return &head_of(g, SERVER - who)->server_pid;
    return who == EVALUATOR ? &g->head->evaluator_pid : &mu_shared_row(g, who)->pid;
}

// The second field after the name, which may itself hold blanks and parentheses. 0 for a zombie.
static pid_t parent_of(pid_t pid) {
    char path[48], text[512];
    snprintf(path, sizeof path, "/proc/%ld/stat", (long)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return 0;
    ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    if (n <= 0) return 0;
    text[n] = '\0';
    const char *p = strrchr(text, ')');
    char state;
    long parent = 0;
    if (!p || sscanf(p + 1, " %c %ld", &state, &parent) != 2) return 0;
    return state == 'Z' || state == 'X' ? 0 : (pid_t)parent;
}

typedef struct victim { const mu_shared *g; int who; } victim;

static bool is_ours(void *ctx, pid_t pid) {
    const victim *v = ctx;
    int32_t parent = atomic_load(&v->g->head->parent_pid);
    return parent > 1 && parent_of(pid) == parent && atomic_load(pid_slot(v->g, v->who)) == pid;
}

static bool shoot(const mu_chaos *c, int who, pid_t pid, int signo) {
    return mu_live_signal(pid, signo, is_ours, &(victim){c->g, who}, NULL) == MU_OK;
}

// ---- recovery -----------------------------------------------------------------------------------

// Out of memory loses the one time, not the storm.
static void note(times *t, double s) {
    if (t->n == t->cap) {
        int64_t cap = t->cap ? 2 * t->cap : 64;
        double *more = mu_realloc(t->s, (size_t)cap * sizeof *more, TAG);
        if (!more) return;
        t->s = more;
        t->cap = cap;
    }
    t->s[t->n++] = s;
}

static void recovered(mu_chaos *c, times *t, const char *what, int learner, int64_t ns) {
    double s = 1e-9 * (double)ns;
    note(t, s);
    if (c->watch.recovered) c->watch.recovered(c->watch.ctx, what, learner, s);
}

static void look_at_learner(mu_chaos *c, int i) {
    awaited *a = &c->learner[i];
    uint32_t now = atomic_load(&mu_shared_row(c->g, i)->incarnation);
    if (a->last && now > a->last) c->report.replacements += now - a->last; // the first one is no replacement
    a->last = now;
    int64_t first = atomic_load(&mu_shared_row(c->g, i)->first_pulse_ns);
    if (!a->pending || now == a->incarnation || first <= a->killed_ns) return;
    a->pending = false;
    recovered(c, &c->learner_times, "learner", i, first - a->killed_ns);
}

static void look_at_server(mu_chaos *c, int i, int64_t now_ns) {
    awaited_server *a = &c->server[i];
    const mu_shared_head *h = head_of(c->g, i);
    int32_t pid = atomic_load(&h->server_pid);
    int64_t version = atomic_load(&h->version);
    if (!a->pending || !pid || pid == a->killed) return;
    if (a->version < 0) a->version = version;
    if (version == a->version) return;
    a->pending = false;
    recovered(c, &c->server_times, "server", -1, now_ns - a->killed_ns);
}

static void look(mu_chaos *c, int64_t now_ns) {
    for (int i = 0; i < c->n_learners; i++) look_at_learner(c, i);
    for (int i = 0; i < c->n_groups; i++) look_at_server(c, i, now_ns);
}

static int64_t n_pending(const mu_chaos *c) {
    int64_t n = 0;
    for (int i = 0; i < c->n_groups; i++) n += c->server[i].pending;
    for (int i = 0; i < c->n_learners; i++) n += c->learner[i].pending;
    return n;
}

// ---- letting go ---------------------------------------------------------------------------------

static void let_go(mu_chaos *c, const release *r) {
    if (r->act == MU_CHAOS_SLOW) {
        int32_t ours = r->slow_us; // a later rule may have set another value
        atomic_compare_exchange_strong(&mu_shared_row(c->g, r->who)->slow_us, &ours, 0);
    } else {
        (void)!shoot(c, r->who, r->pid, SIGCONT); // replaced meanwhile: nothing to do
    }
}

static void let_go_due(mu_chaos *c, int64_t now_ns) {
    int kept = 0;
    for (int i = 0; i < c->n_releases; i++) {
        if (c->list[i].due_ns <= now_ns) let_go(c, &c->list[i]);
        else c->list[kept++] = c->list[i];
    }
    c->n_releases = kept;
}

// ---- shots --------------------------------------------------------------------------------------

static double uniform(mu_chaos *c) {
    uint32_t w[4];
    mu_rng_block(c->key, 0, c->draws++, w);
    return (double)w[0] * 0x1p-32;
}

static int64_t gap_ns(mu_chaos *c, const mu_chaos_rule *r) {
    double s = r->random_gap ? -r->every_s * log1p(-uniform(c)) : r->every_s;
    return (int64_t)(1e9 * s) + 1;
}

static void tell(mu_chaos *c, const mu_chaos_rule *r, int who, pid_t pid, int64_t now_ns) {
    mu_chaos_shot s = {.number = c->report.shots + 1,
                       .at_s = 1e-9 * (double)(now_ns - c->start_ns),
                       .act = r->act,
                       .what = is_server(who) ? "server" : who == EVALUATOR ? "evaluator" : "learner",
                       .learner = who >= 0 ? who : -1,
                       .pid = pid,
                       .incarnation = who >= 0 ? atomic_load(&mu_shared_row(c->g, who)->incarnation) : 0};
    c->report.hits++;
    c->report.kills += r->act == MU_CHAOS_KILL;
    c->report.stops += r->act == MU_CHAOS_STOP;
    c->report.slows += r->act == MU_CHAOS_SLOW;
    if (c->watch.shot) c->watch.shot(c->watch.ctx, &s);
}

static bool kill_one(mu_chaos *c, int who, pid_t pid, int64_t now_ns) {
    if (who >= 0) look_at_learner(c, who); // the life before may just have come back
    uint32_t incarnation = who >= 0 ? atomic_load(&mu_shared_row(c->g, who)->incarnation) : 0;
    if (!shoot(c, who, pid, SIGKILL)) return false;
    if (who >= 0) {
        awaited *a = &c->learner[who];
        if (a->pending && a->incarnation == incarnation) c->report.replacements++; // came, did not join
        *a = (awaited){true, pid, now_ns, incarnation, a->last};
    } else if (is_server(who)) {
        c->server[SERVER - who] = (awaited_server){true, now_ns, -1, pid};
    }
    return true;
}

// The process to hit, 0 if there is none now.
static pid_t present(const mu_chaos *c, int who) {
    const pid_t pid = atomic_load(pid_slot(c->g, who));
    const pid_t dead = who >= 0         ? c->learner[who].killed
                       : is_server(who) ? c->server[SERVER - who].killed
                                        : 0;
    return pid == dead ? 0 : pid;
}

// False: there is no such process now.
static bool hit(mu_chaos *c, const mu_chaos_rule *r, int who, int64_t now_ns) {
    pid_t pid = present(c, who);
    int64_t due = r->for_s < 0 ? INT64_MAX : now_ns + (int64_t)(1e9 * r->for_s);
    release let = {.due_ns = due, .act = r->act, .who = who, .pid = pid, .slow_us = (int32_t)(1e6 * r->by_s)};
    if (!pid || (r->act != MU_CHAOS_KILL && c->n_releases == MAX_RELEASES)) return false;
    if (r->act == MU_CHAOS_KILL) {
        if (!kill_one(c, who, pid, now_ns)) return false;
    } else {
        if (r->act == MU_CHAOS_SLOW) atomic_store(&mu_shared_row(c->g, who)->slow_us, let.slow_us);
        else if (!shoot(c, who, pid, SIGSTOP)) return false;
        c->list[c->n_releases++] = let;
    }
    tell(c, r, who, pid, now_ns);
    return true;
}

// Any of the learners that have a process, all alike; -1 when none has.
static int pick(mu_chaos *c) {
    int n = 0;
    for (int i = 0; i < c->n_learners; i++) n += present(c, i) != 0;
    int k = n ? (int)(uniform(c) * n) : 0;
    for (int i = 0; i < c->n_learners; i++)
        if (present(c, i) && k-- == 0) return i;
    return -1;
}

// That of any server group.
static int pick_server(mu_chaos *c) {
    return SERVER - (c->n_groups > 1 ? (int)(uniform(c) * c->n_groups) : 0);
}

static bool fire(mu_chaos *c, const mu_chaos_rule *r, int64_t now_ns) {
    int who, n = 0;
    switch (r->target) {
    case MU_CHAOS_LEARNER: n = hit(c, r, r->learner, now_ns); break;
    case MU_CHAOS_RANDOM: n = (who = pick(c)) >= 0 && hit(c, r, who, now_ns); break;
    case MU_CHAOS_SERVER: n = hit(c, r, pick_server(c), now_ns); break;
    case MU_CHAOS_EVALUATOR: n = hit(c, r, EVALUATOR, now_ns); break;
    case MU_CHAOS_ALL_LEARNERS: // at once, so when all are there
        for (int i = 0; i < c->n_learners; i++)
            if (!present(c, i) && !mu_shared_far_rank(c->g, i)) return false;
        for (int i = 0; i < c->n_learners; i++) n += hit(c, r, i, now_ns);
        break;
    }
    if (!n) return false;
    c->report.shots++;
    c->last_shot_ns = now_ns;
    return true;
}

// A shot that had to wait does not make the next ones hurry.
static void advance(mu_chaos *c, int i, int64_t now_ns) {
    const mu_chaos_rule *r = &c->script.rule[i];
    rule_state *s = &c->rule[i];
    s->fired++;
    s->done = !(r->every_s > 0) || (r->times && s->fired >= r->times);
    if (s->done) return;
    int64_t gap = gap_ns(c, r);
    s->next_ns = s->next_ns + gap > now_ns ? s->next_ns + gap : now_ns + gap;
}

static void fire_due(mu_chaos *c, int64_t now_ns) {
    int state = atomic_load(&c->g->head->state);
    for (int i = 0; i < c->script.n; i++) {
        const mu_chaos_rule *r = &c->script.rule[i];
        rule_state *s = &c->rule[i];
        if (state >= MU_RUN_ENDING) s->done = true; // learners leave by themselves from now on
        if (r->until_s >= 0 && s->next_ns > c->start_ns + (int64_t)(1e9 * r->until_s)) s->done = true;
        if (s->done || s->next_ns > now_ns || state != MU_RUN_TRAINING) continue;
        if (fire(c, r, now_ns)) advance(c, i, now_ns);
    }
}

// ---- the object ---------------------------------------------------------------------------------

static mu_status check(const mu_chaos_script *script, const mu_shared *g, mu_err *err) {
    for (int i = 0; i < script->n; i++) {
        const mu_chaos_rule *r = &script->rule[i];
        if (r->target == MU_CHAOS_LEARNER && r->learner >= mu_shared_all_processes(g))
            return MU_FAIL(err, MU_EUSAGE, "the run has learners 0 to %d, not %d",
                           mu_shared_all_processes(g) - 1, r->learner);
        if (r->target == MU_CHAOS_LEARNER && mu_shared_far_rank(g, r->learner))
            return MU_FAIL(err, MU_EUSAGE, "learner %d is on rank %d, and not to be reached from here",
                           r->learner, mu_shared_far_rank(g, r->learner));
        if (r->target != MU_CHAOS_SERVER || g->head->setup.server_threads) continue;
        MU_FAIL(err, MU_EUSAGE, "the run has no server process: its learners apply the updates themselves");
        mu_err_hint(err, "Train with `--set cluster.server=both` to have one.");
        return MU_EUSAGE;
    }
    return MU_OK;
}

mu_status mu_chaos_create(const mu_chaos_script *script, uint64_t seed, mu_shared *g, int64_t now_ns,
                          const mu_chaos_watch *watch, mu_chaos **out, mu_err *err) {
    MU_TRY(check(script, g, err));
    mu_chaos *c = mu_alloc(sizeof *c, TAG);
    if (!c) return MU_FAIL_NOMEM(err, TAG);
    *c = (mu_chaos){.script = *script,
                    .g = g,
                    .key = mu_rng_key_make(seed, "chaos"),
                    .start_ns = now_ns,
                    .last_shot_ns = now_ns,
                    .n_learners = mu_shared_all_processes(g)};
    if (watch) c->watch = *watch;
    c->learner = mu_alloc_array((size_t)c->n_learners, sizeof *c->learner, TAG);
    for (const mu_shared *one = g; one; one = one->next) c->n_groups++;
    c->server = mu_alloc_array((size_t)c->n_groups, sizeof *c->server, TAG);
    if (!c->learner || !c->server) {
        mu_chaos_destroy(c);
        return MU_FAIL_NOMEM(err, TAG);
    }
    for (int i = 0; i < c->n_learners; i++)
        c->learner[i].last = atomic_load(&mu_shared_row(g, i)->incarnation);
    for (int i = 0; i < script->n; i++) {
        const mu_chaos_rule *r = &script->rule[i];
        int64_t wait = r->at_s >= 0 ? (int64_t)(1e9 * r->at_s) : r->every_s > 0 ? gap_ns(c, r) : 0;
        c->rule[i].next_ns = now_ns + wait;
    }
    *out = c;
    return MU_OK;
}

void mu_chaos_destroy(mu_chaos *c) {
    if (!c) return;
    for (int i = 0; i < c->n_releases; i++) let_go(c, &c->list[i]);
    mu_free(c->learner);
    mu_free(c->server);
    mu_free(c->learner_times.s);
    mu_free(c->server_times.s);
    mu_free(c);
}

static int64_t sooner(int64_t a, int64_t b) { return a < b ? a : b; }

int64_t mu_chaos_tick(mu_chaos *c, int64_t now_ns) {
    look(c, now_ns);
    let_go_due(c, now_ns);
    fire_due(c, now_ns);
    int64_t next = now_ns + (n_pending(c) ? POLL_NS : IDLE_NS);
    for (int i = 0; i < c->script.n; i++)
        if (!c->rule[i].done) next = sooner(next, c->rule[i].next_ns);
    for (int i = 0; i < c->n_releases; i++) next = sooner(next, c->list[i].due_ns);
    return next > now_ns ? next : now_ns + POLL_NS; // a shot that is due waits for a process to hit
}

bool mu_chaos_done(const mu_chaos *c, int64_t now_ns) {
    for (int i = 0; i < c->script.n; i++)
        if (!c->rule[i].done) return false;
    for (int i = 0; i < c->n_releases; i++)
        if (c->list[i].due_ns != INT64_MAX) return false;
    return !n_pending(c) || now_ns - c->last_shot_ns > PATIENCE_NS;
}

// ---- the report ---------------------------------------------------------------------------------

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

// Nearest rank: a time that was really measured.
static double quantile(const times *t, double q) {
    int64_t k = (int64_t)ceil(q * (double)t->n) - 1;
    return t->s[k < 0 ? 0 : k];
}

static mu_chaos_times summary(const times *t) {
    if (!t->n) return (mu_chaos_times){0};
    qsort(t->s, (size_t)t->n, sizeof *t->s, by_size);
    return (mu_chaos_times){t->n, quantile(t, 0.5), quantile(t, 0.99), t->s[t->n - 1]};
}

void mu_chaos_get_report(const mu_chaos *c, mu_chaos_report *out) {
    *out = c->report;
    out->pending = n_pending(c);
    out->learner = summary(&c->learner_times);
    out->server = summary(&c->server_times);
}
