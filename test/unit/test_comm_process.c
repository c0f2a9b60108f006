// SPDX-License-Identifier: Apache-2.0
// Tests of comm/process: children end as asked, die with their parent, are reaped, and no other
// process is harmed.
#include "comm_help.h"

#include "comm/process.h"

#include <stdatomic.h>

typedef struct board {          // shared with the children
    _Atomic int up, term_handled, mask_has_term, int_ignored, pid, parent;
    char name[32];
} board;

static board *b;

static int new_board(void **state) {
    (void)state;
    b = shared(sizeof *b);
    return 0;
}

static int free_board(void **state) {
    (void)state;
    munmap(b, sizeof *b);
    return 0;
}

static void assert_no_children(void) {
    errno = 0;
    pid_t got = waitpid(-1, NULL, WNOHANG);
    if (got != -1 || errno != ECHILD) fail_msg("waitpid gave %d: a child is left", (int)got);
}

static pid_t start(const char *name, mu_child_main fn, void *ctx) {
    pid_t pid = 0;
    assert_ok(mu_process_start(name, fn, ctx, &pid, err));
    assert_true(pid > 0);
    return pid;
}

static mu_process_end reaped(pid_t pid, double seconds) {
    mu_process_end e;
    double until = mu_clock_s() + seconds;
    while (!mu_process_reap(pid, &e)) {
        if (mu_clock_s() > until) fail_msg("child %d did not end within %g s", (int)pid, seconds);
        nap_ms(1);
    }
    return e;
}

// ---- beginning and end ----

static int return_ctx(void *ctx) { return *(int *)ctx; }

static int sleep_long(void *ctx) {
    (void)ctx;
    atomic_fetch_add(&b->up, 1);
    nap_ms(60000);
    return 0;
}

static void test_ends_are_told(void **state) {
    (void)state;
    mu_process_end e;
    int codes[] = {0, 3, 255};
    for (size_t i = 0; i < MU_COUNT(codes); i++) {
        pid_t pid = start("code", return_ctx, &codes[i]);
        e = reaped(pid, 10);
        assert_int_equal(e.pid, pid);
        assert_int_equal(e.exit_code, codes[i]);
        assert_int_equal(e.signal, 0);
    }
    pid_t pid = start("sleeper", sleep_long, NULL);
    await_at_least(&b->up, 1, 10);
    assert_false(mu_process_reap(pid, &e));
    kill(pid, SIGSTOP);
    nap_ms(5);
    assert_false(mu_process_reap(pid, &e));     // stopped is not ended
    kill(pid, SIGKILL);
    e = reaped(pid, 10);
    assert_int_equal(e.pid, pid);
    assert_int_equal(e.exit_code, -1);
    assert_int_equal(e.signal, SIGKILL);
    assert_false(mu_process_reap(0, &e));       // no child: nothing has ended
    assert_no_children();
}

// The program around the library has children too, and waits for them itself.
static void test_other_children_are_not_reaped(void **state) {
    (void)state;
    int codes[] = {7, 8}, status = 0;
    pid_t theirs = start("theirs", return_ctx, &codes[0]), ours = start("ours", return_ctx, &codes[1]);
    siginfo_t info;
    assert_int_equal(waitid(P_PID, (id_t)theirs, &info, WEXITED | WNOWAIT), 0); // a zombie now
    assert_int_equal(reaped(ours, 10).exit_code, 8);
    mu_process_kill(ours);
    mu_process_end_all(&ours, 1, 0.1);
    assert_int_equal(waitpid(theirs, &status, WNOHANG), theirs);
    assert_int_equal(WEXITSTATUS(status), 7);
}

// Some launchers leave SIGCHLD ignored: the kernel reaps, and how a child ended is not known.
static void test_ignored_sigchld(void **state) {
    (void)state;
    int code = 3;
    signal(SIGCHLD, SIG_IGN);
    pid_t quick = start("quick", return_ctx, &code), hung = start("hung", sleep_long, NULL);
    mu_process_end e = reaped(quick, 10);
    await_at_least(&b->up, 1, 10);
    bool early = mu_process_reap(hung, &e);
    mu_process_kill(hung);
    mu_process_end late = reaped(hung, 10);
    pid_t polite = start("polite", sleep_long, NULL);
    mu_process_end_all(&polite, 1, 10);
    signal(SIGCHLD, SIG_DFL);
    assert_int_equal(e.exit_code, -1);
    assert_int_equal(e.signal, 0);
    assert_false(early);
    assert_int_equal(late.pid, hung);
    assert_int_equal(kill(polite, 0), -1);
}

static void on_term(int signo) {
    (void)signo;
    atomic_fetch_add(&b->term_handled, 1);
}

static int describe(void *ctx) {
    (void)ctx;
    struct sigaction a;
    sigset_t mask;
    FILE *f = fopen("/proc/self/comm", "r");
    const bool named = f && fgets(b->name, sizeof b->name, f);
    if (f) fclose(f);
    if (!named) return 1;
    sigaction(SIGINT, NULL, &a);
    atomic_store(&b->int_ignored, a.sa_handler == SIG_IGN);
    sigprocmask(SIG_SETMASK, NULL, &mask);
    atomic_store(&b->mask_has_term, sigismember(&mask, SIGTERM));
    raise(SIGINT);                      // nothing
    raise(SIGTERM);                     // the end, not the parent's handler
    return 0;
}

static void test_signals_and_name(void **state) {
    (void)state;
    struct sigaction act = {.sa_handler = on_term}, before;
    sigset_t term, old, now;
    sigemptyset(&term);
    sigaddset(&term, SIGTERM);
    sigaction(SIGTERM, &act, &before);
    sigprocmask(SIG_BLOCK, &term, &old);
    pid_t pid = start("muster-learner", describe, NULL);
    sigprocmask(SIG_SETMASK, NULL, &now);
    assert_int_equal(sigismember(&now, SIGTERM), 1);    // the parent's mask is as it was
    assert_int_equal(sigismember(&now, SIGUSR1), 0);
    mu_process_end e = reaped(pid, 10);
    sigprocmask(SIG_SETMASK, &old, NULL);
    sigaction(SIGTERM, &before, NULL);
    assert_int_equal(e.signal, SIGTERM);
    assert_string_equal(b->name, "muster-learner\n");
    assert_int_equal(atomic_load(&b->int_ignored), 1);
    assert_int_equal(atomic_load(&b->mask_has_term), 0);
    assert_int_equal(atomic_load(&b->term_handled), 0);
}

static void test_buffers_written_once(void **state) {
    (void)state;
    char path[] = "process-test-XXXXXX", text[64] = "";
    int fd = mkstemp(path), code = 0;
    assert_true(fd >= 0);
    FILE *f = fdopen(fd, "w+");
    fputs("once", f);                   // still in the buffer when the child begins
    pid_t pid = start("quiet", return_ctx, &code);
    assert_int_equal(reaped(pid, 10).exit_code, 0);
    fflush(f);
    rewind(f);
    assert_non_null(fgets(text, sizeof text, f));
    assert_string_equal(text, "once");
    fclose(f);
    remove(path);
}

// ---- ending them ----

static int ignore_term(void *ctx) {
    (void)ctx;
    signal(SIGTERM, SIG_IGN);
    atomic_fetch_add(&b->up, 1);
    nap_ms(60000);
    return 0;
}

static void test_end_all(void **state) {
    (void)state;
    int zero = 0;
    pid_t pids[5] = {
        start("polite", sleep_long, NULL), 0, start("stubborn", ignore_term, NULL),
        start("stopped", sleep_long, NULL), start("done", return_ctx, &zero),
    };
    await_at_least(&b->up, 3, 10);
    kill(pids[3], SIGSTOP);
    double begin = mu_clock_s();
    mu_process_end_all(pids, 5, 0.1);
    double took = mu_clock_s() - begin;
    if (took < 0.09 || took > 4) fail_msg("ending took %g s, expected 0.1 of grace and little more", took);
    assert_no_children();
    begin = mu_clock_s();
    mu_process_end_all(pids, 5, 10);    // all gone: nothing to wait for
    mu_process_end_all(NULL, 0, 10);
    assert_true(mu_clock_s() - begin < 2);
}

// With only polite children the grace is not used up.
static void test_end_all_is_quick(void **state) {
    (void)state;
    pid_t pids[3];
    for (int i = 0; i < 3; i++) pids[i] = start("polite", sleep_long, NULL);
    kill(pids[1], SIGSTOP);             // gets its SIGTERM all the same
    double begin = mu_clock_s();
    mu_process_end_all(pids, 3, 20);
    double took = mu_clock_s() - begin;
    if (took > 8) fail_msg("ending took %g s of 20 s of grace", took);
    assert_no_children();
}

static void test_kill(void **state) {
    (void)state;
    mu_process_end e;
    pid_t pid = start("hung", ignore_term, NULL);
    await_at_least(&b->up, 1, 10);
    kill(pid, SIGSTOP);
    assert_false(mu_process_reap(pid, &e));
    mu_process_kill(pid);
    mu_process_kill(pid);               // until it is reaped it is ours: no harm
    e = reaped(pid, 10);
    assert_int_equal(e.signal, SIGKILL);
    assert_int_equal(kill(pid, 0), -1); // gone, not a zombie
    assert_int_equal(errno, ESRCH);
    mu_process_kill(pid);
    mu_process_kill(0);                 // never the process group
    assert_no_children();
}

// A pid that was reaped may belong to any process: here to a process that is not our child.
static int have_child(void *ctx) {
    (void)ctx;
    pid_t pid;
    if (mu_process_start("other", sleep_long, NULL, &pid, NULL) != MU_OK) return 1;
    atomic_store(&b->pid, pid);
    nap_ms(60000);
    return 0;
}

static bool running(pid_t pid) {        // there and no zombie
    char path[64], line[256] = "";
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *f = fopen(path, "r");
    if (!f) return false;
    bool read = fgets(line, sizeof line, f) != NULL;
    fclose(f);
    const char *after = strrchr(line, ')');
    return read && after && after[2] != 'Z' && after[2] != 'X';
}

static void test_strangers_are_left_alone(void **state) {
    (void)state;
    pid_t child = start("middle", have_child, NULL);
    await_at_least(&b->up, 1, 10);
    await_at_least(&b->pid, 1, 10);
    pid_t stranger = atomic_load(&b->pid);
    mu_process_end_all(&stranger, 1, 0.05);
    mu_process_kill(stranger);
    nap_ms(20);
    assert_true(running(stranger));
    mu_process_end_all(&child, 1, 0);
}

// ---- death of the parent ----

static void test_children_die_with_parent(void **state) {
    (void)state;
    pid_t parent = start("parent", have_child, NULL);
    await_at_least(&b->up, 1, 10);
    await_at_least(&b->pid, 1, 10);
    pid_t grandchild = atomic_load(&b->pid);
    assert_true(running(grandchild));
    assert_int_equal(kill(parent, SIGKILL), 0);
    double begin = mu_clock_s();
    while (running(grandchild)) {
        if (mu_clock_s() - begin > 2) fail_msg("process %d outlives its parent by 2 s", (int)grandchild);
        nap_ms(1);
    }
    assert_int_equal(reaped(parent, 10).pid, parent);
}

// The parent dies right after the fork, before or while the child makes its arrangements.
static int start_and_die(void *ctx) {
    int *delay_us = ctx;
    pid_t pid;
    if (mu_process_start("leaf", sleep_long, NULL, &pid, NULL) != MU_OK) return 1;
    struct timespec t = {.tv_nsec = *delay_us * 1000L};
    if (*delay_us) nanosleep(&t, NULL);
    raise(SIGKILL);
    return 2;
}

static void test_no_orphans(void **state) {
    (void)state;
    unsigned seed = (unsigned)getpid();
    print_message("seed %u\n", seed);
    // Orphans become our children, so none can hide.
    assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
    for (int k = 0; k < 60; k++) {
        int delay_us = k % 2 ? rand_r(&seed) % 300 : 0;
        start("parent", start_and_die, &delay_us);
        double until = mu_clock_s() + 5;
        for (;;) {
            pid_t got = waitpid(-1, NULL, WNOHANG);
            if (got < 0 && errno == ECHILD) break;
            if (mu_clock_s() > until) fail_msg("round %d: a process stays after its parent's death", k);
            if (!got) nap_ms(1);
        }
    }
    prctl(PR_SET_CHILD_SUBREAPER, 0);
}

#define with_board(test) cmocka_unit_test_setup_teardown(test, new_board, free_board)

int main(void) {
    const struct CMUnitTest tests[] = {
        with_board(test_ends_are_told),
        with_board(test_other_children_are_not_reaped),
        with_board(test_ignored_sigchld),
        with_board(test_signals_and_name),
        with_board(test_buffers_written_once),
        with_board(test_end_all),
        with_board(test_end_all_is_quick),
        with_board(test_kill),
        with_board(test_strangers_are_left_alone),
        with_board(test_children_die_with_parent),
        with_board(test_no_orphans),
    };
    return cmocka_run_group_tests_name("comm/process", tests, NULL, NULL);
}
