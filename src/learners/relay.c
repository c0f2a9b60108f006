// SPDX-License-Identifier: Apache-2.0
// relay.c - see relay.h.
#include "learners/relay_inner.h"

#include "base/clock.h"

#include <sched.h>
#include <string.h>

#define TAG "relay"
#define NAP_NS 100000   // between two looks for frames while own learners compute
#define SPIN_NS 5000000 // so long it looks again at once

// ---- beginning and end of the struct ----

static mu_status make_group(mu_relay *r, int i, mu_server_group *group, mu_err *err) {
    mu_relay_group *g = &r->group[i];
    const mu_wire_forms *f = &r->nodes->forms;
    const size_t own = (size_t)r->own, params = (size_t)f->message.n;
    const size_t floats = (size_t)mu_wire_forms_floats(f);
    *g = (mu_relay_group){.group = group,
                          .number = mu_setup_first_group(&r->t->s->setup) + i,
                          .adding = {f, &group->shared, 0, r->own},
                          .deal = &((mu_learners_room *)group->shared.extra)->deal,
                          .version = r->first_version,
                          .used = {r->first_version, r->first_version}};
    g->takes_part = mu_alloc_array(own, sizeof *g->takes_part, TAG);
    g->done = mu_alloc_array(own, sizeof *g->done, TAG);
    g->found = mu_alloc_array(own, sizeof *g->found, TAG);
    g->added = mu_alloc_array(params, sizeof *g->added, TAG);
    g->sent = mu_alloc_array(params, sizeof *g->sent, TAG);
    bool good = g->takes_part && g->done && g->found && g->added && g->sent;
    for (int k = 0; k < MU_CORE_SLOTS && floats && good; k++)
        good = (g->sum[k] = mu_alloc_block(floats * sizeof(float), TAG)) != NULL;
    if (!good) return MU_FAIL_NOMEM(err, "the gradients for rank 0");
    const bool sends = floats && !mu_relay_leads(r);
    MU_TRY(mu_halves_init(&g->halves, sends ? f->half : MU_HALF_NONE, (int64_t)floats, err));
    if (mu_server_set_halt(&group->shared, r->first_version)) return MU_OK; // nothing is dealt yet
    return MU_FAIL(err, MU_EBACKEND, "the core of group %d cannot be told to wait", g->number);
}

// Of rank 0: copies of the weights, on their way to groups of other ranks.
static mu_status make_root(mu_relay *r, bool hold, mu_err *err) {
    const size_t bytes = r->t->s->params->count * sizeof(float);
    const mu_root_opts o = {r->t,          &r->nodes->shape, &r->nodes->forms, hold,
                            relay_granted, relay_dealt,      r};
    MU_TRY(mu_root_open(&r->root, &o, err));
    const int far = r->root.n - r->n;
    r->out = mu_alloc_array((size_t)far, sizeof *r->out, TAG);
    r->pending = mu_alloc_array((size_t)r->root.n, sizeof *r->pending, TAG);
    bool good = r->out && r->pending;
    for (int g = 0; g < far && good; g++) good = (r->out[g] = mu_alloc_block(bytes, TAG)) != NULL;
    return good ? MU_OK : MU_FAIL_NOMEM(err, "weights for other ranks");
}

mu_status mu_relay_open(mu_relay *r, mu_nodes *n, mu_server_group *group, bool hold, mu_err *err) {
    *r = (mu_relay){0};
    if (!n || !mu_setup_is_relayed(&group->t->s->setup)) return MU_OK;
    const mu_setup *p = &group->t->s->setup;
    r->nodes = n, r->t = group->t;
    r->n = mu_setup_own_groups(p), r->own = p->learners / p->server_groups;
    r->goes_on = p->architecture == MU_ARCHITECTURE_ADV_STAR;
    r->in_step = mu_root_steps_in_step(r->t);
    r->first_version = r->t->at.step + r->t->at.extra_updates;
    r->crowded = mu_nodes_share_host(n);
    r->group = mu_alloc_array((size_t)r->n, sizeof *r->group, TAG);
    if (!r->group) return MU_FAIL_NOMEM(err, "the groups of this rank");
    for (int i = 0; i < r->n; i++) MU_TRY(make_group(r, i, &group[i], err));
    MU_TRY(mu_gathering_init(&r->gathering, n, err));
    if (mu_relay_leads(r)) MU_TRY(make_root(r, hold, err));
    if (r->goes_on) MU_TRY(relay_tree_open(r, err));
    n->take = relay_take;
    n->ctx = r;
    return MU_OK;
}

void mu_relay_close(mu_relay *r) {
    if (!r->nodes) return;
    mu_nodes *n = r->nodes;
    n->take = NULL;
    for (int i = 0; i < r->n && r->group; i++) {
        mu_relay_group *g = &r->group[i];
        mu_free(g->takes_part);
        mu_free(g->done);
        mu_free(g->found);
        mu_free(g->added);
        mu_free(g->sent);
        for (int k = 0; k < MU_CORE_SLOTS; k++) mu_nodes_give_back(n, g->sum[k]);
        mu_halves_fini(&g->halves, n);
    }
    for (int g = 0; g < r->root.n - r->n && r->out; g++) mu_nodes_give_back(n, r->out[g]);
    for (int k = 0; k < 2; k++) mu_nodes_give_back(n, r->tree.block[k]);
    mu_free(r->out);
    mu_free(r->pending);
    mu_free(r->group);
    mu_gathering_fini(&r->gathering);
    mu_root_close(&r->root);
    *r = (mu_relay){0};
}

// ---- a step ----

static mu_shared *shared_of(mu_relay_group *g) { return &g->group->shared; }
static mu_node_topic topic_of(const mu_relay_group *g) { return mu_node_topic_of_step(g->step); }
// Of the group's own core, in which every step is an update.
static int64_t version_of(const mu_relay *r, int64_t step) { return r->first_version + step; }

static mu_status say_left(mu_relay *r, mu_relay_group *g, mu_err *err) {
    const mu_wire w = {.type = MU_WIRE_LEASE,
                       .lease = {.learner = g->number * r->own, .incarnation = 1, .ended = 1}};
    g->left = true;
    if (!mu_relay_leads(r)) return mu_nodes_send(r->nodes, 0, MU_TOPIC_WORD, &w, err);
    mu_root_leave(&r->root, g->number);
    return MU_OK;
}

// Steps behind which its learners are to end; INT64_MAX = they are not.
static int64_t end_of(const mu_relay *r, const mu_relay_group *g) {
    return g->last ? g->granted : r->stops && r->stop_at ? r->stop_at : INT64_MAX;
}

// Its learners begin no step whose samples are not dealt, and none behind the end.
static void follow_deal(const mu_relay *r, mu_relay_group *g) {
    const int64_t known = atomic_load(&g->deal->known), end = end_of(r, g), may = known < end ? known : end;
    if (may != g->may && mu_server_set_halt(shared_of(g), version_of(r, may))) g->may = may;
}

// Who takes part: in the last step perhaps not all. -1: it cannot be seen now.
static int look_who_takes_part(const mu_relay *r, mu_relay_group *g) {
    mu_core *c = mu_shared_begin(shared_of(g));
    int n = 0;
    if (!c) return -1;
    for (int i = 0; i < r->own; i++) {
        const mu_core_learner *l = mu_core_learner_at(c, i);
        g->takes_part[i] = l->working || mu_core_step(l) > g->step;
        n += g->takes_part[i];
    }
    mu_shared_cancel(shared_of(g));
    return n;
}

// Nobody takes part: the group has ended.
static mu_status begin_step(mu_relay *r, mu_relay_group *g, mu_err *err) {
    const bool dealt = atomic_load(&g->deal->known) > g->step;
    if (!g->stopped && (g->step >= end_of(r, g) || !dealt)) return MU_OK; // the end comes first
    const int n = look_who_takes_part(r, g);
    if (n < 0) return MU_OK;
    if (n == 0) return say_left(r, g, err);
    g->begun = true;
    g->complete = g->formed = g->given = false;
    g->n_found = g->n_sent = 0;
    memset(g->added, 0, (size_t)g->adding.forms->message.n * sizeof *g->added);
    memset(g->sent, 0, (size_t)g->adding.forms->message.n * sizeof *g->sent);
    return MU_OK;
}

// Learners that were told to end before one of them began the step bring nothing to it: one that died in it
// may have been the only one. (A step that one has begun is finished by all.)
static bool is_given_up(const mu_relay *r, mu_relay_group *g) {
    mu_core *c = mu_shared_begin(shared_of(g));
    bool any = false;
    if (!c) return false;
    for (int i = 0; i < r->own; i++) {
        const mu_core_learner *l = mu_core_learner_at(c, i);
        any |= l->working || mu_core_step(l) > g->step;
    }
    mu_shared_cancel(shared_of(g));
    return !any;
}

static bool add_sums(mu_relay_group *g) {
    const mu_wire_forms *f = g->adding.forms;
    const mu_adding_step now = {g->step, g->takes_part, g->done};
    bool moved = false;
    for (int i = f->message.n - 1; i >= 0; i--) { // the last layers are ready first
        if (!f->summed[i] || g->added[i] || !mu_adding_is_ready(&g->adding, &now, i)) continue;
        mu_adding_add(&g->adding, &now, i, g->sum[g->step % MU_CORE_SLOTS] + f->at[i]);
        g->added[i] = moved = true;
    }
    return moved;
}

static bool find_pushes(mu_relay_group *g) {
    mu_shared *s = shared_of(g);
    const int before = g->n_found;
    if (!atomic_load(&s->head->waiting)) return false;
    mu_core *c = mu_shared_begin(s);
    if (!c) return false;
    for (int i = 0; i < c->fifo_n; i++) {
        const mu_gradient_id *id = &mu_core_waiting(c, i)->id;
        if (id->step != g->step || g->done[id->learner] > g->step) continue;
        g->found[g->n_found++] = *id;
        g->done[id->learner] = g->step + 1;
    }
    mu_shared_cancel(s);
    return g->n_found > before;
}

static bool is_complete(const mu_relay *r, const mu_relay_group *g) {
    const mu_wire_forms *f = g->adding.forms;
    bool all = true;
    for (int i = 0; i < r->own; i++) all &= !g->takes_part[i] || g->done[i] > g->step;
    for (int i = 0; i < f->message.n && all; i++) all = !f->summed[i] || g->added[i];
    return all;
}

// The core's update: it is over when mu_core_applied says so. Learners are granted the next step from now on,
// and wait for each layer's weights.
static bool form(mu_relay_group *g) {
    mu_shared *s = shared_of(g);
    mu_core *c = mu_shared_begin(s);
    if (!c) return false;
    const bool formed = mu_core_form(c);
    if (formed) mu_shared_commit(s);
    else mu_shared_cancel(s);
    for (int i = 0; i < s->head->n_processes && formed; i++) mu_bell_ring(&s->learner[i].turn);
    return formed;
}

static bool commit(mu_relay_group *g) {
    mu_shared *s = shared_of(g);
    mu_core *c = mu_shared_begin(s);
    if (!c) return false;
    mu_core_applied(c);
    mu_shared_commit(s);
    mu_bell_ring(&s->head->turn);
    for (int i = 0; i < s->head->n_processes; i++) mu_bell_ring(&s->learner[i].turn);
    return true;
}

// ---- sending ----

static mu_status send_push(mu_relay *r, mu_relay_group *g, const mu_gradient_id *id, mu_err *err) {
    const mu_shared *s = shared_of(g);
    const mu_slot_head *h = mu_shared_slot_head(s, id->learner, (int)(id->step % MU_CORE_SLOTS));
    mu_wire w = {.type = MU_WIRE_PUSH,
                 .push = {.id = *id,
                          .bad = h->bad,
                          .scale = h->scale,
                          .loss = h->loss,
                          .accuracy = atomic_load(&s->learner[id->learner].accuracy),
                          .global_rows = h->global_rows,
                          .params = g->adding.forms->message.n,
                          .slot = mu_adding_message(&g->adding, id->learner, id->step)}};
    w.push.id.learner += g->number * r->own;
    w.push.id.version = g->used[g->step % MU_CORE_SLOTS];
    if (mu_relay_leads(r)) return mu_root_put(&r->root, &w.push, err);
    return mu_nodes_send(r->nodes, 0, topic_of(g), &w, err);
}

static mu_status send_sum(mu_relay *r, mu_relay_group *g, int param, mu_err *err) {
    const mu_wire_forms *f = g->adding.forms;
    float *sum = g->sum[g->step % MU_CORE_SLOTS];
    mu_halves_round(&g->halves, g->step, f->at[param], (size_t)(f->at[param + 1] - f->at[param]),
                    sum + f->at[param]);
    for (int64_t at = f->at[param], end = f->at[param + 1], to; at < end; at = to) {
        to = at + relay_chunk(at - f->at[param]);
        to = to < end ? to : end;
        const mu_wire w = {.type = MU_WIRE_SUM,
                           .sum = {.rank = r->nodes->rank,
                                   .group = g->number,
                                   .number = g->step,
                                   .version = g->used[g->step % MU_CORE_SLOTS],
                                   .begin = at,
                                   .end = to,
                                   .floats = mu_halves_of(&g->halves, g->step, at, sum + at)}};
        if (mu_relay_leads(r)) MU_TRY(mu_root_put_sum(&r->root, &w.sum, MU_HALF_NONE, err));
        else MU_TRY(mu_nodes_send(r->nodes, 0, topic_of(g), &w, err));
    }
    return MU_OK;
}

// Its next step begins with those that it has by then.
static mu_status send_promise(mu_relay *r, mu_relay_group *g, mu_err *err) {
    const int64_t version = relay_newest(r, g);
    if (mu_relay_leads(r)) return mu_root_promise(&r->root, g->number, version, err);
    const mu_wire w = {
        .type = MU_WIRE_ASK,
        .ask = {.learner = g->number * r->own, .incarnation = 1, .what = MU_ASK_LEASE, .version = version}};
    return mu_nodes_send(r->nodes, 0, topic_of(g), &w, err);
}

static mu_status send_complete(mu_relay *r, mu_relay_group *g, mu_err *err) {
    if (!relay_waits(r, g->step + 1)) MU_TRY(send_promise(r, g, err));
    g->complete = true;
    if (mu_relay_leads(r)) return mu_root_complete(&r->root, g->number, g->step, err);
    const mu_wire w = {
        .type = MU_WIRE_ASK,
        .ask = {.learner = g->number * r->own, .incarnation = 1, .what = MU_ASK_BEGIN, .version = g->step}};
    return mu_nodes_send(r->nodes, 0, topic_of(g), &w, err);
}

static mu_status send_step(mu_relay *r, mu_relay_group *g, bool *moved, mu_err *err) {
    const mu_wire_forms *f = g->adding.forms;
    if (g->granted <= g->step || g->complete) return MU_OK;
    for (int i = f->message.n - 1; i >= 0; i--) {
        if (!f->summed[i] || !g->added[i] || g->sent[i]) continue;
        MU_TRY(send_sum(r, g, i, err));
        g->sent[i] = *moved = true;
    }
    for (; g->n_sent < g->n_found; *moved = true) MU_TRY(send_push(r, g, &g->found[g->n_sent++], err));
    if (!g->formed) return MU_OK; // the answer brings weights, which learners still read
    *moved = true;
    r->sent_ns = mu_clock_ns();
    return send_complete(r, g, err);
}

// ---- one look ----

// What is lent of this step has left: slots and sums may be written again.
static bool is_free(const mu_relay *r, const mu_relay_group *g) {
    return g->complete && !r->nodes->owed[topic_of(g)];
}

// Its learners must be told first where to end: they are granted the next step when this one is formed.
static bool is_to_halt(const mu_relay *r, const mu_relay_group *g) {
    return g->may > end_of(r, g);
}

static mu_status go_on(mu_relay *r, mu_relay_group *g, bool *moved, mu_err *err) {
    follow_deal(r, g);
    if (g->begun && g->stopped && !g->formed && is_given_up(r, g)) g->begun = false;
    if (!g->begun) MU_TRY(begin_step(r, g, err));
    if (!g->begun) return MU_OK;
    *moved |= add_sums(g);
    *moved |= find_pushes(g);
    if (!g->formed && !is_to_halt(r, g) && is_complete(r, g)) *moved |= g->formed = form(g);
    MU_TRY(send_step(r, g, moved, err));
    if (g->formed && !g->given) *moved |= g->given = relay_give(r, g);
    if (!g->given || !is_free(r, g) || !commit(g)) return MU_OK;
    g->step++;
    g->begun = false;
    *moved = true;
    return MU_OK;
}

// A group that is stopped ends behind the step that a learner has begun. Where all groups are in step they end
// before the same one, so that a resumed run goes on as this one would have; where samples are used up, there.
static bool stop_group(const mu_relay *r, mu_relay_group *g) {
    const int64_t end = end_of(r, g);
    if (end == INT64_MAX) return mu_server_group_end(g->group);
    return g->may <= end && !g->begun && g->step >= end && mu_server_group_end(g->group);
}

static void stop_when_due(mu_relay *r) {
    for (int i = 0; i < r->n; i++) {
        mu_relay_group *g = &r->group[i];
        if ((r->stops || g->last) && !g->stopped) g->stopped = stop_group(r, g);
    }
}

// Learners that wait for other ranks see that these are alive.
static void show_life(mu_relay *r) {
    if (r->nodes->bytes_received == r->moved && !mu_relay_leads(r)) return;
    r->moved = r->nodes->bytes_received;
    for (int i = 0; i < r->n; i++) atomic_fetch_add(&shared_of(&r->group[i])->head->held_pulse, 1);
}

// While own learners wait for other ranks their cores are free, and looking again at once costs nothing: for
// a while, and where no other rank needs them.
static void rest(const mu_relay *r, mu_bell *bell, uint32_t seen) {
    bool waits = !r->crowded && mu_clock_ns() - r->sent_ns < SPIN_NS;
    for (int i = 0; i < r->n; i++) waits &= r->group[i].complete && !r->group[i].given;
    if (waits) sched_yield();
    else (void)mu_bell_wait(bell, seen, 0, NAP_NS);
}

mu_status mu_relay_look(mu_relay *r, mu_bell *bell, int64_t limit_ns, mu_err *err) {
    const int64_t until = mu_clock_ns() + limit_ns;
    do {
        const uint32_t seen = mu_bell_read(bell);
        bool left = true;
        MU_TRY(mu_nodes_look(r->nodes, err));
        stop_when_due(r); // before a step is formed
        for (bool moved = true; moved;) {
            moved = false;
            for (int i = 0; i < r->n; i++)
                if (!r->group[i].left) MU_TRY(go_on(r, &r->group[i], &moved, err));
            if (mu_relay_leads(r)) MU_TRY(mu_root_go_on(&r->root, err));
        }
        MU_TRY(relay_tell(r, err));
        show_life(r);
        for (int i = 0; i < r->n; i++) left &= r->group[i].left;
        if (left && (r->closed || mu_relay_leads(r))) break;
        rest(r, bell, seen);
    } while (mu_clock_ns() < until);
    return MU_OK;
}

// ---- the end ----

mu_status mu_relay_say_stop(mu_relay *r, bool due, mu_err *err) {
    if (r->said_stop) return MU_OK;
    const bool leads = mu_relay_leads(r);
    r->said_stop = true;
    // Learners may have begun the step behind the last one granted, for whose weights they wait, but none
    // beyond; and each group hears of the end before it is granted more.
    for (int g = 0; g < r->root.n; g++)
        if (r->root.group[g].granted >= r->stop_at) r->stop_at = r->root.group[g].granted + 1;
    if (r->stop_at > r->in_step) r->stop_at = 0;
    r->stops |= leads;
    const mu_wire w = {.type = MU_WIRE_STOP,
                       .stop = {.why = due ? MU_STOP_DUE : MU_STOP_ASKED, .version = r->stop_at}};
    return mu_nodes_send(r->nodes, leads ? -1 : 0, MU_TOPIC_WORD, &w, err);
}

mu_status mu_relay_has_ended(mu_relay *r, bool *all, mu_err *err) {
    *all = r->closed;
    if (r->closed || !mu_relay_leads(r) || !mu_root_is_left(&r->root)) return MU_OK;
    const mu_wire w = {.type = MU_WIRE_STOP, .stop = {.why = MU_STOP_ENDED}};
    *all = r->closed = true;
    return mu_nodes_send(r->nodes, -1, MU_TOPIC_WORD, &w, err);
}

mu_status mu_relay_gather(mu_relay *r, mu_learners_result *result, int64_t *used, mu_err *err) {
    if (mu_relay_leads(r)) {
        MU_TRY(mu_gathering_wait(&r->gathering, err));
        for (int k = 1; k < r->nodes->n; k++) {
            mu_counts_add(&r->gathering.counts[k], result);
            *used += r->gathering.counts[k].used;
        }
        mu_root_sum_up(&r->root, result);
        r->t->ps.skipped += r->root.skipped;
    } else {
        const mu_wire_counts own = mu_counts_of(r->nodes->rank, result, *used, 0);
        MU_TRY(mu_gathering_give(&r->gathering, &own, err));
    }
    result->wire_sent = r->nodes->bytes_sent;
    result->wire_received = r->nodes->bytes_received;
    (void)mu_nodes_end(r->nodes, NULL);
    return mu_counts_check(result, err);
}
