// SPDX-License-Identifier: Apache-2.0
// process.h - children of a run: forked, never outliving their parent, always reaped.
//
// A child is forked from a parent that has opened everything and started no thread, so it begins in
// milliseconds and shares the parent's data pages. It gets SIGKILL when the parent dies; more exactly, when
// the thread that started it ends, so that is the main thread.
#ifndef MU_COMM_PROCESS_H
#define MU_COMM_PROCESS_H

#include "base/err.h"

#include <sys/types.h>

typedef int (*mu_child_main)(void *ctx);        // returns the exit code; the child then ends by _exit

// In the child: SIGINT is ignored (the terminal sends it to all; the parent decides), SIGTERM and SIGCHLD
// are as by default, the name shown by ps is `name`.
MU_MUST_CHECK mu_status mu_process_start(const char *name, mu_child_main main, void *ctx, pid_t *out,
                                         mu_err *err);

typedef struct mu_process_end {
    pid_t pid;
    int   exit_code;            // of a normal end, else -1
    int   signal;               // that killed it, else 0
} mu_process_end;

// One ended child, without waiting. False: none has ended.
bool mu_process_reap(mu_process_end *out);
// Ends the given children (SIGTERM, after grace_s SIGKILL) and reaps them. Entries of 0 are skipped.
void mu_process_end_all(const pid_t *pids, int n, double grace_s);
// Kills one child and waits until it is gone and reaped, so that it can write nothing any more;
// mu_process_reap does not see it again. True at once when it was reaped before. Bounded by 5 s: false.
bool mu_process_kill(pid_t pid);

#endif
