// SPDX-License-Identifier: Apache-2.0
// wrong.h - muster-wrong: the program with one step of training over ranks wrong on purpose, so that a test
// which never fails is found out (test/e2e/equal_ranks.sh).
//
// A file here is a source of the program with some functions that it calls, or has, replaced; the linker
// takes it in the place of the right one. MUSTER_WRONG chooses what goes wrong; without it nothing does.
//
//     dropped   what rank 1 computed counts for nothing
//     factor    gradients count as often as there are ranks
//     stale     ranks other than 0 get the weights of one version before
//     slow      not wrong: learners sleep in each step (test/e2e/staleness.sh)
#ifndef MU_TEST_WRONG_H
#define MU_TEST_WRONG_H

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { WRONG_MOST = 1 << 20 }; // floats of a frame

static inline bool wrong(const char *what) {
    const char *wanted = getenv("MUSTER_WRONG");
    return wanted && !strcmp(wanted, what);
}

#endif
