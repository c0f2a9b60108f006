// SPDX-License-Identifier: Apache-2.0
// buffers.c - see buffers.h.
#include "comm/buffers.h"

#include "base/alloc.h"

enum { LINE = MU_CACHE_LINE, PAGE = 4096 };

_Static_assert(sizeof(mu_buffer) <= LINE, "mu_buffer_data skips one line");

static mu_buffer *allocate(size_t bytes) {
    const size_t room = bytes / PAGE * PAGE + PAGE;
    char *raw = mu_alloc(room + 2 * LINE, "message");
    if (!raw) return NULL;
    mu_buffer *one = (mu_buffer *)(void *)(raw + (LINE - (size_t)raw % LINE) % LINE);
    one->raw = raw;
    one->room = room;
    return one;
}

// The smallest one kept that is large enough and not far too large.
static mu_buffer *reuse(mu_buffers *b, size_t bytes) {
    int best = -1;
    for (int i = 0; i < b->n; i++) {
        const size_t room = b->kept[i]->room;
        if (room < bytes || room / 4 > bytes + PAGE) continue;
        if (best < 0 || room < b->kept[best]->room) best = i;
    }
    if (best < 0) return NULL;
    mu_buffer *one = b->kept[best];
    b->kept[best] = b->kept[--b->n];
    return one;
}

mu_buffer *mu_buffer_take(mu_buffers *b, int peer, size_t bytes) {
    mu_buffer *one = reuse(b, bytes);
    if (!one) one = allocate(bytes);
    if (!one) return NULL;
    one->before = NULL;
    one->next = b->used;
    if (b->used) b->used->before = one;
    b->used = one;
    one->bytes = bytes;
    one->peer = peer;
    return one;
}

void mu_buffer_give(mu_buffers *b, mu_buffer *one) {
    int least = 0;
    if (one->next) one->next->before = one->before;
    if (one->before) one->before->next = one->next;
    else b->used = one->next;
    if (b->n < MU_BUFFERS_KEPT) {
        b->kept[b->n++] = one;
        return;
    }
    for (int i = 1; i < b->n; i++)
        if (b->kept[i]->room < b->kept[least]->room) least = i;
    if (b->kept[least]->room < one->room) {
        mu_buffer *other = b->kept[least];
        b->kept[least] = one;
        one = other;
    }
    mu_free(one->raw);
}

void mu_buffers_fini(mu_buffers *b) {
    while (b->used) mu_buffer_give(b, b->used);
    while (b->n) mu_free(b->kept[--b->n]->raw);
}
