// SPDX-License-Identifier: Apache-2.0
// alloc.c - counted heap and arenas.
//
// Each block is preceded by a header (raw pointer, size, tag) and begins at a cache line. The tag is there
// for a debugger or a core file. Counters are atomics, so any thread may allocate.
#include "base/alloc.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

typedef struct header {
    void       *raw;            // as the C library gave it
    size_t      size;
    const char *tag;
} header;

static atomic_uint_fast64_t n_calls, n_live, live_bytes, peak_bytes;
static atomic_int_fast64_t fail_countdown;      // 0 = never

static int must_fail(void) {
    if (atomic_load_explicit(&fail_countdown, memory_order_relaxed) == 0) return 0;
    return atomic_fetch_sub(&fail_countdown, 1) == 1;
}

static void *alloc_aligned(size_t size, size_t align, bool zeroed, const char *tag) {
    atomic_fetch_add_explicit(&n_calls, 1, memory_order_relaxed);
    if (must_fail() || size > SIZE_MAX - align - sizeof(header)) return NULL;
    char *raw = zeroed ? calloc(1, size + align + sizeof(header)) : malloc(size + align + sizeof(header));
    if (!raw) return NULL;
    uintptr_t user = ((uintptr_t)raw + sizeof(header) + align - 1) & ~(uintptr_t)(align - 1);
    header h = {raw, size, tag};
    memcpy((void *)(user - sizeof(header)), &h, sizeof h);
    atomic_fetch_add_explicit(&n_live, 1, memory_order_relaxed);
    uint64_t live = atomic_fetch_add_explicit(&live_bytes, size, memory_order_relaxed) + size;
    uint64_t peak = atomic_load_explicit(&peak_bytes, memory_order_relaxed);
    while (live > peak && !atomic_compare_exchange_weak(&peak_bytes, &peak, live)) { }
    return (void *)user;
}

void *mu_alloc(size_t size, const char *tag) {
    return alloc_aligned(size, MU_CACHE_LINE, true, tag);
}

void *mu_alloc_array(size_t n, size_t size, const char *tag) {
    size_t total;
    return __builtin_mul_overflow(n, size, &total) ? NULL : mu_alloc(total, tag);
}

void *mu_alloc_block(size_t size, const char *tag) {
    void *p = alloc_aligned(size, 4096, true, tag); // the kernel's own zero pages: taken when they are used
#ifdef MADV_HUGEPAGE
    if (p && size >= (size_t)4 << 20) (void)madvise(p, size & ~(size_t)4095, MADV_HUGEPAGE);
#endif
    return p;
}

void mu_free(void *p) {
    if (!p) return;
    header h;
    memcpy(&h, (char *)p - sizeof h, sizeof h);
    atomic_fetch_sub_explicit(&n_live, 1, memory_order_relaxed);
    atomic_fetch_sub_explicit(&live_bytes, h.size, memory_order_relaxed);
    free(h.raw);
}

void *mu_realloc(void *p, size_t size, const char *tag) {
    if (!p) return alloc_aligned(size, MU_CACHE_LINE, false, tag);
    header h;
    memcpy(&h, (char *)p - sizeof h, sizeof h);
    void *q = alloc_aligned(size, MU_CACHE_LINE, false, tag);
    if (!q) return NULL;
    memcpy(q, p, h.size < size ? h.size : size);
    mu_free(p);
    return q;
}

void *mu_grow(void *v, size_t n, size_t *cap, size_t size, size_t first, const char *tag) {
    if (n < *cap) return v;
    size_t more = *cap ? 2 * *cap : first;
    void *grown = mu_realloc(v, more * size, tag);
    if (grown) *cap = more;
    return grown;
}

char *mu_strdup(const char *s, const char *tag) {
    size_t n = strlen(s) + 1;
    char *d = alloc_aligned(n, MU_CACHE_LINE, false, tag);
    return d ? memcpy(d, s, n) : NULL;
}

mu_alloc_stats mu_alloc_get_stats(void) {
    return (mu_alloc_stats){ .n_calls = atomic_load(&n_calls), .n_live = atomic_load(&n_live),
                             .live_bytes = atomic_load(&live_bytes), .peak_bytes = atomic_load(&peak_bytes) };
}

void mu_alloc_fail_at(int64_t n) { atomic_store(&fail_countdown, n); }

// ---- arena: a list of chunks, newest first; a chunk is never moved ----

typedef struct mu_arena_chunk { struct mu_arena_chunk *next; size_t used, cap; } chunk;
#define CHUNK_BYTES ((size_t)32 << 10)
#define CHUNK_HEAD ((sizeof(chunk) + 15) & ~(size_t)15)

void mu_arena_init(mu_arena *a, const char *tag) { *a = (mu_arena){NULL, tag}; }

void mu_arena_fini(mu_arena *a) {
    for (chunk *c = a->chunks, *next; c; c = next) {
        next = c->next;
        mu_free(c);
    }
    a->chunks = NULL;
}

void *mu_arena_alloc(mu_arena *a, size_t size) {
    if (size > SIZE_MAX / 2) return NULL;
    size = (size + 15) & ~(size_t)15;
    chunk *c = a->chunks;
    if (!c || c->cap - c->used < size) {
        size_t cap = size > CHUNK_BYTES ? size : CHUNK_BYTES;
        c = mu_alloc(CHUNK_HEAD + cap, a->tag);
        if (!c) return NULL;
        c->cap = cap;
        if (a->chunks && size > CHUNK_BYTES) { // keep filling the current small chunk
            c->next = a->chunks->next;
            a->chunks->next = c;
        } else {
            c->next = a->chunks;
            a->chunks = c;
        }
    }
    void *p = (char *)c + CHUNK_HEAD + c->used;
    c->used += size;
    return p;
}

void *mu_arena_array(mu_arena *a, size_t n, size_t size) {
    size_t total;
    return __builtin_mul_overflow(n, size, &total) ? NULL : mu_arena_alloc(a, total);
}

char *mu_arena_strndup(mu_arena *a, const char *s, size_t n) {
    char *d = mu_arena_alloc(a, n + 1);
    return d ? memcpy(d, s, n) : NULL;
}

void *mu_arena_grow(mu_arena *a, void *v, size_t n, size_t *cap, size_t size, size_t first) {
    if (n < *cap) return v;
    size_t more = *cap ? 2 * *cap : first;
    void *grown = mu_arena_array(a, more, size);
    if (!grown) return NULL;
    if (n) memcpy(grown, v, n * size);
    *cap = more;
    return grown;
}

char *mu_arena_strdup(mu_arena *a, const char *s) { return mu_arena_strndup(a, s, strlen(s)); }

char *mu_arena_printf(mu_arena *a, const char *fmt, ...) {
    va_list ap, again;
    va_start(ap, fmt);
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    char *d = n < 0 ? NULL : mu_arena_alloc(a, (size_t)n + 1);
    if (d) vsnprintf(d, (size_t)n + 1, fmt, again);
    va_end(again);
    return d;
}
