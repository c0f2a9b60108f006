// SPDX-License-Identifier: Apache-2.0
// process.h - children of a run: forked, never outliving their parent, always reaped.
//
// A child is forked from a parent that has opened everything and started no thread, so it begins in
// milliseconds and shares the parent's data pages. It gets SIGKILL when the parent dies; more exactly, when
// the thread that started it ends, so that thread waits for it. A program that uses the library may have
// threads: there trainings by several learners run in a process of their own (run/helper.h).
#ifndef MU_COMM_PROCESS_H
#define MU_COMM_PROCESS_H

#include "base/err.h"

#include <sys/types.h>

typedef int (*mu_child_main)(void *ctx);        // returns the exit code; the child then ends by _exit

// In the child: SIGINT and SIGHUP are ignored (the terminal sends them to all; the parent decides), SIGTERM
// and SIGCHLD are as by default, the name shown by ps is `name`.
MU_MUST_CHECK mu_status mu_process_start(const char *name, mu_child_main main, void *ctx, pid_t *out,
                                         mu_err *err);

typedef struct mu_process_end {
    pid_t pid;
    int   exit_code;            // of a normal end, else -1
    int   signal;               // that killed it, else 0
} mu_process_end;

// Has this child ended? If so it is reaped. Other children of the process, and other threads' children, are
// left alone. Where the program ignores SIGCHLD, or reaps every child itself, a child's end is noticed all
// the same but how it ended is not known: exit_code -1, signal 0.
bool mu_process_reap(pid_t pid, mu_process_end *out);
// Sends SIGKILL to a child that lives. It can write no more when mu_process_reap says that it has ended.
void mu_process_kill(pid_t pid);
// Ends the given children (SIGTERM, after grace_s SIGKILL) and reaps them. Entries of 0 are skipped. Bounded:
// a process that MU_PROCESS_GONE_S after SIGKILL is still there is left, with a warning.
void mu_process_end_all(const pid_t *pids, int n, double grace_s);
// The same for processes that were told to end in another way: SIGTERM comes only after `own_s`.
void mu_process_let_end(const pid_t *pids, int n, double own_s, double grace_s);

// After SIGKILL only a hanging device, a crowd, or a virtual processor that stands still keeps a process.
enum { MU_PROCESS_GONE_S = 120 };

#endif
