// SPDX-License-Identifier: Apache-2.0
// transport_actor.h - what ranks do in the tests of transports, as state machines: one thread drives any
// number of ranks of `inproc`, and each process of MPI its own. Nothing here waits; a failure is a text.
//
// What a message holds follows from its sender, receiver and number, so a receiver knows what has to come.
#ifndef TEST_CONFORM_TRANSPORT_ACTOR_H
#define TEST_CONFORM_TRANSPORT_ACTOR_H

#include "base/alloc.h"
#include "comm/transport.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ACTORS = 8, SCRATCH = 2048, SCRATCHES = 64 * ACTORS, HELD = 5, FAILURE = 480, POOL_BYTES = 18 << 20 };

typedef enum pattern { RING, ALL_TO_ALL, TO_ONE, FROM_ONE } pattern;

typedef struct traffic {
    pattern pattern;
    int messages;   // of each sender to each of its receivers
    size_t largest; // the last is so long
    uint64_t seed;
} traffic;

typedef struct actor {
    mu_transport *t;
    const traffic *plan;
    int limit; // messages that may be sent to each by now; all in the end
    int sent[ACTORS], got[ACTORS];
    bool blocked[ACTORS]; // FULL was the answer
    int lent;
    unsigned char scratch[SCRATCHES][SCRATCH]; // small messages: overwritten as soon as they are SENT
    bool used[SCRATCHES];
    const void *held[HELD]; // messages that are not released yet
    int n_held;
    uint64_t fulls; // times it was answered FULL
    char failure[FAILURE];
} actor;

static inline uint64_t mix(uint64_t a, uint64_t b) {
    uint64_t z = a * 0x9e3779b97f4a7c15u + b + 0x632be59bd9b4e019u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static inline const unsigned char *pool(void) {
    static uint64_t *words;
    if (!words) {
        words = malloc(POOL_BYTES);
        if (!words) abort();
        for (size_t i = 0; i < POOL_BYTES / 8; i++) words[i] = mix(7, i);
    }
    return (const unsigned char *)words;
}

static inline bool sends(const traffic *p, int from, int to, int n) {
    switch (p->pattern) {
    case RING:
        return to == (from + 1) % n;
    case ALL_TO_ALL:
        return from != to;
    case TO_ONE:
        return to == 0 && from != 0;
    default:
        return from == 0 && to != 0;
    }
}

static inline uint64_t draw(const traffic *p, int from, int to, int i, uint64_t what) {
    return mix(mix(p->seed, (uint64_t)from * 64 + (uint64_t)to), (uint64_t)i * 16 + what);
}

static inline size_t size_of(const traffic *p, int from, int to, int i) {
    static const size_t up_to[] = {1, 100, 100, 1100, 5000, 70000, 300000, 1 << 20};
    const uint64_t z = draw(p, from, to, i, 0);
    if (i == p->messages - 1) return p->largest;
    const size_t most = up_to[z % MU_COUNT(up_to)];
    return (z >> 8) % (most < p->largest ? most : p->largest);
}

static inline const unsigned char *content_of(const traffic *p, int from, int to, int i) {
    return pool() + draw(p, from, to, i, 1) % (1 << 20);
}

// Notes the first failure. Always false.
MU_PRINTF(2, 3) static inline bool note_failure(char *out, const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    if (!out[0]) vsnprintf(out, FAILURE, fmt, args);
    va_end(args);
    return false;
}
#define FAILED(a, ...) note_failure((a)->failure, __VA_ARGS__)

// ---- sending ----

// In up to five parts, some of them empty.
static inline int cut_up(const unsigned char *data, size_t bytes, uint64_t z, struct iovec part[5]) {
    const int n = bytes ? 1 + (int)(z % 5) : (int)(z % 2);
    size_t at = 0;
    for (int k = 0; k < n; k++) {
        const size_t rest = bytes - at, take = k == n - 1 ? rest : (z >> (8 + 8 * k)) % (rest + 1);
        part[k] = (struct iovec){.iov_base = (void *)(uintptr_t)(data + at), .iov_len = take};
        at += take;
    }
    return n;
}

static inline uint64_t own_copy(actor *a, const unsigned char **data, size_t bytes) {
    for (uint64_t k = 0; bytes <= SCRATCH && k < SCRATCHES; k++) {
        if (a->used[k]) continue;
        if (bytes) memcpy(a->scratch[k], *data, bytes);
        *data = a->scratch[k];
        return k;
    }
    return SCRATCHES;
}

// False: not now, or it failed.
static inline bool send_next(actor *a, int to) {
    const int from = a->t->rank, i = a->sent[to];
    const size_t bytes = size_of(a->plan, from, to, i);
    const unsigned char *data = content_of(a->plan, from, to, i);
    struct iovec part[5];
    const uint64_t token = own_copy(a, &data, bytes);
    const int n = cut_up(data, bytes, draw(a->plan, from, to, i, 2), part);
    mu_sending how;
    mu_err err = {0};
    if (mu_transport_send(a->t, to, part, n, token, &how, &err) != MU_OK)
        return FAILED(a, "send: %s", err.msg);
    if (how == MU_SEND_GONE) return FAILED(a, "rank %d is gone for %d", to, from);
    a->blocked[to] = how == MU_SEND_FULL;
    a->fulls += a->blocked[to];
    if (a->blocked[to]) return false;
    if (token < SCRATCHES) a->used[token] = true;
    a->sent[to]++;
    a->lent++;
    return true;
}

static inline void send_some(actor *a) {
    for (int to = 0; to < a->t->n; to++)
        for (int k = 0; k < 8 && !a->blocked[to] && sends(a->plan, a->t->rank, to, a->t->n); k++)
            if (a->sent[to] >= a->limit || a->failure[0] || !send_next(a, to)) break;
}

// ---- receiving ----

static inline bool is_as_sent(actor *a, const mu_transport_event *e) {
    const int from = e->peer, to = a->t->rank, i = a->got[from]++;
    if (!sends(a->plan, from, to, a->t->n) || i >= a->plan->messages)
        return FAILED(a, "rank %d got message %d of %d: too many", to, i, from);
    if ((size_t)e->data % 64) return FAILED(a, "a message at %p", e->data);
    if (e->bytes != size_of(a->plan, from, to, i))
        return FAILED(a, "message %d from %d to %d: %zu bytes, sent %zu", i, from, to, e->bytes,
                      size_of(a->plan, from, to, i));
    if (e->bytes && memcmp(e->data, content_of(a->plan, from, to, i), e->bytes) != 0)
        return FAILED(a, "message %d from %d to %d has changed on its way", i, from, to);
    return true;
}

static inline void release_held(actor *a) {
    while (a->n_held) a->t->class->release(a->t, a->held[--a->n_held]);
}

static inline void sent(actor *a, uint64_t token) {
    a->lent--;
    if (token >= SCRATCHES) return;
    a->used[token] = false;
    memset(a->scratch[token], 0xee, SCRATCH);
}

static inline bool has_everything(const actor *a, int from) {
    return !sends(a->plan, from, a->t->rank, a->t->n) || a->got[from] == a->plan->messages;
}

static inline void take_event(actor *a, const mu_transport_event *e) {
    switch (e->what) {
    case MU_TRANSPORT_NOTHING:
        break;
    case MU_TRANSPORT_SENT:
        sent(a, e->token);
        break;
    case MU_TRANSPORT_ROOM:
        a->blocked[e->peer] = false;
        break;
    case MU_TRANSPORT_BROKEN:
        FAILED(a, "rank %d is broken: %s", e->peer, e->why);
        break;
    case MU_TRANSPORT_LEFT:
        if (!has_everything(a, e->peer)) FAILED(a, "rank %d left before its messages came", e->peer);
        break;
    case MU_TRANSPORT_MESSAGE:
        if (a->n_held == HELD) release_held(a);
        a->held[a->n_held++] = e->data;
        is_as_sent(a, e);
        break;
    }
}

// True: all is sent and has come, all ranks have left.
static inline bool act(actor *a) {
    bool all = true;
    mu_transport_event e = {.what = MU_TRANSPORT_ROOM};
    if (!a->t->left) send_some(a);
    for (int k = 0; k < 200 && e.what && !a->failure[0]; k++) {
        mu_err err = {0};
        if (a->t->class->poll(a->t, &e, &err) != MU_OK) FAILED(a, "poll: %s", err.msg);
        else if (e.what) take_event(a, &e);
    }
    if (!e.what) release_held(a);
    for (int p = 0; p < a->t->n; p++) {
        all &= has_everything(a, p);
        all &= !sends(a->plan, a->t->rank, p, a->t->n) || a->sent[p] == a->plan->messages;
    }
    if (all && !a->lent && !a->t->left) a->t->class->leave(a->t);
    return mu_transport_is_over(a->t) || a->failure[0];
}

// ---- back-pressure: rank 0 fills the window of rank 1, which reads and releases nothing at first ----

enum { FILL_WINDOW = 1 << 20, FILL_LARGE = 400000, FILL_MOST = 2 << 20 };

typedef struct filler {
    mu_transport *t;
    const void *held[MU_TRANSPORT_WAITING + 1];
    int n_held, looks, large, small;
    bool has_room, last_sent, over;
    char failure[FAILURE];
} filler;

static inline mu_sending fill_with(filler *f, size_t bytes) {
    mu_sending how = MU_SEND_GONE;
    mu_err err = {0};
    const struct iovec part = {.iov_base = (void *)(uintptr_t)pool(), .iov_len = bytes};
    if (mu_transport_send(f->t, 1, &part, 1, 0, &how, &err) != MU_OK) FAILED(f, "send: %s", err.msg);
    if (how == MU_SEND_GONE) FAILED(f, "rank 1 is gone");
    return how;
}

static inline void fill_up(filler *f) {
    if (!f->large) {
        while (fill_with(f, FILL_LARGE) == MU_SEND_TAKEN) f->large++;
        while (fill_with(f, 100) == MU_SEND_TAKEN) f->small++;
        if (f->large != 2 || f->large + f->small != MU_TRANSPORT_WAITING)
            FAILED(f, "%d large and %d small messages were taken", f->large, f->small);
    } else if (f->has_room && !f->last_sent) { // longer than the window: goes when nothing is owed
        f->has_room = false;
        f->last_sent = fill_with(f, FILL_MOST) == MU_SEND_TAKEN;
    }
}

static inline void fill_take(filler *f, const mu_transport_event *e) {
    if (e->what == MU_TRANSPORT_ROOM) f->has_room = true;
    if (e->what == MU_TRANSPORT_BROKEN) FAILED(f, "rank %d is broken: %s", e->peer, e->why);
    if (e->what != MU_TRANSPORT_MESSAGE) return;
    f->over |= e->bytes == FILL_MOST;
    if (f->n_held > MU_TRANSPORT_WAITING) FAILED(f, "more came than may wait");
    else f->held[f->n_held++] = e->data;
}

static inline bool fill_act(filler *f) {
    mu_transport_event e = {.what = MU_TRANSPORT_ROOM};
    if (f->t->rank == 0 && !f->t->left) fill_up(f);
    while (e.what && !f->failure[0]) {
        mu_err err = {0};
        if (f->t->class->poll(f->t, &e, &err) != MU_OK) return FAILED(f, "poll: %s", err.msg), true;
        fill_take(f, &e);
    }
    const bool all_here = f->n_held == MU_TRANSPORT_WAITING && ++f->looks > 100;
    if (all_here || f->over)
        while (f->n_held) f->t->class->release(f->t, f->held[--f->n_held]);
    const bool done = f->t->rank == 0 ? f->last_sent && !f->t->lent : f->t->rank > 1 || f->over;
    if (done && !f->t->left) f->t->class->leave(f->t);
    return mu_transport_is_over(f->t) || f->failure[0];
}

#endif
