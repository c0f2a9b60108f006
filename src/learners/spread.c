// SPDX-License-Identifier: Apache-2.0
// spread.c - see spread.h.
#include "learners/spread.h"

#include "learners/beginning.h"
#include "ps/merge.h"

#include <math.h>
#include <string.h>

#define TAG "ranks"
#define LAST ((int64_t)1 << 59) // number of the copy at the end

// ---- what comes in ----

static bool is_own(const mu_spread *s, int group) { return group >= s->first && group < s->first + s->own; }

static mu_status take_point(mu_spread *s, int peer, const mu_wire_point *p, mu_err *err) {
    if (p->number != s->number && p->number != LAST) return MU_OK; // of a copy that was given up
    if (p->group / s->own != peer)
        return MU_FAIL(err, MU_EDATA, "rank %d sent where group %d stands", peer, p->group);
    mu_standing_part *part = &s->part[p->group];
    const size_t n = (size_t)p->ranges;
    mu_range *open = mu_alloc_array(n + 1, sizeof *open, TAG);
    if (!open) return MU_FAIL_NOMEM(err, "the open samples of other ranks");
    if (n) memcpy(open, p->range, n * sizeof *open);
    mu_free(part->point.open);
    part->point = (mu_server_point){p->version, p->applied, p->next, p->ranges, open};
    part->updates = p->updates;
    for (size_t i = 0; i < n; i++)
        if (open[i].first < s->part->stripe.base || open[i].end < open[i].first)
            return MU_FAIL(err, MU_EDATA, "rank %d sent a range of samples that cannot be", peer);
    s->missed |= p->missed != 0;
    s->points++;
    return MU_OK;
}

static void take_block(mu_spread *s, int peer, const mu_wire_weights *w) {
    if (!mu_spread_leads(s) || w->version != s->number || w->block >= s->blocks) return;
    memcpy(s->copy[peer * s->blocks + w->block] + w->begin, w->floats,
           (size_t)(w->end - w->begin) * sizeof(float));
    s->copied += w->end - w->begin;
}

static void take_stop(mu_spread *s, int peer, const mu_wire_stop *w) {
    const bool ends = w->why == MU_STOP_ENDED;
    if (mu_spread_leads(s) && ends) s->has_ended[peer] = true;
    else if (mu_spread_leads(s)) s->asked = true;
    else if (peer == 0 && ends) s->closed = true;
    else if (peer == 0) s->asked = true, s->due = w->why == MU_STOP_DUE;
}

static mu_status take(void *ctx, int peer, const mu_wire *w, bool *later, mu_err *err) {
    mu_spread *s = ctx;
    switch (w->type) {
    case MU_WIRE_EXCHANGE:
        return mu_rounds_take(&s->rounds, peer, &w->exchange, later, err);
    case MU_WIRE_POINT:
        return take_point(s, peer, &w->point, err);
    case MU_WIRE_WEIGHTS:
        take_block(s, peer, &w->weights);
        return MU_OK;
    case MU_WIRE_COUNTS:
        return mu_gathering_take(&s->gathering, peer, &w->counts, err);
    case MU_WIRE_STOP:
        take_stop(s, peer, &w->stop);
        return MU_OK;
    case MU_WIRE_ASK:
        if (peer == 0) s->wanted = w->ask.version;
        return MU_OK;
    default:
        return MU_FAIL(err, MU_EDATA, "rank %d sent %s in a training", peer, mu_wire_type_name(w->type));
    }
}

// ---- beginning and end of the struct ----

static mu_status take_room(mu_spread *s, mu_err *err) {
    const size_t ranks = (size_t)s->nodes->n, count = (size_t)s->nodes->shape.count;
    s->part = mu_alloc_array((size_t)s->all, sizeof *s->part, TAG);
    s->has_ended = mu_alloc_array(ranks, sizeof *s->has_ended, TAG);
    s->copy = mu_alloc_array(ranks * (size_t)s->blocks, sizeof *s->copy, TAG);
    bool good = s->part && s->has_ended && s->copy;
    for (size_t i = (size_t)s->blocks; good && mu_spread_leads(s) && i < ranks * (size_t)s->blocks; i++)
        good = (s->copy[i] = mu_alloc_block(count * sizeof(float), TAG)) != NULL;
    return good ? MU_OK : MU_FAIL_NOMEM(err, "copies of the weights of other ranks");
}

mu_status mu_spread_open(mu_spread *s, mu_nodes *n, const mu_training *t, mu_err *err) {
    const mu_setup *p = &t->s->setup;
    *s = (mu_spread){.nodes = n};
    if (!n) return MU_OK;
    s->own = mu_setup_own_groups(p), s->first = mu_setup_first_group(p), s->all = p->server_groups;
    s->blocks = 1 + t->s->params->n_slots;
    MU_TRY(take_room(s, err));
    MU_TRY(mu_gathering_init(&s->gathering, n, err));
    for (int g = 0; g < s->all; g++)
        s->part[g].stripe = (mu_stripe){t->at.samples, p->global_batch / s->all, g, s->all};
    MU_TRY(mu_rounds_init(&s->rounds, n, s->own, s->all, err));
    n->take = take;
    n->ctx = s;
    return MU_OK;
}

void mu_spread_close(mu_spread *s) {
    const int ranks = mu_spread_ranks(s);
    if (!s->nodes) return;
    s->nodes->take = NULL;
    mu_rounds_fini(&s->rounds);
    for (int g = 0; s->part && g < s->all; g++)
        if (!is_own(s, g)) mu_free(s->part[g].point.open);
    for (int i = 0; s->copy && i < ranks * s->blocks; i++) mu_free(s->copy[i]);
    mu_free(s->part);
    mu_free(s->copy);
    mu_free(s->has_ended);
    mu_gathering_fini(&s->gathering);
    *s = (mu_spread){0};
}

// ---- copies ----

void mu_spread_note_points(mu_spread *s, const mu_server_group *group) {
    for (int g = 0; g < s->own; g++) s->part[s->first + g] = mu_standing_part_of(&group[g]);
}

static void begin_copy(mu_spread *s, int64_t number) {
    s->number = number;
    s->points = 0;
    s->copied = 0;
    s->missed = false;
}

mu_status mu_spread_ask(mu_spread *s, mu_err *err) {
    begin_copy(s, s->number + 1);
    const mu_wire w = {.type = MU_WIRE_ASK,
                       .ask = {.incarnation = 1, .what = MU_ASK_WEIGHTS, .version = s->number}};
    return mu_nodes_send(s->nodes, -1, MU_TOPIC_WORD, &w, err);
}

bool mu_spread_has_copies(const mu_spread *s) {
    const int64_t others = s->nodes->n - 1;
    return s->points >= s->all - s->own && s->copied >= others * s->blocks * s->nodes->shape.count;
}

void mu_spread_join(const mu_spread *s, const mu_params *ps, float *value, float *const *slot) {
    float *values[MU_MERGE_GROUPS] = {value};
    float *const *slots[MU_MERGE_GROUPS] = {slot};
    for (int r = 1; r < s->nodes->n; r++) {
        values[r] = s->copy[r * s->blocks];
        slots[r] = s->copy + r * s->blocks + 1;
    }
    mu_standing_mean(ps, s->nodes->n, values, slots);
}

static mu_status send_points(mu_spread *s, int peer, int64_t number, bool missed, mu_err *err) {
    for (int g = s->first; g < s->first + s->own; g++) {
        const mu_standing_part *p = &s->part[g];
        const mu_wire w = {.type = MU_WIRE_POINT,
                           .point = {.group = g,
                                     .missed = missed,
                                     .number = number,
                                     .version = p->point.version,
                                     .applied = p->point.applied,
                                     .next = p->point.next,
                                     .updates = p->updates,
                                     .ranges = p->point.n_open,
                                     .range = p->point.open}};
        MU_TRY(mu_nodes_send(s->nodes, peer, MU_TOPIC_COPY, &w, err));
    }
    return MU_OK;
}

static mu_status send_blocks(mu_spread *s, int64_t number, const float *value, float *const *slot,
                             mu_err *err) {
    for (int b = 0; b < s->blocks; b++)
        MU_TRY(mu_beginning_send_block(s->nodes, 0, b, number, b ? slot[b - 1] : value, err));
    return MU_OK;
}

mu_status mu_spread_give(mu_spread *s, bool missed, const float *value, float *const *slot, mu_err *err) {
    const int64_t number = s->wanted;
    s->wanted = 0;
    MU_TRY(send_points(s, 0, number, missed, err));
    return missed ? MU_OK : send_blocks(s, number, value, slot, err);
}

// ---- ends ----

static mu_status say(mu_spread *s, mu_wire_stopping why, mu_err *err) {
    const mu_wire w = {.type = MU_WIRE_STOP, .stop = {.why = (int32_t)why}};
    return mu_nodes_send(s->nodes, mu_spread_leads(s) ? -1 : 0, MU_TOPIC_WORD, &w, err);
}

mu_status mu_spread_say_ended(mu_spread *s, mu_err *err) {
    if (s->said_ended || mu_spread_leads(s)) return MU_OK;
    s->said_ended = true;
    return say(s, MU_STOP_ENDED, err);
}

bool mu_spread_all_ended(const mu_spread *s) {
    bool all = true;
    for (int r = 1; r < s->nodes->n; r++) all &= s->has_ended[r];
    return all;
}

mu_status mu_spread_say_stop(mu_spread *s, bool due, mu_err *err) {
    if (s->said_stop) return MU_OK;
    s->said_stop = true;
    return say(s, due ? MU_STOP_DUE : MU_STOP_ASKED, err);
}

static bool has_points(void *ctx) {
    const mu_spread *s = ctx;
    return s->points >= s->all - s->own;
}

mu_status mu_spread_end(mu_spread *s, mu_err *err) {
    if (mu_spread_leads(s)) {
        begin_copy(s, LAST);
        MU_TRY(say(s, MU_STOP_ENDED, err));
    }
    MU_TRY(send_points(s, -1, LAST, false, err));
    return mu_nodes_wait(s->nodes, has_points, s, err);
}

static bool has_everything(void *ctx) {
    const mu_spread *s = ctx;
    return mu_gathering_has_all(&s->gathering) && mu_spread_has_copies(s);
}

mu_status mu_spread_gather(mu_spread *s, const mu_wire_counts *own, const float *value, float *const *slot,
                           mu_err *err) {
    if (mu_spread_leads(s)) return mu_nodes_wait(s->nodes, has_everything, s, err);
    const mu_wire w = {.type = MU_WIRE_COUNTS, .counts = *own};
    s->nodes->parting = true;
    MU_TRY(mu_nodes_send(s->nodes, 0, MU_TOPIC_COPY, &w, err));
    MU_TRY(send_blocks(s, LAST, value, slot, err));
    return mu_gathering_leave(&s->gathering, err);
}
