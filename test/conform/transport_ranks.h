// SPDX-License-Identifier: Apache-2.0
// transport_ranks.h - processes under mpirun for the tests of transports: this program starts mpirun with
// itself, and each rank leaves its verdict in a file.
//
// All starts together have RANKS_S seconds. Every rank ends itself by an alarm, mpirun is ended by its pid
// when its time is over, and what is left of the ranks by theirs: a stopped one hears no alarm.
#ifndef TEST_CONFORM_TRANSPORT_RANKS_H
#define TEST_CONFORM_TRANSPORT_RANKS_H

#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { RANKS_S = 60, ONE_START_S = 30, RANKS_GRACE_S = 5 };

static inline void nap_us(long us) { nanosleep(&(struct timespec){.tv_nsec = us * 1000}, NULL); }

static inline int remove_one(const char *path, const struct stat *s, int flag, struct FTW *ftw) {
    (void)s, (void)flag, (void)ftw;
    return remove(path);
}

// ---- a rank ----

static inline void leave_note(const char *dir, const char *name, int rank, const char *text) {
    char path[256];
    snprintf(path, sizeof path, "%s/%s%d", dir, name, rank);
    FILE *f = fopen(path, "w");
    if (f) fprintf(f, "%s\n", text), fclose(f);
}

static inline void read_note(const char *dir, const char *name, int rank, char *text, int size) {
    char path[256];
    snprintf(path, sizeof path, "%s/%s%d", dir, name, rank);
    FILE *f = fopen(path, "r");
    text[0] = '\0';
    if (f && fgets(text, size, f)) text[strcspn(text, "\n")] = '\0';
    if (f) fclose(f);
}

static inline void begin_rank(const char *dir, int rank) {
    char pid[16];
    alarm(ONE_START_S);
    snprintf(pid, sizeof pid, "%d", (int)getpid());
    leave_note(dir, "pid", rank, pid);
}

static inline void verdict(const char *dir, int rank, const char *text) {
    leave_note(dir, "rank", rank, text);
}

// ---- who starts them ----

static inline bool has_mpirun(void) {
    char path[4096];
    const char *dirs = getenv("PATH");
    for (const char *at = dirs ? dirs : ""; *at;) {
        const int n = (int)strcspn(at, ":");
        snprintf(path, sizeof path, "%.*s/mpirun", n, at);
        if (!access(path, X_OK)) return true;
        at += n + (at[n] == ':');
    }
    return false;
}

static inline void become_mpirun(int n, const char *what, const char *dir, bool survive, const char *btl) {
    char ranks[16], out[256], self[4096];
    const ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    snprintf(ranks, sizeof ranks, "%d", n);
    snprintf(out, sizeof out, "%s/output", dir);
    self[length > 0 ? length : 0] = '\0';
    const int fd = open(out, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (fd < 0 || dup2(fd, 1) < 0 || dup2(fd, 2) < 0) _exit(126);
    setenv("TMPDIR", dir, 1);
    char *argv[] = {"mpirun",
                    "--allow-run-as-root",
                    "--oversubscribe",
                    "--bind-to",
                    "none",
                    "--mca",
                    "pml",
                    "ob1",
                    "--mca",
                    "btl",
                    (char *)(uintptr_t)btl,
                    "--mca",
                    "btl_tcp_if_include",
                    "lo",
                    "--mca",
                    "mpi_yield_when_idle",
                    "1",
                    "-n",
                    ranks,
                    survive ? "--enable-recovery" : "--quiet",
                    self,
                    "rank",
                    (char *)(uintptr_t)what,
                    (char *)(uintptr_t)dir,
                    NULL};
    execvp(argv[0], argv);
    _exit(127);
}

static inline int wait_until(pid_t pid, double until, int *how) {
    for (; mu_clock_s() < until; nap_us(5000))
        if (waitpid(pid, how, WNOHANG) == pid) return 1;
    return 0;
}

// Its wait status; -1: it did not end in time, and was killed.
static inline int ended_in_time(pid_t pid, double limit_s) {
    int how;
    if (wait_until(pid, mu_clock_s() + limit_s, &how)) return how;
    kill(pid, SIGTERM);
    if (!wait_until(pid, mu_clock_s() + RANKS_GRACE_S, &how)) {
        kill(pid, SIGKILL);
        waitpid(pid, &how, 0);
    }
    return -1;
}

// Kills a rank that is left. The folder is among its arguments, so it is ours.
static inline void end_rank(const char *dir, int rank) {
    char pid[32], path[64], words[4096] = "";
    read_note(dir, "pid", rank, pid, sizeof pid);
    if (!pid[0]) return;
    snprintf(path, sizeof path, "/proc/%.20s/cmdline", pid);
    FILE *f = fopen(path, "r");
    const size_t n = f ? fread(words, 1, sizeof words, f) : 0;
    if (f) fclose(f);
    if (memmem(words, n, dir, strlen(dir))) kill((pid_t)atoi(pid), SIGKILL);
}

static inline bool said_ok(const char *dir, int rank, char *why, size_t size) {
    char text[500];
    read_note(dir, "rank", rank, text, sizeof text);
    if (!strcmp(text, "ok")) return true;
    snprintf(why, size, "rank %d: %s", rank, text[0] ? text : "said nothing");
    return false;
}

static inline void show_output(const char *dir) {
    char path[256], line[400];
    snprintf(path, sizeof path, "%s/output", dir);
    FILE *f = fopen(path, "r");
    for (int i = 0; f && i < 30 && fgets(line, sizeof line, f); i++) fprintf(stderr, "  mpirun: %s", line);
    if (f) fclose(f);
}

// Runs `what` on n ranks; all but `victim` (-1 = none) must say ok. False: why says who did not.
static inline bool run_ranks(int n, const char *what, int victim, const char *btl, char *why, size_t size) {
    static double spent_s;
    const double left_s = RANKS_S - spent_s, began_s = mu_clock_s();
    char dir[] = "/tmp/muster-ranks-XXXXXX";
    if (left_s < 1) return snprintf(why, size, "no time is left of %d s", RANKS_S), false;
    if (!mkdtemp(dir)) return snprintf(why, size, "mkdtemp: %s", strerror(errno)), false;
    fflush(NULL);
    const pid_t pid = fork();
    if (pid == 0) become_mpirun(n, what, dir, victim >= 0, btl);
    const int how = pid > 0 ? ended_in_time(pid, left_s < ONE_START_S ? left_s : ONE_START_S) : -1;
    bool good = true;
    for (int i = 0; i < n && good; i++) good = i == victim || said_ok(dir, i, why, size);
    if (good && how == -1) good = (snprintf(why, size, "mpirun did not end in time"), false);
    if (good && how && victim < 0) good = (snprintf(why, size, "mpirun ended with 0x%x", how), false);
    if (!good) show_output(dir);
    for (int i = 0; i < n; i++) end_rank(dir, i);
    spent_s += mu_clock_s() - began_s;
    nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    return good;
}

#endif
