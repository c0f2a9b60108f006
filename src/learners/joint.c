// SPDX-License-Identifier: Apache-2.0
// joint.c - see joint.h.
#include "learners/joint.h"

#include "base/clock.h"

#include <math.h>
#include <sched.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#define TAG "ranks"
#define NAP_NS 100000   // between two looks for frames while own learners compute
#define SPIN_NS 5000000 // so long it looks again at once
#define AHEAD 3         // versions: no other rank can be so far ahead of rank 0

// ---- places ----

static int rank_of(const mu_joint *j, int learner) { return learner / j->own; }
static bool is_own(const mu_joint *j, int learner) {
    return learner >= j->first && learner < j->first + j->own;
}
static int slot_of(int64_t step) { return (int)(step % MU_CORE_SLOTS); }
static int64_t version_of(const mu_joint *j, int64_t step) {
    return j->group->begin.step + j->group->begin.extra_updates + step;
}
static int64_t version_now(const mu_joint *j) {
    return atomic_load_explicit(&j->group->shared.head->version, memory_order_acquire);
}
static char *message_at(const mu_joint *j, int learner, int64_t step) {
    return mu_shared_slot(&j->group->shared, learner, slot_of(step));
}

// ---- what comes in ----

// The slot of step s was that of step s - 2, whose update is committed then.
static bool is_free(const mu_joint *j, int64_t step) { return version_now(j) >= version_of(j, step - 1); }

static mu_status unexpected(int peer, const char *what, int64_t step, mu_err *err) {
    return MU_FAIL(err, MU_EDATA, "rank %d sent %s of step %lld, which is not due", peer, what,
                   (long long)step);
}

static void note_row(mu_joint *j, int learner, const mu_wire_push *p) {
    mu_shared_learner *row = &j->group->shared.learner[learner];
    atomic_fetch_add(&row->gradients, 1);
    atomic_fetch_add(&row->samples, p->id.rows);
    atomic_store(&row->version, p->id.version);
    atomic_store(&row->loss, p->loss);
    atomic_store(&row->accuracy, p->accuracy);
    atomic_store(&row->loss_sum, atomic_load(&row->loss_sum) + p->loss);
    atomic_store(&row->accuracy_sum, atomic_load(&row->accuracy_sum) + p->accuracy);
    atomic_fetch_add(&row->loss_n, 1);
}

static mu_status take_push(mu_joint *j, int peer, const mu_wire_push *p, bool *later, mu_err *err) {
    const int i = p->id.learner;
    const mu_shared *g = &j->group->shared;
    *later = !is_free(j, p->id.step);
    if (*later) return MU_OK;
    if (j->parts.nodes) return mu_parts_take(&j->parts, peer, p, version_of(j, p->id.step), err);
    if (rank_of(j, i) != peer || p->id.step != j->arrived[i] || p->id.version != version_of(j, p->id.step))
        return unexpected(peer, "a gradient", p->id.step, err);
    mu_wire_put_message(&j->nodes->shape, p, message_at(j, i, p->id.step));
    *mu_shared_slot_head(g, i, slot_of(p->id.step)) =
        (mu_slot_head){.bad = p->bad, .scale = p->scale, .loss = p->loss, .global_rows = p->global_rows};
    if (i == 0) atomic_store(&g->head->time_share, p->time_share); // one clock for the schedules of all
    note_row(j, i, p);
    j->arrived[i]++;
    return MU_OK;
}

static mu_status take_sum(mu_joint *j, int peer, const mu_wire_sum *s, bool *later, mu_err *err) {
    *later = !is_free(j, s->number);
    return *later ? MU_OK : mu_sums_take(&j->sums, peer, s, err);
}

static void take_stop(mu_joint *j, int peer, const mu_wire_stop *w) {
    if (!mu_joint_leads(j) && peer != 0) return;
    j->asked = true;
    j->due = w->why == MU_STOP_DUE;
    if (!mu_joint_leads(j)) j->stop_at = w->version;
}

static mu_status take(void *ctx, int peer, const mu_wire *w, bool *later, mu_err *err) {
    mu_joint *j = ctx;
    switch (w->type) {
    case MU_WIRE_PUSH:
        return take_push(j, peer, &w->push, later, err);
    case MU_WIRE_SUM:
        return take_sum(j, peer, &w->sum, later, err);
    case MU_WIRE_BRIDGE:
        return mu_bridges_take(&j->parts.bridges, peer, &w->bridge, err);
    case MU_WIRE_LOST:
        if (j->parts.nodes) return mu_parts_take_lost(&j->parts, peer, &w->lost, err);
        break;
    case MU_WIRE_STOP:
        take_stop(j, peer, &w->stop);
        return MU_OK;
    case MU_WIRE_COUNTS:
        return mu_gathering_take(&j->gathering, peer, &w->counts, err);
    default:
        break;
    }
    return MU_FAIL(err, MU_EDATA, "rank %d sent %s in a training", peer, mu_wire_type_name(w->type));
}

// ---- beginning and end of the struct ----

static mu_status take_room(mu_joint *j, mu_err *err) {
    const size_t all = (size_t)j->all;
    j->takes_part = mu_alloc_array(all, sizeof *j->takes_part, TAG);
    j->found = mu_alloc_array((size_t)j->own, sizeof *j->found, TAG);
    j->arrived = mu_alloc_array(all, sizeof *j->arrived, TAG);
    if (!j->takes_part || !j->found || !j->arrived)
        return MU_FAIL_NOMEM(err, "the gradients of other ranks");
    MU_TRY(mu_gathering_init(&j->gathering, j->nodes, err));
    return mu_sums_init(&j->sums, j->nodes, &j->group->shared, err);
}

static mu_status join_far(mu_joint *j, mu_err *err) {
    mu_core *c = mu_shared_begin(&j->group->shared);
    if (!c) return MU_FAIL(err, MU_EBACKEND, "the learners of other ranks cannot join");
    for (int i = 0; i < j->all; i++)
        if (!is_own(j, i)) (void)mu_core_join(c, i);
    mu_core_set_given(c, 0); // in the last step perhaps none of them takes part
    mu_shared_commit(&j->group->shared);
    return MU_OK;
}

mu_status mu_joint_open(mu_joint *j, mu_nodes *n, mu_server_group *group, mu_err *err) {
    *j = (mu_joint){0};
    if (!n || !mu_setup_is_joint(&group->setup)) return MU_OK;
    j->nodes = n, j->group = group, j->forms = &n->forms;
    j->first = mu_setup_first_learner(&group->setup), j->own = mu_setup_own_learners(&group->setup);
    j->all = group->setup.learners;
    const mu_shared_head *h = group->shared.head;
    j->crowded = mu_nodes_share_host(n);
    MU_TRY(take_room(j, err));
    MU_TRY(join_far(j, err));
    j->role = (mu_role){.session = group->t->s,
                        .shared = &group->shared,
                        .begin = &group->begin,
                        .end = &group->t->end,
                        .stripe = group->stripe};
    // The row of a far process among executors is free.
    MU_TRY(mu_server_init(&j->server, &group->shared, h->own_process ? 0 : h->own_processes,
                          mu_role_step_rate, &j->role, err));
    MU_TRY(mu_parts_open(&j->parts, n, group, err));
    j->server.look_ns = 0;
    n->take = take;
    n->ctx = j;
    return MU_OK;
}

void mu_joint_close(mu_joint *j) {
    if (!j->nodes) return;
    j->nodes->take = NULL;
    mu_server_fini(&j->server);
    mu_gathering_fini(&j->gathering);
    mu_free(j->takes_part);
    mu_free(j->found);
    mu_free(j->arrived);
    mu_sums_fini(&j->sums);
    mu_parts_close(&j->parts);
    *j = (mu_joint){0};
}

// ---- a step ----

// Who takes part: in the last step perhaps not all. True: the step has begun. Waits while the core is halted.
static bool begin_step(mu_joint *j) {
    mu_shared *g = &j->group->shared;
    if (version_now(j) < version_of(j, j->step)) return false;
    mu_core *c = mu_shared_begin(g);
    if (!c) return false;
    const bool halted = mu_core_at_halt(c) && !j->given_up;
    int n = 0;
    for (int i = 0; i < j->all; i++) {
        const mu_core_learner *l = mu_core_learner_at(c, i);
        j->takes_part[i] = l->working || mu_core_step(l) > j->step;
        n += j->takes_part[i];
    }
    mu_shared_cancel(g);
    if (halted) return false; // the stop comes first
    j->given_up = n == 0;
    j->begun = n > 0;
    j->seen = UINT64_MAX;
    if (n) mu_sums_begin(&j->sums, j->step, version_of(j, j->step));
    return j->begun;
}

// Own gradients of this step that are in the core and were not sent, into j->found.
static int find_own(mu_joint *j) {
    mu_shared *g = &j->group->shared;
    const uint64_t waiting = (uint64_t)atomic_load(&g->head->waiting);
    int n = 0;
    if (waiting == j->seen) return 0;
    mu_core *c = mu_shared_begin(g);
    if (!c) return 0;
    for (int i = 0; i < c->fifo_n; i++) {
        const mu_gradient_id *id = &mu_core_waiting(c, i)->id;
        if (is_own(j, id->learner) && id->step == j->step && j->arrived[id->learner] == j->step)
            j->found[n++] = *id;
    }
    j->seen = (uint64_t)c->fifo_n;
    mu_shared_cancel(g);
    return n;
}

static mu_status send_own(mu_joint *j, const mu_gradient_id *id, mu_err *err) {
    mu_shared *g = &j->group->shared;
    const mu_slot_head *h = mu_shared_slot_head(g, id->learner, slot_of(id->step));
    const double share = mu_training_time_share(j->group->t);
    if (id->learner == 0) atomic_store(&g->head->time_share, share);
    const mu_wire w = {.type = MU_WIRE_PUSH,
                       .push = {.id = *id,
                                .bad = h->bad,
                                .scale = h->scale,
                                .loss = h->loss,
                                .accuracy = atomic_load(&g->learner[id->learner].accuracy),
                                .time_share = share,
                                .global_rows = h->global_rows,
                                .params = j->forms->message.n,
                                .slot = message_at(j, id->learner, id->step)}};
    j->arrived[id->learner]++;
    return mu_nodes_send(j->nodes, -1, mu_node_topic_of_step(id->step), &w, err);
}

static bool all_own_sent(const mu_joint *j) {
    bool all = true;
    if (j->parts.nodes) return mu_parts_are_sent(&j->parts, j->step, j->takes_part);
    for (int i = j->first; i < j->first + j->own; i++) all &= !j->takes_part[i] || j->arrived[i] > j->step;
    return all;
}

static bool everything_is_here(const mu_joint *j) {
    bool all = all_own_sent(j) && mu_sums_are_complete(&j->sums);
    if (j->parts.nodes) all &= mu_parts_are_here(&j->parts, j->step, j->takes_part);
    else
        for (int i = 0; i < j->all; i++) all &= is_own(j, i) || !j->takes_part[i] || j->arrived[i] > j->step;
    return all && !j->nodes->owed[mu_node_topic_of_step(j->step + 1)]; // of the step before
}

static mu_status refused(const mu_joint *j, int learner, mu_err *err) {
    return MU_FAIL(err, MU_EBACKEND,
                   "the gradient of learner %d for step %lld does not fit this rank's count", learner,
                   (long long)j->step);
}

// The core counts for a far learner as it does on its own rank. One that is here in part asks for itself.
static mu_status push_far(mu_joint *j, mu_core *c, int learner, mu_err *err) {
    mu_grant grant;
    mu_lease lease;
    bool ended;
    const uint32_t incarnation = mu_core_learner_at(c, learner)->incarnation;
    mu_answer a = mu_core_ask(c, learner, incarnation, &grant);
    if (a == MU_HOLD && mu_core_lease(c, learner, &lease, &ended))
        a = mu_core_ask(c, learner, incarnation, &grant);
    if (a != MU_GO || grant.step != j->step) return refused(j, learner, err);
    const mu_gradient_id id = {learner, incarnation, grant.step, grant.version, grant.first, grant.rows};
    return mu_core_push(c, &id) == MU_ACCEPTED ? MU_OK : refused(j, learner, err);
}

// *given: the update can form.
static mu_status give(mu_joint *j, bool *given, mu_err *err) {
    mu_shared *g = &j->group->shared;
    mu_core *c = mu_shared_begin(g);
    mu_status st = MU_OK;
    *given = c != NULL;
    if (!c) return MU_OK;
    mu_sums_settle(&j->sums, &(mu_sums_step){j->takes_part, j->arrived}, j->all);
    for (int i = 0; i < j->all && st == MU_OK; i++) {
        if (!j->takes_part[i] || (is_own(j, i) && !j->parts.nodes)) continue;
        if (j->parts.nodes) mu_parts_settle(&j->parts, i, j->step);
        st = push_far(j, c, i, err);
    }
    mu_core_set_given(c, j->step + 1);
    if (st != MU_OK) {
        mu_shared_cancel(g);
        return st;
    }
    mu_shared_commit(g);
    mu_bell_ring(&g->head->work);
    for (int i = 0; i < g->head->own_processes; i++) {
        mu_bell_ring(&g->learner[g->head->own_process + i].turn);
        mu_bell_ring(&g->learner[g->head->own_process + i].leases); // a lease may be used up
    }
    j->step++;
    j->begun = false;
    return MU_OK;
}

// *moved: something was done.
static mu_status go_on(mu_joint *j, bool *moved, mu_err *err) {
    *moved = false;
    if (!j->begun && (j->given_up || !begin_step(j))) return MU_OK;
    const int n = j->parts.nodes ? 0 : find_own(j);
    for (int i = 0; i < n; i++) MU_TRY(send_own(j, &j->found[i], err));
    *moved = n > 0;
    if (j->parts.nodes) MU_TRY(mu_parts_look(&j->parts, j->step, j->takes_part, moved, err));
    if (*moved) j->sent_ns = mu_clock_ns();
    MU_TRY(mu_sums_look(&j->sums, &(mu_sums_step){j->takes_part, j->arrived}, moved, err));
    if (!everything_is_here(j)) return MU_OK;
    return give(j, moved, err);
}

// ---- stopping ----

mu_status mu_joint_say_stop(mu_joint *j, bool due, mu_err *err) {
    if (j->said_stop) return MU_OK;
    j->said_stop = true;
    const bool leads = mu_joint_leads(j);
    if (leads) j->stop_at = version_now(j) + AHEAD;
    const mu_wire w = {.type = MU_WIRE_STOP,
                       .stop = {.why = due ? MU_STOP_DUE : MU_STOP_ASKED, .version = leads ? j->stop_at : 0}};
    return mu_nodes_send(j->nodes, leads ? -1 : 0, MU_TOPIC_WORD, &w, err);
}

// The core halts where all are to stop, so nobody has begun the step behind when it is told.
static void stop_when_due(mu_joint *j) {
    if (!j->stop_at) return;
    if (!j->halts) j->halts = mu_server_set_halt(&j->group->shared, j->stop_at);
    if (j->halts && !j->begun && version_now(j) >= j->stop_at && !j->given_up)
        j->given_up = mu_server_group_end(j->group);
}

bool mu_joint_has_ended(const mu_joint *j) {
    const mu_shared *g = &j->group->shared;
    return j->given_up && !atomic_load(&g->head->waiting) && !atomic_load(&g->update->open);
}

// ---- looking ----

// Learners that wait for other ranks see that these are alive.
static void show_life(mu_joint *j) {
    if (j->nodes->bytes_received == j->moved) return;
    j->moved = j->nodes->bytes_received;
    atomic_fetch_add(&j->group->shared.head->held_pulse, 1);
}

// While own learners wait for other ranks their cores are free, and looking again at once costs nothing: for
// a while, and where no other rank needs them.
static void rest(const mu_joint *j, mu_bell *bell, uint32_t seen) {
    const bool spins = j->begun && all_own_sent(j) && !j->crowded && mu_clock_ns() - j->sent_ns < SPIN_NS;
    if (spins) sched_yield();
    else (void)mu_bell_wait(bell, seen, 0, NAP_NS);
}

mu_status mu_joint_look(mu_joint *j, mu_bell *bell, int64_t limit_ns, mu_err *err) {
    const int64_t until = mu_clock_ns() + limit_ns;
    do {
        const uint32_t seen = mu_bell_read(bell);
        bool moved = true;
        MU_TRY(mu_nodes_look(j->nodes, err));
        MU_TRY(mu_bridges_look(&j->parts.bridges, &moved, err));
        while (moved) MU_TRY(go_on(j, &moved, err));
        if (mu_parts_want_turns(&j->parts)) (void)mu_server_turn(&j->server);
        stop_when_due(j);
        show_life(j);
        if (mu_watchdog_all_ended(&j->group->dog)) {
            (void)mu_server_turn(&j->server);
            if (mu_joint_has_ended(j)) break;
        }
        rest(j, bell, seen);
    } while (mu_clock_ns() < until);
    return MU_OK;
}

// ---- the end ----

static int64_t hash_of(const mu_joint *j) {
    const mu_shared *g = &j->group->shared;
    return (int64_t)(XXH3_64bits(g->weights, g->head->count * sizeof(float)) >> 8) | 1;
}

static mu_status check_weights(const mu_joint *j, int64_t own, mu_err *err) {
    for (int r = 1; r < j->nodes->n; r++)
        if (j->gathering.counts[r].weights != own)
            return mu_err_hinted(MU_FAIL(err, MU_EBACKEND, "rank %d ends with other weights than rank 0", r),
                                 err,
                                 "This is a defect, or a fault of the machine it runs on; please report it.");
    return MU_OK;
}

mu_status mu_joint_gather(mu_joint *j, mu_learners_result *r, mu_err *err) {
    mu_wire_counts own = mu_counts_of(j->nodes->rank, r, 0, 0);
    own.versions = 0; // they are the same ones on all
    own.weights = hash_of(j);
    if (mu_joint_leads(j)) {
        MU_TRY(mu_gathering_wait(&j->gathering, err));
        for (int k = 1; k < j->nodes->n; k++) mu_counts_add(&j->gathering.counts[k], r);
        MU_TRY(check_weights(j, own.weights, err));
    } else {
        MU_TRY(mu_gathering_give(&j->gathering, &own, err));
    }
    r->wire_sent = j->nodes->bytes_sent;
    r->wire_received = j->nodes->bytes_received;
    r->bridged_sent = j->parts.bridges.sent;
    r->bridged_received = j->parts.bridges.received;
    (void)mu_nodes_end(j->nodes, NULL);
    return mu_counts_check(r, err);
}
