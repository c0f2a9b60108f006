// SPDX-License-Identifier: Apache-2.0
// load.h - how much several learners get done and what that costs, measured over windows of some seconds.
//
// The clock does not tell whether a learner computes or another program has its core. The kernel does
// (/proc/PID/schedstat: how long a thread had a core, how long it wanted one). Where that file is not there
// nothing is measured.
#ifndef MU_LEARNERS_LOAD_H
#define MU_LEARNERS_LOAD_H

#include "ps/shared.h"
#include "train/advice.h"

typedef struct mu_load {                // zeroed = not begun
    double           next_s;                    // clock: end of the window
    int              n_windows;                 // ended
    mu_learners_load total;                     // since the start, at the beginning of the window
    double           began_s;
    int64_t          losses;                    // of learners, then
} mu_load;

// A look at the clock, mostly. True: a window has ended, and *out is what was measured in it. Windows in
// which learners were lost, and the first one, do not count.
bool mu_load_look(mu_load *l, const mu_shared *g, mu_learners_load *out);

#endif
