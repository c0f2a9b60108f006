// SPDX-License-Identifier: Apache-2.0
// relay_wire.c - see relay_inner.h.
#include "learners/relay_inner.h"

#include <string.h>

#define TAG "relay"

enum { TREE_BLOCK = 1 }; // WEIGHTS: those that come down the tree, not with a grant

// ---- places ----

static int rank_of(const mu_relay *r, int group) { return group / r->n; }
static mu_shared *shared_of(mu_relay_group *g) { return &g->group->shared; }

bool relay_waits(const mu_relay *r, int64_t step) { return !r->goes_on || step < r->in_step; }

int64_t relay_newest(const mu_relay *r, const mu_relay_group *g) {
    const int64_t here = mu_relay_leads(r) ? mu_root_version(&r->root) : r->tree.version;
    return here > g->version && !g->given ? here : g->version;
}

static mu_status unexpected(int peer, const char *what, mu_err *err) {
    return MU_FAIL(err, MU_EDATA, "rank %d sent %s, which is not due", peer, what);
}

// ---- weights for learners ----

// Slices up to this float have the weights for the step behind g->step; learners may begin layer by layer.
static void show_slices(const mu_relay *r, mu_relay_group *g, size_t end) {
    mu_shared *s = shared_of(g);
    const int64_t version = r->first_version + g->step + 1;
    const int before = g->slice;
    for (; g->slice < s->slices.n; g->slice++) {
        const mu_slice_range *range = &s->slices.range[g->slice];
        if (s->pieces->list[range->param]->offset + range->end > end) break;
        atomic_store_explicit(&s->slice[g->slice].version, version, memory_order_release);
    }
    if (g->slice > before) mu_bell_ring(&s->head->turn);
}

static bool has_all(const mu_relay *r, mu_relay_group *g, int64_t version) {
    show_slices(r, g, SIZE_MAX);
    g->slice = 0;
    g->coming = 0;
    g->version = g->used[(g->step + 1) % MU_CORE_SLOTS] = version;
    return true;
}

// The lowest layers first.
static bool install(const mu_relay *r, mu_relay_group *g, const float *from, int64_t version) {
    mu_shared *s = shared_of(g);
    const size_t count = s->head->count;
    for (size_t at = 0, n; at < count && version > g->version; at += n) {
        n = (size_t)relay_chunk((int64_t)at);
        n = n < count - at ? n : count - at;
        memcpy(s->weights + at, from + at, n * sizeof *from);
        show_slices(r, g, at + n);
    }
    return has_all(r, g, version > g->version ? version : g->version);
}

bool relay_give(mu_relay *r, mu_relay_group *g) {
    const bool must_wait = relay_waits(r, g->step + 1);
    if (must_wait && g->granted <= g->step + 1) return g->last && has_all(r, g, g->version);
    if (mu_relay_leads(r)) return install(r, g, r->root.value, mu_root_version(&r->root));
    if (!must_wait) return install(r, g, r->tree.block[r->tree.ready], r->tree.version);
    if (g->coming && g->came < (int64_t)shared_of(g)->head->count) return false;
    return has_all(r, g, g->coming ? g->coming : g->version);
}

// ---- grants ----

static mu_status say_last(mu_relay *r, int group, mu_err *err) {
    const mu_wire w = {.type = MU_WIRE_GRANT,
                       .grant = {.learner = group * r->own, .incarnation = 1, .answer = MU_END}};
    return mu_nodes_send(r->nodes, rank_of(r, group), MU_TOPIC_WORD, &w, err);
}

mu_status relay_granted(void *ctx, int group, const mu_grant *grant, mu_err *err) {
    mu_relay *r = ctx;
    if (rank_of(r, group) != 0) {
        if (!grant) return say_last(r, group, err);
        r->pending[group] = *grant;
    } else if (grant) {
        r->group[group].granted = grant->step + 1;
    } else {
        r->group[group].last = true;
    }
    return MU_OK;
}

mu_status relay_dealt(void *ctx, int group, const mu_lease *lease, mu_err *err) {
    mu_relay *r = ctx;
    if (rank_of(r, group) == 0) {
        mu_deal_add(r->group[group].deal, lease->first);
        return MU_OK;
    }
    const mu_wire w = {.type = MU_WIRE_LEASE,
                       .lease = {.learner = group * r->own, .incarnation = 1, .lease = *lease}};
    return mu_nodes_send(r->nodes, rank_of(r, group), MU_TOPIC_WORD, &w, err);
}

static mu_status send_weights(mu_relay *r, int peer, mu_node_topic topic, const mu_wire_weights *of,
                              mu_err *err) {
    const int64_t count = r->nodes->shape.count;
    mu_wire w = {.type = MU_WIRE_WEIGHTS, .weights = *of};
    for (int64_t at = 0; at < count; at = w.weights.end) {
        w.weights.begin = at;
        w.weights.end = at + relay_chunk(at);
        if (w.weights.end > count) w.weights.end = count;
        w.weights.floats = (const float *)of->floats + at;
        MU_TRY(mu_nodes_send(r->nodes, peer, topic, &w, err));
    }
    return MU_OK;
}

// With the newest weights, where they are waited for. The first gradient is being computed already, on those
// that all began with.
static mu_status tell_grant(mu_relay *r, int group, mu_err *err) {
    const mu_grant *grant = &r->pending[group];
    mu_root_group *g = &r->root.group[group];
    const int peer = rank_of(r, group);
    const int64_t version = mu_root_version(&r->root);
    const bool newer = grant->step > 0 && relay_waits(r, grant->step) && version > g->sent;
    const mu_wire w = {
        .type = MU_WIRE_GRANT,
        .grant = {.learner = group * r->own, .incarnation = 1, .answer = MU_GO, .grant = *grant}};
    mu_wire told = w;
    told.grant.grant.version = newer ? version : g->sent;
    MU_TRY(mu_nodes_send(r->nodes, peer, MU_TOPIC_WORD, &told, err));
    r->pending[group].rows = 0;
    if (!newer) return MU_OK;
    float *out = r->out[group - r->n];
    memcpy(out, r->root.value, (size_t)r->nodes->shape.count * sizeof *out);
    g->sent = version;
    const mu_wire_weights weights = {.version = version, .block = group % r->n, .floats = out};
    return send_weights(r, peer, MU_TOPIC_GROUP + (mu_node_topic)group, &weights, err);
}

// One of this rank's groups; NULL = it is not.
static mu_relay_group *own_group(mu_relay *r, int learner) {
    const int i = learner / r->own - r->group->number;
    return i >= 0 && i < r->n ? &r->group[i] : NULL;
}

static mu_status take_lease(mu_relay *r, const mu_wire_lease *w, mu_err *err) {
    const mu_relay_group *g = own_group(r, w->learner);
    const bool fits = g && !w->ended && w->lease.batches == 1 && w->lease.last_rows == g->deal->width;
    if (!fits || atomic_load(&g->deal->known) - g->step > MU_DEAL / 2) return unexpected(0, "samples", err);
    mu_deal_add(g->deal, w->lease.first);
    return MU_OK;
}

static mu_status take_grant(mu_relay *r, const mu_wire_grant *w, mu_err *err) {
    mu_relay_group *g = own_group(r, w->learner);
    const bool last = w->answer == MU_END, next = w->answer == MU_GO && g && w->grant.step == g->granted;
    if (!g || g->last || !(last || next)) return unexpected(0, "a grant", err);
    g->last = last;
    if (last) return MU_OK;
    g->granted++;
    if (!relay_waits(r, w->grant.step) || w->grant.version <= g->version) return MU_OK;
    g->coming = w->grant.version;
    g->came = 0;
    return MU_OK;
}

// ---- weights that come ----

static mu_status take_granted(mu_relay *r, const mu_wire_weights *w, mu_err *err) {
    mu_relay_group *g = w->block < r->n ? &r->group[w->block] : NULL;
    // Nobody reads the weights now: the grant answers that the step is complete.
    if (!g || !g->coming || w->version != g->coming || w->begin != g->came || !g->formed)
        return unexpected(0, "weights", err);
    memcpy(shared_of(g)->weights + w->begin, w->floats, (size_t)(w->end - w->begin) * sizeof(float));
    g->came = w->end;
    show_slices(r, g, (size_t)w->end);
    return MU_OK;
}

static mu_status take_from_above(mu_relay *r, int peer, const mu_wire_weights *w, mu_err *err) {
    mu_relay_tree *t = &r->tree;
    if (!w->begin) t->coming = w->version, t->came = 0;
    if (!t->asked || w->version != t->coming || w->version <= t->version || w->begin != t->came)
        return unexpected(peer, "weights", err);
    memcpy(t->block[!t->ready] + w->begin, w->floats, (size_t)(w->end - w->begin) * sizeof(float));
    t->came = w->end;
    if (t->came < r->nodes->shape.count) return MU_OK;
    t->ready = !t->ready;
    t->version = w->version;
    t->asked = false;
    return MU_OK;
}

// ---- the tree ----

static int above(int rank) { return (rank - 1) / 2; }

// Blocks of rank 0 are one.
static mu_node_topic tree_topic(const mu_relay *r, int block) {
    return mu_relay_leads(r) ? MU_TOPIC_COPY : MU_TOPIC_GROUP + (mu_node_topic)block;
}

mu_status relay_tree_open(mu_relay *r, mu_err *err) {
    const size_t bytes = (size_t)r->nodes->shape.count * sizeof(float);
    bool good = true;
    r->tree = (mu_relay_tree){.version = r->first_version, .wanted = {-1, -1}};
    for (int k = 0; k < 2 && good; k++) good = (r->tree.block[k] = mu_alloc_block(bytes, TAG)) != NULL;
    return good ? MU_OK : MU_FAIL_NOMEM(err, "weights from other ranks");
}

static mu_status ask_above(mu_relay *r, mu_err *err) {
    mu_relay_tree *t = &r->tree;
    const bool soon = r->group->step + 1 >= r->in_step;
    if (t->asked || r->closed || !soon || r->nodes->owed[tree_topic(r, !t->ready)]) return MU_OK;
    t->asked = true;
    const mu_wire w = {.type = MU_WIRE_ASK,
                       .ask = {.learner = r->group->number * r->own,
                               .incarnation = 1,
                               .what = MU_ASK_WEIGHTS,
                               .version = t->version}};
    return mu_nodes_send(r->nodes, above(r->nodes->rank), MU_TOPIC_WORD, &w, err);
}

// Rank 0: a copy, of which nothing is lent.
static void copy_root(mu_relay *r) {
    mu_relay_tree *t = &r->tree;
    if (mu_root_version(&r->root) <= t->version || r->nodes->owed[tree_topic(r, 0)]) return;
    memcpy(t->block[t->ready], r->root.value, (size_t)r->nodes->shape.count * sizeof(float));
    t->version = mu_root_version(&r->root);
}

static mu_status pass_on(mu_relay *r, mu_err *err) {
    mu_relay_tree *t = &r->tree;
    const mu_wire_weights w = {.version = t->version, .block = TREE_BLOCK, .floats = t->block[t->ready]};
    for (int k = 0; k < 2; k++) {
        if (t->wanted[k] < 0 || t->version <= t->wanted[k]) continue;
        t->wanted[k] = -1;
        MU_TRY(send_weights(r, 2 * r->nodes->rank + 1 + k, tree_topic(r, t->ready), &w, err));
    }
    return MU_OK;
}

mu_status relay_tell(mu_relay *r, mu_err *err) {
    for (int g = r->n; g < r->root.n; g++)
        if (r->pending[g].rows && !r->nodes->owed[MU_TOPIC_GROUP + g]) MU_TRY(tell_grant(r, g, err));
    if (!r->goes_on) return MU_OK;
    if (!mu_relay_leads(r)) MU_TRY(ask_above(r, err));
    else if (r->tree.wanted[0] >= 0 || r->tree.wanted[1] >= 0) copy_root(r);
    return pass_on(r, err);
}

// ---- frames ----

static mu_status take_ask(mu_relay *r, int peer, const mu_wire_ask *w, mu_err *err) {
    const int child = peer - 2 * r->nodes->rank - 1, group = w->learner / r->own;
    if (w->what == MU_ASK_WEIGHTS && r->goes_on && (child == 0 || child == 1)) {
        r->tree.wanted[child] = w->version;
        return MU_OK;
    }
    const bool promises = w->what == MU_ASK_LEASE && r->goes_on;
    if ((w->what != MU_ASK_BEGIN && !promises) || !mu_relay_leads(r) || rank_of(r, group) != peer ||
        w->version < 0)
        return unexpected(peer, "a question", err);
    if (promises) return mu_root_promise(&r->root, group, w->version, err);
    return mu_root_complete(&r->root, group, w->version, err);
}

static void take_stop(mu_relay *r, int peer, const mu_wire_stop *w) {
    if (!mu_relay_leads(r) && peer != 0) return;
    if (w->why == MU_STOP_ENDED) r->closed = !mu_relay_leads(r);
    else r->asked = true, r->due = w->why == MU_STOP_DUE;
    if (mu_relay_leads(r) || w->why == MU_STOP_ENDED) return;
    r->stop_at = w->version;
    r->stops = true;
}

// At rank 0: a part of a gradient, of a group of that rank.
static mu_status take_part(mu_relay *r, int peer, const mu_wire *w, mu_err *err) {
    const int group = w->type == MU_WIRE_SUM    ? w->sum.group
                      : w->type == MU_WIRE_PUSH ? w->push.id.learner / r->own
                                                : w->lease.learner / r->own;
    const bool ends = w->type == MU_WIRE_LEASE;
    if (!mu_relay_leads(r) || rank_of(r, group) != peer || (ends && !w->lease.ended))
        return unexpected(peer, mu_wire_type_name(w->type), err);
    if (ends) mu_root_leave(&r->root, group);
    if (ends) return MU_OK;
    if (w->type == MU_WIRE_PUSH) return mu_root_put(&r->root, &w->push, err);
    return mu_root_put_sum(&r->root, &w->sum, r->nodes->shape.half, err);
}

mu_status relay_take(void *ctx, int peer, const mu_wire *w, MU_UNUSED bool *later, mu_err *err) {
    mu_relay *r = ctx;
    switch (w->type) {
    case MU_WIRE_LEASE:
        if (!mu_relay_leads(r)) return peer == 0 ? take_lease(r, &w->lease, err) : unexpected(peer, "samples", err);
        return take_part(r, peer, w, err);
    case MU_WIRE_PUSH:
    case MU_WIRE_SUM:
        return take_part(r, peer, w, err);
    case MU_WIRE_ASK:
        return take_ask(r, peer, &w->ask, err);
    case MU_WIRE_GRANT:
        return peer == 0 ? take_grant(r, &w->grant, err) : unexpected(peer, "a grant", err);
    case MU_WIRE_WEIGHTS:
        if (r->goes_on && w->weights.block == TREE_BLOCK && peer == above(r->nodes->rank))
            return take_from_above(r, peer, &w->weights, err);
        return peer == 0 ? take_granted(r, &w->weights, err) : unexpected(peer, "weights", err);
    case MU_WIRE_STOP:
        take_stop(r, peer, &w->stop);
        return MU_OK;
    case MU_WIRE_COUNTS:
        return mu_gathering_take(&r->gathering, peer, &w->counts, err);
    default:
        return unexpected(peer, mu_wire_type_name(w->type), err);
    }
}
