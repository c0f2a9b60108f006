// SPDX-License-Identifier: Apache-2.0
// channel_local.c - channels between threads: one buffer and two counters of messages, sent and let go. The
// buffer is the writer's while they are equal, the reader's while they differ by one.
#include "base/alloc.h"
#include "comm/channel.h"
#include "comm/wait.h"

typedef struct local {
    mu_channel c; // first
    mu_channel_terms *terms;
    mu_bell sent, free; // rung by the writer, the reader
    _Atomic uint64_t n_sent, n_free;
    void *buffer;
} local;

enum { SLICE_NS = 2000000, SPIN_NS = 20000 }; // a wait looks at the terms that often

// Until *counter is at least n. Its writer stores with release, so what lies in the buffer is seen.
static mu_status wait_for(local *l, _Atomic uint64_t *counter, uint64_t n, mu_bell *bell, const char *whom,
                          mu_err *err) {
    for (int64_t waited = 0;;) {
        const uint32_t seen = mu_bell_read(bell);
        if (atomic_load_explicit(counter, memory_order_acquire) >= n) return MU_OK;
        if (atomic_load(&l->terms->given_up))
            return MU_FAIL(err, MU_EBACKEND, "`%s` has ended: another worker of the group failed", l->c.name);
        if (waited >= l->terms->limit_ns)
            return MU_FAIL(err, MU_EBACKEND, "`%s` waited %.1f s for its %s", l->c.name,
                           (double)l->terms->limit_ns * 1e-9, whom);
        if (!mu_bell_wait(bell, seen, SPIN_NS, SLICE_NS)) waited += SLICE_NS;
    }
}

static mu_status place(mu_channel *c, void **to, mu_err *err) {
    local *l = (local *)c;
    MU_TRY(wait_for(l, &l->n_free, atomic_load_explicit(&l->n_sent, memory_order_relaxed), &l->free, "reader",
                    err));
    *to = l->buffer;
    return MU_OK;
}

static void send(mu_channel *c) {
    local *l = (local *)c;
    c->sent++;
    atomic_fetch_add_explicit(&l->n_sent, 1, memory_order_release);
    mu_bell_ring(&l->sent);
}

static mu_status receive(mu_channel *c, const void **message, mu_err *err) {
    local *l = (local *)c;
    MU_TRY(wait_for(l, &l->n_sent, atomic_load_explicit(&l->n_free, memory_order_relaxed) + 1, &l->sent,
                    "writer", err));
    *message = l->buffer;
    return MU_OK;
}

static void release(mu_channel *c) {
    local *l = (local *)c;
    atomic_fetch_add_explicit(&l->n_free, 1, memory_order_release);
    mu_bell_ring(&l->free);
}

static void destroy(mu_channel *c) {
    mu_free(((local *)c)->buffer);
    mu_free(c);
}

static const mu_channel_class local_class = {"local", place, send, receive, release, destroy};

mu_status mu_channel_create_local(const char *name, size_t bytes, mu_channel_terms *terms, mu_channel **out,
                                  mu_err *err) {
    local *l = mu_alloc(sizeof *l, "channel");
    void *buffer = mu_alloc(bytes + 1, "channel");
    if (!l || !buffer) {
        mu_free(l);
        mu_free(buffer);
        return MU_FAIL_NOMEM(err, "a channel between workers");
    }
    l->c = (mu_channel){.class = &local_class, .name = name, .bytes = bytes};
    l->terms = terms;
    l->buffer = buffer;
    *out = &l->c;
    return MU_OK;
}

void mu_channel_destroy(mu_channel *c) {
    if (c) c->class->destroy(c);
}
