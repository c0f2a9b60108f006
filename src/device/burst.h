// SPDX-License-Identifier: Apache-2.0
// burst.h - the loops of the two speed probes of d_cpu.c, compiled for each level of instructions.
#ifndef MU_DEVICE_BURST_H
#define MU_DEVICE_BURST_H

#include "base/level.h"

#include <stddef.h>

#define mu_burst_isa MU_LEVELLED(mu_burst_isa)
#define mu_burst_multiply_add MU_LEVELLED(mu_burst_multiply_add)
#define mu_burst_stream MU_LEVELLED(mu_burst_stream)

MU_AT_LEVELS(const char *, mu_burst_isa, (void));       // widest vector set of the level, "avx512"
// About 0.2 ms of multiply-adds in registers: GFLOP/s. *sink makes the compiler do them.
MU_AT_LEVELS(double, mu_burst_multiply_add, (float *sink));
MU_AT_LEVELS(void, mu_burst_stream, (float *p, size_t n));      // reads and writes each float once

#endif
