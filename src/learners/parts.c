// SPDX-License-Identifier: Apache-2.0
// parts.c - see parts.h.
#include "learners/parts.h"

#include "learners/adding.h"
#include "ps/part_forms.h"

#include <math.h>
#include <string.h>

#define TAG "parts"

// ---- places ----

static mu_shared *shared_of(const mu_parts *p) { return &p->group->shared; }
static int workers_of(const mu_parts *p) { return shared_of(p)->head->n_workers; }
static int rank_of(const mu_parts *p, int process) { return process / shared_of(p)->head->own_processes; }
static bool is_own(const mu_parts *p, int process) {
    return !mu_shared_is_far_process(shared_of(p), process);
}
static int slot_of(int64_t step) { return (int)(step % MU_CORE_SLOTS); }

static char *message_at(const mu_parts *p, int process, int64_t step) {
    const mu_shared *g = shared_of(p);
    const int workers = workers_of(p);
    return mu_shared_slot(g, process / workers, slot_of(step)) + g->share[process % workers].at;
}

// Own processes of a learner that is on this rank: [first, first + n).
static int first_here(const mu_parts *p, int learner) {
    return learner * workers_of(p) + mu_shared_first_worker(shared_of(p));
}
static int n_here(const mu_parts *p) { return mu_shared_own_workers(shared_of(p)); }

// ---- beginning and end ----

static void end_of_channel(const mu_parts *p, int learner, const mu_bridge *b, bool back, mu_far *out) {
    const int first = learner * workers_of(p);
    const int from = first + (back ? b->destination : b->source)->worker;
    const int to = first + (back ? b->source : b->destination)->worker;
    const int number = mu_part_channel((int)(b - shared_of(p)->partition->bridge), back);
    *out = (mu_far){.number = number,
                    .goes = is_own(p, from),
                    .peer = rank_of(p, is_own(p, from) ? to : from),
                    .memory = mu_workers_channel(shared_of(p), learner, number / 2, back),
                    .bytes = b->bytes};
}

static bool joins_ranks(const mu_parts *p, int learner, const mu_bridge *b) {
    const int first = learner * workers_of(p);
    return is_own(p, first + b->source->worker) != is_own(p, first + b->destination->worker);
}

static mu_status open_bridges(mu_parts *p, mu_err *err) {
    const mu_setup *s = &p->group->setup;
    const mu_partition *q = shared_of(p)->partition;
    const int ranks = mu_setup_ranks_of_learner(s), learner = shared_of(p)->head->own_first;
    if (ranks < 2) return MU_OK;
    mu_far *far = mu_alloc_array(2 * (size_t)q->n_bridges + 1, sizeof *far, TAG);
    if (!far) return MU_FAIL_NOMEM(err, "bridges to other ranks");
    mu_bridges_opts o = {.nodes = p->nodes,
                         .forms = p->nodes->parts,
                         .learner = learner,
                         .first = p->nodes->rank / ranks * ranks,
                         .n = ranks,
                         .far = far};
    for (int i = 0; i < q->n_bridges; i++) {
        const mu_bridge *b = &q->bridge[i];
        for (int back = 0; joins_ranks(p, learner, b) && back <= b->gradient; back++)
            end_of_channel(p, learner, b, back, &far[o.n_far++]);
    }
    const mu_status st = mu_bridges_init(&p->bridges, &o, err);
    mu_free(far);
    return st;
}

static mu_status lost(void *ctx, int learner, bool computing, int64_t step, mu_err *err);

// Who makes a part once more writes where it may still be sent from, other bits before they are added up.
static bool may_begin(void *ctx, int learner) {
    const mu_parts *p = ctx;
    const bool lent = p->again && p->nodes->owed[mu_node_topic_of_step(p->again - 1)];
    return !p->waits[learner] && !p->gathers && !lent;
}

static mu_status take_room(mu_parts *p, mu_err *err) {
    const mu_shared_head *h = shared_of(p)->head;
    const mu_part_forms *f = p->nodes->parts;
    const size_t own = (size_t)h->own_n;
    p->part = mu_alloc_array((size_t)h->n_processes, sizeof *p->part, TAG);
    p->waits = mu_alloc_array((size_t)h->n_learners, sizeof *p->waits, TAG);
    p->gives = mu_alloc_array(2 * own * (size_t)f->n_sums + 1, sizeof *p->gives, TAG);
    bool good = p->part && p->waits && p->gives;
    for (int k = 0; k < 2 && good && f->n_sums; k++)
        good = (p->sum[k] = mu_alloc_block(own * f->sum_floats * sizeof(float), TAG)) != NULL;
    return good ? MU_OK : MU_FAIL_NOMEM(err, "the gradients of other ranks");
}

mu_status mu_parts_open(mu_parts *p, mu_nodes *n, mu_server_group *group, mu_err *err) {
    const mu_shared_head *h = group->shared.head;
    *p = (mu_parts){0};
    if (h->n_workers < 2) return MU_OK;
    p->nodes = n, p->group = group;
    MU_TRY(take_room(p, err));
    p->partners = (mu_partners){p, lost, may_begin};
    return open_bridges(p, err);
}

void mu_parts_close(mu_parts *p) {
    mu_bridges_fini(&p->bridges);
    mu_free(p->part);
    mu_free(p->waits);
    mu_free(p->gives);
    mu_free(p->sum[0]);
    mu_free(p->sum[1]);
    *p = (mu_parts){0};
}

// ---- what comes in ----

static void note_row(const mu_parts *p, int process, const mu_wire_push *w) {
    mu_shared_learner *row = &shared_of(p)->learner[process];
    atomic_fetch_add(&row->gradients, 1);
    if (w->worker == 0) atomic_fetch_add(&row->samples, w->id.rows);
    atomic_store(&row->version, w->id.version);
    if (isnan(w->loss)) return;
    atomic_store(&row->loss, w->loss);
    atomic_store(&row->accuracy, w->accuracy);
    atomic_store(&row->loss_sum, atomic_load(&row->loss_sum) + w->loss);
    atomic_store(&row->accuracy_sum, atomic_load(&row->accuracy_sum) + w->accuracy);
    atomic_fetch_add(&row->loss_n, 1);
}

mu_status mu_parts_take(mu_parts *p, int peer, const mu_wire_push *w, int64_t version, mu_err *err) {
    const int i = w->id.learner * workers_of(p) + w->worker;
    mu_part_here *part = &p->part[i];
    if (rank_of(p, i) != peer || w->id.step != part->arrived || w->id.version != version)
        return MU_FAIL(err, MU_EDATA, "rank %d sent a part of step %lld, which is not due", peer,
                       (long long)w->id.step);
    mu_wire_put_message(&p->nodes->shape, w, message_at(p, i, w->id.step));
    if (i == 0) atomic_store(&shared_of(p)->head->time_share, w->time_share); // one clock for all schedules
    note_row(p, i, w);
    *part = (mu_part_here){.arrived = w->id.step + 1,
                           .global_rows = w->global_rows,
                           .bad = w->bad,
                           .scale = w->scale,
                           .loss = w->loss};
    return MU_OK;
}

// ---- own parts ----

static mu_status send_part(mu_parts *p, int process, const mu_grant *t, const mu_worker_end *e, mu_err *err) {
    const mu_shared *g = shared_of(p);
    const int workers = workers_of(p), learner = process / workers, w = process % workers;
    const double share = mu_training_time_share(p->group->t);
    if (process == 0) atomic_store(&g->head->time_share, share);
    const mu_wire frame = {
        .type = MU_WIRE_PUSH,
        .push = {.id = {learner, atomic_load(&mu_shared_first(g, learner)[w].incarnation), t->step,
                        t->version, t->first, t->rows},
                 .worker = w,
                 .bad = e->bad,
                 .scale = e->scale,
                 .loss = e->loss,
                 .accuracy = e->accuracy,
                 .time_share = share,
                 .global_rows = t->global_rows,
                 .params = p->nodes->parts->message[w].n,
                 .slot = message_at(p, process, t->step)}};
    return mu_nodes_send(p->nodes, -1, mu_node_topic_of_step(t->step), &frame, err);
}

// ---- sums ----

typedef struct summing { // of one piece, in one slot
    const mu_part_sum *sum;
    char *slot;                         // of the learner
    float *kept;
    int *gives;
} summing;

static summing summing_of(const mu_parts *p, int learner, int64_t step, int i) {
    const mu_shared *g = shared_of(p);
    const mu_part_forms *f = p->nodes->parts;
    const size_t own = (size_t)(learner - g->head->own_first), slot = (size_t)slot_of(step);
    return (summing){&f->sum[i], mu_shared_slot(g, learner, slot_of(step)),
                     p->sum[slot] + own * f->sum_floats + f->sum[i].at,
                     &p->gives[(slot * (size_t)g->head->own_n + own) * (size_t)f->n_sums + (size_t)i]};
}

static char *message_of(const mu_parts *p, const summing *s, int k) {
    return s->slot + shared_of(p)->share[s->sum->worker[k]].at;
}

static float *floats_of(const mu_parts *p, const summing *s, int k) {
    const mu_share *share = &shared_of(p)->share[s->sum->worker[k]];
    const mu_message_use use = {.form = MU_GRAD_DENSE};
    mu_message_span span[MU_MESSAGE_SPANS];
    const int i = s->sum->index[k];
    mu_message_spans(&share->message, i, share->params->list[i], &use, span);
    return (float *)(void *)(message_of(p, s, k) + span[0].offset);
}

// The sum that is kept is what one of the workers gives, and the others give nothing.
static void put_sum(const mu_parts *p, const summing *s) {
    for (int k = 0; k < s->sum->n && *s->gives >= 0; k++) {
        const mu_message_use use = {.form = k == *s->gives ? MU_GRAD_DENSE : MU_GRAD_NONE};
        mu_message_mark(&shared_of(p)->share[s->sum->worker[k]].message, message_of(p, s, k),
                        s->sum->index[k], &use);
    }
    if (*s->gives >= 0)
        memcpy(floats_of(p, s, *s->gives), s->kept, s->sum->count * sizeof(float));
}

// Those that have a gradient of it in this step.
static void add_up(const mu_parts *p, const summing *s) {
    *s->gives = -1;
    for (int k = 0; k < s->sum->n; k++) {
        const mu_share *share = &shared_of(p)->share[s->sum->worker[k]];
        const mu_message_use use = mu_message_used(&share->message, message_of(p, s, k), s->sum->index[k]);
        if (use.form != MU_GRAD_DENSE) continue;
        if (*s->gives >= 0) mu_adding_floats(s->kept, floats_of(p, s, k), s->sum->count);
        else memcpy(s->kept, floats_of(p, s, k), s->sum->count * sizeof(float));
        if (*s->gives < 0) *s->gives = k;
    }
    put_sum(p, s);
}

static void put_sums(mu_parts *p, int learner, int64_t step, bool again) {
    for (int i = 0; i < p->nodes->parts->n_sums; i++) {
        const summing s = summing_of(p, learner, step, i);
        if (again) put_sum(p, &s);
        else add_up(p, &s);
    }
}

// Of a learner whose workers here have completed this step.
static mu_status send_own(mu_parts *p, int learner, int64_t step, mu_err *err) {
    const struct mu_workers_row *r = mu_shared_workers(shared_of(p), learner);
    put_sums(p, learner, step, false);
    for (int i = first_here(p, learner); i < first_here(p, learner) + n_here(p); i++) {
        const mu_worker_end *e = &r->worker[i % workers_of(p)];
        mu_part_here *part = &p->part[i];
        if (part->sent <= step) MU_TRY(send_part(p, i, &r->grant, e, err));
        *part = (mu_part_here){.arrived = step + 1,
                               .sent = step + 1,
                               .global_rows = r->grant.global_rows,
                               .bad = e->bad,
                               .scale = e->scale,
                               .loss = e->loss};
    }
    return MU_OK;
}

static bool is_sent(const mu_parts *p, int learner, int64_t step) {
    return p->part[first_here(p, learner)].arrived > step; // all of them at once
}

mu_status mu_parts_look(mu_parts *p, int64_t step, const bool *takes_part, bool *moved, mu_err *err) {
    const mu_shared_head *h = shared_of(p)->head;
    for (int l = h->own_first; l < h->own_first + h->own_n; l++) {
        if (!takes_part[l] || is_sent(p, l, step) || !mu_workers_are_done(shared_of(p), l, step)) continue;
        MU_TRY(send_own(p, l, step, err));
        *moved = true;
    }
    return MU_OK;
}

bool mu_parts_are_sent(const mu_parts *p, int64_t step, const bool *takes_part) {
    const mu_shared_head *h = shared_of(p)->head;
    bool all = true;
    for (int l = h->own_first; l < h->own_first + h->own_n; l++) all &= !takes_part[l] || is_sent(p, l, step);
    return all;
}

bool mu_parts_are_here(const mu_parts *p, int64_t step, const bool *takes_part) {
    const mu_shared_head *h = shared_of(p)->head;
    bool all = true;
    for (int i = 0; i < h->n_processes; i++)
        all &= !takes_part[i / h->n_workers] || p->part[i].arrived > step;
    return all;
}

// What is said of the whole is what its first worker says, but for what any of them cannot give.
void mu_parts_settle(mu_parts *p, int learner, int64_t step) {
    const int first = learner * workers_of(p);
    const mu_part_here *one = &p->part[first];
    mu_slot_head *h = mu_shared_slot_head(shared_of(p), learner, slot_of(step));
    *h = (mu_slot_head){.scale = one->scale, .loss = one->loss, .global_rows = one->global_rows};
    for (int i = first; i < first + workers_of(p); i++) h->bad |= p->part[i].bad;
    p->waits[learner] = false;
    p->again = 0;
}

// ---- lost workers ----

// What workers here have told each other of a gradient that begins again; no process of theirs is left.
static void forget(mu_parts *p, int learner, int64_t step) {
    mu_workers_clear(shared_of(p), learner);
    for (int i = first_here(p, learner); i < first_here(p, learner) + n_here(p); i++)
        if (p->part[i].arrived > step) p->part[i].arrived = step;
    p->waits[learner] = false;
}

// The step whose part a rank of the learner has not sent yet. It is exact behind a LOST of that rank.
static int64_t next_of(const mu_parts *p, int rank) {
    const mu_part_here *part = &p->part[rank * shared_of(p)->head->own_processes];
    return rank == p->nodes->rank ? part->sent : part->arrived;
}

// All ranks of the learner have ended its workers, so all know of all what they have sent. Those that are a
// step ahead of others compute it again for these.
static mu_status settle_beginning(mu_parts *p, mu_err *err) {
    const mu_bridges *b = &p->bridges;
    int64_t step, least = INT64_MAX;
    if (!p->gathers || !mu_bridges_all_told(b)) return MU_OK;
    MU_TRY(mu_watchdog_step_of(&p->group->dog, b->learner, &step, err));
    for (int r = b->first; r < b->first + b->n; r++)
        if (next_of(p, r) < least) least = next_of(p, r);
    const bool complete = next_of(p, p->nodes->rank) > step, all = complete && least > step;
    p->gathers = false;
    p->again = complete && !all ? step + 1 : 0;
    p->waits[b->learner] = all;
    for (int i = first_here(p, b->learner); all && i < first_here(p, b->learner) + n_here(p); i++)
        p->part[i].arrived = step + 1;
    if (all) put_sums(p, b->learner, step, true);
    return MU_OK;
}

// The processes of a learner that are here have ended, and one was lost; they were computing this step.
static mu_status lost(void *ctx, int learner, bool computing, int64_t step, mu_err *err) {
    mu_parts *p = ctx;
    if (!computing || p->gathers) return MU_OK;
    if (is_sent(p, learner, step) || mu_workers_are_done(shared_of(p), learner, step)) {
        p->waits[learner] = true;
        return is_sent(p, learner, step) ? MU_OK : send_own(p, learner, step, err);
    }
    forget(p, learner, step);
    p->gathers = p->bridges.nodes != NULL;
    MU_TRY(mu_bridges_begin_again(&p->bridges, err));
    return settle_beginning(p, err);
}

mu_status mu_parts_take_lost(mu_parts *p, int peer, const mu_wire_lost *w, mu_err *err) {
    bool begins;
    int64_t step;
    MU_TRY(mu_bridges_take_lost(&p->bridges, peer, w, &begins, err));
    if (begins) {
        MU_TRY(mu_watchdog_end_learner(&p->group->dog, w->learner, err));
        MU_TRY(mu_watchdog_step_of(&p->group->dog, w->learner, &step, err));
        forget(p, w->learner, step);
        p->gathers = true;
        mu_training_say(p->group->t, "learner %d begins gradient %lld again: rank %d lost a worker of it",
                        w->learner, (long long)step, peer);
        MU_TRY(mu_bridges_follow(&p->bridges, peer, err));
    }
    return settle_beginning(p, err);
}

bool mu_parts_want_turns(const mu_parts *p) {
    bool any = p->gathers;
    for (int l = 0; p->nodes && l < shared_of(p)->head->n_learners; l++) any |= p->waits[l];
    return any;
}
