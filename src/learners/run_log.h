// SPDX-License-Identifier: Apache-2.0
// run_log.h - the log of a recorded run (record.h), kept by the parent.
#ifndef MU_LEARNERS_RUN_LOG_H
#define MU_LEARNERS_RUN_LOG_H

#include "learners/record.h"
#include "learners/server_group.h"

typedef struct mu_run_log {             // zeroed: the run is not recorded
    mu_recorder     *recorder;
    mu_training     *t;
    mu_server_group *group;             // borrowed
} mu_run_log;

// What cannot be recorded is refused; the setup copies weights under locks (mu_gradient_source.prepare).
MU_MUST_CHECK mu_status mu_run_log_prepare(mu_session *s, const mu_run_opts *o, mu_err *err);
MU_MUST_CHECK mu_status mu_run_log_open(mu_run_log *l, mu_training *t, mu_server_group *group, mu_err *err);
// What lies in the journal goes into the file. Where that fails the log ends and training goes on.
void mu_run_log_drain(mu_run_log *l);
// whole: the run came to its end; where it stood is in t.
void mu_run_log_close(mu_run_log *l, bool whole);

#endif
