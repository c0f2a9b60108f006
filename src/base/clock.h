// SPDX-License-Identifier: Apache-2.0
// clock.h - time for measuring (monotonic) and for people (wall).
#ifndef MU_BASE_CLOCK_H
#define MU_BASE_CLOCK_H

#include <stddef.h>
#include <stdint.h>

double  mu_clock_s(void);                           // monotonic seconds
int64_t mu_clock_ns(void);                          // the same in nanoseconds
double mu_clock_wall_s(void);                       // seconds since 1970, for file stamps
void   mu_clock_rfc3339(char *out, size_t size);    // "2026-01-05T10:11:12Z"

#endif
