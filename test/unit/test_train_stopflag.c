// SPDX-License-Identifier: Apache-2.0
// Tests of train/stopflag: first signal wins, a second SIGINT exits, handlers come and go.
#include "run_help.h"

#include "ops/gemm.h"
#include "train/stopflag.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>

static void test_flag(void **state) {
    (void)state;
    struct sigaction before, after;
    sigaction(SIGINT, NULL, &before);
    assert_ok(mu_stop_install(err));
    assert_ok(mu_stop_install(err)); // twice is once
    assert_int_equal(mu_stop_requested(), 0);
    assert_int_equal(mu_stop_status(), MU_OK);
    raise(SIGTERM);
    assert_int_equal(mu_stop_requested(), SIGTERM);
    raise(SIGTERM);
    raise(SIGINT); // the first signal stays, one SIGINT does not exit
    assert_int_equal(mu_stop_requested(), SIGTERM);
    assert_int_equal(mu_stop_status(), MU_ETERMINATED);
    mu_stop_reset();
    raise(SIGINT);
    assert_int_equal(mu_stop_status(), MU_EINTERRUPTED);
    assert_int_equal(mu_status_exit_code(mu_stop_status()), 130);
    mu_stop_reset();
    mu_stop_uninstall();
    sigaction(SIGINT, NULL, &after);
    assert_true(before.sa_handler == after.sa_handler);
}

static void test_hangup(void **state) {
    (void)state;
    struct sigaction now;
    assert_ok(mu_stop_install(err));
    raise(SIGHUP);
    assert_int_equal(mu_stop_status(), MU_EHANGUP);
    assert_int_equal(mu_status_exit_code(mu_stop_status()), 129);
    assert_true(mu_stop_was_asked(mu_stop_status()));
    mu_stop_reset();
    mu_stop_uninstall();
    sigaction(SIGHUP, NULL, &now);
    assert_true(now.sa_handler == SIG_DFL);
    signal(SIGHUP, SIG_IGN);    // as `nohup` leaves it
    assert_ok(mu_stop_install(err));
    raise(SIGHUP);
    assert_int_equal(mu_stop_requested(), 0);
    mu_stop_uninstall();
    signal(SIGHUP, SIG_DFL);
}

// ---- a signal in the middle of a matrix product ----

enum { M = 83, N = 784, K = 200, LDA = 1000 };

static atomic_bool shooting;
static int n_shots;

static void *shoot(void *target) {
    for (; atomic_load(&shooting); n_shots++) {
        pthread_kill(*(pthread_t *)target, SIGTERM);
        nanosleep(&(struct timespec){.tv_nsec = 300000}, NULL);
    }
    return NULL;
}

static float *numbers(int64_t n, int period) {
    float *v = calloc((size_t)n, sizeof *v);
    assert_non_null(v);
    for (int64_t i = 0; i < n; i++) v[i] = (float)(i % period) - (float)(period / 2);
    return v;
}

static void test_signals_disturb_no_product(void **state) {
    (void)state;
    float *a = numbers(K * LDA, 17), *b = numbers(K * N, 13);
    float *c = numbers(M * N, 2), *want = numbers(M * N, 2);
    pthread_t self = pthread_self(), shooter;
    mu_gemm_set_threads(1);
    mu_gemm(true, false, M, N, K, a, LDA, b, N, 0, want, N);
    assert_ok(mu_stop_install(err));
    atomic_store(&shooting, true);
    assert_int_equal(pthread_create(&shooter, NULL, shoot, &self), 0);
    for (int i = 0; i < 1500; i++) {
        mu_gemm(true, false, M, N, K, a, LDA, b, N, 0, c, N);
        if (memcmp(c, want, sizeof(float) * M * N))
            fail_msg("product %d is wrong after %d signals", i, n_shots);
    }
    atomic_store(&shooting, false);
    pthread_join(shooter, NULL);
    assert_true(n_shots > 10);
    mu_stop_reset();
    mu_stop_uninstall();
    free(a), free(b), free(c), free(want);
}

static int exit_code_after(const int *signals, int n) {
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        if (mu_stop_install(NULL) != MU_OK) _exit(99);
        for (int i = 0; i < n; i++) raise(signals[i]);
        _exit(7);
    }
    int how;
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_true(WIFEXITED(how));
    return WEXITSTATUS(how);
}

static void test_second_interrupt_exits(void **state) {
    (void)state;
    assert_int_equal(exit_code_after((int[]){SIGINT}, 1), 7);
    assert_int_equal(exit_code_after((int[]){SIGINT, SIGINT}, 2), 130);
    assert_int_equal(exit_code_after((int[]){SIGTERM, SIGTERM, SIGTERM}, 3), 7);
    assert_int_equal(exit_code_after((int[]){SIGTERM, SIGINT}, 2), 7);
    assert_int_equal(exit_code_after((int[]){SIGTERM, SIGINT, SIGINT}, 3), 130);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_flag),
        cmocka_unit_test(test_hangup),
        cmocka_unit_test(test_signals_disturb_no_product),
        cmocka_unit_test(test_second_interrupt_exits),
    };
    return cmocka_run_group_tests_name("train/stopflag", tests, NULL, NULL);
}
