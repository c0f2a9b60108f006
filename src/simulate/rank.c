// SPDX-License-Identifier: Apache-2.0
// rank.c - see rank.h.
#include "simulate/rank.h"

#include "learners/beginning.h"
#include "simulate/clock.h"
#include "simulate/machine.h"
#include "simulate/memory.h"
#include "simulate/network.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define TAG "simulated rank"
#define NEVER_NS (INT64_C(1) << 60) // no sign of life falls due, and nobody is lost

typedef struct rank {
    int number;
    mu_session session; // as that of rank 0, but for its number
    mu_run_opts opts;
    mu_training training;
    mu_nodes *nodes;
    mu_server_group *group; // (n)
    int n, own;             // learners of each
    mu_simulated *learner;  // (n x own)
    mu_relay relay;
    mu_joint joint;
    mu_simulated_rank *out;
} rank;

static struct {
    mu_simulated_opts o;
    mu_simulated_rank *rank;
    int ended;
    void (*end)(void);
} all;

mu_status mu_simulated_begin(const mu_simulated_opts *o, mu_err *err) {
    all.o = *o;
    all.rank = mu_alloc_array((size_t)o->ranks, sizeof *all.rank, TAG);
    MU_TRY(mu_clock_open(o->ranks, err));
    return all.rank ? MU_OK : MU_FAIL_NOMEM(err, "the simulated ranks");
}

const mu_simulated_rank *mu_simulated_at(int number) { return &all.rank[number]; }
void mu_simulated_set_end(void (*end)(void)) { all.end = end; }

// ---- beginning ----

static void begin_training(rank *r) {
    mu_training *t = &r->training;
    r->session = *all.o.session;
    r->session.node = r->session.setup.node = r->number;
    r->opts = (mu_run_opts){.no_files = true, .nodes = r->nodes};
    *t = (mu_training){.s = &r->session, .o = &r->opts, .at = MU_POSITION_START, .follows = r->number > 0};
    t->end = mu_length_of(t->s);
}

// All ranks know what all others would say.
static mu_status know_all(rank *r, mu_err *err) {
    mu_nodes *n = r->nodes;
    MU_TRY(mu_nodes_introduce(n, &r->session, err));
    for (int p = 0; p < n->n; p++) {
        n->hello[p] = n->hello[n->rank];
        n->hello[p].rank = p;
        n->layout[p] = n->layout[n->rank];
        n->greeted[p] = true;
        if (p == n->rank) continue;
        mu_peers_heard(&n->peers, p);
        mu_peers_sent(&n->peers, p, mu_machine_now_ns());
    }
    return MU_OK;
}

static mu_status meet(rank *r, mu_err *err) {
    static const mu_peers_terms terms = {NEVER_NS, NEVER_NS, NEVER_NS};
    const mu_transport_opts usual = {0};
    MU_TRY(mu_nodes_open("mpi", &usual, &terms, &r->nodes, err));
    begin_training(r);
    if (!all.o.meets) return know_all(r, err);
    mu_clock_set_due(INT64_MAX);
    MU_TRY(mu_nodes_meet(r->nodes, &r->session, err));
    return mu_beginning_share(r->nodes, &r->training, err);
}

static mu_status open_group(rank *r, int i, mu_err *err) {
    mu_server_group *g = &r->group[i];
    const mu_server_group_opts o = {&r->training, "simulated", i ? r->group : NULL, i, r->n, 0};
    MU_TRY(mu_server_group_open(g, &o, err));
    MU_TRY(mu_memory_share_blocks(&g->shared, err));
    g->dog = (mu_watchdog){.training = &r->training, .shared = &g->shared, .n = g->shared.head->own_n};
    g->dog.learner = mu_alloc_array((size_t)g->dog.n, sizeof *g->dog.learner, TAG);
    return g->dog.learner ? MU_OK : MU_FAIL_NOMEM(err, "the simulated learners");
}

static mu_status open_all(rank *r, mu_err *err) {
    const mu_setup *p = &r->session.setup;
    const bool joint = mu_setup_is_joint(p);
    mu_memory_share_size(mu_wire_forms_floats(&r->nodes->forms));
    r->n = mu_setup_own_groups(p);
    r->group = mu_alloc_array((size_t)r->n, sizeof *r->group, TAG);
    if (!r->group) return MU_FAIL_NOMEM(err, "the groups of a simulated rank");
    for (int i = 0; i < r->n; i++) MU_TRY(open_group(r, i, err));
    const mu_shared_head *h = r->group->shared.head;
    r->own = h->own_n;
    MU_TRY(mu_joint_open(&r->joint, joint ? r->nodes : NULL, r->group, err));
    MU_TRY(mu_relay_open(&r->relay, r->nodes, r->group, false, err));
    r->joint.crowded = r->relay.crowded = true; // it waits, and does not spin
    r->learner = mu_alloc_array((size_t)(r->n * r->own), sizeof *r->learner, TAG);
    if (!r->learner) return MU_FAIL_NOMEM(err, "the simulated learners");
    for (int i = 0; i < r->n * r->own; i++)
        MU_TRY(mu_simulated_open(&r->learner[i], &r->group[i / r->own], h->own_first + i % r->own,
                                 r->session.train.net, all.o.costs, err));
    return MU_OK;
}

// ---- training ----

static mu_status go_learners(rank *r, bool *ended, mu_err *err) {
    int64_t due = INT64_MAX;
    *ended = true;
    for (int i = 0; i < r->n * r->own; i++) {
        mu_simulated *l = &r->learner[i];
        MU_TRY(mu_simulated_go(l, err));
        *ended &= l->state == MU_SIMULATED_ENDED;
        if (mu_simulated_due(l) < due) due = mu_simulated_due(l);
    }
    mu_clock_set_due(due);
    return MU_OK;
}

static mu_status train(rank *r, mu_err *err) {
    mu_bell *bell = &r->group->shared.head->parent;
    for (bool ended = false, own; !ended;) {
        MU_TRY(go_learners(r, &own, err));
        if (r->joint.nodes) MU_TRY(mu_joint_look(&r->joint, bell, 0, err));
        else MU_TRY(mu_relay_look(&r->relay, bell, 0, err));
        if (own && r->joint.nodes) ended = mu_joint_has_ended(&r->joint);
        else if (own) MU_TRY(mu_relay_has_ended(&r->relay, &ended, err));
        if (own && !ended) mu_network_wait(INT64_MAX); // a relay without learners does not
    }
    return MU_OK;
}

// ---- the end ----

static void nothing(void *ctx) { (void)ctx; }

static mu_status sum_up(rank *r, mu_err *err) {
    mu_learners_result *out = &r->out->result;
    *out =
        (mu_learners_result){.count = r->session.setup.learners, .replace_p50_s = NAN, .replace_p99_s = NAN};
    for (int i = 0; i < r->n; i++) {
        int64_t used;
        MU_TRY(mu_server_group_drain(&r->group[i], nothing, NULL, err));
        MU_TRY(mu_server_group_settle(&r->group[i], &used, err));
        MU_TRY(mu_server_group_sum_up(&r->group[i], out, err));
        r->out->used += used;
    }
    if (!all.o.meets) {
        if (r->relay.nodes && r->number == 0) mu_root_sum_up(&r->relay.root, out);
        return MU_OK;
    }
    int64_t used = r->out->used;
    if (r->joint.nodes) return mu_joint_gather(&r->joint, out, err);
    return mu_relay_gather(&r->relay, out, &used, err);
}

// Frames that are still under way were sent.
static mu_status finish(rank *r, mu_err *err) {
    mu_simulated_rank *out = r->out;
    out->end_ns = mu_machine_now_ns();
    out->sent = r->nodes->bytes_sent;
    out->received = r->nodes->bytes_received;
    MU_TRY(sum_up(r, err));
    out->all_sent = r->nodes->bytes_sent;
    out->all_received = r->nodes->bytes_received;
    return MU_OK;
}

static mu_status live(rank *r, mu_err *err) {
    MU_TRY(meet(r, err));
    MU_TRY(open_all(r, err));
    r->out->begin_ns = mu_machine_now_ns();
    MU_TRY(train(r, err));
    return finish(r, err);
}

void mu_simulated_main(int number) {
    rank *r = mu_alloc(sizeof *r, TAG);
    mu_simulated_rank *out = &all.rank[number];
    if (!r) abort();
    r->number = number;
    r->out = out;
    if (live(r, &out->error) != MU_OK) all.end();
    out->ended = true;
    if (++all.ended == all.o.ranks) all.end();
    mu_machine_sleep_until(NEVER_NS); // others may still receive what it has sent
}
