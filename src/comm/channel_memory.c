// SPDX-License-Identifier: Apache-2.0
// channel_memory.c - channels in memory that both ends see: one buffer and two counters of messages, sent and
// let go. The buffer is the writer's while they are equal, the reader's while they differ by one.
//
// A process that dies leaves the counters as they are: it has sent or let go, or it has not. What others wait
// for then never comes; `given_up` ends that, and a reset begins anew.
#include "base/alloc.h"
#include "base/clock.h"
#include "comm/channel.h"
#include "comm/stall_timer.h"
#include "comm/wait.h"

#include <string.h>

enum { LINE = 64, SPIN_NS = 20000, LOOK_NS = 2000000 }; // the terms are looked at that often

typedef struct count { // one cache line: a counter, and the bell that its writer rings
    _Atomic uint64_t n;
    mu_bell bell;
    char rest[LINE - sizeof(_Atomic uint64_t) - sizeof(mu_bell)];
} count;

typedef struct head { // at the start of the memory; the buffer follows
    count sent, free;
} head;

typedef struct memory_channel {
    mu_channel c; // first
    mu_channel_terms *terms;
    head *h;
    mu_bell *parent; // the other end is on another rank; NULL = it is here
} memory_channel;

static head *head_of(const mu_channel *c) { return ((const memory_channel *)c)->h; }

// The counter is stored with release after what it tells of, so that is seen here.
static bool has_come(count *k, uint64_t n) { return atomic_load_explicit(&k->n, memory_order_acquire) >= n; }

static mu_status wait_long(mu_channel *c, count *k, uint64_t n, const char *whom, mu_err *err) {
    const mu_channel_terms *terms = ((const memory_channel *)c)->terms;
    mu_stall_timer t = mu_stall_timer_new();
    for (;;) {
        const uint32_t seen = mu_bell_read(&k->bell);
        if (has_come(k, n)) return MU_OK;
        if (c->pulse) atomic_fetch_add_explicit(c->pulse, 1, memory_order_relaxed);
        if (atomic_load(&terms->given_up))
            return MU_FAIL(err, MU_EBACKEND, "`%s` has ended: another worker of the group failed", c->name);
        if (mu_stall_timer_is_over(&t, (double)terms->limit_ns * 1e-9))
            return MU_FAIL(err, MU_EBACKEND, "`%s` waited %.1f s for its %s", c->name,
                           (double)terms->limit_ns * 1e-9, whom);
        (void)mu_bell_wait(&k->bell, seen, SPIN_NS, LOOK_NS);
    }
}

static mu_status wait_for(mu_channel *c, count *k, uint64_t n, const char *whom, mu_err *err) {
    if (has_come(k, n)) return MU_OK;
    const int64_t began = mu_clock_ns();
    const mu_status st = wait_long(c, k, n, whom, err);
    if (c->waited_ns) *c->waited_ns += mu_clock_ns() - began;
    return st;
}

static void add_one(count *k) {
    atomic_fetch_add_explicit(&k->n, 1, memory_order_release);
    mu_bell_ring(&k->bell);
}

// Its own counter only the caller writes.
static uint64_t own(const count *k) { return atomic_load_explicit(&k->n, memory_order_relaxed); }

static mu_status place(mu_channel *c, void **to, mu_err *err) {
    head *h = head_of(c);
    MU_TRY(wait_for(c, &h->free, own(&h->sent), "reader", err));
    *to = h + 1;
    return MU_OK;
}

static void ring_parent(const mu_channel *c) {
    mu_bell *parent = ((const memory_channel *)c)->parent;
    if (parent) mu_bell_ring(parent);
}

static void send(mu_channel *c) {
    c->sent++;
    add_one(&head_of(c)->sent);
    ring_parent(c);
}

static mu_status receive(mu_channel *c, const void **message, mu_err *err) {
    head *h = head_of(c);
    MU_TRY(wait_for(c, &h->sent, own(&h->free) + 1, "writer", err));
    *message = h + 1;
    return MU_OK;
}

static void release(mu_channel *c) {
    add_one(&head_of(c)->free);
    ring_parent(c);
}

static void close_memory(mu_channel *c) { mu_free(c); }

static const mu_channel_class memory_class = {"memory", place, send, receive, release, close_memory};

size_t mu_channel_memory_size(size_t bytes) { return sizeof(head) + (bytes + LINE - 1) / LINE * LINE; }

void mu_channel_memory_reset(void *memory) { memset(memory, 0, sizeof(head)); }

mu_status mu_channel_open_memory(const char *name, size_t bytes, mu_channel_terms *terms, void *memory,
                                 mu_channel **out, mu_err *err) {
    return mu_channel_open_far(name, bytes, terms, memory, NULL, out, err);
}

mu_status mu_channel_open_far(const char *name, size_t bytes, mu_channel_terms *terms, void *memory,
                              mu_bell *parent, mu_channel **out, mu_err *err) {
    memory_channel *m = mu_alloc(sizeof *m, "channel");
    if (!m) return MU_FAIL_NOMEM(err, "a channel between workers");
    m->c = (mu_channel){.class = &memory_class, .name = name, .bytes = bytes};
    m->terms = terms;
    m->h = memory;
    m->parent = parent;
    *out = &m->c;
    return MU_OK;
}

// ---- a parent's ends ----

const void *mu_channel_peek(void *memory) {
    head *h = memory;
    return has_come(&h->sent, own(&h->free) + 1) ? h + 1 : NULL;
}

void mu_channel_let_go(void *memory) { add_one(&((head *)memory)->free); }

void *mu_channel_room(void *memory) {
    head *h = memory;
    return has_come(&h->free, own(&h->sent)) ? h + 1 : NULL;
}

void mu_channel_put(void *memory) { add_one(&((head *)memory)->sent); }

void mu_channel_close(mu_channel *c) {
    if (c) c->class->close(c);
}
