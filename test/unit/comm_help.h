// SPDX-License-Identifier: Apache-2.0
// comm_help.h - what the tests of src/comm share: memory between processes, and children with a bounded end.
//
// Asserts of cmocka jump, so a child never uses them: it answers with its exit code, and the place in `check`
// that failed.
#ifndef MU_TEST_COMM_HELP_H
#define MU_TEST_COMM_HELP_H

// cmocka wants these before itself.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/err.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define assert_ok(call)                                                                                      \
    do {                                                                                                     \
        mu_err e_ = {0};                                                                                     \
        mu_err *err = &e_;                                                                                   \
        mu_status s_ = (call);                                                                               \
        if (s_ != MU_OK) fail_msg("%s: %s: %s", #call, mu_status_name(s_), e_.msg);                          \
    } while (0)

// The call (with `err`) must give this status and a message that contains `text`.
#define assert_fails(call, status, text)                                                                     \
    do {                                                                                                     \
        mu_err e_ = {0};                                                                                     \
        mu_err *err = &e_;                                                                                   \
        mu_status s_ = (call);                                                                               \
        if (s_ != (status) || !strstr(e_.msg, (text)))                                                       \
            fail_msg("%s: got %s: `%s`, expected %s: `%s`", #call, mu_status_name(s_), e_.msg,               \
                     mu_status_name(status), (text));                                                        \
    } while (0)

#define MS INT64_C(1000000)             // nanoseconds

// In a child: ends it with the line as exit message where the condition does not hold.
#define check(condition)                                                                                     \
    do {                                                                                                     \
        if (!(condition)) {                                                                                  \
            dprintf(2, "%s:%d: child: not true: %s\n", __FILE__, __LINE__, #condition);                      \
            _exit(1);                                                                                        \
        }                                                                                                    \
    } while (0)

MU_UNUSED static void nap_ms(int ms) {
    struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000};
    while (nanosleep(&t, &t) && errno == EINTR) {}
}

// Zeroed, shared with children, page aligned. Freed by the end of the test program.
MU_UNUSED static void *shared(size_t size) {
    void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) fail_msg("mmap: %s", strerror(errno));
    return p;
}

// Forks; the child runs fn and ends with 0. It dies with the test.
MU_UNUSED static pid_t spawn(void (*fn)(void *), void *arg) {
    fflush(NULL);
    pid_t pid = fork();
    if (pid < 0) fail_msg("fork: %s", strerror(errno));
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        signal(SIGSEGV, SIG_DFL);       // cmocka's handler would go on with the tests in the child
        fn(arg);
        _exit(0);
    }
    return pid;
}

// Its wait status; a child that is not done within `seconds` is killed and fails the test.
MU_UNUSED static int ended(pid_t pid, double seconds) {
    int how;
    for (double until = mu_clock_s() + seconds; mu_clock_s() < until; nap_ms(1)) {
        if (waitpid(pid, &how, WNOHANG) == pid) return how;
    }
    kill(pid, SIGKILL);
    waitpid(pid, &how, 0);
    fail_msg("child %d not done after %g s", (int)pid, seconds);
    return how;
}

#define assert_exits_0(pid, seconds)                                                                         \
    do {                                                                                                     \
        int how_ = ended((pid), (seconds));                                                                  \
        if (!WIFEXITED(how_) || WEXITSTATUS(how_)) fail_msg("child: wait status 0x%x, expected 0", how_);    \
    } while (0)

// Waits until *word is at least `value`, as a child will make it.
#define await_at_least(word, value, seconds)                                                                 \
    do {                                                                                                     \
        double until_ = mu_clock_s() + (seconds);                                                            \
        while (atomic_load(word) < (value)) {                                                                \
            if (mu_clock_s() > until_)                                                                       \
                fail_msg("%s is %lld after %g s, expected %lld", #word, (long long)atomic_load(word),        \
                         (double)(seconds), (long long)(value));                                             \
            nap_ms(1);                                                                                       \
        }                                                                                                    \
    } while (0)

#endif
