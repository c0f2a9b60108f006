// SPDX-License-Identifier: Apache-2.0
// stopflag.h - SIGINT, SIGTERM and SIGHUP as a flag that the training loop reads between steps.
//
// The first signal only sets the flag (the first one stays: it decides the exit code 130, 143 or 129). A
// second SIGINT is a person who does not want to wait: the process exits with 130 at once, which checkpoints
// survive by construction. A second one of the others changes nothing. SIGHUP is what a closed terminal
// sends; where `nohup` had it ignored it stays so.
#ifndef MU_TRAIN_STOPFLAG_H
#define MU_TRAIN_STOPFLAG_H

#include "base/err.h"

MU_MUST_CHECK mu_status mu_stop_install(mu_err *err);   // the handlers; interrupted system calls restart
void      mu_stop_uninstall(void);                      // what was there before mu_stop_install
int       mu_stop_requested(void);                      // 0 or the first signal; a relaxed load, any thread
mu_status mu_stop_status(void);                         // MU_OK, or the one of mu_stop_was_asked
void      mu_stop_reset(void);                          // tests

// Is this the status of work that ended early as it was told to?
static inline bool mu_stop_was_asked(mu_status st) {
    return st == MU_EINTERRUPTED || st == MU_ETERMINATED || st == MU_EHANGUP;
}

#endif
