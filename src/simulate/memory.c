// SPDX-License-Identifier: Apache-2.0
// memory.c - see memory.h. Takes the place of comm/region.c and of mu_alloc_block by the linker (--wrap).
//
// Addresses of shared blocks are taken from one reserved range, so that they are known by their numbers.
#include "simulate/memory.h"

#include "simulate/wraps.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define RANGE ((size_t)1 << 44) // of addresses; nothing is behind them
#define BLOCK ((size_t)1 << 16) // bytes: a smaller block is a rank's own
#define SIZES 4
#define PAGE ((size_t)4096)

static struct {
    int fd;
    size_t size;          // of the file
    size_t shared[SIZES]; // bytes of blocks
    char *begin, *next, *end;
} zeros;

static size_t pages(size_t bytes) { return (bytes + PAGE - 1) / PAGE * PAGE; }

mu_status mu_memory_open(mu_err *err) {
    zeros.fd = memfd_create("zeros", MFD_CLOEXEC);
    char *range = mmap(NULL, RANGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (zeros.fd < 0 || range == MAP_FAILED)
        return MU_FAIL(err, MU_ENOMEM, "no room for the blocks of simulated ranks: %s", strerror(errno));
    zeros.begin = zeros.next = range;
    zeros.end = range + RANGE;
    return MU_OK;
}

bool mu_memory_is_zero(const void *at) {
    return (const char *)at >= zeros.begin && (const char *)at < zeros.next;
}

static void *map_at(void *at, size_t bytes) {
    if (bytes > zeros.size && ftruncate(zeros.fd, (off_t)bytes) != 0) return NULL;
    if (bytes > zeros.size) zeros.size = bytes;
    void *p = mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, zeros.fd, 0);
    return p == MAP_FAILED ? NULL : p;
}

static void *take(size_t bytes) {
    void *p = bytes <= (size_t)(zeros.end - zeros.next) ? map_at(zeros.next, bytes) : NULL;
    if (p) zeros.next += bytes;
    return p;
}

void mu_memory_share_size(int64_t floats) {
    int i = 0;
    const size_t bytes = (size_t)floats * sizeof(float);
    while (i < SIZES - 1 && zeros.shared[i] && zeros.shared[i] != bytes) i++;
    zeros.shared[i] = bytes;
}

static bool is_shared(size_t bytes) {
    bool any = false;
    for (int i = 0; i < SIZES; i++) any |= zeros.shared[i] == bytes;
    return any && bytes >= BLOCK;
}

void *__wrap_mu_alloc_block(size_t size, const char *tag) {
    if (!is_shared(size)) return __real_mu_alloc_block(size, tag);
    return take(pages(size));
}

// Pages of a region are taken when they are written: most of a slot never is.
mu_status __wrap_mu_region_create(const char *run_id, size_t size, mu_region *out, mu_err *err) {
    (void)run_id;
    char *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) return MU_FAIL(err, MU_ENOMEM, "a simulated rank's memory: %s", strerror(errno));
    *out = (mu_region){.fd = -1, .size = size, .base = p};
    return MU_OK;
}

mu_status mu_memory_share_params(mu_params *ps, mu_err *err) {
    float *base = take(pages(ps->count * sizeof(float))), *slot[MU_MAX_SLOTS];
    if (!base) return MU_FAIL(err, MU_ENOMEM, "the blocks of simulated ranks: %s", strerror(errno));
    for (int k = 0; k < MU_MAX_SLOTS; k++) slot[k] = base;
    mu_params_rebase(ps, base, slot);
    return MU_OK;
}

mu_status mu_memory_share_blocks(mu_shared *g, mu_err *err) {
    const mu_shared_head *h = g->head;
    const size_t bytes = pages((size_t)h->count * sizeof(float));
    char *base = take(bytes + 2 * PAGE); // room for the shifts of blocks (mu_shared_shift)
    if (!base) return MU_FAIL(err, MU_ENOMEM, "the blocks of a simulated rank: %s", strerror(errno));
    g->weights = g->snapshot = (float *)(void *)base;
    for (int k = 0; k < h->n_history; k++) g->history[k] = g->snapshot_history[k] = (float *)(void *)base;
    // Nothing may lie in what was taken for them.
    return madvise(g->region.base + h->at_weights, h->at_slots - h->at_weights, MADV_DONTNEED) == 0
               ? MU_OK
               : MU_FAIL(err, MU_ENOMEM, "the blocks of a simulated rank: %s", strerror(errno));
}
