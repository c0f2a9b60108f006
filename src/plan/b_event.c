// SPDX-License-Identifier: Apache-2.0
// b_event.c - one event of the protocol core under its lock, in memory that processes share (ps/shared.h):
// the real core, lock and two copies, two learners, and no gradients. Each event is what a learner does: take
// the lock, bring the spare copy up to date, ask or push or apply, switch. Between two events a learner
// pauses, so that they come to the lock one after the other. An event counts where the one before was the
// other learner's: then lock and core lie in the other core's cache, as in a training.
#include "plan/crew.h"
#include "plan/profile.h"

#include "base/clock.h"
#include "comm/futex.h"
#include "ps/shared.h"

#include <string.h>
#include <unistd.h>

enum { SAMPLES = 2048, PAUSE_NS = 3000, BOTH = 2 };

typedef struct learner { // of one process
    mu_shared g;
    _Atomic uint64_t pulse;
    _Atomic int32_t *last; // who had the event before: 1 + learner
    int who;
    double took[SAMPLES];
    int n;
} learner;

typedef struct layout {
    int learners;
    size_t at_lock, at_core, at_last, core_bytes, bytes;
} layout;

static layout lay_out(int learners) {
    layout l = {.learners = learners, .core_bytes = (mu_core_size(learners) + 63) / 64 * 64};
    l.at_lock = (sizeof(mu_shared_head) + 63) / 64 * 64;
    l.at_core = (l.at_lock + sizeof(mu_lock) + 63) / 64 * 64;
    l.at_last = l.at_core + 2 * l.core_bytes;
    l.bytes = l.at_last + 64;
    return l;
}

static mu_status furnish(void *ctx, void *shared, mu_err *err) {
    const layout *l = ctx;
    char *base = shared;
    const int async = mu_protocol_index("async");
    mu_core_config c = {.learners = l->learners,
                        .protocol = async,
                        .splits = l->learners,
                        .lease_batches = 4,
                        .global_batch = 4 * (int64_t)l->learners,
                        .rows = 4,
                        .end_sample = INT64_MAX};
    mu_core *core = (mu_core *)(void *)(base + l->at_core);
    mu_core_init(core, &c);
    for (int i = 0; i < BOTH; i++) (void)mu_core_join(core, i);
    mu_shared_head *h = (mu_shared_head *)(void *)base;
    h->at_core = l->at_core, h->core_bytes = l->core_bytes;
    h->setup.hang_timeout = 1; // how long a learner waits for the lock
    return mu_lock_init((mu_lock *)(void *)(base + l->at_lock), err);
}

// ---- events ----

static mu_core *begin(learner *s, int64_t *at) {
    for (const int64_t until = mu_clock_ns() + PAUSE_NS; mu_clock_ns() < until;) mu_pause();
    *at = mu_clock_ns();
    return mu_shared_begin(&s->g);
}

static void commit(learner *s, int64_t at) {
    mu_shared_commit(&s->g);
    const double took = 1e-9 * (double)(mu_clock_ns() - at);
    const int32_t before = atomic_exchange(s->last, 1 + s->who);
    if (before && before != 1 + s->who) s->took[s->n++ % SAMPLES] = took;
}

// One gradient's way: ask, push, applied. Who may not begin sees whether there is an update to be made, as
// the queues may be full. False: the lock is not to be had.
static bool gradient(learner *s) {
    const int who = s->who;
    int64_t at;
    mu_grant g = {0};
    mu_lease lease;
    bool ended;
    mu_core *c = begin(s, &at);
    if (!c) return false;
    const uint32_t incarnation = mu_core_learner_at(c, who)->incarnation;
    if (!mu_core_learner_at(c, who)->handed) (void)mu_core_lease(c, who, &lease, &ended);
    const bool go = mu_core_ask(c, who, incarnation, &g) == MU_GO;
    commit(s, at);
    if (!(c = begin(s, &at))) return false;
    const mu_gradient_id id = {who, incarnation, g.step, g.version, g.first, g.rows};
    if (go) (void)mu_core_push(c, &id);
    const bool formed = mu_core_form(c);
    commit(s, at);
    if (!formed) return true; // the other one is applying
    if (!(c = begin(s, &at))) return false;
    mu_core_applied(c);
    commit(s, at);
    return true;
}

static double work(void *ctx, const mu_crew_turn *t) {
    const layout l = *(const layout *)ctx;
    char *base = t->shared;
    mu_shared_head *h = (mu_shared_head *)(void *)base;
    learner s = {.g = {.region = {.base = base, .size = l.bytes}, .head = h, .self = (int32_t)getpid()}};
    s.g.lock = (mu_lock *)(void *)(base + l.at_lock);
    s.g.pulse = &s.pulse;
    s.last = (_Atomic int32_t *)(void *)(base + l.at_last);
    s.who = t->who;
    while (mu_clock_ns() < t->end_ns && gradient(&s)) {}
    return mu_typical(s.took, s.n < SAMPLES ? s.n : SAMPLES);
}

static mu_status run(mu_profile *p, mu_err *err) {
    mu_crew_result r;
    layout l = lay_out(p->m->cores > BOTH ? p->m->cores : BOTH);
    const mu_crew c = {.name = "muster:probe",
                       .n = BOTH,
                       .windows = mu_profile_windows(p),
                       .window_s = 0.02,
                       .ctx = &l,
                       .furnish = furnish,
                       .work = work,
                       .shared_bytes = l.bytes};
    MU_TRY(mu_crew_run(&c, &r, err));
    const double a = mu_crew_median(&r, 0), b = mu_crew_median(&r, 1);
    p->m->event_s = a > 0 && b > 0 ? 0.5 * (a + b) : a + b;
    mu_profile_note(p, &r);
    mu_crew_fini(&r);
    return MU_OK;
}

const mu_probe_class mu_probe_event = {
    .name = "event",
    .help = "of the protocol core under its lock, between two processes",
    .share = 1,
    .run = run,
};
