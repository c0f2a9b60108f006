// SPDX-License-Identifier: Apache-2.0
// wraps.h - functions of other folders that the simulator has its own of. The linker puts these in their
// place (`--wrap`, CMakeLists.txt), so nothing else knows of the simulator.
//
//   the clock, sleeping, bells     simulated time (clock.c)
//   regions, blocks of floats      memory.c
//   applying an update             takes the time that it would take (costs.c)
#ifndef MU_SIMULATE_WRAPS_H
#define MU_SIMULATE_WRAPS_H

#include "comm/region.h"
#include "comm/wait.h"
#include "ps/slices.h"

#include <time.h>

// Names that begin with __ are the linker's.
int64_t __wrap_mu_clock_ns(void);
double __wrap_mu_clock_s(void);
int __wrap_nanosleep(const struct timespec *time, struct timespec *left);
void __wrap_mu_bell_ring(mu_bell *b);
bool __wrap_mu_bell_wait(mu_bell *b, uint32_t seen, int64_t spin_ns, int64_t timeout_ns);
mu_status __wrap_mu_region_create(const char *run_id, size_t size, mu_region *out, mu_err *err);
void *__wrap_mu_alloc_block(size_t size, const char *tag);
void *__real_mu_alloc_block(size_t size, const char *tag);
void __wrap_mu_apply_slice(const mu_apply *a, const mu_slice_range *range, _Atomic size_t *done,
                           mu_undo *undo);

#endif
