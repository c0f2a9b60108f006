// SPDX-License-Identifier: Apache-2.0
// Tests of learners/watchdog: children that cannot start, that do not go, and whose end is not told; and the
// children of the program around it, which are not the watchdog's.
#include "training_help.h"

#include "base/clock.h"
#include "base/failpoint.h"
#include "learners/watchdog.h"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/prctl.h>
#include <sys/wait.h>

static const char job[] =
    "name: watched\nseed: 3\n"
    "data:\n  train: {reader: synthetic, shape: [40], classes: 4, records: 200}\n"
    "net:\n"
    "- {name: fc1, type: inner_product, src: data.features, outputs: 30}\n"
    "- {name: relu1, type: relu}\n"
    "- {name: fc2, type: inner_product, outputs: 4}\n"
    "- {name: loss, type: softmax_loss, src: [fc2, data.label]}\n"
    "train: {batch: 20, steps: 200}\n"
    "updater: {type: sgd, rate: 0.0001}\n";

static const mu_run_opts no_files = {.no_files = true};

// Threads of the server process cannot be started while this is set; before its forks.
static bool refuse_threads;

int pthread_create(pthread_t *id, const pthread_attr_t *attr, void *(*fn)(void *), void *arg) {
    int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    char name[16] = "";
    *(void **)&real = dlsym(RTLD_NEXT, "pthread_create");
    prctl(PR_GET_NAME, name);
    return refuse_threads && !strcmp(name, "muster:server") ? EAGAIN : real(id, attr, fn, arg);
}

static void a_server_without_its_threads_ends_the_run(void **state) {
    (void)state;
    training t;
    prepare(&t, job, (const char *const[]){"cluster.learners=2", "cluster.server=process",
                                           "cluster.server_threads=3", "cluster.hang_timeout=2"}, 4);
    double begin = mu_clock_s();
    refuse_threads = true;
    mu_status st = mu_run_train(t.s, &no_files, &t.r, &t.err);
    refuse_threads = false;
    assert_int_equal(st, MU_EBACKEND);
    if (!strstr(t.err.msg, "cannot start thread 2 of the server's 3") ||
        !strstr(t.err.hint, "server_threads"))
        fail_msg("message: %s (%s)", t.err.msg, t.err.hint);
    if (mu_clock_s() - begin > 2) fail_msg("took %g s: it was found as a hang", mu_clock_s() - begin);
    end(&t);
}

// Three learners, one of which is killed on its way.
static void train_with_a_loss(training *t) {
    setenv("MUSTER_FAILPOINTS", "learner/backward=kill@300", 1);
    train(t, job, &no_files, (const char *const[]){"cluster.learners=3"}, 1);
    unsetenv("MUSTER_FAILPOINTS");
    mu_failpoints_close();
    assert_int_equal(t->r.steps, 200);
    assert_int_equal(t->r.learners.applied, 600);
    assert_int_equal(t->r.learners.learners_lost, 1);
    assert_int_equal(t->r.learners.learners_replaced, 1);
}

static void own_children_are_left_alone(void **state) {
    (void)state;
    training t;
    pid_t own[5];
    int status;
    for (int i = 0; i < 5; i++) {
        own[i] = fork();
        if (!own[i]) _exit(i == 4 ? (sleep(60), 0) : 10 + i); // four zombies, and one that lives on
    }
    train_with_a_loss(&t);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(waitpid(own[i], &status, 0), own[i]);
        assert_int_equal(WEXITSTATUS(status), 10 + i);
    }
    assert_int_equal(waitpid(own[4], &status, WNOHANG), 0);
    kill(own[4], SIGKILL);
    assert_int_equal(waitpid(own[4], &status, 0), own[4]);
    assert_int_equal(waitpid(-1, &status, WNOHANG), -1);
    end(&t);
}

// As some launchers start a program: the kernel reaps its children, and no exit status is ever seen.
static void ignored_sigchld_makes_no_difference(void **state) {
    (void)state;
    training t;
    signal(SIGCHLD, SIG_IGN);
    train_with_a_loss(&t);
    signal(SIGCHLD, SIG_DFL);
    end(&t);
}

// After SIGKILL a process may stay for long where the machine is overloaded. The others are watched
// meanwhile.
static void a_process_that_does_not_go_is_an_error_with_a_hint(void **state) {
    (void)state;
    mu_setup setup = {.hang_timeout = 10};
    mu_shared_head head = {0};
    mu_evaluator_box box = {0};
    mu_shared shared = {.setup = &setup, .head = &head, .extra = &box};
    mu_watchdog d = {.shared = &shared, .next_slow_ns = INT64_MAX};
    pid_t stays = fork(), other;
    if (!stays) _exit((sleep(60), 0));
    other = fork();
    if (!other) _exit(0);
    const int64_t second = 1000000000;
    d.server = (mu_child){.pid = stays, .killed_ns = mu_clock_ns() - 20 * second};
    d.evaluator = (mu_child){.pid = other};
    atomic_store(&head.state, MU_RUN_ENDED); // no successors
    for (double until = mu_clock_s() + 10; d.evaluator.pid && mu_clock_s() < until;)
        assert_ok(mu_watchdog_look(&d, err));
    assert_int_equal(d.evaluator.pid, 0);
    assert_int_equal(d.server.pid, stays);
    d.server.killed_ns -= 101 * second;
    mu_err err;
    mu_err_clear(&err);
    assert_int_equal(mu_watchdog_look(&d, &err), MU_EBACKEND);
    if (!strstr(err.msg, "still there 120 s after") || !strstr(err.hint, "very busy"))
        fail_msg("message: %s (%s)", err.msg, err.hint);
    if (!strstr(err.hint, "--resume"))
        fail_msg("message: %s (%s)", err.msg, err.hint);
    mu_process_end_all(&stays, 1, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_server_without_its_threads_ends_the_run),
        cmocka_unit_test(own_children_are_left_alone),
        cmocka_unit_test(ignored_sigchld_makes_no_difference),
        cmocka_unit_test(a_process_that_does_not_go_is_an_error_with_a_hint),
    };
    return cmocka_run_group_tests_name("learners/watchdog", tests, NULL, NULL);
}
