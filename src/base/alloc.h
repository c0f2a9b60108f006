// SPDX-License-Identifier: Apache-2.0
// alloc.h - the only door to the heap, and arenas on top of it.
//
// Every allocation carries a tag (a string literal) that says in a debugger what it is for, is
// counted so that a test can prove that a training step allocates nothing, and can be made to fail
// at the n-th call so that tests walk every out-of-memory path.
//
// Arenas follow lifetimes (process > job > net): descriptions live in an arena and are never freed
// one by one. An arena belongs to one thread at a time.
#ifndef MU_BASE_ALLOC_H
#define MU_BASE_ALLOC_H

#include "base/attr.h"

#include <stddef.h>
#include <stdint.h>

#define MU_CACHE_LINE 64

void *mu_alloc(size_t size, const char *tag);                   // zeroed; NULL when out of memory
void *mu_alloc_array(size_t n, size_t size, const char *tag);   // zeroed, product checked
void *mu_realloc(void *p, size_t size, const char *tag);        // the grown part is not zeroed
// An array of n elements of `size` bytes with room for one more: v itself, or when n is *cap a copy of twice
// the room (`first` elements to begin with). NULL when out of memory: v stays as it is.
void *mu_grow(void *v, size_t n, size_t *cap, size_t size, size_t first, const char *tag);
void *mu_alloc_block(size_t size, const char *tag);             // zeroed, aligned to 4096, huge pages advised
void  mu_free(void *p);                                         // NULL is fine; takes all of the above
char *mu_strdup(const char *s, const char *tag);

typedef struct mu_alloc_stats {
    uint64_t n_calls;           // allocations since start
    uint64_t n_live;            // blocks not yet freed
    uint64_t live_bytes, peak_bytes;
} mu_alloc_stats;

mu_alloc_stats mu_alloc_get_stats(void);
void mu_alloc_fail_at(int64_t n);       // tests: the n-th allocation from now (1 = next) fails; 0 = never

typedef struct mu_arena { struct mu_arena_chunk *chunks; const char *tag; } mu_arena;

void  mu_arena_init(mu_arena *a, const char *tag);      // cannot fail: the first chunk comes on demand
void  mu_arena_fini(mu_arena *a);
void *mu_arena_alloc(mu_arena *a, size_t size);         // zeroed, aligned to 16; NULL when out of memory
void *mu_arena_array(mu_arena *a, size_t n, size_t size);
void *mu_arena_grow(mu_arena *a, void *v, size_t n, size_t *cap, size_t size, size_t first); // as mu_grow
char *mu_arena_strdup(mu_arena *a, const char *s);
char *mu_arena_strndup(mu_arena *a, const char *s, size_t n);
char *mu_arena_printf(mu_arena *a, const char *fmt, ...) MU_PRINTF(2, 3);

#endif
