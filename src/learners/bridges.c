// SPDX-License-Identifier: Apache-2.0
// bridges.c - see bridges.h.
#include "learners/bridges.h"

#include "comm/channel.h"
#include "ps/part_forms.h"

#include <stdio.h>
#include <string.h>

#define TAG "bridges"

static uint32_t *told(const mu_bridges *b, int by, int of) {
    return &b->told[(by - b->first) * b->n + of - b->first];
}
static bool is_partner(const mu_bridges *b, int rank) { return rank >= b->first && rank < b->first + b->n; }

// ---- beginning and end ----

mu_status mu_bridges_init(mu_bridges *b, const mu_bridges_opts *o, mu_err *err) {
    const size_t ranks = (size_t)o->n, channels = (size_t)o->forms->channels;
    *b = (mu_bridges){.nodes = o->nodes,
                      .forms = o->forms,
                      .learner = o->learner,
                      .first = o->first,
                      .n = o->n,
                      .n_far = o->n_far};
    b->far = mu_alloc_array((size_t)o->n_far + 1, sizeof *b->far, TAG);
    b->at = mu_alloc_array(channels + 1, sizeof *b->at, TAG);
    b->told = mu_alloc_array(ranks * ranks, sizeof *b->told, TAG);
    bool good = b->far && b->at && b->told;
    for (size_t i = 0; good && i < channels; i++) b->at[i] = -1;
    for (int i = 0; good && i < o->n_far; i++) {
        mu_far *f = &b->far[i];
        *f = o->far[i];
        b->at[f->number] = i;
        if (f->goes) good = (f->copy = mu_alloc_block(f->bytes, TAG)) != NULL;
    }
    return good ? MU_OK : MU_FAIL_NOMEM(err, "bridges to other ranks");
}

// Letters count in `far` as long as there are any.
void mu_bridges_fini(mu_bridges *b) {
    for (int i = 0; b->far && i < b->n_far; i++) mu_nodes_give_back(b->nodes, b->far[i].copy);
    if (b->nodes) mu_nodes_give_back(b->nodes, b->far);
    mu_free(b->at);
    mu_free(b->told);
    *b = (mu_bridges){0};
}

// ---- messages ----

static mu_status send_message(mu_bridges *b, mu_far *f, const void *message, mu_err *err) {
    memcpy(f->copy, message, f->bytes);
    mu_channel_let_go(f->memory);
    const mu_wire w = {.type = MU_WIRE_BRIDGE,
                       .bridge = {.channel = f->number, .number = f->passed, .message = f->copy}};
    MU_TRY(mu_nodes_send_counted(b->nodes, f->peer, &f->owed, &w, err));
    f->passed++;
    b->sent += (int64_t)f->bytes;
    return MU_OK;
}

static mu_status tell_let_go(mu_bridges *b, mu_far *f, mu_err *err) {
    const mu_wire w = {
        .type = MU_WIRE_BRIDGE,
        .bridge = {.channel = b->forms->channels / 2 + f->number, .number = f->let_go, .message = f}};
    MU_TRY(mu_nodes_send_counted(b->nodes, f->peer, &f->owed, &w, err));
    f->let_go++;
    return MU_OK;
}

mu_status mu_bridges_look(mu_bridges *b, bool *moved, mu_err *err) {
    for (int i = 0; i < b->n_far; i++) {
        mu_far *f = &b->far[i];
        const bool may_send = f->goes && f->passed == f->let_go && !f->owed;
        const void *message = may_send ? mu_channel_peek(f->memory) : NULL;
        const bool gone = !f->goes && f->let_go < f->passed && mu_channel_room(f->memory);
        if (message) MU_TRY(send_message(b, f, message, err));
        else if (gone) MU_TRY(tell_let_go(b, f, err));
        *moved |= message || gone;
    }
    return MU_OK;
}

static mu_status unexpected(int peer, const mu_wire_bridge *w, mu_err *err) {
    return MU_FAIL(err, MU_EDATA, "rank %d sent message %lld of channel %d, which is not due", peer,
                   (long long)w->number, w->channel);
}

// Of how many beginnings is a frame of the peer? < 0: of fewer than are known here; > 0: of more.
static int compare(const mu_bridges *b, int peer) {
    const int own = b->nodes->rank;
    bool more = false;
    for (int o = b->first; o < b->first + b->n; o++) {
        if (*told(b, peer, o) < *told(b, own, o)) return -1;
        more |= *told(b, peer, o) > *told(b, own, o);
    }
    return more;
}

mu_status mu_bridges_take(mu_bridges *b, int peer, const mu_wire_bridge *w, mu_err *err) {
    if (!b->nodes || !is_partner(b, peer)) return unexpected(peer, w, err);
    const int about = mu_part_let_go(b->forms, w->channel), channel = about < 0 ? w->channel : about;
    mu_far *f = b->at[channel] < 0 ? NULL : &b->far[b->at[channel]];
    const int age = compare(b, peer);
    if (age < 0) return MU_OK;
    if (age > 0 || !f || f->peer != peer || f->goes != (about >= 0)) return unexpected(peer, w, err);
    if (about >= 0) {
        if (w->number != f->let_go || f->let_go >= f->passed) return unexpected(peer, w, err);
        f->let_go++;
        return MU_OK;
    }
    void *room = mu_channel_room(f->memory);
    if (w->number != f->passed || f->let_go != f->passed || !room) return unexpected(peer, w, err);
    memcpy(room, w->message, f->bytes);
    f->passed++;
    b->received += (int64_t)f->bytes;
    mu_channel_put(f->memory);
    return MU_OK;
}

// ---- beginning again ----

static void forget(mu_bridges *b) {
    for (int i = 0; i < b->n_far; i++) {
        mu_far *f = &b->far[i];
        mu_channel_memory_reset(f->memory);
        f->passed = f->let_go = 0;
    }
}

// All messages of before, to and from this rank, are forgotten: rank `of` has begun again.
static mu_status tell(mu_bridges *b, int of, mu_err *err) {
    mu_wire w = {.type = MU_WIRE_LOST,
                 .lost = {.learner = b->learner, .rank = of, .incarnation = *told(b, b->nodes->rank, of)}};
    snprintf(w.lost.why, sizeof w.lost.why, "a worker was lost");
    forget(b);
    for (int p = b->first; p < b->first + b->n; p++)
        if (p != b->nodes->rank) MU_TRY(mu_nodes_send(b->nodes, p, MU_TOPIC_WORD, &w, err));
    return MU_OK;
}

mu_status mu_bridges_begin_again(mu_bridges *b, mu_err *err) {
    if (!b->nodes) return MU_OK;
    ++*told(b, b->nodes->rank, b->nodes->rank);
    return tell(b, b->nodes->rank, err);
}

mu_status mu_bridges_take_lost(mu_bridges *b, int peer, const mu_wire_lost *w, bool *begins, mu_err *err) {
    if (!b->nodes || w->learner != b->learner || !is_partner(b, peer) || !is_partner(b, w->rank) ||
        w->incarnation != *told(b, peer, w->rank) + 1)
        return MU_FAIL(err, MU_EDATA, "rank %d says that learner %d was lost, which cannot be", peer,
                       w->learner);
    *told(b, peer, w->rank) = w->incarnation;
    *begins = w->rank == peer;
    return MU_OK;
}

mu_status mu_bridges_follow(mu_bridges *b, int peer, mu_err *err) {
    *told(b, b->nodes->rank, peer) = *told(b, peer, peer);
    return tell(b, peer, err);
}

bool mu_bridges_all_told(const mu_bridges *b) {
    bool all = true;
    for (int p = b->first; p < b->first + b->n; p++) all &= !compare(b, p);
    return all;
}
