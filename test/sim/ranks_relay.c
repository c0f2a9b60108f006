// SPDX-License-Identifier: Apache-2.0
// ranks_relay.c - the parent of a rank: learners/relay.c and relay_wire.c step by step, with simulated slots,
// weights and links in place of shared memory and a transport. What it does to the root, it does to the real
// one.
#include "sim/ranks.h"

#include <inttypes.h>
#include <string.h>

enum { TREE_BLOCK = 1 };

static bool goes_on(const ranks_world *w) { return w->plan.architecture == MU_ARCHITECTURE_ADV_STAR; }
static int rank_of(const ranks_world *w, int group) { return group / w->plan.own_groups; }
static int64_t in_step(ranks_world *w) { return mu_root_steps_in_step(&w->training); }
static bool waits(ranks_world *w, int64_t step) { return !goes_on(w) || step < in_step(w); }
static mu_node_topic topic_of(const ranks_group *g) { return mu_node_topic_of_step(g->step); }
static int64_t first_version(const ranks_world *w) { return w->plan.at.step + w->plan.at.extra_updates; }

static void unexpected(ranks_world *w, int peer, const char *what) {
    ranks_wrong(w, "rank %d sent %s, which is not due", peer, what);
}

// ---- a step ----

static void say_left(ranks_world *w, ranks_group *g) {
    const mu_wire f = {.type = MU_WIRE_LEASE,
                       .lease = {.learner = g->number * w->plan.own, .incarnation = 1, .ended = 1}};
    g->left = true;
    SIM_TRACE(w, "left     group %d before step %" PRId64, g->number, g->step);
    if (ranks_mutant_is(w, RANKS_M_NO_LEAVE)) return;
    if (g->rank != 0) {
        ranks_send(w, g->rank, 0, MU_TOPIC_WORD, &f);
        return;
    }
    mu_root_leave(&w->root, g->number);
    ranks_book_left(w, g->number);
}

static void begin_step(ranks_world *w, ranks_group *g) {
    const ranks_rank *r = ranks_of(w, g);
    int n = 0;
    if (r->stop_at && g->step >= r->stop_at && !g->stopped) return;
    for (int i = 0; i < w->plan.own; i++) {
        const mu_core_learner *l = mu_core_learner_at(g->core, i);
        g->takes_part[i] = l->working || mu_core_step(l) > g->step;
        n += g->takes_part[i];
    }
    if (n == 0) {
        say_left(w, g);
        return;
    }
    g->begun = true;
    g->complete = g->formed = g->given = g->added = g->sent = false;
    g->n_found = g->n_sent = 0;
}

static bool is_given_up(const ranks_world *w, const ranks_group *g) {
    bool any = ranks_mutant_is(w, RANKS_M_NOT_GIVEN_UP);
    for (int i = 0; i < w->plan.own; i++) {
        const mu_core_learner *l = mu_core_learner_at(g->core, i);
        any |= l->working || mu_core_step(l) > g->step;
    }
    return !any;
}

static const float *dense_in(ranks_world *w, const char *slot, int param) {
    const mu_message_use use = {.form = MU_GRAD_DENSE};
    mu_message_span span[MU_MESSAGE_SPANS];
    mu_message_spans(&w->forms.message, param, &w->param[param], &use, span);
    return (const float *)(const void *)(slot + span[0].offset);
}

static bool add_sums(ranks_world *w, ranks_group *g) {
    const int own = w->plan.own, slot = (int)(g->step % MU_CORE_SLOTS);
    float *sum = g->sum[slot];
    bool ready = !g->added;
    for (int i = 0; i < own && ready && !ranks_mutant_is(w, RANKS_M_OLD_MESSAGE); i++)
        ready = !g->takes_part[i] || g->done[i] > g->step || g->learner[i].marked[slot] == g->step;
    if (!ready) return false;
    if (!ranks_mutant_is(w, RANKS_M_SUM_TWICE)) memset(sum, 0, sizeof g->sum[slot]);
    for (int i = 0; i < own - ranks_mutant_is(w, RANKS_M_SUM_SHORT); i++) {
        const float *from = dense_in(w, g->learner[i].slot[slot], 0);
        for (int k = 0; k < RANKS_PART && g->takes_part[i]; k++) sum[k] += from[k];
    }
    return g->added = true;
}

static bool find_pushes(ranks_group *g) {
    const int before = g->n_found;
    for (int i = 0; i < g->core->fifo_n; i++) {
        const mu_gradient_id *id = &mu_core_waiting(g->core, i)->id;
        if (id->step != g->step || g->done[id->learner] > g->step) continue;
        g->found[g->n_found++] = *id;
        g->done[id->learner] = g->step + 1;
    }
    return g->n_found > before;
}

static bool is_complete(const ranks_world *w, const ranks_group *g) {
    bool all = g->added;
    for (int i = 0; i < w->plan.own; i++) all &= !g->takes_part[i] || g->done[i] > g->step;
    return all;
}

static bool form(ranks_world *w, ranks_group *g) {
    if (!mu_core_form(g->core)) return false;
    SIM_TRACE(w, "formed   group %d step %" PRId64, g->number, g->step);
    ranks_wake(w, g);
    return true;
}

static void commit(ranks_world *w, ranks_group *g) {
    mu_core_applied(g->core);
    SIM_TRACE(w, "over     group %d step %" PRId64, g->number, g->step);
    ranks_wake(w, g);
    ranks_progress(w);
}

// ---- sending ----

static void send_push(ranks_world *w, ranks_group *g, const mu_gradient_id *id) {
    const int slot = (int)(id->step % MU_CORE_SLOTS);
    mu_wire f = {.type = MU_WIRE_PUSH,
                 .push = {.id = *id,
                          .scale = 1,
                          .loss = 1,
                          .accuracy = 0.5,
                          .global_rows = w->plan.setup.global_batch,
                          .params = 2,
                          .slot = g->learner[id->learner].slot[slot]}};
    f.push.id.learner += g->number * w->plan.own;
    f.push.id.version = ranks_mutant_is(w, RANKS_M_FALSE_VERSION) ? g->version : g->used[slot];
    mu_err err = {0};
    if (g->rank == 0) ranks_check(w, mu_root_put(&w->root, &f.push, &err), &err);
    else ranks_send(w, g->rank, 0, topic_of(g), &f);
}

static void send_sum(ranks_world *w, ranks_group *g) {
    const float *sum = g->sum[g->step % MU_CORE_SLOTS];
    mu_err err = {0};
    for (int at = 0; at < RANKS_PART; at += RANKS_PART / 2) {
        const int to = at + RANKS_PART / 2;
        const mu_wire f = {.type = MU_WIRE_SUM,
                           .sum = {.rank = g->rank,
                                   .group = g->number,
                                   .number = g->step,
                                   .version = g->used[g->step % MU_CORE_SLOTS],
                                   .begin = at,
                                   .end = to,
                                   .floats = sum + at}};
        if (g->rank != 0) ranks_send(w, g->rank, 0, topic_of(g), &f);
        else ranks_check(w, mu_root_put_sum(&w->root, g->number, g->step, at, to, sum + at, &err), &err);
    }
}

static void send_complete(ranks_world *w, ranks_group *g) {
    const mu_wire f = {
        .type = MU_WIRE_ASK,
        .ask = {
            .learner = g->number * w->plan.own, .incarnation = 1, .what = MU_ASK_BEGIN, .version = g->step}};
    mu_err err = {0};
    g->complete = true;
    ranks_book_whole(w, g);
    SIM_TRACE(w, "complete group %d step %" PRId64, g->number, g->step);
    for (int n = 0; n <= ranks_mutant_is(w, RANKS_M_COMPLETE_TWICE); n++) {
        if (g->rank != 0) ranks_send(w, g->rank, 0, topic_of(g), &f);
        else ranks_check(w, mu_root_complete(&w->root, g->number, g->step, &err), &err);
    }
}

static bool send_step(ranks_world *w, ranks_group *g) {
    bool moved = false;
    if ((g->granted <= g->step && !ranks_mutant_is(w, RANKS_M_NO_GRANT)) || g->complete) return false;
    if (g->added && !g->sent) {
        send_sum(w, g);
        g->sent = moved = true;
    }
    for (; g->n_sent < g->n_found; moved = true) send_push(w, g, &g->found[g->n_sent++]);
    if (!is_complete(w, g)) return moved;
    send_complete(w, g);
    return true;
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

static bool give(ranks_world *w, ranks_group *g) {
    const ranks_rank *r = ranks_of(w, g);
    const bool must_wait = waits(w, g->step + 1);
    if (must_wait && g->granted <= g->step + 1) return false;
    if (ranks_leads(r)) return install(w, g, w->root.value, mu_root_version(&w->root));
    if (!must_wait) return install(w, g, r->tree.block[r->tree.ready], r->tree.version);
    if (g->coming && g->came < RANKS_FLOATS) return false;
    return has_all(w, g, g->coming ? g->coming : g->version);
}

static bool is_free(ranks_world *w, const ranks_group *g) {
    return g->complete && (!ranks_of(w, g)->owed[topic_of(g)] || ranks_mutant_is(w, RANKS_M_SLOT_LENT));
}

static bool go_on(ranks_world *w, ranks_group *g) {
    if (g->begun && g->stopped && !g->formed && is_given_up(w, g)) g->begun = false;
    if (!g->begun) begin_step(w, g);
    if (!g->begun) return false;
    const bool early = ranks_mutant_is(w, RANKS_M_EARLY_WEIGHTS);
    bool moved = add_sums(w, g);
    moved |= find_pushes(g);
    moved |= send_step(w, g);
    if (!g->formed && is_complete(w, g)) moved |= g->formed = form(w, g);
    if ((g->formed || early) && !g->given) moved |= g->given = give(w, g);
    if (!g->formed || !g->given || !is_free(w, g)) return moved;
    commit(w, g);
    g->step++;
    g->begun = false;
    return true;
}

// ---- grants ----

mu_status ranks_granted(void *ctx, int group, const mu_grant *grant, MU_UNUSED mu_err *err) {
    ranks_world *w = ctx;
    SIM_TRACE(w, "grant    group %d step %" PRId64 " version %" PRId64, group, grant->step, grant->version);
    ranks_book_granted(w, group, grant);
    if (rank_of(w, group) == 0) w->group[group].granted = grant->step + 1;
    else w->pending[group] = *grant;
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
    const bool first = grant->step == 0 && !ranks_mutant_is(w, RANKS_M_FIRST_WEIGHTS);
    const bool newer = !first && waits(w, grant->step) && version > g->sent;
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

static void take_grant(ranks_world *w, ranks_rank *r, const mu_wire_grant *f) {
    const int i = f->learner / w->plan.own - r->first;
    ranks_group *g = i < 0 || i >= w->plan.own_groups ? NULL : &w->group[r->first + i];
    if (!g || f->answer != MU_GO || f->grant.step != g->granted) {
        unexpected(w, 0, "a grant");
        return;
    }
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

static void tell(ranks_world *w, ranks_rank *r) {
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
    if (!ranks_leads(r) || rank_of(w, group) != peer) {
        unexpected(w, peer, mu_wire_type_name(f->type));
    } else if (f->type == MU_WIRE_LEASE) {
        mu_root_leave(&w->root, group);
        ranks_book_left(w, group);
    } else if (f->type == MU_WIRE_PUSH) {
        ranks_check(w, mu_root_put(&w->root, &f->push, &err), &err);
    } else {
        const mu_wire_sum *s = &f->sum;
        ranks_check(w, mu_root_put_sum(&w->root, group, s->number, s->begin, s->end, s->floats, &err), &err);
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
    case MU_WIRE_PUSH:
    case MU_WIRE_SUM:
    case MU_WIRE_LEASE:
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

static void take_all(ranks_world *w, ranks_rank *r) {
    while (r->inbox >= 0 && ranks_good(w)) {
        const int32_t k = r->inbox;
        r->inbox = w->letter[k].next;
        take(w, r, &w->letter[k]);
        w->letter[k].next = w->free_letter;
        w->free_letter = k;
    }
}

// ---- the end ----

static bool end_group(ranks_world *w, ranks_group *g) {
    mu_core_set_halt(g->core, INT64_MAX);
    mu_core_stop(g->core);
    ranks_wake(w, g);
    return true;
}

static bool stop_group(ranks_world *w, const ranks_rank *r, ranks_group *g) {
    if (!r->stop_at) return end_group(w, g);
    if (!g->halts) {
        mu_core_set_halt(g->core, first_version(w) + r->stop_at);
        ranks_wake(w, g);
    }
    g->halts = true;
    return !g->begun && g->step >= r->stop_at && end_group(w, g);
}

static void stop_when_due(ranks_world *w, ranks_rank *r) {
    for (int i = 0; i < w->plan.own_groups && r->stops; i++) {
        ranks_group *g = &w->group[r->first + i];
        if (g->stopped) continue;
        g->stopped = stop_group(w, r, g);
        if (g->stopped) ranks_poke(w, r);
    }
}

static void send_all(ranks_world *w, const mu_wire *f) {
    for (int k = 1; k < w->plan.ranks; k++) {
        const bool ends = f->stop.why == MU_STOP_ENDED;
        if (ends || k != 1 || !ranks_mutant_is(w, RANKS_M_NO_STOP)) ranks_send(w, 0, k, MU_TOPIC_WORD, f);
    }
}

static void say_stop(ranks_world *w, ranks_rank *r) {
    if (r->said_stop) return;
    r->said_stop = true;
    for (int g = 0; g < w->plan.groups && ranks_leads(r); g++)
        if (w->root.group[g].granted >= r->stop_at)
            r->stop_at = w->root.group[g].granted + !ranks_mutant_is(w, RANKS_M_EARLY_STOP);
    if (r->stop_at > in_step(w)) r->stop_at = 0;
    r->stops |= ranks_leads(r);
    const mu_wire f = {.type = MU_WIRE_STOP, .stop = {.why = MU_STOP_ASKED, .version = r->stop_at}};
    if (ranks_leads(r)) send_all(w, &f);
    else ranks_send(w, r->rank, 0, MU_TOPIC_WORD, &f);
    ranks_poke(w, r);
}

static bool own_have_ended(const ranks_world *w, const ranks_rank *r) {
    const int n = w->plan.own_groups * w->plan.own;
    for (int i = 0; i < n; i++)
        if (w->learner[r->first * w->plan.own + i].state != RANKS_ENDED) return false;
    return true;
}

static void see_end(ranks_world *w, ranks_rank *r) {
    if (r->closed || !ranks_leads(r) || !own_have_ended(w, r) || !mu_root_is_left(&w->root)) return;
    const mu_wire f = {.type = MU_WIRE_STOP, .stop = {.why = MU_STOP_ENDED}};
    r->closed = true;
    send_all(w, &f);
}

// ---- one look ----

void ranks_look(ranks_world *w, ranks_rank *r) {
    mu_err err = {0};
    take_all(w, r);
    stop_when_due(w, r);
    for (bool moved = true; moved && ranks_good(w);) {
        moved = false;
        for (int i = 0; i < w->plan.own_groups; i++)
            if (!w->group[r->first + i].left) moved |= go_on(w, &w->group[r->first + i]);
        if (!ranks_leads(r)) continue;
        ranks_check(w, mu_root_go_on(&w->root, &err), &err);
        ranks_book_look(w);
    }
    tell(w, r);
    stop_when_due(w, r); // as at the beginning of the next look, which comes by itself there
    if (r->wants_stop) say_stop(w, r);
    see_end(w, r);
}
