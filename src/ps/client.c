// SPDX-License-Identifier: Apache-2.0
// client.c - see client.h.
#include "ps/client.h"

#include "base/clock.h"
#include "base/failpoint.h"
#include "comm/cores.h"
#include "comm/stall_timer.h"

#include <string.h>

#define NAP_NS 20000000         // longest sleep before looking again: a ring lost with its sender costs this
#define SPIN_NS 60000

mu_status mu_client_init(mu_client *c, mu_shared *g, int learner, mu_server *beside, float *copy,
                         mu_err *err) {
    *c = (mu_client){.shared = g, .learner = learner, .server = beside, .copy = copy, .copy_version = -1};
    int busy = g->head->n_learners + (g->setup->server == MU_SERVER_PROCESS ? g->setup->server_threads : 0);
    c->spin_ns = busy <= mu_cores_count() ? SPIN_NS : 0;
    mu_core *core = mu_shared_begin(g);
    if (!core) return MU_FAIL(err, MU_EBACKEND, "learner %d: somebody holds the protocol's lock", learner);
    c->incarnation = mu_core_join(core, learner);
    c->accepted = mu_core_learner_at(core, learner)->accepted;
    mu_shared_commit(g);
    mu_bell_ring(&g->head->turn);
    atomic_store(&g->learner[learner].incarnation, c->incarnation);
    return MU_OK;
}

static mu_bell *turn_of(const mu_client *c) {
    const mu_shared *g = c->shared;
    return g->setup->protocol->own_turn ? &g->learner[c->learner].turn : &g->head->turn;
}

static bool is_over(mu_stall_timer *p, const mu_client *c) {
    return mu_stall_timer_is_over(p, 10 * c->shared->setup->hang_timeout);
}

// For waits that end when others have done something: over when nothing was done since the last time it was.
// Others may be slow; who of them hangs is the watchdog's business.
typedef struct others { mu_stall_timer p; uint64_t done; } others;

static bool have_stopped(others *o, const mu_client *c) {
    const mu_shared *g = c->shared;
    if (!is_over(&o->p, c)) return false;
    uint64_t done = (uint64_t)atomic_load(&g->head->version);
    for (int i = 0; i < g->head->n_learners; i++)
        if (atomic_load(&g->learner[i].doing) != MU_DOING_WAIT) done += atomic_load(&g->learner[i].pulse);
    if (done == o->done) return true;
    *o = (others){mu_stall_timer_new(), done};
    return false;
}

bool mu_client_lease(mu_client *c, mu_lease *out, bool (*stop)(void *), void *ctx) {
    mu_shared *g = c->shared;
    others o = {.p = mu_stall_timer_new()};
    for (;;) {
        uint32_t seen = mu_bell_read(&g->learner[c->learner].turn);
        bool ended = false;
        mu_core *core = mu_shared_begin(g); // NULL: asked again, as long as anything moves
        bool got = core && mu_core_lease(core, c->learner, out, &ended);
        if (got) mu_shared_commit(g);
        else if (core) mu_shared_cancel(g);
        if (got) mu_bell_ring(turn_of(c)); // the learner itself may wait for samples
        if (got || ended || (stop && stop(ctx))) return got;
        if (have_stopped(&o, c)) return false;
        (void)mu_bell_wait(&g->learner[c->learner].turn, seen, 0, NAP_NS);
    }
}

// ---- weights ----

// May the weights be copied now? Hardsync grants a version that is still in the making. With locks the update
// in progress may have lost its executors, and who waits here is the one to go on with it.
static bool may_copy(mu_client *c) {
    mu_shared *g = c->shared;
    if (atomic_load_explicit(&g->head->version, memory_order_acquire) < c->grant.version) return false;
    return !g->setup->locks || mu_rwlock_read(g->rw, c->learner, NAP_NS);
}

// The copy is made when the clock has moved on: asking costs one load. Read under the lock, the clock is
// exactly that of the weights (server.c).
static mu_status pull(mu_client *c, mu_err *err) {
    mu_shared *g = c->shared;
    if (!c->copy) return MU_OK;
    if (atomic_load_explicit(&g->head->version, memory_order_acquire) == c->copy_version &&
        c->copy_version >= c->grant.version) {
        c->pulls_skipped++;
        return MU_OK;
    }
    for (mu_stall_timer p = mu_stall_timer_new();;) {
        uint32_t seen = mu_bell_read(&g->head->turn);
        if (may_copy(c)) break;
        mu_client_pulse(c);
        if (c->server && mu_server_turn(c->server) == MU_TURN_WORKED) continue;
        if (is_over(&p, c))
            return MU_FAIL(err, MU_EBACKEND, "learner %d cannot copy the weights of version %lld", c->learner,
                           (long long)c->grant.version);
        (void)mu_bell_wait(&g->head->turn, seen, c->spin_ns, NAP_NS);
    }
    c->copy_version = atomic_load_explicit(&g->head->version, memory_order_acquire);
    memcpy(c->copy, g->weights, g->head->count * sizeof(float));
    mu_failpoint("client/copying");
    if (g->setup->locks) mu_rwlock_read_end(g->rw, c->learner);
    c->pulls++;
    return MU_OK;
}

static bool is_collected(const mu_client *c, int param) {
    const mu_shared *g = c->shared;
    for (int i = g->first_slice[param]; i < g->first_slice[param + 1]; i++)
        if (atomic_load_explicit(&g->slice[i].version, memory_order_acquire) < c->grant.version) return false;
    return true;
}

void mu_client_collect(mu_client *c, int param) {
    if (!c->queued) {
        if (c->mirror) mu_mirror_follow(c->mirror, param);
        return;
    }
    mu_shared *g = c->shared;
    if (c->copy || !mu_shared_is_in_step(g, c->grant.version)) return;
    mu_stall_timer p = {0};
    for (;;) {
        uint32_t seen = mu_bell_read(&g->head->turn);
        if (is_collected(c, param)) return;
        if (c->server && mu_server_turn(c->server) == MU_TURN_WORKED) continue;
        mu_client_pulse(c);
        if (!p.looked_ns) p = mu_stall_timer_new();
        if (is_over(&p, c)) return; // the watchdog has long acted; an old weight is no harm
        (void)mu_bell_wait(&g->head->turn, seen, c->spin_ns, NAP_NS);
    }
}

// ---- permission ----

static mu_answer ask(mu_client *c) {
    mu_shared *g = c->shared;
    if (c->mirror && !mu_mirror_may_begin(c->mirror, c->accepted)) return MU_HOLD;
    mu_core *core = mu_shared_begin(g);
    if (!core) return MU_HOLD;
    // Asked under the lock: either this sees the pause, or whoever pauses sees that this learner computes.
    const bool paused = g->setup->protocol->applies_itself && atomic_load(&g->head->pause);
    mu_answer a = paused ? MU_HOLD : mu_core_ask(core, c->learner, c->incarnation, &c->grant);
    if (a != MU_GO) {
        mu_shared_cancel(g);
        return a;
    }
    const mu_core_learner *row = mu_core_learner_at(core, c->learner);
    c->queued = !mu_protocol_at(core->protocol)->applies_itself;
    c->slot = c->queued ? mu_core_slot(row) : (int)(row->accepted % g->head->n_slots_per_learner);
    c->weight = mu_core_weight(core, 1, 1);
    mu_shared_commit(g);
    mu_failpoint("client/granted");
    return a;
}

mu_status mu_client_begin(mu_client *c, mu_answer *out, mu_err *err) {
    mu_shared *g = c->shared;
    mu_shared_learner *row = &g->learner[c->learner];
    int64_t began = mu_clock_ns();
    others o = {.p = {.looked_ns = began}};
    atomic_store_explicit(&row->pulse_ns, began, memory_order_relaxed);
    for (;;) {
        uint32_t seen = mu_bell_read(turn_of(c));
        *out = ask(c);
        if (*out != MU_HOLD) break;
        atomic_store_explicit(&row->doing, MU_DOING_WAIT, memory_order_relaxed);
        mu_client_pulse(c);
        if (c->server && mu_server_turn(c->server) == MU_TURN_WORKED) continue;
        if (have_stopped(&o, c))
            return MU_FAIL(err, MU_EBACKEND, "learner %d waited %.0f s at version %lld and nothing moved",
                           c->learner, 1e-9 * (double)(mu_clock_ns() - began),
                           (long long)atomic_load(&g->head->version));
        (void)mu_bell_wait(turn_of(c), seen, c->spin_ns, NAP_NS);
    }
    atomic_fetch_add_explicit(&row->wait_ns, mu_clock_ns() - began, memory_order_relaxed);
    if (*out == MU_END && c->mirror) mu_mirror_end(c->mirror);
    if (*out == MU_GO) {
        MU_TRY(pull(c, err));
        if (c->mirror && !c->queued) mu_mirror_begin(c->mirror);
        atomic_store_explicit(&row->version, c->grant.version, memory_order_relaxed);
    }
    return MU_OK;
}

// ---- the gradient ----

void mu_client_push(mu_client *c, int param, const mu_param *p) {
    mu_message_put(&c->shared->message, mu_shared_slot(c->shared, c->learner, c->slot), param, p);
}

static void serve(mu_client *c) {
    for (int i = 0; i < c->shared->head->n_learners && mu_server_turn(c->server) == MU_TURN_WORKED; i++) {}
}

static void publish(mu_client *c, const mu_core *core, bool bad, float scale) {
    const mu_pace pace = c->pace_at(c->pace_ctx, core->version - 1, mu_core_samples(core) - c->grant.rows);
    const mu_shared_head *h = c->shared->head;
    const int group = h->setup.learners / h->setup.splits;
    const int64_t sigma = mu_mirror_updates(h, core->version - 1) - mu_mirror_updates(h, c->mirror->target);
    mu_mirror_update u = {.learner = c->learner,
                          .slot = c->slot,
                          .bad = bad,
                          .weight = scale * mu_core_weight(core, sigma, group),
                          .rate = pace.rate,
                          .rule_step = mu_moment(mu_mirror_updates(h, core->version - 1), pace.early)};
    mu_mirror_publish(c->mirror, core, &u);
    atomic_store_explicit(&c->shared->head->rate, pace.rate, memory_order_relaxed);
}

mu_verdict mu_client_end(mu_client *c, bool bad, float scale) {
    mu_shared *g = c->shared;
    mu_slot_head *h = mu_shared_slot_head(g, c->learner, c->slot);
    h->bad = bad;
    h->scale = scale;
    h->loss = c->loss;
    h->global_rows = c->grant.global_rows;
    mu_gradient_id id = {.learner = c->learner,
                         .incarnation = c->incarnation,
                         .step = c->grant.step,
                         .version = c->copy ? c->copy_version : c->grant.version,
                         .first = c->grant.first,
                         .rows = c->grant.rows};
    mu_core *core = mu_shared_begin(g);
    if (!core) return MU_UNEXPECTED;
    mu_verdict v = mu_core_push(core, &id);
    if (v == MU_ACCEPTED) c->accepted++;
    if (v == MU_ACCEPTED && c->mirror && !c->queued) publish(c, core, bad, scale);
    bool used_up = mu_core_learner_at(core, c->learner)->used == 0;
    mu_shared_commit(g);
    mu_failpoint("client/pushed");
    mu_bell_ring(&g->head->work);
    if (used_up) mu_bell_ring(&g->learner[c->learner].turn); // the prefetch thread may lease again
    if (!c->queued) {
        int64_t now = atomic_load(&g->head->version) - 1, sigma = now - id.version;
        if (c->mirror) // in updates
            sigma = mu_mirror_updates(g->head, now) - mu_mirror_updates(g->head, c->mirror->target);
        mu_server_note_staleness(g, c->learner, sigma < 0 ? 0 : sigma);
        return v;
    }
    if (c->server) {
        int64_t began = mu_clock_ns();
        serve(c);
        mu_shared_learner *row = &g->learner[c->learner];
        atomic_fetch_add_explicit(&row->apply_ns, mu_clock_ns() - began, memory_order_relaxed);
    }
    return v;
}

void mu_client_drain(mu_client *c) {
    mu_shared *g = c->shared;
    mu_stall_timer p = mu_stall_timer_new();
    while (c->server && !is_over(&p, c)) {
        uint32_t seen = mu_bell_read(&g->head->turn);
        if (!atomic_load(&g->head->waiting) && !atomic_load(&g->update->open)) return;
        mu_client_pulse(c);
        if (mu_server_turn(c->server) == MU_TURN_IDLE) {
            if (!atomic_load(&g->update->open)) return; // too few are left for an update
            (void)mu_bell_wait(&g->head->turn, seen, c->spin_ns, NAP_NS);
        }
    }
}
