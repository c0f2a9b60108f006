// SPDX-License-Identifier: Apache-2.0
// workers.c - see workers.h: how the first worker of a learner and the others talk.
#include "ps/workers.h"

#include "base/failpoint.h"

#include <math.h>
#include <string.h>

static struct mu_workers_row *row_of(const mu_shared_client *c) {
    return mu_shared_workers(c->shared, c->base.learner);
}

size_t mu_workers_row_bytes(int workers) {
    return sizeof(struct mu_workers_row) + (size_t)workers * sizeof(mu_worker_end);
}

// ---- channels ----
//
// Of each learner: the terms, then the memory of the bridges.

enum { TERMS_BYTES = 64 };

_Static_assert(sizeof(mu_channel_terms) <= TERMS_BYTES, "the terms of channels have a line");

size_t mu_workers_channels_bytes(const mu_partition *p) {
    return p ? TERMS_BYTES + mu_bridge_memory_bytes(p) : 0;
}

static char *channels_of(const mu_shared *g, int learner) {
    return g->region.base + g->head->at_channels + (uint64_t)learner * g->head->channels_stride;
}

static mu_channel_terms *terms_of(const mu_shared *g, int learner) {
    return (mu_channel_terms *)(void *)channels_of(g, learner);
}

void *mu_workers_channel(const mu_shared *g, int learner, int bridge, bool back) {
    return channels_of(g, learner) + TERMS_BYTES + g->partition->bridge[bridge].at[back];
}

static bool is_here(const mu_shared *g, int learner, const mu_part *end) {
    return !mu_shared_is_far_process(g, learner * g->head->n_workers + end->worker);
}

static bool is_local(const mu_shared *g, int learner, const mu_bridge *b) {
    return is_here(g, learner, b->source) && is_here(g, learner, b->destination);
}

// Who waits at a bridge is alive, and does not compute.
typedef struct opener { mu_bridge_memory memory; mu_shared_client *client; } opener;

static mu_status open_bridge(void *ctx, const mu_bridge *b, bool back, mu_channel **out, mu_err *err) {
    opener *o = ctx;
    const mu_shared *g = o->client->shared;
    if (is_local(g, o->client->base.learner, b)) MU_TRY(mu_open_bridge_memory(&o->memory, b, back, out, err));
    else
        MU_TRY(mu_channel_open_far(b->name, b->bytes, o->memory.terms, o->memory.base + b->at[back],
                                   g->parent, out, err));
    (*out)->pulse = &o->client->shared->learner[o->client->process].pulse;
    (*out)->waited_ns = &o->client->base.bridged_ns;
    return MU_OK;
}

mu_status mu_workers_connect(mu_shared_client *c, mu_net *net, mu_err *err) {
    mu_shared *g = c->shared;
    const int learner = c->base.learner;
    opener o = {{channels_of(g, learner) + TERMS_BYTES, terms_of(g, learner)}, c};
    terms_of(g, learner)->limit_ns = (int64_t)(1e10 * g->setup->hang_timeout); // all say the same
    return mu_partition_connect(net, g->partition, open_bridge, &o, err);
}

void mu_workers_give_up(mu_shared *g, int learner, int worker) {
    int32_t none = 0;
    atomic_compare_exchange_strong(&mu_shared_workers(g, learner)->first_failed, &none, worker + 1);
    if (g->partition) atomic_store(&terms_of(g, learner)->given_up, true);
}

int mu_workers_first_failed(const mu_shared *g, int learner) {
    const int32_t worker = atomic_load(&mu_shared_workers(g, learner)->first_failed);
    return worker ? learner * g->head->n_workers + worker - 1 : -1;
}

void mu_workers_clear(mu_shared *g, int learner) {
    memset(mu_shared_workers(g, learner), 0, g->head->workers_stride);
    if (!g->partition) return;
    atomic_store(&terms_of(g, learner)->given_up, false);
    for (int i = 0; i < g->partition->n_bridges; i++)
        for (int back = 0; back < 2 && is_local(g, learner, &g->partition->bridge[i]); back++)
            mu_channel_memory_reset(mu_workers_channel(g, learner, i, back));
}

bool mu_workers_are_done(const mu_shared *g, int learner, int64_t step) {
    const struct mu_workers_row *r = mu_shared_workers(g, learner);
    const int first = mu_shared_first_worker(g), end = first + mu_shared_own_workers(g);
    bool all = true;
    for (int w = first; w < end; w++)
        all &= atomic_load_explicit(&r->worker[w].done, memory_order_acquire) > step;
    return all;
}

// ---- the first worker ----

static void ring_others(const mu_shared_client *c, bool leases) {
    mu_shared_learner *first = &c->shared->learner[c->process];
    for (int k = 1; k < mu_shared_own_workers(c->shared); k++)
        mu_bell_ring(leases ? &first[k].leases : &first[k].turn);
}

static bool take_lease(mu_shared_client *c, mu_lease *out, bool *ended) {
    struct mu_workers_row *r = row_of(c);
    const bool got = mu_side_alone.lease(c, out, ended);
    if (got) {
        const int64_t n = atomic_load_explicit(&r->leased, memory_order_relaxed);
        r->lease[n % MU_WORKERS_LEASES] = *out;
        atomic_store_explicit(&r->leased, n + 1, memory_order_release);
    } else if (*ended) {
        atomic_store(&r->leases_over, 1);
    }
    if (got || *ended) ring_others(c, true);
    return got;
}

static mu_answer ask_and_announce(mu_shared_client *c, const mu_exchange **in_force) {
    struct mu_workers_row *r = row_of(c);
    const mu_answer a = mu_side_alone.ask(c, in_force);
    if (a == MU_GO) {
        r->grant = c->base.grant;
        r->slot = c->slot;
        c->heard++;
        atomic_store_explicit(&r->granted, c->heard, memory_order_release);
        mu_failpoint("workers/announced");
    } else if (a == MU_END) {
        atomic_store(&r->over, 1);
    }
    if (a != MU_HOLD) ring_others(c, false);
    return a;
}

// Until the parent has handed its last gradient over, the core grants that one again.
static mu_answer ask_for_next(mu_shared_client *c, const mu_exchange **in_force) {
    const int64_t done = atomic_load_explicit(&row_of(c)->worker[c->worker].done, memory_order_relaxed);
    mu_shared *g = c->shared;
    mu_core *core = done ? mu_shared_begin(g) : NULL;
    const bool waits = done && (!core || mu_core_step(mu_core_learner_at(core, c->base.learner)) < done);
    if (core) mu_shared_cancel(g);
    return waits ? MU_HOLD : ask_and_announce(c, in_force);
}

// Has every other worker completed its part? *bad: of one of them it is not finite.
static bool others_are_done(const mu_shared_client *c, bool *bad) {
    struct mu_workers_row *r = row_of(c);
    for (int w = 1; w < c->shared->head->n_workers; w++) {
        if (atomic_load_explicit(&r->worker[w].done, memory_order_acquire) <= c->base.grant.step)
            return false;
        *bad |= r->worker[w].bad;
    }
    return true;
}

static mu_status wait_and_hand_over(mu_shared_client *c, bool bad, float scale, mu_push_result *out,
                                    mu_err *err) {
    mu_bell *turn = &c->shared->learner[c->process].turn;
    mu_others o = mu_others_new();
    for (;;) {
        const uint32_t seen = mu_bell_read(turn);
        if (others_are_done(c, &bad)) break;
        c->base.class->show(&c->base, MU_DOING_WAIT); // else its own signs of life would count as others'
        c->base.class->pulse(&c->base);
        if (mu_shared_client_serve(c)) continue;
        if (mu_others_have_stopped(&o, c))
            return MU_FAIL(err, MU_EBACKEND, "learner %d waits for its workers, and nothing moves",
                           mu_shared_number(c->shared, c->base.learner));
        mu_shared_client_wait(c, turn, seen);
    }
    return mu_side_alone.hand_over(c, bad, scale, out, err);
}

// ---- the others ----

static bool hear_of_lease(mu_shared_client *c, mu_lease *out, bool *ended) {
    const struct mu_workers_row *r = row_of(c);
    const bool over = atomic_load(&r->leases_over);
    if (atomic_load_explicit(&r->leased, memory_order_acquire) > c->leases_heard) {
        *out = r->lease[c->leases_heard++ % MU_WORKERS_LEASES];
        return true;
    }
    *ended = over;
    return false;
}

static mu_answer hear(mu_shared_client *c, const mu_exchange **in_force) {
    const struct mu_workers_row *r = row_of(c);
    const bool over = atomic_load(&r->over);
    if (atomic_load_explicit(&r->granted, memory_order_acquire) == c->heard) return over ? MU_END : MU_HOLD;
    c->heard++;
    c->base.grant = r->grant;
    c->slot = r->slot;
    *in_force = &mu_exchange_queue;
    return MU_GO;
}

// For whoever hands the whole over: the first worker, or the parent.
static mu_status complete(mu_shared_client *c, bool bad, float scale, mu_push_result *out,
                          MU_UNUSED mu_err *err) {
    mu_shared *g = c->shared;
    mu_worker_end *e = &row_of(c)->worker[c->worker];
    e->bad = bad;
    e->scale = scale;
    e->loss = c->has_loss ? c->base.loss : NAN;
    e->accuracy = c->has_loss ? atomic_load(&g->learner[c->process].accuracy) : NAN;
    atomic_store_explicit(&e->done, c->base.grant.step + 1, memory_order_release);
    mu_failpoint("workers/completed");
    mu_bell_ring(mu_shared_has_parts(g) ? g->parent : &mu_shared_first(g, c->base.learner)->turn);
    *out = MU_ACCEPTED; // what the core says of the whole is the business of who hands it over
    return MU_OK;
}

static mu_status join_after_first(mu_shared_client *c, MU_UNUSED mu_err *err) {
    c->base.incarnation = atomic_load(&c->shared->learner[c->process].incarnation) + 1;
    return MU_OK;
}

const mu_side *mu_side_of(const mu_shared *g, int worker) {
    static const mu_side first = {take_lease, ask_and_announce, wait_and_hand_over, NULL};
    static const mu_side first_of_rank = {take_lease, ask_for_next, complete, NULL};
    static const mu_side other = {hear_of_lease, hear, complete, join_after_first};
    if (g->head->n_workers < 2) return &mu_side_alone;
    if (worker != mu_shared_first_worker(g)) return &other;
    return mu_shared_has_parts(g) ? &first_of_rank : &first;
}
