// SPDX-License-Identifier: Apache-2.0
// ranks_wire.c - what comes from and goes to other ranks, and the weights: learners/relay_wire.c in steps.
#include "sim/ranks.h"

#include <inttypes.h>
#include <string.h>

enum { TREE_BLOCK = 1 };

static bool goes_on(const ranks_world *w) { return w->plan.architecture == MU_ARCHITECTURE_ADV_STAR; }
static int rank_of(const ranks_world *w, int group) { return group / w->plan.own_groups; }
static int64_t in_step(ranks_world *w) { return mu_root_steps_in_step(&w->training); }
static bool waits(ranks_world *w, int64_t step) { return !goes_on(w) || step < in_step(w); }
static int64_t first_version(const ranks_world *w) { return w->plan.at.step + w->plan.at.extra_updates; }

static void unexpected(ranks_world *w, int peer, const char *what) {
    ranks_wrong(w, "rank %d sent %s, which is not due", peer, what);
}

// ---- weights for learners ----

static void show_chunks(ranks_world *w, ranks_group *g, int end) {
    const int64_t version = first_version(w) + g->step + 1;
    const int before = g->chunk;
    for (; g->chunk < end; g->chunk++) g->shown[g->chunk] = version;
    if (g->chunk > before) ranks_show(w, g);
}

static bool has_all(ranks_world *w, ranks_group *g, int64_t version) {
    g->version = g->used[(g->step + 1) % MU_CORE_SLOTS] = version;
    show_chunks(w, g, RANKS_CHUNKS);
    g->chunk = 0;
    g->coming = 0;
    return true;
}

static bool install(ranks_world *w, ranks_group *g, const float *from, int64_t version) {
    for (int c = 0; c < RANKS_CHUNKS && version > g->version; c++) {
        const size_t at = (size_t)c * RANKS_CHUNK;
        if (!c || !ranks_mutant_is(w, RANKS_M_HALF_WEIGHTS))
            memcpy(g->weights + at, from + at, RANKS_CHUNK * sizeof *from);
        show_chunks(w, g, c + 1);
    }
    return has_all(w, g, version > g->version ? version : g->version);
}

bool ranks_give(ranks_world *w, ranks_group *g) {
    const ranks_rank *r = ranks_of(w, g);
    const bool must_wait = waits(w, g->step + 1);
    if (must_wait && g->granted <= g->step + 1) return g->last && has_all(w, g, g->version);
    if (ranks_leads(r)) return install(w, g, w->root.value, mu_root_version(&w->root));
    if (!must_wait) return install(w, g, r->tree.block[r->tree.ready], r->tree.version);
    if (g->coming && g->came < RANKS_FLOATS) return false;
    return has_all(w, g, g->coming ? g->coming : g->version);
}

// ---- grants ----

static void say_last(ranks_world *w, int group) {
    const mu_wire f = {.type = MU_WIRE_GRANT,
                       .grant = {.learner = group * w->plan.own, .incarnation = 1, .answer = MU_END}};
    ranks_send(w, 0, rank_of(w, group), MU_TOPIC_WORD, &f);
}

mu_status ranks_granted(void *ctx, int group, const mu_grant *grant, MU_UNUSED mu_err *err) {
    ranks_world *w = ctx;
    const bool forgets = !grant && ranks_mutant_is(w, RANKS_M_NO_END);
    SIM_TRACE(w, "grant    group %d step %" PRId64 " version %" PRId64, group, grant ? grant->step : -1,
              grant ? grant->version : -1);
    ranks_book_granted(w, group, grant);
    if (rank_of(w, group) != 0) {
        if (grant) w->pending[group] = *grant;
        else if (!forgets) say_last(w, group);
    } else if (grant) {
        w->group[group].granted = grant->step + 1;
    } else {
        w->group[group].last = !forgets;
    }
    ranks_poke(w, &w->rank[0]);
    return MU_OK;
}

mu_status ranks_dealt(void *ctx, int group, const mu_lease *lease, MU_UNUSED mu_err *err) {
    ranks_world *w = ctx;
    const mu_wire f = {.type = MU_WIRE_LEASE,
                       .lease = {.learner = group * w->plan.own, .incarnation = 1, .lease = *lease}};
    const bool lost = ranks_mutant_is(w, RANKS_M_LEASE_LOST);
    const int times = lost ? 0 : 1 + ranks_mutant_is(w, RANKS_M_DEALT_TWICE);
    SIM_TRACE(w, "deal     group %d from sample %" PRId64, group, lease->first);
    ranks_book_dealt(w, group, lease);
    for (int k = 0; k < times; k++) {
        if (rank_of(w, group) == 0) mu_deal_add(&w->group[group].deal, lease->first);
        else ranks_send(w, 0, rank_of(w, group), MU_TOPIC_WORD, &f);
    }
    ranks_poke(w, &w->rank[0]);
    return MU_OK;
}

static void send_weights(ranks_world *w, int from, int to, mu_node_topic topic, const mu_wire_weights *of) {
    mu_wire f = {.type = MU_WIRE_WEIGHTS, .weights = *of};
    for (int at = 0; at < RANKS_FLOATS; at += RANKS_CHUNK) {
        f.weights.begin = at;
        f.weights.end = at + RANKS_CHUNK;
        f.weights.floats = (const float *)of->floats + at;
        ranks_send(w, from, to, topic, &f);
    }
}

static void tell_grant(ranks_world *w, int group) {
    const mu_grant *grant = &w->pending[group];
    mu_root_group *g = &w->root.group[group];
    const int peer = rank_of(w, group);
    const int64_t version = mu_root_version(&w->root);
    const bool newer = grant->step > 0 && waits(w, grant->step) && version > g->sent;
    mu_wire told = {
        .type = MU_WIRE_GRANT,
        .grant = {.learner = group * w->plan.own, .incarnation = 1, .answer = MU_GO, .grant = *grant}};
    told.grant.grant.version = newer ? version : g->sent;
    if (!ranks_mutant_is(w, RANKS_M_GRANT_LOST)) ranks_send(w, 0, peer, MU_TOPIC_WORD, &told);
    w->pending[group].rows = 0;
    if (!newer) return;
    memcpy(w->out[group], w->root.value, sizeof w->out[group]);
    g->sent = version;
    const mu_wire_weights weights = {
        .version = version, .block = group % w->plan.own_groups, .floats = w->out[group]};
    send_weights(w, 0, peer, MU_TOPIC_GROUP + (mu_node_topic)group, &weights);
}

static ranks_group *own_group(ranks_world *w, const ranks_rank *r, int learner) {
    const int i = learner / w->plan.own - r->first;
    return i >= 0 && i < w->plan.own_groups ? &w->group[r->first + i] : NULL;
}

static void take_lease(ranks_world *w, ranks_rank *r, const mu_wire_lease *f) {
    ranks_group *g = own_group(w, r, f->learner);
    const bool fits = g && !f->ended && f->lease.batches == 1 && f->lease.last_rows == g->deal.width;
    if (!fits || atomic_load(&g->deal.known) - g->step > MU_DEAL / 2) unexpected(w, 0, "samples");
    else mu_deal_add(&g->deal, f->lease.first);
}

static void take_grant(ranks_world *w, ranks_rank *r, const mu_wire_grant *f) {
    ranks_group *g = own_group(w, r, f->learner);
    const bool last = f->answer == MU_END, next = f->answer == MU_GO && g && f->grant.step == g->granted;
    if (!g || g->last || !(last || next)) {
        unexpected(w, 0, "a grant");
        return;
    }
    g->last = last;
    if (last) return;
    g->granted++;
    if (!waits(w, f->grant.step) || f->grant.version <= g->version) return;
    g->coming = f->grant.version;
    g->came = 0;
}

// ---- weights that come ----

static void take_granted(ranks_world *w, ranks_rank *r, const mu_wire_weights *f) {
    ranks_group *g = f->block < w->plan.own_groups ? &w->group[r->first + f->block] : NULL;
    if (!g || !g->coming || f->version != g->coming || f->begin != g->came || !g->formed) {
        unexpected(w, 0, "weights");
        return;
    }
    memcpy(g->weights + f->begin, f->floats, (size_t)(f->end - f->begin) * sizeof(float));
    g->came = f->end;
    show_chunks(w, g, (int)(f->end / RANKS_CHUNK));
}

static void take_from_above(ranks_world *w, ranks_rank *r, int peer, const mu_wire_weights *f) {
    mu_relay_tree *t = &r->tree;
    if (!f->begin) t->coming = f->version, t->came = 0;
    if (!t->asked || f->version != t->coming || f->version <= t->version || f->begin != t->came) {
        unexpected(w, peer, "weights");
        return;
    }
    memcpy(t->block[!t->ready] + f->begin, f->floats, (size_t)(f->end - f->begin) * sizeof(float));
    t->came = f->end;
    if (t->came < RANKS_FLOATS) return;
    t->ready = !t->ready;
    t->version = f->version;
    t->asked = false;
    SIM_TRACE(w, "tree     rank %d has version %" PRId64, r->rank, t->version);
}

// ---- the tree ----

static mu_node_topic tree_topic(const ranks_rank *r, int block) {
    return ranks_leads(r) ? MU_TOPIC_COPY : MU_TOPIC_GROUP + (mu_node_topic)block;
}

static bool lent(const ranks_world *w, const ranks_rank *r, int block) {
    return r->owed[tree_topic(r, block)] && !ranks_mutant_is(w, RANKS_M_TREE_LENT);
}

static void ask_above(ranks_world *w, ranks_rank *r) {
    mu_relay_tree *t = &r->tree;
    const bool soon = w->group[r->first].step + 1 >= in_step(w);
    if (t->asked || r->closed || !soon || lent(w, r, !t->ready)) return;
    t->asked = true;
    r->asked_at = w->now;
    const mu_wire f = {.type = MU_WIRE_ASK,
                       .ask = {.learner = r->first * w->plan.own,
                               .incarnation = 1,
                               .what = MU_ASK_WEIGHTS,
                               .version = t->version}};
    if (!ranks_mutant_is(w, RANKS_M_NO_ASK)) ranks_send(w, r->rank, (r->rank - 1) / 2, MU_TOPIC_WORD, &f);
}

static void copy_root(ranks_world *w, ranks_rank *r) {
    mu_relay_tree *t = &r->tree;
    if (mu_root_version(&w->root) <= t->version || lent(w, r, 0)) return;
    memcpy(t->block[t->ready], w->root.value, RANKS_FLOATS * sizeof(float));
    t->version = mu_root_version(&w->root);
}

static void pass_on(ranks_world *w, ranks_rank *r) {
    mu_relay_tree *t = &r->tree;
    const mu_wire_weights f = {.version = t->version, .block = TREE_BLOCK, .floats = t->block[t->ready]};
    for (int k = 0; k < 2; k++) {
        if (t->wanted[k] < 0 || t->version <= t->wanted[k]) continue;
        t->wanted[k] = -1;
        send_weights(w, r->rank, 2 * r->rank + 1 + k, tree_topic(r, t->ready), &f);
    }
}

void ranks_tell(ranks_world *w, ranks_rank *r) {
    for (int g = w->plan.own_groups; g < w->plan.groups && ranks_leads(r); g++)
        if (w->pending[g].rows && !r->owed[MU_TOPIC_GROUP + g]) tell_grant(w, g);
    if (!goes_on(w)) return;
    if (!ranks_leads(r)) ask_above(w, r);
    else if (r->tree.wanted[0] >= 0 || r->tree.wanted[1] >= 0) copy_root(w, r);
    pass_on(w, r);
}

// ---- frames ----

static void take_ask(ranks_world *w, ranks_rank *r, int peer, const mu_wire_ask *f) {
    const int child = peer - 2 * r->rank - 1, group = f->learner / w->plan.own;
    mu_err err = {0};
    if (f->what == MU_ASK_WEIGHTS && goes_on(w) && (child == 0 || child == 1)) {
        r->tree.wanted[child] = f->version;
    } else if (f->what != MU_ASK_BEGIN || !ranks_leads(r) || rank_of(w, group) != peer) {
        unexpected(w, peer, "a question");
    } else {
        ranks_check(w, mu_root_complete(&w->root, group, f->version, &err), &err);
    }
}

static void take_stop(ranks_world *w, ranks_rank *r, const mu_wire_stop *f) {
    SIM_TRACE(w, "stop     rank %d: %d at %" PRId64, r->rank, f->why, f->version);
    if (f->why == MU_STOP_ENDED) {
        r->closed = !ranks_leads(r);
        return;
    }
    r->asked = true;
    if (ranks_leads(r)) {
        r->wants_stop = true;
        return;
    }
    r->stop_at = f->version;
    r->stops = true;
}

static void take_part(ranks_world *w, ranks_rank *r, int peer, const mu_wire *f) {
    const int group = f->type == MU_WIRE_SUM    ? f->sum.group
                      : f->type == MU_WIRE_PUSH ? f->push.id.learner / w->plan.own
                                                : f->lease.learner / w->plan.own;
    mu_err err = {0};
    if (!ranks_leads(r) || rank_of(w, group) != peer || (f->type == MU_WIRE_LEASE && !f->lease.ended)) {
        unexpected(w, peer, mu_wire_type_name(f->type));
    } else if (f->type == MU_WIRE_LEASE) {
        mu_root_leave(&w->root, group);
        ranks_book_left(w, group);
    } else if (f->type == MU_WIRE_PUSH) {
        ranks_check(w, mu_root_put(&w->root, &f->push, &err), &err);
    } else {
        ranks_check(w, mu_root_put_sum(&w->root, &f->sum, MU_HALF_NONE, &err), &err);
    }
}

static void take(ranks_world *w, ranks_rank *r, const ranks_letter *l) {
    mu_wire f;
    mu_err err = {0};
    if (mu_wire_unpack(&w->shape, l->data, l->bytes, &f, &err) != MU_OK) {
        ranks_wrong(w, "a frame of rank %d: %s", l->from, err.msg);
        return;
    }
    switch (f.type) {
    case MU_WIRE_LEASE:
        if (ranks_leads(r)) take_part(w, r, l->from, &f);
        else take_lease(w, r, &f.lease);
        break;
    case MU_WIRE_PUSH:
    case MU_WIRE_SUM:
        take_part(w, r, l->from, &f);
        break;
    case MU_WIRE_ASK:
        take_ask(w, r, l->from, &f.ask);
        break;
    case MU_WIRE_GRANT:
        take_grant(w, r, &f.grant);
        break;
    case MU_WIRE_WEIGHTS:
        if (goes_on(w) && f.weights.block == TREE_BLOCK) take_from_above(w, r, l->from, &f.weights);
        else take_granted(w, r, &f.weights);
        break;
    default:
        take_stop(w, r, &f.stop);
        break;
    }
}

void ranks_take_all(ranks_world *w, ranks_rank *r) {
    while (r->inbox >= 0 && ranks_good(w)) {
        const int32_t k = r->inbox;
        r->inbox = w->letter[k].next;
        take(w, r, &w->letter[k]);
        w->letter[k].next = w->free_letter;
        w->free_letter = k;
    }
}

