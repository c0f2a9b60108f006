// SPDX-License-Identifier: Apache-2.0
// process.c - see process.h.
//
// A pid names our child only until the child is reaped; after that the kernel may give it to any process. So
// before every kill the child is asked for: still running means the pid is still ours. Every question names
// one pid. waitpid(-1) would take the ends of children that belong to the program around the library.
//
// The kernel sends the parent-death signal when the *thread* that forked ends, so children are started by a
// thread that lives as long as the run.
#include "comm/process.h"

#include "base/clock.h"
#include "base/log.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    POLL_NS = 1000000,
    ORPHAN_EXIT = 1,
};

static void handle(int signo, void (*handler)(int)) {
    struct sigaction a = { .sa_handler = handler };
    sigemptyset(&a.sa_mask);
    sigaction(signo, &a, NULL);
}

// Runs with all signals blocked: a handler of the parent's must not run in the child.
static void become_child(const char *name, pid_t parent, const sigset_t *mask_before) {
    sigset_t mask = *mask_before;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(ORPHAN_EXIT);        // it died before the line above
    prctl(PR_SET_NAME, name);
    handle(SIGINT, SIG_IGN);
    handle(SIGHUP, SIG_IGN);
    handle(SIGTERM, SIG_DFL);
    handle(SIGCHLD, SIG_DFL);
    sigdelset(&mask, SIGTERM);
    sigdelset(&mask, SIGCHLD);
    sigprocmask(SIG_SETMASK, &mask, NULL);
}

mu_status mu_process_start(const char *name, mu_child_main main, void *ctx, pid_t *out, mu_err *err) {
    sigset_t all, before;
    pid_t parent = getpid();
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pid_t pid = fork();
    if (pid == 0) {
        become_child(name, parent, &before);
        _exit(main(ctx));               // not exit: the parent's buffered output is the parent's to write
    }
    int e = errno;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (pid < 0)
        return mu_err_hinted(
            MU_FAIL(err, MU_EBACKEND, "cannot start process `%s`: %s", name, strerror(e)), err,
            "The system limits processes (`ulimit -u`, a container's pids limit) or memory.");
    *out = pid;
    return MU_OK;
}

// ---- ends ----

// True: the child has ended and is reaped now, or was before. *status is -1 where it is not known.
static bool has_ended(pid_t pid, int *status) {
    pid_t got;
    *status = -1;
    do got = waitpid(pid, status, WNOHANG);
    while (got < 0 && errno == EINTR);
    return got != 0;            // ECHILD: SIGCHLD is ignored, or another part of the program reaped it
}

bool mu_process_reap(pid_t pid, mu_process_end *out) {
    int status;
    if (pid <= 0 || !has_ended(pid, &status)) return false;
    const bool known = status != -1;
    *out = (mu_process_end){
        .pid = pid,
        .exit_code = known && WIFEXITED(status) ? WEXITSTATUS(status) : -1,
        .signal = known && WIFSIGNALED(status) ? WTERMSIG(status) : 0,
    };
    return true;
}

void mu_process_kill(pid_t pid) {
    siginfo_t info = {0};
    if (pid <= 0 || waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT)) return;
    if (!info.si_pid) kill(pid, SIGKILL);
}

// Reaps it if it has ended. True: it is our child and lives.
static bool lives(pid_t pid) {
    int status;
    return pid > 0 && !has_ended(pid, &status);
}

static int signal_living(const pid_t *pids, int n, int signo) {
    int living = 0;
    for (int i = 0; i < n; i++) {
        if (!lives(pids[i])) continue;
        living++;
        if (signo) kill(pids[i], signo);
    }
    return living;
}

// Reaps until none of them lives or the time is over; returns how many do.
static int await_ends(const pid_t *pids, int n, double seconds) {
    const struct timespec nap = { .tv_nsec = POLL_NS };
    double until = mu_clock_s() + seconds;
    int living;
    while ((living = signal_living(pids, n, 0)) && mu_clock_s() < until) nanosleep(&nap, NULL);
    return living;
}

void mu_process_let_end(const pid_t *pids, int n, double own_s, double grace_s) {
    if (await_ends(pids, n, own_s)) mu_process_end_all(pids, n, grace_s);
}

void mu_process_end_all(const pid_t *pids, int n, double grace_s) {
    if (!signal_living(pids, n, SIGTERM)) return;
    signal_living(pids, n, SIGCONT);    // a stopped process gets its SIGTERM only when it goes on
    if (!await_ends(pids, n, grace_s)) return;
    signal_living(pids, n, SIGKILL);
    int left = await_ends(pids, n, MU_PROCESS_GONE_S);
    if (left) mu_warn("%d processes are still there %d s after SIGKILL", left, MU_PROCESS_GONE_S);
}
