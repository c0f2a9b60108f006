// SPDX-License-Identifier: Apache-2.0
// stopflag.h - SIGINT and SIGTERM as a flag that the training loop reads between steps.
//
// The first signal only sets the flag (the first one stays: it decides the exit code 130 or 143). A second
// SIGINT is a person who does not want to wait: the process exits with 130 at once, which checkpoints
// survive by construction. A second SIGTERM changes nothing.
#ifndef MU_TRAIN_STOPFLAG_H
#define MU_TRAIN_STOPFLAG_H

#include "base/err.h"

MU_MUST_CHECK mu_status mu_stop_install(mu_err *err);   // both handlers; interrupted system calls restart
void      mu_stop_uninstall(void);                      // what was there before mu_stop_install
int       mu_stop_requested(void);                      // 0, SIGINT or SIGTERM; a relaxed load, any thread
mu_status mu_stop_status(void);                         // MU_OK, MU_EINTERRUPTED or MU_ETERMINATED
void      mu_stop_reset(void);                          // tests

#endif
