// SPDX-License-Identifier: Apache-2.0
// clock.c - simulated time in the place of base/clock.c, of sleeping, and of comm/wait.c. See wraps.h.
//
// A rank is one process here, so a bell that it waits for can be rung by itself alone: it has been, or it
// will be when a message came or a learner of its own is due (mu_clock_due). Who waits longer than it asked
// for loses nothing: nothing can have happened.
#include "simulate/clock.h"

#include "simulate/machine.h"
#include "simulate/network.h"
#include "simulate/wraps.h"

#include "base/alloc.h"

#define LOOK_NS INT64_C(100000000)

static struct {
    bool *rung;      // (ranks) since it waited last
    int64_t *due_ns; // (ranks)
} clocks;

mu_status mu_clock_open(int ranks, mu_err *err) {
    clocks.rung = mu_alloc_array((size_t)ranks, sizeof *clocks.rung, "simulation");
    clocks.due_ns = mu_alloc_array((size_t)ranks, sizeof *clocks.due_ns, "simulation");
    return clocks.rung && clocks.due_ns ? MU_OK : MU_FAIL_NOMEM(err, "the simulated ranks");
}

void mu_clock_set_due(int64_t ns) { clocks.due_ns[mu_machine_rank()] = ns; }

int64_t __wrap_mu_clock_ns(void) { return mu_machine_now_ns(); }
double __wrap_mu_clock_s(void) { return 1e-9 * (double)mu_machine_now_ns(); }

// Between two looks at the transport: until something comes.
int __wrap_nanosleep(const struct timespec *time, struct timespec *left) {
    (void)time;
    (void)left;
    mu_network_wait(mu_machine_now_ns() + LOOK_NS);
    return 0;
}

void __wrap_mu_bell_ring(mu_bell *b) {
    atomic_fetch_add(&b->news, 1);
    clocks.rung[mu_machine_rank()] = true;
}

bool __wrap_mu_bell_wait(mu_bell *b, uint32_t seen, int64_t spin_ns, int64_t timeout_ns) {
    (void)spin_ns;
    (void)timeout_ns;
    const int self = mu_machine_rank();
    if (!clocks.rung[self]) mu_network_wait(clocks.due_ns[self]);
    clocks.rung[self] = false;
    return mu_bell_read(b) != seen;
}
