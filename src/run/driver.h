// SPDX-License-Identifier: Apache-2.0
// driver.h - a whole training: run folder, loop, evaluation, checkpoints, end.
//
// The driver prints nothing; a front end watches through mu_run_watch. SIGINT, SIGTERM and SIGHUP (once
// installed by mu_stop_install) or the caller's own flag end the loop after the current step with a
// checkpoint.
#ifndef MU_RUN_DRIVER_H
#define MU_RUN_DRIVER_H

#include "train/train.h"

// MU_OK; MU_EINTERRUPTED, MU_ETERMINATED or MU_EHANGUP after a clean checkpoint; MU_EDIVERGED; others.
mu_status mu_run_train(mu_session *s, const mu_run_opts *o, mu_run_result *out, mu_err *err);

#endif
