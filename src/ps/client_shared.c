// SPDX-License-Identifier: Apache-2.0
// client_shared.c - see client_shared.h.
//
// A learner waits on a bell of its own row for permission, and on the common one (head.turn)
// for weights. Every wait ends by itself: when nothing has moved for ten times the hang time-out the learner
// ends with an error, and looking for processes that hang is the watchdog's work.
#include "ps/client_shared.h"

#include "base/clock.h"
#include "base/failpoint.h"
#include "comm/cores.h"
#include "ps/workers.h"

#define SPIN_NS 60000

static mu_shared_client *of(mu_client *c) { return (mu_shared_client *)(void *)c; }

static mu_shared_learner *row_of(const mu_shared_client *c) { return &c->shared->learner[c->process]; }

static void pulse(mu_client *c) { atomic_fetch_add_explicit(&row_of(of(c))->pulse, 1, memory_order_relaxed); }

static void show(mu_client *c, mu_doing doing) {
    atomic_store_explicit(&row_of(of(c))->doing, doing, memory_order_relaxed);
}

// ---- waiting ----

bool mu_shared_client_is_over(const mu_shared_client *c, mu_stall_timer *t) {
    return mu_stall_timer_is_over(t, 10 * c->shared->setup->hang_timeout);
}

static void count_wait(mu_shared_client *c, int64_t ns) {
    c->base.waited_ns += ns;
    atomic_fetch_add_explicit(&row_of(c)->wait_ns, ns, memory_order_relaxed);
}

void mu_shared_client_wait(mu_shared_client *c, mu_bell *bell, uint32_t seen) {
    const int64_t began = mu_clock_ns();
    (void)mu_bell_wait(bell, seen, c->spin_ns, MU_NAP_NS);
    count_wait(c, mu_clock_ns() - began);
}

bool mu_shared_client_serve(mu_shared_client *c) {
    if (!c->serves) return false;
    const int64_t began = mu_clock_ns();
    if (mu_server_turn(&c->server) != MU_TURN_WORKED) return false;
    const int64_t spent = mu_clock_ns() - began;
    c->base.applied_ns += spent;
    atomic_fetch_add_explicit(&row_of(c)->apply_ns, spent, memory_order_relaxed);
    return true;
}

bool mu_others_have_stopped(mu_others *o, const mu_shared_client *c) {
    if (!mu_shared_client_is_over(c, &o->t)) return false;
    const uint64_t done = mu_shared_done(c->shared);
    if (done == o->done) return true;
    *o = (mu_others){mu_stall_timer_new(), done};
    return false;
}

// ---- samples ----

static bool lease_from_core(mu_shared_client *c, mu_lease *out, bool *ended) {
    mu_shared *g = c->shared;
    mu_core *core = mu_shared_begin(g); // NULL: asked again, as long as anything moves
    const bool got = core && mu_core_lease(core, c->base.learner, out, ended);
    if (got) mu_shared_commit(g);
    else if (core) mu_shared_cancel(g);
    return got;
}

static bool lease(mu_client *base, mu_lease *out, bool (*stop)(void *), void *ctx) {
    mu_shared_client *c = of(base);
    mu_bell *freed = &row_of(c)->leases;
    mu_others o = mu_others_new();
    for (;;) {
        uint32_t seen = mu_bell_read(freed);
        bool ended = false;
        const bool got = c->side->lease(c, out, &ended);
        if (got) mu_bell_ring(&row_of(c)->turn); // the learner itself may wait for samples
        if (got || ended || (stop && stop(ctx))) return got;
        if (mu_others_have_stopped(&o, c)) return false;
        (void)mu_bell_wait(freed, seen, 0, MU_NAP_NS);
    }
}

// ---- permission ----

static mu_answer ask_core(mu_shared_client *c, const mu_exchange **in_force) {
    mu_shared *g = c->shared;
    mu_grant grant = {0};
    if (atomic_load_explicit(&g->head->version, memory_order_acquire) < c->held_until) return MU_HOLD;
    if (c->exchange->may_ask && !c->exchange->may_ask(c)) return MU_HOLD;
    mu_core *core = mu_shared_begin(g);
    if (!core) return MU_HOLD;
    const mu_exchange *x = mu_core_is_in_step(core) ? &mu_exchange_queue : mu_exchange_of(g->setup);
    // Asked under the lock: either this sees the pause, or the parent that pauses sees that this learner
    // computes.
    const bool held = x->is_held && x->is_held(g);
    mu_answer a = held ? MU_HOLD : mu_core_ask(core, c->base.learner, c->base.incarnation, &grant);
    if (a != MU_GO) {
        mu_shared_cancel(g);
        c->held_until = grant.version;
        return a;
    }
    c->base.grant = grant;
    c->slot = (int)(mu_core_learner_at(core, c->base.learner)->accepted % x->slots(g->setup));
    c->rate_share = mu_core_rate_share(core, 1);
    mu_shared_commit(g);
    mu_failpoint("client/granted");
    *in_force = x;
    return a;
}

static mu_status enter(mu_shared_client *c, const mu_exchange *x, mu_err *err) {
    const mu_exchange *was = c->exchange;
    if (x == was) return MU_OK;
    c->exchange = x;
    MU_TRY(x->enter(c, err));
    if (was && was->close) was->close(c);
    return MU_OK;
}

static mu_status wait_for_permission(mu_shared_client *c, mu_answer *out, const mu_exchange **x,
                                     mu_err *err) {
    const int64_t began = mu_clock_ns();
    mu_bell *turn = &row_of(c)->turn;
    mu_others o = {.t = {.looked_ns = began}};
    for (;;) {
        uint32_t seen = mu_bell_read(turn);
        *out = c->side->ask(c, x);
        if (*out != MU_HOLD) return MU_OK;
        show(&c->base, MU_DOING_WAIT);
        pulse(&c->base);
        if (mu_shared_client_serve(c)) continue;
        if (mu_others_have_stopped(&o, c))
            return MU_FAIL(err, MU_EBACKEND, "learner %d waited %.0f s at version %lld and nothing moved",
                           mu_shared_number(c->shared, c->base.learner),
                           1e-9 * (double)(mu_clock_ns() - began),
                           (long long)atomic_load(&c->shared->head->version));
        mu_shared_client_wait(c, turn, seen);
    }
}

static mu_status begin(mu_client *base, mu_answer *out, mu_err *err) {
    mu_shared_client *c = of(base);
    mu_shared_learner *row = row_of(c);
    const mu_exchange *x = c->exchange;
    const int64_t began = mu_clock_ns(), counted = base->waited_ns + base->applied_ns;
    atomic_store_explicit(&row->pulse_ns, began, memory_order_relaxed);
    MU_TRY(wait_for_permission(c, out, &x, err));
    if (*out == MU_GO) {
        base->writes = false;
        base->slow_us = atomic_load_explicit(&row->slow_us, memory_order_relaxed);
        c->version = base->grant.version;
        MU_TRY(enter(c, x, err)); // another one when the warm start is over
        if (x->begin) MU_TRY(x->begin(c, err));
        atomic_store_explicit(&row->version, base->grant.version, memory_order_relaxed);
    } else if (c->exchange->end) {
        c->exchange->end(c);
    }
    count_wait(c, mu_clock_ns() - began - (base->waited_ns + base->applied_ns - counted));
    return MU_OK;
}

// ---- the gradient ----

static mu_status collect(mu_client *base, int param, mu_err *err) {
    mu_shared_client *c = of(base);
    return c->exchange->collect ? c->exchange->collect(c, param, err) : MU_OK;
}

static void computed(mu_client *base) {
    mu_shared_client *c = of(base);
    if (c->exchange->computed) c->exchange->computed(c);
}

static void push(mu_client *base, int param, const mu_param *p) {
    const mu_shared_client *c = of(base);
    const mu_share *s = &c->shared->share[c->worker];
    char *message = mu_shared_slot(c->shared, base->learner, c->slot) + s->at;
    mu_message_put(&s->message, message, param, p);
    if (mu_shared_is_sent(c->shared)) mu_message_set_step(&s->message, message, param, base->grant.step);
}

void mu_shared_client_note_staleness(const mu_shared_client *c, int64_t sigma) {
    mu_server_note_staleness(c->shared, c->base.learner, sigma);
}

// The lock, to hand a gradient over. Who has it for long is killed by the watchdog, or slow: tried again as
// long as anything moves.
static mu_core *take_lock(mu_shared_client *c) {
    uint64_t before, now = mu_shared_done(c->shared);
    do {
        mu_core *core = mu_shared_begin(c->shared);
        if (core) return core;
        show(&c->base, MU_DOING_WAIT);
        before = now;
        now = mu_shared_done(c->shared);
    } while (now != before);
    return NULL;
}

static mu_status push_to_core(mu_shared_client *c, bool bad, float scale, mu_push_result *out, mu_err *err) {
    mu_shared *g = c->shared;
    const mu_client *base = &c->base;
    const mu_grant *t = &base->grant;
    *mu_shared_slot_head(g, base->learner, c->slot) =
        (mu_slot_head){.bad = bad, .scale = scale, .loss = base->loss, .global_rows = t->global_rows};
    const mu_gradient_id id = {base->learner, base->incarnation, t->step, c->version, t->first, t->rows};
    c->bad = bad;
    c->scale = scale;
    mu_core *core = take_lock(c);
    if (!core)
        return MU_FAIL(err, MU_EBACKEND,
                       "learner %d cannot hand over its gradient: the protocol's lock is held",
                       mu_shared_number(g, base->learner));
    *out = mu_core_push(core, &id);
    if (*out == MU_ACCEPTED) {
        c->accepted++;
        if (c->exchange->accepted) c->exchange->accepted(c, core, &id);
    }
    bool used_up = mu_core_learner_at(core, base->learner)->used == 0;
    mu_shared_commit(g);
    mu_failpoint("client/pushed");
    mu_bell_ring(&g->head->work);
    if (mu_shared_is_sent(g)) mu_bell_ring(g->parent); // it sends it to other ranks
    if (used_up) mu_bell_ring(&row_of(c)->leases); // the prefetch thread may lease again
    return MU_OK;
}

static mu_status end(mu_client *base, bool bad, float scale, mu_push_result *out, mu_err *err) {
    mu_shared_client *c = of(base);
    MU_TRY(c->side->hand_over(c, bad, scale, out, err));
    if (c->exchange->pushed) c->exchange->pushed(c);
    return MU_OK;
}

static void drain(mu_client *base) {
    mu_shared_client *c = of(base);
    mu_shared *g = c->shared;
    mu_stall_timer t = mu_stall_timer_new();
    while (c->serves && !mu_shared_client_is_over(c, &t)) {
        uint32_t seen = mu_bell_read(&g->head->turn);
        if (!atomic_load(&g->head->waiting) && !atomic_load(&g->update->open)) return;
        pulse(base);
        if (!mu_shared_client_serve(c)) {
            if (!atomic_load(&g->update->open)) return; // too few are left for an update
            mu_shared_client_wait(c, &g->head->turn, seen);
        }
    }
}

static void note(mu_client *base, const mu_gradient_note *n) {
    mu_shared_learner *row = row_of(of(base));
    atomic_fetch_add(&row->compute_ns, n->compute_ns);
    atomic_fetch_add(&row->wait_ns, n->wait_ns);
    atomic_fetch_add_explicit(&row->bridge_ns, n->bridge_ns, memory_order_relaxed);
    atomic_fetch_add(&row->gradients, 1);
    atomic_fetch_add(&row->samples, n->rows);
    atomic_fetch_add_explicit(&row->records, n->records, memory_order_relaxed);
    if (n->sent) atomic_fetch_add_explicit(&row->values_moved, n->sent, memory_order_relaxed);
    of(base)->has_loss = n->has_loss;
    if (!n->has_loss) return;
    atomic_store(&row->loss, n->loss);
    atomic_store(&row->accuracy, n->accuracy);
    // one writer: the learner itself
    atomic_store(&row->loss_sum, atomic_load(&row->loss_sum) + n->loss);
    atomic_store(&row->accuracy_sum, atomic_load(&row->accuracy_sum) + n->accuracy);
    atomic_fetch_add(&row->loss_n, 1);
}

// ---- life ----

static mu_status join_core(mu_shared_client *c, mu_err *err) {
    mu_core *core = mu_shared_begin(c->shared);
    if (!core)
        return MU_FAIL(err, MU_EBACKEND, "learner %d cannot join: the protocol's lock is held",
                       mu_shared_number(c->shared, c->base.learner));
    c->base.incarnation = mu_core_join(core, c->base.learner);
    c->accepted = mu_core_learner_at(core, c->base.learner)->accepted;
    mu_shared_commit(c->shared);
    return MU_OK;
}

const mu_side mu_side_alone = {lease_from_core, ask_core, push_to_core, join_core};

static const mu_client_class client_of_shared_memory = {
    .lease = lease,
    .begin = begin,
    .collect = collect,
    .computed = computed,
    .push = push,
    .end = end,
    .drain = drain,
    .pulse = pulse,
    .show = show,
    .note = note,
};

mu_status mu_shared_client_open(mu_shared_client *c, const mu_shared_client_opts *o, mu_err *err) {
    mu_shared *g = o->shared;
    *c = (mu_shared_client){.base = {.class = &client_of_shared_memory, .learner = o->learner},
                            .side = mu_side_of(g, o->worker),
                            .process = o->learner * g->head->n_workers + o->worker,
                            .worker = o->worker,
                            .shared = g,
                            .params = o->params,
                            .rate_at = o->rate_at,
                            .rate_ctx = o->rate_ctx};
    const int far = g->head->n_processes - g->head->own_processes;
    const int busy = (g->head->n_executors - far) * g->head->n_groups;
    c->spin_ns = busy <= mu_cores_count() ? SPIN_NS : 0;
    MU_TRY((c->side->join ? c->side->join : join_core)(c, err));
    atomic_store(&row_of(c)->incarnation, c->base.incarnation);
    return enter(c, mu_exchange_at(g, atomic_load(&g->head->version)), err);
}

void mu_shared_client_close(mu_shared_client *c) {
    if (c->exchange && c->exchange->close) c->exchange->close(c);
    mu_server_fini(&c->server);
}
