// SPDX-License-Identifier: Apache-2.0
// clock.h - until when the rank that is running may sleep, where nothing comes.
#ifndef MU_SIMULATE_CLOCK_H
#define MU_SIMULATE_CLOCK_H

#include "base/err.h"

#include <stdint.h>

MU_MUST_CHECK mu_status mu_clock_open(int ranks, mu_err *err);
// When its learners have something to do next; INT64_MAX = they wait.
void mu_clock_set_due(int64_t ns);

#endif
