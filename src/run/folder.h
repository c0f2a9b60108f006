// SPDX-License-Identifier: Apache-2.0
// folder.h - the run folder of a training: opened, filled with job and reports, and made again if it is lost.
#ifndef MU_RUN_FOLDER_H
#define MU_RUN_FOLDER_H

#include "train/training.h"

// The folder that the options name or a new one, locked; the log goes there. Sets dir, ckpt_dir, run_dir.
MU_MUST_CHECK mu_status mu_folder_open(mu_training *r, mu_err *err);
MU_MUST_CHECK mu_status mu_folder_write_job(const mu_training *r, mu_err *err);
// Metrics and event files. after: the step that reports go on behind, -1 = they begin.
MU_MUST_CHECK mu_status mu_folder_open_reports(mu_training *r, int64_t after, mu_err *err);
void mu_folder_close_reports(mu_training *r);

// Before anything is saved: is the folder still the one that was locked? One that was removed or moved away
// is made again, with lock, log, job and reports from here on, and a warning. MU_EUSAGE when another run has
// it now.
MU_MUST_CHECK mu_status mu_folder_keep(mu_training *r, mu_err *err);

#endif
