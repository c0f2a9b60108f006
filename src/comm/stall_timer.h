// SPDX-License-Identifier: Apache-2.0
// stall_timer.h - how long a wait has lasted, for a process that gives up after a while.
//
// A stretch between two looks counts as a tenth of the limit at most: a process that was stopped (Ctrl-Z
// stops the whole group) or starved has not waited.
#ifndef MU_COMM_STALL_TIMER_H
#define MU_COMM_STALL_TIMER_H

#include "base/clock.h"

#include <stdbool.h>

typedef struct mu_stall_timer { int64_t looked_ns, waited_ns; } mu_stall_timer;

static inline mu_stall_timer mu_stall_timer_new(void) { return (mu_stall_timer){.looked_ns = mu_clock_ns()}; }

static inline bool mu_stall_timer_is_over(mu_stall_timer *p, double limit_s) {
    const int64_t now = mu_clock_ns(), since = now - p->looked_ns, most = (int64_t)(1e8 * limit_s);
    p->looked_ns = now;
    p->waited_ns += since < most ? since : most;
    return p->waited_ns > (int64_t)(1e9 * limit_s);
}

#endif
