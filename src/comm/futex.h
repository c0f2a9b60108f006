// SPDX-License-Identifier: Apache-2.0
// futex.h - sleeping on a word of shared memory: the system call, for the other files of comm only.
//
// Not the private kind: the sleepers are in other processes. Every sleep has an end.
#ifndef MU_COMM_FUTEX_H
#define MU_COMM_FUTEX_H

#include "base/clock.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static inline void mu_pause(void) {     // tells the core that this is a loop around a load
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ __volatile__("yield");
#endif
}

// The moment timeout_ns from now; a time-out of any size is fine.
static inline int64_t mu_deadline_ns(int64_t timeout_ns) {
    int64_t now = mu_clock_ns();
    return timeout_ns > INT64_MAX - now ? INT64_MAX : now + timeout_ns;
}

// Sleeps while *word is `value`. False: timeout_ns passed. True: woken, or the value is another, or a signal.
static inline bool mu_futex_wait(_Atomic uint32_t *word, uint32_t value, int64_t timeout_ns) {
    const int64_t second = 1000000000;
    struct timespec t = { .tv_sec = (time_t)(timeout_ns / second), .tv_nsec = (long)(timeout_ns % second) };
    return syscall(SYS_futex, word, FUTEX_WAIT, value, &t, NULL, 0) == 0 || errno != ETIMEDOUT;
}

static inline void mu_futex_wake(_Atomic uint32_t *word) { // all of them
    syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

#endif
