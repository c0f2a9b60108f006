// SPDX-License-Identifier: Apache-2.0
// memplan.c - see memplan.h. Quadratic in the number of buffers, which is a few hundred.
#include "net/memplan.h"

#include "base/alloc.h"

#include <stdint.h>
#include <stdlib.h>

#define ALIGN(n) (((n) + 63) & ~(size_t)63)

static int by_size(const void *pa, const void *pb) {
    const mu_plan_item *a = *(mu_plan_item *const *)pa, *b = *(mu_plan_item *const *)pb;
    if (a->bytes != b->bytes) return a->bytes < b->bytes ? 1 : -1;
    return a < b ? -1 : a > b; // same size: in the order given, so that the plan is deterministic
}

static int by_offset(const void *pa, const void *pb) {
    const mu_plan_item *a = *(mu_plan_item *const *)pa, *b = *(mu_plan_item *const *)pb;
    if (a->offset != b->offset) return a->offset < b->offset ? -1 : 1;
    return a < b ? -1 : a > b;
}

// Lowest offset at which `it` fits between the placed items that live at the same time.
static size_t find_place(const mu_plan_item *it, mu_plan_item **placed, size_t n, mu_plan_item **busy) {
    size_t n_busy = 0, at = 0;
    for (size_t i = 0; i < n; i++)
        if (placed[i]->first <= it->last && it->first <= placed[i]->last && placed[i]->bytes)
            busy[n_busy++] = placed[i];
    qsort(busy, n_busy, sizeof *busy, by_offset);
    for (size_t i = 0; i < n_busy; i++) {
        if (busy[i]->offset >= at && busy[i]->offset - at >= it->bytes) break;
        size_t end = ALIGN(busy[i]->offset + busy[i]->bytes);
        if (end > at) at = end;
    }
    return at;
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
        order[i]->offset = find_place(order[i], order, i, order + n);
        size_t end = ALIGN(order[i]->offset + order[i]->bytes);
        if (end > top) top = end;
    }
    mu_free(order);
    *total = top;
    return MU_OK;
}
