// SPDX-License-Identifier: Apache-2.0
// ranks_relay.c - the parent of a rank: learners/relay.c in steps, with simulated slots, weights and links in
// place of shared memory and a transport. What it does to the root, it does to the real one.
#include "sim/ranks.h"

#include <inttypes.h>
#include <string.h>

static int64_t in_step(ranks_world *w) { return mu_root_steps_in_step(&w->training); }
static mu_node_topic topic_of(const ranks_group *g) { return mu_node_topic_of_step(g->step); }
static int64_t first_version(const ranks_world *w) { return w->plan.at.step + w->plan.at.extra_updates; }

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

// As mu_shared_begin, where a process that was stopped may hold the lock of the group's core.
static bool has_lock(ranks_world *w, const ranks_group *g) {
    ranks_rank *r = ranks_of(w, g);
    if (!sim_chance(&w->rng, w->plan.locked)) return true;
    const int64_t nap = w->plan.compute / 64 + ranks_time(w, w->plan.look);
    if (!r->look_due) ranks_post(w, nap, RANKS_LOOK, r->rank, 0);
    r->look_due = true; // by itself, when it has waited
    return false;
}

static int64_t end_of(const ranks_rank *r, const ranks_group *g) {
    return g->last ? g->granted : r->stops && r->stop_at ? r->stop_at : INT64_MAX;
}

static bool set_halt(ranks_world *w, ranks_group *g, int64_t may) {
    if (!has_lock(w, g)) return false;
    if (ranks_mutant_is(w, RANKS_M_BEYOND_END)) may = atomic_load(&g->deal.known);
    mu_core_set_halt(g->core, ranks_mutant_is(w, RANKS_M_NO_HALT) ? INT64_MAX : first_version(w) + may);
    ranks_wake(w, g);
    return true;
}

static void follow_deal(ranks_world *w, ranks_group *g) {
    const int64_t known = atomic_load(&g->deal.known), end = end_of(ranks_of(w, g), g);
    const int64_t may = known < end ? known : end;
    if (may != g->may && set_halt(w, g, may)) g->may = may;
}

static void begin_step(ranks_world *w, ranks_group *g) {
    const bool dealt = atomic_load(&g->deal.known) > g->step;
    int n = 0;
    if (!g->stopped && (g->step >= end_of(ranks_of(w, g), g) || !dealt)) return;
    if (!has_lock(w, g)) return;
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

static bool is_given_up(ranks_world *w, const ranks_group *g) {
    bool any = ranks_mutant_is(w, RANKS_M_NOT_GIVEN_UP);
    if (!has_lock(w, g)) return false;
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

static bool find_pushes(ranks_world *w, ranks_group *g) {
    const int before = g->n_found;
    if (!g->core->fifo_n || !has_lock(w, g)) return false;
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
    if (!has_lock(w, g) || !mu_core_form(g->core)) return false;
    SIM_TRACE(w, "formed   group %d step %" PRId64, g->number, g->step);
    ranks_wake(w, g);
    return true;
}

static bool commit(ranks_world *w, ranks_group *g) {
    if (!has_lock(w, g)) return false;
    mu_core_applied(g->core);
    SIM_TRACE(w, "over     group %d step %" PRId64, g->number, g->step);
    ranks_wake(w, g);
    ranks_progress(w);
    return true;
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
        else ranks_check(w, mu_root_put_sum(&w->root, &f.sum, MU_HALF_NONE, &err), &err);
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
    if (!g->formed && !ranks_mutant_is(w, RANKS_M_EARLY_COMPLETE)) return moved;
    if (!is_complete(w, g)) return moved;
    send_complete(w, g);
    return true;
}

// ---- one step, in a look ----

static bool is_free(ranks_world *w, const ranks_group *g) {
    return g->complete && (!ranks_of(w, g)->owed[topic_of(g)] || ranks_mutant_is(w, RANKS_M_SLOT_LENT));
}

static bool is_to_halt(ranks_world *w, const ranks_group *g) {
    return g->may > end_of(ranks_of(w, g), g);
}

static bool go_on(ranks_world *w, ranks_group *g) {
    follow_deal(w, g);
    if (g->begun && g->stopped && !g->formed && is_given_up(w, g)) g->begun = false;
    if (!g->begun) begin_step(w, g);
    if (!g->begun) return false;
    const bool early = ranks_mutant_is(w, RANKS_M_EARLY_WEIGHTS);
    bool moved = add_sums(w, g);
    moved |= find_pushes(w, g);
    if (!g->formed && !is_to_halt(w, g) && is_complete(w, g)) moved |= g->formed = form(w, g);
    moved |= send_step(w, g);
    if ((g->formed || early) && !g->given) moved |= g->given = ranks_give(w, g);
    if (!g->formed || !g->given || !is_free(w, g) || !commit(w, g)) return moved;
    g->step++;
    g->begun = false;
    return true;
}

// ---- the end ----

static bool end_group(ranks_world *w, ranks_group *g) {
    if (!has_lock(w, g)) return false;
    mu_core_set_halt(g->core, INT64_MAX);
    mu_core_stop(g->core);
    ranks_wake(w, g);
    return true;
}

static bool stop_group(ranks_world *w, const ranks_rank *r, ranks_group *g) {
    const int64_t end = end_of(r, g);
    if (end == INT64_MAX) return end_group(w, g);
    return g->may <= end && !g->begun && g->step >= end && end_group(w, g);
}

static void stop_when_due(ranks_world *w, ranks_rank *r) {
    for (int i = 0; i < w->plan.own_groups; i++) {
        ranks_group *g = &w->group[r->first + i];
        if ((!r->stops && !g->last) || g->stopped) continue;
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
    ranks_take_all(w, r);
    stop_when_due(w, r);
    for (bool moved = true; moved && ranks_good(w);) {
        moved = false;
        for (int i = 0; i < w->plan.own_groups; i++)
            if (!w->group[r->first + i].left) moved |= go_on(w, &w->group[r->first + i]);
        if (!ranks_leads(r)) continue;
        ranks_check(w, mu_root_go_on(&w->root, &err), &err);
        ranks_book_look(w);
    }
    ranks_tell(w, r);
    stop_when_due(w, r); // as at the beginning of the next look, which comes by itself there
    if (r->wants_stop) say_stop(w, r);
    see_end(w, r);
}
