// SPDX-License-Identifier: Apache-2.0
// wait.h - words in shared memory that processes wait on. Every wait is bounded.
//
// A word is a counter of news: the ringer changes what others wait for first, then rings.
// A waiter reads the word, looks whether it can go on, and if not waits until the word differs from what
// it read; so no ring is lost whatever the order. It spins a while first (a wake-up through the kernel
// costs microseconds), then sleeps on a futex. A waiter that dies leaves nothing to repair.
// wait.pml is the model of this hand-over that Spin checks.
#ifndef MU_COMM_WAIT_H
#define MU_COMM_WAIT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct mu_bell {
    _Atomic uint32_t news;
    _Atomic uint32_t sleepers;  // none: a ring needs no system call. May be too high after a death
} mu_bell;

static inline uint32_t mu_bell_read(mu_bell *b) {
    return atomic_load_explicit(&b->news, memory_order_acquire);
}
void mu_bell_ring(mu_bell *b);
// False: nothing rang within timeout_ns. May also return early without news (a signal): look again.
bool mu_bell_wait(mu_bell *b, uint32_t seen, int64_t spin_ns, int64_t timeout_ns);

#endif
