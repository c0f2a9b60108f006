// SPDX-License-Identifier: Apache-2.0
// Tests of run/stopflag: first signal wins, a second SIGINT exits, handlers come and go.
#include "run_help.h"

#include "run/stopflag.h"

#include <signal.h>
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
        cmocka_unit_test(test_second_interrupt_exits),
    };
    return cmocka_run_group_tests_name("run/stopflag", tests, NULL, NULL);
}
