// SPDX-License-Identifier: Apache-2.0
// journal.c - see journal.h. One writer at a time (the lock), one reader: each owns one counter.
#include "ps/journal.h"

enum { LEAST = 16384 }; // 2 MiB: at a hundred thousand gradients a second, 160 ms of the parent's absence

// At least two of the largest updates, so that one always fits.
uint64_t mu_journal_room(int learners) {
    uint64_t two = 2 * (uint64_t)mu_core_most_parts(learners);
    return two > LEAST ? two : LEAST;
}

bool mu_journal_has(const mu_journal *j, int64_t version) {
    uint64_t n = atomic_load_explicit(&j->written, memory_order_relaxed);
    return n && j->entry[(n - 1) % j->n].update.version >= version; // they come in order
}

// acquire: what the reader has given up it has also read.
uint64_t mu_journal_free(const mu_journal *j) {
    return j->n - (atomic_load_explicit(&j->written, memory_order_relaxed) -
                   atomic_load_explicit(&j->read, memory_order_acquire));
}

mu_journal_entry *mu_journal_next(mu_journal *j, int i) {
    return &j->entry[(atomic_load_explicit(&j->written, memory_order_relaxed) + (uint64_t)i) % j->n];
}

void mu_journal_publish(mu_journal *j, int n) {
    uint64_t at = atomic_load_explicit(&j->written, memory_order_relaxed);
    atomic_store_explicit(&j->written, at + (uint64_t)n, memory_order_release);
}

const mu_journal_entry *mu_journal_peek(const mu_journal *j) {
    uint64_t at = atomic_load_explicit(&j->read, memory_order_relaxed);
    return at == atomic_load_explicit(&j->written, memory_order_acquire) ? NULL : &j->entry[at % j->n];
}

void mu_journal_take(mu_journal *j) {
    uint64_t at = atomic_load_explicit(&j->read, memory_order_relaxed);
    atomic_store_explicit(&j->read, at + 1, memory_order_release);
}
