// SPDX-License-Identifier: Apache-2.0
// live.h - which run is alive, and how another process reaches it.
//
// A run leaves `live.json` in its folder while it trains:
//     {"pid":4711,"fd":9,"run_id":"lenet-0abc12","started":1767607872.5}
// pid and fd lead to the shared region through /proc/<pid>/fd/<fd>. The file is a hint, never the proof:
// after kill -9 it stays behind and the pid may belong to another program by then. The proof is that the
// process still has that descriptor open and that it is the region of this run id. A run that begins, ends or
// repeats another has no region; its proof is that the process named in `lock` has that very file open. Of
// another user's process the descriptors are not shown; there /proc/locks has to say that it holds the lock.
// Looking takes no lock and changes nothing, so it can never be in the way of a run that is just starting.
#ifndef MU_STORE_LIVE_H
#define MU_STORE_LIVE_H

#include "base/err.h"
#include "file/fs.h"

#define MU_RUN_LIVE "live.json"
#define MU_RUNS "runs"          // where runs are looked for when none is named

typedef enum mu_live_state {
    MU_LIVE_GROUP,              // it trains and has a region: pid and fd are good
    MU_LIVE_SINGLE,             // a process works on it without one: pid is good
    MU_LIVE_ENDED,              // no process works on it
    MU_LIVE_VANISHED,           // none does, but live.json says otherwise: it ended without goodbye
    MU_LIVE_HIDDEN              // a process that this user may not look at works on it
} mu_live_state;

typedef struct mu_live {
    mu_live_state state;
    char   dir[MU_FS_PATH];     // the run folder
    pid_t  pid;                 // VANISHED: the one it had; ENDED: 0; HIDDEN: 0 = not known
    int    fd;                  // GROUP and VANISHED, else -1
    char   run_id[64];          // GROUP and VANISHED, else ""
    double started;             // seconds since 1970; 0 = unknown
} mu_live;

// By the launcher: after the region exists, and when the run has ended.
MU_MUST_CHECK mu_status mu_live_write(const char *dir, pid_t pid, int fd, const char *run_id, mu_err *err);
void mu_live_remove(const char *dir);

// path: a run folder; MU_ENOTFOUND when it is none. NULL: the run under runs/ that started last of those
// alive; when none is alive the folder changed last, so that its end can be shown. MU_ENOTFOUND without any.
MU_MUST_CHECK mu_status mu_live_find(const char *path, mu_live *out, mu_err *err);

static inline bool mu_live_works(const mu_live *l) {
    return l->state == MU_LIVE_GROUP || l->state == MU_LIVE_SINGLE;
}

// Last complete line of metrics.jsonl without its line end, "" when there is none or it does not fit.
void mu_live_last_metrics(const char *dir, char *out, size_t size);

// Sends a signal to exactly the process that passes `is_it`: a handle is taken first and the question asked
// then, so a pid used again in between is never hit. MU_ENOTFOUND when it is gone or is not the one.
typedef bool (*mu_live_test)(void *ctx, pid_t pid);
MU_MUST_CHECK mu_status mu_live_signal(pid_t pid, int signo, mu_live_test is_it, void *ctx, mu_err *err);
// SIGTERM for a run of state SINGLE, after asking again whether the process still holds the run.
MU_MUST_CHECK mu_status mu_live_terminate(const mu_live *l, mu_err *err);

#endif
