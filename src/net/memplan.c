// SPDX-License-Identifier: Apache-2.0
// memplan.c - see memplan.h. Quadratic in the number of buffers, with a step of a few instructions: the ten
// thousand of a long unrolled net take a fraction of a second.
#include "net/memplan.h"

#include "base/alloc.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define ALIGN(n) (((n) + 63) & ~(size_t)63)

static int by_size(const void *pa, const void *pb) {
    const mu_plan_item *a = *(mu_plan_item *const *)pa, *b = *(mu_plan_item *const *)pb;
    if (a->bytes != b->bytes) return a->bytes < b->bytes ? 1 : -1;
    return a < b ? -1 : a > b; // same size: in the order given, so that the plan is deterministic
}

// Lowest offset at which `it` fits between the placed items, sorted by offset, that live at the same time.
static size_t find_place(const mu_plan_item *it, mu_plan_item *const *placed, size_t n) {
    size_t at = 0;
    for (size_t i = 0; i < n; i++) {
        const mu_plan_item *p = placed[i];
        if (p->first > it->last || it->first > p->last || !p->bytes) continue;
        if (p->offset >= at && p->offset - at >= it->bytes) break;
        size_t end = ALIGN(p->offset + p->bytes);
        if (end > at) at = end;
    }
    return at;
}

static void insert_by_offset(mu_plan_item **placed, size_t n, mu_plan_item *it) {
    size_t lo = 0, hi = n;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (placed[mid]->offset <= it->offset) lo = mid + 1;
        else hi = mid;
    }
    memmove(placed + lo + 1, placed + lo, (n - lo) * sizeof *placed);
    placed[lo] = it;
}

mu_status mu_memplan(mu_plan_item *items, size_t n, bool reuse, size_t *total, mu_err *err) {
    size_t top = 0, sum = 0;
    for (size_t i = 0; i < n; i++) // no sum below can overflow if this one does not
        if (__builtin_add_overflow(sum, items[i].bytes, &sum) ||
            __builtin_add_overflow(sum, (size_t)64, &sum))
            return MU_FAIL_NOMEM(err, "activations larger than the address space");
    if (!reuse || n == 0) {
        for (size_t i = 0; i < n; i++) {
            items[i].offset = top;
            top = ALIGN(top + items[i].bytes);
        }
        *total = top;
        return MU_OK;
    }
    mu_plan_item **order = mu_alloc_array(2 * n, sizeof *order, "memory plan");
    if (!order) return MU_FAIL_NOMEM(err, "the memory plan");
    for (size_t i = 0; i < n; i++) order[i] = &items[i];
    qsort(order, n, sizeof *order, by_size);
    for (size_t i = 0; i < n; i++) {
        order[i]->offset = find_place(order[i], order + n, i);
        insert_by_offset(order + n, i, order[i]);
        size_t end = ALIGN(order[i]->offset + order[i]->bytes);
        if (end > top) top = end;
    }
    mu_free(order);
    *total = top;
    return MU_OK;
}
