// SPDX-License-Identifier: Apache-2.0
// wait.c - see wait.h; wait.pml is the model of these two functions.
//
// Why no ring is lost. The ringer writes `news`, then reads `sleepers`; a waiter writes `sleepers`, then
// reads `news`. All four are seq_cst, so at least one of them sees the other's write: either the waiter does
// not go to sleep, or the ringer makes the system call. Between the waiter's last look and its sleep lies the
// kernel's own comparison, made under the lock that a wake-up takes too.
//
// `news` has 32 bits: a waiter that is away for exactly 2^32 rings sees none, and its time-out ends that.
#include "comm/wait.h"

#include "comm/futex.h"

enum { LOOKS_PER_CLOCK = 32 };  // a look costs a few ns, the clock some 25 ns

static bool rang(mu_bell *b, uint32_t seen) { return mu_bell_read(b) != seen; }

static bool spin(mu_bell *b, uint32_t seen, int64_t until_ns) {
    do {
        for (int i = 0; i < LOOKS_PER_CLOCK; i++) {
            if (rang(b, seen)) return true;
            mu_pause();
        }
    } while (mu_clock_ns() < until_ns);
    return rang(b, seen);
}

void mu_bell_ring(mu_bell *b) {
    atomic_fetch_add(&b->news, 1);
    if (atomic_load(&b->sleepers)) mu_futex_wake(&b->news);
}

bool mu_bell_wait(mu_bell *b, uint32_t seen, int64_t spin_ns, int64_t timeout_ns) {
    if (rang(b, seen)) return true;
    if (timeout_ns <= 0) return false;
    int64_t until = mu_deadline_ns(timeout_ns);
    if (spin_ns > timeout_ns) spin_ns = timeout_ns;
    if (spin_ns > 0 && spin(b, seen, mu_deadline_ns(spin_ns))) return true;
    int64_t left = until - mu_clock_ns();
    if (left <= 0) return false;

    atomic_fetch_add(&b->sleepers, 1);
    bool news = atomic_load(&b->news) != seen || mu_futex_wait(&b->news, seen, left);
    atomic_fetch_sub(&b->sleepers, 1);
    return news || rang(b, seen);
}
