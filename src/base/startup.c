// SPDX-License-Identifier: Apache-2.0
// startup.c - see startup.h.
#include "base/startup.h"

#include "base/level.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define KIB 1024
#define STACK_ENOUGH (8 * KIB * KIB)    // what systems give by default; threads get as much as the limit says
#define STACK_LEAST (512 * KIB)         // training takes 150 KiB of it

static bool set_one_thread(void) {
#ifdef MU_HAVE_BLAS
    const char *now = getenv("OPENBLAS_NUM_THREADS");
    return (!now || strcmp(now, "1")) && !setenv("OPENBLAS_NUM_THREADS", "1", 1);
#else
    return false;
#endif
}

static bool set_level(void) {
#if defined(MU_LEVELS) && defined(MU_HAVE_BLAS)
    return mu_level_is_asked() && mu_level_set_core_type(mu_level());
#else
    return false;
#endif
}

// Up to the hard limit, which may be far away: never more than is enough.
static bool raise_stack(void) {
    struct rlimit l;
    if (getrlimit(RLIMIT_STACK, &l) || l.rlim_cur >= STACK_ENOUGH || l.rlim_cur == l.rlim_max) return false;
    l.rlim_cur = l.rlim_max < STACK_ENOUGH ? l.rlim_max : STACK_ENOUGH;
    return !setrlimit(RLIMIT_STACK, &l);
}

void mu_startup_begin_anew(char *const *argv) {
    const bool thread = set_one_thread(), level = set_level(), stack = raise_stack();
    char self[PATH_MAX];
    if (!thread && !level && !stack) return;
    // The program's own name stays that of the process.
    const ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (n <= 0) return;
    self[n] = '\0';
    execv(self, argv);
}

mu_status mu_startup_check_stack(mu_err *err) {
    struct rlimit l;
    if (getrlimit(RLIMIT_STACK, &l) || l.rlim_cur >= STACK_LEAST) return MU_OK;
    return mu_err_hinted(MU_FAIL(err, MU_EUNSUPPORTED,
                                 "the stack is limited to %llu KiB, and muster may need %d KiB",
                                 (unsigned long long)l.rlim_cur / KIB, STACK_LEAST / KIB),
                         err, "Raise the limit with `ulimit -s 8192`.");
}
