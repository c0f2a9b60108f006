// SPDX-License-Identifier: Apache-2.0
// machine.h - the machine that is simulated: SimGrid's hosts, one process on each, and its clock.
//
// All simulated ranks live in this process, one after the other on one thread: SimGrid switches between them
// where one waits. So they share the job, the net and everything else that is only read, and a global
// variable of this folder is one for all of them.
//
// Time passes for a rank where it waits for messages (network.h) or for its own learners (learner.h), and
// where it says what its work costs (mu_machine_spend). That is paid when the clock is read next.
#ifndef MU_SIMULATE_MACHINE_H
#define MU_SIMULATE_MACHINE_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

// Reads the platform, a file of SimGrid's. options, more: of SimGrid, as "--cfg=network/model:CM02"; NULL
// ends each list. more NULL: none.
MU_MUST_CHECK mu_status mu_machine_open(const char *platform, const char *const *options,
                                        const char *const *more, int ranks, mu_err *err);
// Runs `rank` on as many hosts as there are ranks, the first ones of the platform by name, until it has
// returned everywhere or the process has ended. MU_EBACKEND: the machine could not be set up.
MU_MUST_CHECK mu_status mu_machine_run(int ranks, void (*rank)(int rank), mu_err *err);

int mu_machine_rank(void);        // that is running
int64_t mu_machine_now_ns(void);  // pays what was spent
void mu_machine_spend(double ns); // by the rank that is running
void mu_machine_sleep_until(int64_t ns);

#endif
