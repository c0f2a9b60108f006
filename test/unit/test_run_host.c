// SPDX-License-Identifier: Apache-2.0
// test_run_host.c - trainings by several learners through the installed interface, in a program that is busy
// itself: threads that allocate, ask for the time, log and train alone, and children of its own.
//
// Were learners forked from here, a child would sooner or later find a lock taken that no thread gives back.
#include "run_help.h"

#include "base/clock.h"
#include "muster/muster.h"

#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#define JOB(rest)                                                                                            \
    "name: host\nseed: 5\n"                                                                                  \
    "data:\n"                                                                                                \
    "  train: {reader: synthetic, shape: [2, 9, 9], classes: 4, records: 96, scale: 0.01}\n"                 \
    "  test: {reader: synthetic, shape: [2, 9, 9], classes: 4, records: 48, scale: 0.01}\n"                  \
    "net:\n"                                                                                                 \
    "- {name: conv, type: convolution, src: data.image, filters: 16, kernel: 3, pad: 1}\n"                   \
    "- {name: relu1, type: relu}\n"                                                                          \
    "- {name: ip1, type: inner_product, outputs: 64}\n"                                                      \
    "- {name: relu2, type: relu}\n"                                                                          \
    "- {name: ip2, type: inner_product, outputs: 4}\n"                                                       \
    "- {name: loss, type: softmax_loss, src: [ip2, data.label]}\n"                                           \
    "test: {every: 100 steps}\n"                                                                             \
    "updater: {type: sgd, momentum: 0.9, rate: 0.01}\n" rest
static const char alone_text[] = JOB("train: {batch: 16, steps: 25}\n");
static const char text[] = JOB("train: {batch: 16, steps: 40}\ncluster: {learners: 2}\n");

enum { ROUNDS = 6, MODEL = 1 << 20 };

static char folder[64];

#define ok(call)                                                                                             \
    do {                                                                                                     \
        muster_error e_ = {0}, *err = &e_;                                                                   \
        muster_status s_ = (call);                                                                           \
        if (s_ != MUSTER_OK) fail_msg("%s: status %d: %s (%s)", #call, (int)s_, e_.message, e_.hint);        \
    } while (0)

static muster_run *open_run(const char *job_text, const char *path, const char *edit) {
    muster_job *job = NULL;
    muster_run *run = NULL;
    ok(muster_job_parse("t.yaml", job_text, strlen(job_text), &edit, edit ? 1 : 0, &job, err));
    ok(muster_run_create(job, path, &run, err));
    muster_job_destroy(job);
    return run;
}

static char *model_of(muster_run *run, size_t *size) {
    char path[128], *bytes = NULL;
    snprintf(path, sizeof path, "%s/compare-%p.safetensors", folder, (void *)run);
    ok(muster_run_save(run, path, err));
    assert_ok(mu_fs_read(path, MODEL, &bytes, size, err));
    remove(path);
    return bytes;
}

static bool same_model(muster_run *a, muster_run *b) {
    size_t n, m;
    char *x = model_of(a, &n), *y = model_of(b, &m);
    bool same = n == m && !memcmp(x, y, n);
    mu_free(x);
    mu_free(y);
    return same;
}

// ---- what the program does besides; asserts of cmocka jump, so threads count their failures ----

static atomic_bool busy;
static atomic_int failures, rounds_done;

static void *allocate(void *ctx) {
    (void)ctx;
    for (unsigned n = 1; atomic_load(&busy); n = n * 1664525 + 1013904223) {
        void *volatile p[8];
        for (int i = 0; i < 8; i++) p[i] = malloc(n % 100000 + 1);
        for (int i = 0; i < 8; i++) free(p[i]);
    }
    return NULL;
}

static void *ask_the_time(void *ctx) {
    (void)ctx;
    while (atomic_load(&busy)) {
        time_t now = time(NULL);
        struct tm tm;
        if (!localtime_r(&now, &tm)) atomic_fetch_add(&failures, 1);
        mu_debug("a line of the log");
    }
    return NULL;
}

static void *train_alone(void *ctx) {
    muster_job *job = ctx;
    while (atomic_load(&busy)) {
        muster_run *run = NULL;
        if (muster_run_create(job, NULL, &run, NULL) || muster_run_train(run, NULL, NULL, NULL, NULL))
            atomic_fetch_add(&failures, 1);
        muster_run_destroy(run);
        atomic_fetch_add(&rounds_done, 1);
    }
    return NULL;
}

static void *have_children(void *ctx) {
    (void)ctx;
    for (int k = 0; atomic_load(&busy); k++) {
        int status = 0;
        pid_t pid = fork();
        if (!pid) _exit(k % 100 + 1);
        usleep(2000); // it is a zombie for a while
        if (waitpid(pid, &status, 0) != pid || !WIFEXITED(status) || WEXITSTATUS(status) != k % 100 + 1)
            atomic_fetch_add(&failures, 1);
    }
    return NULL;
}

enum { OTHERS = 6 };
static pthread_t other[OTHERS];
static muster_job *alone_job;

static int get_busy(void **state) {
    (void)state;
    void *(*const what[OTHERS])(void *) = {allocate,    allocate,    ask_the_time,
                                           train_alone, train_alone, have_children};
    ok(muster_job_parse("a.yaml", alone_text, strlen(alone_text), NULL, 0, &alone_job, err));
    atomic_store(&busy, true);
    for (int i = 0; i < OTHERS; i++) assert_int_equal(pthread_create(&other[i], NULL, what[i], alone_job), 0);
    return 0;
}

static int get_quiet(void **state) {
    (void)state;
    atomic_store(&busy, false);
    for (int i = 0; i < OTHERS; i++) pthread_join(other[i], NULL);
    muster_job_destroy(alone_job);
    assert_int_equal(atomic_load(&failures), 0);
    assert_true(atomic_load(&rounds_done) > 0);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); // no child is left
    return 0;
}

// ---- tests ----

static void trains_again_and_again(void **state) {
    (void)state;
    muster_run *first = open_run(text, NULL, NULL);
    ok(muster_run_train(first, NULL, NULL, NULL, err));
    for (int k = 0; k < ROUNDS; k++) {
        muster_result r;
        muster_run *run = open_run(text, NULL, NULL);
        ok(muster_run_train(run, NULL, NULL, &r, err));
        assert_int_equal(r.steps, 40);
        assert_true(r.test_accuracy > 0.3);
        assert_true(same_model(first, run)); // hardsync: the same bits
        muster_run_destroy(run);
    }
    muster_run_destroy(first);
}

typedef struct trainer {
    pthread_t     thread;
    muster_run   *run[ROUNDS];
    muster_status status;
    muster_error  error;
} trainer;

static void *train_all(void *ctx) {
    trainer *t = ctx;
    for (int k = 0; k < ROUNDS && t->status == MUSTER_OK; k++)
        t->status = muster_run_train(t->run[k], NULL, NULL, NULL, &t->error);
    return NULL;
}

// One of the learners dies on its way: the other run's parent must not take that for its own.
static void two_at_once(void **state) {
    (void)state;
    static trainer t[2];
    for (int i = 0; i < 2; i++)
        for (int k = 0; k < ROUNDS; k++) t[i].run[k] = open_run(text, NULL, NULL);
    setenv("MUSTER_FAILPOINTS", "learner/backward=kill@100", 1);
    double begin = mu_clock_s();
    for (int i = 0; i < 2; i++) assert_int_equal(pthread_create(&t[i].thread, NULL, train_all, &t[i]), 0);
    for (int i = 0; i < 2; i++) pthread_join(t[i].thread, NULL);
    print_message("%d trainings in %.1f s\n", 2 * ROUNDS, mu_clock_s() - begin);
    unsetenv("MUSTER_FAILPOINTS");
    for (int i = 0; i < 2; i++) {
        if (t[i].status) fail_msg("%s (%s)", t[i].error.message, t[i].error.hint);
        for (int k = 0; k < ROUNDS; k++) assert_true(same_model(t[0].run[0], t[i].run[k]));
    }
    for (int i = 0; i < 2; i++)
        for (int k = 0; k < ROUNDS; k++) muster_run_destroy(t[i].run[k]);
}

typedef struct seen { int calls; int64_t stop_at; double accuracy; } seen;

static int watch(void *ctx, const muster_progress *p) {
    seen *s = ctx;
    s->calls++;
    s->accuracy = p->test_accuracy;
    return s->stop_at && p->step >= s->stop_at;
}

// Stopped by the callback and gone on with, in memory and in a folder: as one training.
static void stops_and_goes_on(void **state) {
    (void)state;
    char path[128];
    snprintf(path, sizeof path, "%s/stops", folder);
    const char *longer = "train.steps=600";
    muster_run *whole = open_run(text, NULL, longer);
    seen s = {.accuracy = NAN};
    ok(muster_run_train(whole, watch, &s, NULL, err));
    assert_true(s.calls >= 1 && s.accuracy > 0);
    for (int files = 0; files < 2; files++) {
        muster_run *run = open_run(text, files ? path : NULL, longer);
        muster_result r = {0};
        muster_error e = {0};
        s = (seen){.stop_at = 1};
        assert_int_equal(muster_run_train(run, watch, &s, &r, &e), MUSTER_STOPPED);
        if (!strstr(e.message, "stopped after step")) fail_msg("message: %s", e.message);
        assert_true(r.steps > 0 && r.steps < 600);
        assert_int_equal(access(r.checkpoint, F_OK), files ? 0 : -1);
        ok(muster_run_train(run, NULL, NULL, &r, err));
        assert_int_equal(r.steps, 600);
        assert_true(same_model(whole, run));
        muster_run_stop(run);
        assert_int_equal(muster_run_train(run, NULL, NULL, &r, &e), MUSTER_STOPPED);
        muster_run_destroy(run);
    }
    muster_run_destroy(whole);
}

static void *stop_soon(void *ctx) {
    usleep(60000);
    muster_run_stop(ctx);
    return NULL;
}

static void another_thread_stops(void **state) {
    (void)state;
    pthread_t t;
    muster_result r = {0};
    muster_run *run = open_run(text, NULL, "train.steps=100000000");
    assert_int_equal(pthread_create(&t, NULL, stop_soon, run), 0);
    assert_int_equal(muster_run_train(run, NULL, NULL, &r, NULL), MUSTER_STOPPED);
    pthread_join(t, NULL);
    muster_run_destroy(run);
}

// ---- failures ----

static int find_child(void) {
    char path[64];
    int pid = 0;
    snprintf(path, sizeof path, "/proc/self/task/%d/children", (int)gettid());
    FILE *f = fopen(path, "r");
    if (!f || fscanf(f, "%d", &pid) != 1) pid = 0;
    if (f) fclose(f);
    return pid;
}

static int kill_helper(void *ctx, const muster_progress *p) {
    (void)ctx, (void)p;
    int pid = find_child();
    if (pid > 1) kill(pid, SIGKILL);
    return pid <= 1;
}

static void failures_are_told(void **state) {
    (void)state;
    muster_error e = {0};
    muster_run *run = open_run(text, NULL, "updater.rate=1e30"), *twin = open_run(text, NULL, NULL);
    assert_int_equal(muster_run_train(run, NULL, NULL, NULL, &e), MUSTER_DIVERGED);
    if (!strstr(e.message, "not finite")) fail_msg("message: %s", e.message);
    muster_run_destroy(run);

    run = open_run(text, NULL, NULL);
    assert_int_equal(muster_run_train(run, kill_helper, NULL, NULL, &e), MUSTER_FAILURE);
    if (!strstr(e.message, "ended with signal 9")) fail_msg("message: %s", e.message);
    assert_true(same_model(run, twin)); // as it was
    char *right = strdup(getenv("MUSTER_PROGRAM"));
    setenv("MUSTER_PROGRAM", "/nowhere/muster", 1);
    assert_int_equal(muster_run_train(run, NULL, NULL, NULL, &e), MUSTER_FAILURE);
    if (!strstr(e.message, "/nowhere/muster") || !strstr(e.hint, "MUSTER_PROGRAM")) fail_msg("%s", e.message);
    setenv("MUSTER_PROGRAM", "/bin/false", 1);
    assert_int_equal(muster_run_train(run, NULL, NULL, NULL, &e), MUSTER_FAILURE);
    if (!strstr(e.message, "ended with status 1")) fail_msg("%s", e.message);
    char other_version[128];
    snprintf(other_version, sizeof other_version, "%s/muster", folder);
    write_file(other_version, "#!/bin/sh\nexit 64\n", 18);
    chmod(other_version, 0755);
    setenv("MUSTER_PROGRAM", other_version, 1);
    assert_int_equal(muster_run_train(run, NULL, NULL, NULL, &e), MUSTER_FAILURE);
    if (!strstr(e.message, "version")) fail_msg("%s", e.message);
    setenv("MUSTER_PROGRAM", right, 1);
    free(right);
    ok(muster_run_train(run, NULL, NULL, NULL, err));
    muster_run_destroy(run);
    muster_run_destroy(twin);
}

typedef struct board { _Atomic int helper, learner; } board;

static int note_pids(void *ctx, const muster_progress *p) {
    (void)p;
    board *b = ctx;
    char path[64];
    int learner = 0, helper = find_child();
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", helper, helper);
    FILE *f = fopen(path, "r");
    if (f && fscanf(f, "%d", &learner) == 1) atomic_store(&b->learner, learner);
    if (f) fclose(f);
    atomic_store(&b->helper, helper);
    return 0;
}

// Nothing is left when the program is killed.
static void a_killed_program_leaves_no_process(void **state) {
    (void)state;
    board *b = mmap(NULL, sizeof *b, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(b != MAP_FAILED);
    assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1), 0); // orphans become our children, so none can hide
    pid_t program = fork(); // no thread is left here
    if (!program) {
        muster_run *run = open_run(text, NULL, "train.steps=100000000");
        _exit((int)muster_run_train(run, note_pids, b, NULL, NULL));
    }
    double until = mu_clock_s() + 60;
    while (!atomic_load(&b->helper) && mu_clock_s() < until) usleep(1000);
    assert_true(atomic_load(&b->helper) > 1 && atomic_load(&b->learner) > 1);
    kill(program, SIGKILL);
    assert_int_equal(waitpid(program, NULL, 0), program);
    pid_t left = 0;
    for (until = mu_clock_s() + 30; left >= 0 && mu_clock_s() < until; usleep(1000))
        left = waitpid(-1, NULL, WNOHANG);
    assert_int_equal(left, -1);
    prctl(PR_SET_CHILD_SUBREAPER, 0);
    munmap(b, sizeof *b);
}

// A program that ignores SIGCHLD, or whose thread blocks every signal, trains all the same.
static void signals_of_the_program(void **state) {
    (void)state;
    sigset_t all, before;
    sigfillset(&all);
    muster_run *run = open_run(text, NULL, NULL);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    signal(SIGCHLD, SIG_IGN);
    muster_error e = {0};
    muster_status st = muster_run_train(run, NULL, NULL, NULL, &e);
    signal(SIGCHLD, SIG_DFL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (st) fail_msg("%s (%s)", e.message, e.hint);
    muster_run_destroy(run);
}

int main(void) {
    const struct CMUnitTest in_a_crowd[] = {
        cmocka_unit_test(trains_again_and_again),
        cmocka_unit_test(two_at_once),
        cmocka_unit_test(another_thread_stops),
    };
    const struct CMUnitTest apart[] = {
        cmocka_unit_test(stops_and_goes_on),
        cmocka_unit_test(failures_are_told),
        cmocka_unit_test(signals_of_the_program),
        cmocka_unit_test(a_killed_program_leaves_no_process),
    };
    if (!getenv("MUSTER_PROGRAM")) {
        print_message("MUSTER_PROGRAM does not say where the program is\n");
        return 77;
    }
    temp_dir(folder);
    int bad = cmocka_run_group_tests_name("run/host", in_a_crowd, get_busy, get_quiet);
    bad += cmocka_run_group_tests_name("run/host alone", apart, NULL, NULL);
    remove_tree(folder);
    return bad;
}
