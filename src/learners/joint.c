// SPDX-License-Identifier: Apache-2.0
// joint.c - see joint.h.
#include "learners/joint.h"

#include "base/clock.h"
#include "learners/counts.h"

#include <math.h>
#include <sched.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#define TAG "ranks"
#define NAP_NS 100000   // between two looks for frames while own learners compute
#define SPIN_NS 5000000 // so long it looks again at once
#define AHEAD 3         // versions: no other rank can be so far ahead of rank 0

enum {
    CHUNK = 1 << 18, // floats of a frame
    BLOCK = 1024,    // floats added up at a time
};

// ---- places ----

static int rank_of(const mu_joint *j, int learner) { return learner / j->own; }
static bool is_own(const mu_joint *j, int learner) {
    return learner >= j->first && learner < j->first + j->own;
}
static int slot_of(int64_t step) { return (int)(step % MU_CORE_SLOTS); }
static mu_node_topic topic_of(int64_t step) { return step % 2 ? MU_TOPIC_ODD : MU_TOPIC_EVEN; }
static int64_t version_of(const mu_joint *j, int64_t step) {
    return j->group->begin.step + j->group->begin.extra_updates + step;
}
static int64_t version_now(const mu_joint *j) {
    return atomic_load_explicit(&j->group->shared.head->version, memory_order_acquire);
}
static char *message_at(const mu_joint *j, int learner, int64_t step) {
    return mu_shared_slot(&j->group->shared, learner, slot_of(step));
}

// Where a dense parameter lies in a message.
static float *dense_in(const mu_joint *j, char *message, int param) {
    const mu_message_use use = {.form = MU_GRAD_DENSE};
    mu_message_span span[MU_MESSAGE_SPANS];
    mu_message_spans(&j->forms->message, param, j->forms->share.params->list[param], &use, span);
    return (float *)(void *)(message + span[0].offset);
}

static int64_t stretch_begin(const mu_joint *j, int rank) { return j->forms->stretch[rank]; }
static int64_t stretch_floats(const mu_joint *j, int rank) {
    return j->forms->stretch[rank + 1] - j->forms->stretch[rank];
}
static bool sums(const mu_joint *j) { return mu_wire_forms_floats(j->forms) > 0; }

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

// Floats of a frame into the dense places of a message.
static void put_floats(const mu_joint *j, char *message, int64_t begin, int64_t end, const void *floats) {
    const char *from = floats;
    while (begin < end) {
        const mu_summed s = mu_wire_forms_summed(j->forms, begin, end);
        memcpy(dense_in(j, message, s.param) + s.from, from, s.n * sizeof(float));
        from += s.n * sizeof(float);
        begin += (int64_t)s.n;
    }
}

// To be added up here, of each rank in a slot of its first learner; or the sum, in that of the first of all.
static mu_status take_sum(mu_joint *j, int peer, const mu_wire_sum *s, bool *later, mu_err *err) {
    const bool mine =
        s->begin >= stretch_begin(j, j->nodes->rank) && s->end <= stretch_begin(j, j->nodes->rank + 1);
    const bool theirs = s->begin >= stretch_begin(j, peer) && s->end <= stretch_begin(j, peer + 1);
    int64_t *got = mine ? &j->floats[peer] : &j->sums[peer];
    *later = !is_free(j, s->number) || (!mine && (s->number > j->step || !j->begun)); // whose slot is lead?
    if (*later) return MU_OK;
    if (s->rank != peer || (!mine && !theirs) ||
        *got / stretch_floats(j, mine ? j->nodes->rank : peer) != s->number)
        return unexpected(peer, "sums", s->number, err);
    put_floats(j, message_at(j, mine ? peer * j->own : j->lead, s->number), s->begin, s->end, s->floats);
    *got += s->end - s->begin;
    return MU_OK;
}

static mu_status take_counts(mu_joint *j, int peer, const mu_wire_counts *c, mu_err *err) {
    int64_t *bins = mu_alloc_array(MU_WIRE_BINS, sizeof *bins, TAG);
    if (!bins) return MU_FAIL_NOMEM(err, "the counts of other ranks");
    memcpy(bins, c->bins, MU_WIRE_BINS * sizeof *bins);
    mu_free((void *)(uintptr_t)j->counts[peer].bins);
    j->counts[peer] = *c;
    j->counts[peer].bins = bins;
    j->counted++;
    return MU_OK;
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
    case MU_WIRE_STOP:
        take_stop(j, peer, &w->stop);
        return MU_OK;
    case MU_WIRE_COUNTS:
        return take_counts(j, peer, &w->counts, err);
    default:
        return MU_FAIL(err, MU_EDATA, "rank %d sent %s in a training", peer, mu_wire_type_name(w->type));
    }
}

// ---- beginning and end of the struct ----

static mu_status take_room(mu_joint *j, mu_err *err) {
    const size_t all = (size_t)j->all, ranks = (size_t)j->nodes->n;
    const size_t floats = (size_t)mu_wire_forms_floats(j->forms);
    j->takes_part = mu_alloc_array(all, sizeof *j->takes_part, TAG);
    j->found = mu_alloc_array((size_t)j->own, sizeof *j->found, TAG);
    j->given = mu_alloc_array((size_t)j->forms->message.n, sizeof *j->given, TAG);
    j->arrived = mu_alloc_array(all, sizeof *j->arrived, TAG);
    j->floats = mu_alloc_array(ranks, sizeof *j->floats, TAG);
    j->sums = mu_alloc_array(ranks, sizeof *j->sums, TAG);
    j->counts = mu_alloc_array(ranks, sizeof *j->counts, TAG);
    bool good = j->takes_part && j->found && j->given && j->arrived && j->floats && j->sums && j->counts;
    for (int k = 0; k < 2 && good && floats; k++)
        good = (j->sum[k] = mu_alloc_block(floats * sizeof(float), TAG)) != NULL;
    return good ? MU_OK : MU_FAIL_NOMEM(err, "the gradients of other ranks");
}

static mu_status join_far(mu_joint *j, mu_err *err) {
    mu_core *c = mu_shared_begin(&j->group->shared);
    if (!c) return MU_FAIL(err, MU_EBACKEND, "the learners of other ranks cannot join");
    for (int i = 0; i < j->all; i++)
        if (!is_own(j, i)) (void)mu_core_join(c, i);
    mu_shared_commit(&j->group->shared);
    return MU_OK;
}

mu_status mu_joint_open(mu_joint *j, mu_nodes *n, mu_server_group *group, mu_err *err) {
    *j = (mu_joint){0};
    if (!n || !mu_setup_is_joint(&group->setup)) return MU_OK;
    j->nodes = n, j->group = group, j->forms = &n->forms;
    j->first = mu_setup_first_learner(&group->setup), j->own = mu_setup_own_learners(&group->setup);
    j->all = group->setup.learners;
    j->crowded = mu_nodes_share_host(n);
    MU_TRY(take_room(j, err));
    MU_TRY(join_far(j, err));
    j->role = (mu_role){.session = group->t->s,
                        .shared = &group->shared,
                        .begin = &group->begin,
                        .end = &group->t->end,
                        .stripe = group->stripe};
    // The row of a far learner among executors is free.
    MU_TRY(
        mu_server_init(&j->server, &group->shared, j->first ? 0 : j->own, mu_role_step_rate, &j->role, err));
    j->server.look_ns = 0;
    n->take = take;
    n->ctx = j;
    return MU_OK;
}

void mu_joint_close(mu_joint *j) {
    if (!j->nodes) return;
    j->nodes->take = NULL;
    mu_server_fini(&j->server);
    for (int r = 0; j->counts && r < j->nodes->n; r++) mu_free((void *)(uintptr_t)j->counts[r].bins);
    mu_free(j->counts);
    mu_free(j->takes_part);
    mu_free(j->found);
    mu_free(j->given);
    mu_free(j->arrived);
    mu_free(j->floats);
    mu_free(j->sums);
    for (int k = 0; k < 2 && !j->nodes->unclean; k++) mu_free(j->sum[k]);
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
    j->lead = -1;
    for (int i = 0; i < j->all; i++) {
        const mu_core_learner *l = mu_core_learner_at(c, i);
        j->takes_part[i] = l->working || mu_core_step(l) > j->step;
        n += j->takes_part[i];
        if (j->takes_part[i] && j->lead < 0) j->lead = i;
    }
    mu_shared_cancel(g);
    if (halted) return false; // the stop comes first
    j->given_up = n == 0;
    j->begun = n > 0;
    j->summed = j->added = false;
    j->seen = UINT64_MAX;
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
    return mu_nodes_send(j->nodes, -1, topic_of(id->step), &w, err);
}

static bool all_own_sent(const mu_joint *j) {
    bool all = true;
    for (int i = j->first; i < j->first + j->own; i++) all &= !j->takes_part[i] || j->arrived[i] > j->step;
    return all;
}

static void add_scaled(float *restrict to, const float *restrict from, float scale, size_t n) {
    for (size_t i = 0; i < n; i++) to[i] += scale * from[i];
}

// What this rank's learners give to parameter `param`. A gradient that is not finite is left out: its update
// is skipped everywhere.
static void add_own(const mu_joint *j, int param, float *to) {
    const mu_shared *g = &j->group->shared;
    const size_t n = j->forms->share.params->list[param]->count;
    memset(to, 0, n * sizeof *to);
    for (int i = j->first; i < j->first + j->own; i++) {
        const mu_slot_head *h = mu_shared_slot_head(g, i, slot_of(j->step));
        char *message = message_at(j, i, j->step);
        if (!j->takes_part[i] || h->bad) continue;
        if (mu_message_used(&j->forms->message, message, param).form != MU_GRAD_DENSE) continue;
        add_scaled(to, dense_in(j, message, param), h->scale, n);
    }
}

static mu_status send_floats(mu_joint *j, int peer, int64_t begin, int64_t end, mu_err *err) {
    const float *sum = j->sum[j->step % 2];
    for (int64_t at = begin; at < end; at += CHUNK) {
        const mu_wire w = {.type = MU_WIRE_SUM,
                           .sum = {.rank = j->nodes->rank,
                                   .number = j->step,
                                   .version = version_of(j, j->step),
                                   .begin = at,
                                   .end = end - at < CHUNK ? end : at + CHUNK,
                                   .floats = sum + at}};
        MU_TRY(mu_nodes_send(j->nodes, peer, topic_of(j->step), &w, err));
    }
    return MU_OK;
}

static mu_status send_sums(mu_joint *j, mu_err *err) {
    j->summed = true;
    for (int i = 0; i < j->forms->message.n; i++)
        if (j->forms->summed[i]) add_own(j, i, j->sum[j->step % 2] + j->forms->at[i]);
    for (int r = 0; r < j->nodes->n; r++)
        if (r != j->nodes->rank) MU_TRY(send_floats(j, r, stretch_begin(j, r), stretch_begin(j, r + 1), err));
    return MU_OK;
}

static bool stretch_is_complete(const mu_joint *j) {
    bool all = j->summed;
    for (int r = 0; r < j->nodes->n; r++)
        all &= r == j->nodes->rank || j->floats[r] >= (j->step + 1) * stretch_floats(j, j->nodes->rank);
    return all;
}

// In the order of ranks, so that the bits do not depend on who came first. own: this rank's floats, and the
// sum.
static void add_piece(const mu_joint *j, const mu_summed *s, float *own) {
    float sum[BLOCK];
    for (size_t at = 0; at < s->n; at += BLOCK) {
        const size_t n = s->n - at < BLOCK ? s->n - at : BLOCK;
        memset(sum, 0, n * sizeof *sum);
        for (int r = 0; r < j->nodes->n; r++) {
            const float *from = own + at;
            if (r != j->nodes->rank)
                from = dense_in(j, message_at(j, r * j->own, j->step), s->param) + s->from + at;
            add_scaled(sum, from, 1, n);
        }
        memcpy(own + at, sum, n * sizeof *sum);
    }
}

static mu_status add_stretch(mu_joint *j, mu_err *err) {
    const int64_t begin = stretch_begin(j, j->nodes->rank), end = stretch_begin(j, j->nodes->rank + 1);
    float *sum = j->sum[j->step % 2];
    j->added = true;
    for (int64_t at = begin; at < end;) {
        const mu_summed s = mu_wire_forms_summed(j->forms, at, end);
        add_piece(j, &s, sum + at);
        at += (int64_t)s.n;
    }
    MU_TRY(send_floats(j, -1, begin, end, err));
    put_floats(j, message_at(j, j->lead, j->step), begin, end, sum + begin);
    return MU_OK;
}

static bool everything_is_here(const mu_joint *j) {
    bool all = all_own_sent(j) && (!sums(j) || j->added);
    for (int i = 0; i < j->all; i++) all &= is_own(j, i) || !j->takes_part[i] || j->arrived[i] > j->step;
    for (int r = 0; r < j->nodes->n && all && sums(j); r++)
        all &= r == j->nodes->rank || j->sums[r] >= (j->step + 1) * stretch_floats(j, r);
    return all && !j->nodes->owed[topic_of(j->step - 1 + 2)];
}

// Which parameters have a gradient in this step. All ranks run the same net; one whose learners do not take
// part takes what was so before.
static void note_given(mu_joint *j) {
    const mu_message_layout *m = &j->forms->message;
    for (int p = 0; p < m->n; p++) {
        bool known = false, given = false;
        for (int i = j->first; i < j->first + j->own; i++) {
            if (!j->takes_part[i]) continue;
            known = true;
            given |= mu_message_used(m, message_at(j, i, j->step), p).form != MU_GRAD_NONE;
        }
        if (known) j->given[p] = given;
    }
}

// The summed floats are in the slot of the first learner, and in no other one.
static void mark_sums(const mu_joint *j) {
    const mu_message_layout *m = &j->forms->message;
    const mu_slot_head *h = mu_shared_slot_head(&j->group->shared, j->lead, slot_of(j->step));
    char *lead = message_at(j, j->lead, j->step);
    for (int p = 0; p < m->n; p++) {
        if (!j->forms->summed[p]) continue;
        const mu_message_use use = {.form = j->given[p] ? MU_GRAD_DENSE : MU_GRAD_NONE};
        const mu_message_use none = {.form = MU_GRAD_NONE};
        for (int i = j->first; i < j->first + j->own; i++)
            if (j->takes_part[i]) mu_message_mark(m, message_at(j, i, j->step), p, &none);
        mu_message_mark(m, lead, p, &use);
        const size_t n = h->scale != 1 && h->scale > 0 ? j->forms->share.params->list[p]->count : 0;
        float *sum = dense_in(j, lead, p);
        for (size_t k = 0; k < n; k++) sum[k] /= h->scale; // it is applied times that
    }
}

static mu_status refused(const mu_joint *j, int learner, mu_err *err) {
    return MU_FAIL(err, MU_EBACKEND,
                   "the gradient of learner %d for step %lld does not fit this rank's count", learner,
                   (long long)j->step);
}

// The core counts for a far learner as it does on its own rank.
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
    if (sums(j)) {
        note_given(j);
        mark_sums(j);
    }
    for (int i = 0; i < j->all && st == MU_OK; i++)
        if (!is_own(j, i) && j->takes_part[i]) st = push_far(j, c, i, err);
    if (st != MU_OK) {
        mu_shared_cancel(g);
        return st;
    }
    mu_shared_commit(g);
    mu_bell_ring(&g->head->work);
    for (int i = j->first; i < j->first + j->own; i++) mu_bell_ring(&g->learner[i].turn);
    j->step++;
    j->begun = false;
    return MU_OK;
}

// *moved: something was done.
static mu_status go_on(mu_joint *j, bool *moved, mu_err *err) {
    *moved = false;
    if (!j->begun && (j->given_up || !begin_step(j))) return MU_OK;
    const int n = find_own(j);
    for (int i = 0; i < n; i++) MU_TRY(send_own(j, &j->found[i], err));
    *moved = n > 0;
    if (n) j->sent_ns = mu_clock_ns();
    if (sums(j) && !j->summed && all_own_sent(j)) {
        MU_TRY(send_sums(j, err));
        *moved = true;
    }
    if (sums(j) && !j->added && stretch_is_complete(j)) {
        MU_TRY(add_stretch(j, err));
        *moved = true;
    }
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
        while (moved) MU_TRY(go_on(j, &moved, err));
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

static bool has_counts(void *ctx) {
    const mu_joint *j = ctx;
    return j->counted >= j->nodes->n - 1;
}

static bool rank_0_has_left(void *ctx) { return mu_nodes_has_left(((mu_joint *)ctx)->nodes, 0); }

static mu_status check_weights(const mu_joint *j, int64_t own, mu_err *err) {
    for (int r = 1; r < j->nodes->n; r++)
        if (j->counts[r].weights != own)
            return mu_err_hinted(MU_FAIL(err, MU_EBACKEND, "rank %d ends with other weights than rank 0", r),
                                 err,
                                 "This is a defect, or a fault of the machine it runs on; please report it.");
    return MU_OK;
}

mu_status mu_joint_gather(mu_joint *j, mu_learners_result *r, mu_err *err) {
    mu_wire w = {.type = MU_WIRE_COUNTS, .counts = mu_counts_of(j->nodes->rank, r, 0, 0)};
    w.counts.versions = 0; // they are the same ones on all
    w.counts.weights = hash_of(j);
    j->nodes->parting = true;
    if (mu_joint_leads(j)) {
        MU_TRY(mu_nodes_wait(j->nodes, has_counts, j, err));
        for (int k = 1; k < j->nodes->n; k++) mu_counts_add(&j->counts[k], r);
        MU_TRY(check_weights(j, w.counts.weights, err));
    } else {
        MU_TRY(mu_nodes_send(j->nodes, 0, MU_TOPIC_COPY, &w, err));
        MU_TRY(mu_nodes_wait(j->nodes, NULL, NULL, err));
        MU_TRY(mu_nodes_wait(j->nodes, rank_0_has_left, j, err));
    }
    r->wire_sent = j->nodes->bytes_sent;
    r->wire_received = j->nodes->bytes_received;
    (void)mu_nodes_end(j->nodes, NULL);
    return mu_counts_check(r, err);
}
