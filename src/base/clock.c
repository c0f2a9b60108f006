// SPDX-License-Identifier: Apache-2.0
// clock.c - see clock.h.
#include "base/clock.h"

#include <time.h>

static double seconds(clockid_t id) {
    struct timespec t;
    clock_gettime(id, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

int64_t mu_clock_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

double mu_clock_s(void) { return seconds(CLOCK_MONOTONIC); }
double mu_clock_wall_s(void) { return seconds(CLOCK_REALTIME); }

void mu_clock_rfc3339(char *out, size_t size) {
    time_t now = time(NULL);
    struct tm tm;
    gmtime_r(&now, &tm);
    strftime(out, size, "%Y-%m-%dT%H:%M:%SZ", &tm);
}
