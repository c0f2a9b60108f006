// SPDX-License-Identifier: Apache-2.0
// deal.c - see deal.h.
#include "learners/deal.h"

#define NAP_NS 20000000

void mu_deal_begin(mu_deal *d, int64_t base, int64_t width) {
    d->base = base;
    d->width = width;
    atomic_store(&d->known, 0);
}

void mu_deal_add(mu_deal *d, int64_t first) {
    const int64_t step = atomic_load(&d->known);
    atomic_store_explicit(&d->first[step % MU_DEAL], first, memory_order_relaxed);
    atomic_store_explicit(&d->known, step + 1, memory_order_release);
    mu_bell_ring(&d->more);
}

bool mu_deal_sample(mu_deal *d, int64_t number, bool (*stops)(void *), void *ctx, int64_t *out) {
    const int64_t step = (number - d->base) / d->width;
    for (;;) {
        const uint32_t seen = mu_bell_read(&d->more);
        if (atomic_load_explicit(&d->known, memory_order_acquire) > step) break;
        if (stops(ctx)) return false;
        (void)mu_bell_wait(&d->more, seen, 0, NAP_NS);
    }
    *out = atomic_load_explicit(&d->first[step % MU_DEAL], memory_order_relaxed) + (number - d->base) % d->width;
    return true;
}
