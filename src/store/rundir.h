// SPDX-License-Identifier: Apache-2.0
// rundir.h - the folder of one run, runs/<name>-<id>/, and the lock that makes it one process's.
//
//   job.yaml  log.txt  metrics.jsonl  checkpoints/  train/events.out...  validation/events.out...  lock
//
// The id is the second of creation in base 36 (six digits, so names sort by age); a taken one moves on
// to the next, so no folder is ever used for two runs.
#ifndef MU_STORE_RUNDIR_H
#define MU_STORE_RUNDIR_H

#include "base/err.h"
#include "file/fs.h"

#define MU_RUN_JOB "job.yaml"
#define MU_RUN_LOG "log.txt"
#define MU_RUN_METRICS "metrics.jsonl"
#define MU_RUN_CHECKPOINTS "checkpoints"
#define MU_RUN_LOCK "lock"
#define MU_RUN_TRAIN_EVENTS "train"             // TensorBoard shows them as two sub-runs
#define MU_RUN_VALIDATION_EVENTS "validation"

typedef struct mu_rundir {
    char path[MU_FS_PATH];
    int  log_fd;                // append, for mu_log_set_file; closed by mu_rundir_close
    int  lock_fd;
} mu_rundir;

#define MU_RUN_ID 64            // bytes of a run's id with its terminator

// The id of a run, shown by `status` and `top`: the name of its folder, however the path to it is written.
void mu_rundir_id(const char *path, char out[MU_RUN_ID]);

// A new folder base/<name>-<id>. Characters of `name` that are awkward in paths become `-`.
// Creation, locking, the log file and a write test all happen here, so that a run that could not save
// fails in its first second. *out needs mu_rundir_close after MU_OK.
MU_MUST_CHECK mu_status mu_rundir_create(const char *base, const char *name, mu_rundir *out, mu_err *err);
// A new run in a folder named by the user (--out). MU_EUSAGE when it already holds a run.
MU_MUST_CHECK mu_status mu_rundir_create_at(const char *path, mu_rundir *out, mu_err *err);
// An existing run, to resume it. MU_ENOTFOUND; MU_EUSAGE when another process has it (its pid is named).
MU_MUST_CHECK mu_status mu_rundir_open(const char *path, mu_rundir *out, mu_err *err);
// Does the path still lead to the folder whose lock this is?
bool mu_rundir_is_there(const mu_rundir *d);
// The folder of a run that was removed while it trained, at the same path. After mu_rundir_close.
MU_MUST_CHECK mu_status mu_rundir_create_again(mu_rundir *d, mu_err *err);
void mu_rundir_close(mu_rundir *d);             // releases the lock, the folder stays

// Path of the newest run of a job name under `base`. MU_ENOTFOUND.
MU_MUST_CHECK mu_status mu_rundir_find_newest(const char *base, const char *name, char out[MU_FS_PATH],
                                              mu_err *err);

MU_MUST_CHECK mu_status mu_rundir_path(const mu_rundir *d, const char *file, char out[MU_FS_PATH],
                                       mu_err *err);

#endif
