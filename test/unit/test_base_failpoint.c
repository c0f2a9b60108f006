// SPDX-License-Identifier: Apache-2.0
// Failpoints: what is refused, when one fires, and that passes are counted over processes.
#include "base/failpoint.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static mu_status open_with(const char *text, mu_err *err) {
    mu_failpoints_close();
    mu_err_clear(err);
    if (text) setenv("MUSTER_FAILPOINTS", text, 1);
    else unsetenv("MUSTER_FAILPOINTS");
    return mu_failpoints_open(err);
}

static void refuses_what_would_test_nothing(void **state) {
    (void)state;
    static const char *const bad[] = {
        "server/opend=kill",     "server/opened",          "server/opened=die",
        "server/opened=kill@",   "server/opened=kill@0",   "server/opened=kill@-1",
        "server/opened=kill@1.5","server/opened=kill@2*0", "server/opened=kill@2*",
        "server/opened=kill@nan", "server/opened=kill@2*3x", "=kill",
        "seed=x",                "seed=",                  "server/opened=kill;client/pushed=kil",
    };
    mu_err err;
    for (size_t i = 0; i < MU_COUNT(bad); i++) {
        if (open_with(bad[i], &err) != MU_EUSAGE) fail_msg("`%s` was taken", bad[i]);
        assert_non_null(strstr(err.msg, "MUSTER_FAILPOINTS"));
    }
    assert_int_equal(open_with(NULL, &err), MU_OK);
    mu_failpoints_arm("test");
    assert_false(mu_failpoints_armed); // none chosen: the branch stays cold
}

// Passes a point n times, each in a child of its own; returns which child was killed first, 0 = none.
static int first_killed(const char *name, int n, int *killed) {
    int first = 0;
    *killed = 0;
    for (int i = 1; i <= n; i++) {
        pid_t pid = fork();
        if (!pid) {
            mu_failpoints_arm("test");
            mu_failpoint(name);
            _exit(0);
        }
        int status;
        assert_int_equal(waitpid(pid, &status, 0), pid);
        if (!WIFSIGNALED(status)) continue;
        assert_int_equal(WTERMSIG(status), SIGKILL);
        ++*killed;
        if (!first) first = i;
    }
    return first;
}

static void counts_passes_over_processes(void **state) {
    (void)state;
    mu_err err;
    int killed;
    assert_int_equal(open_with("client/pushed=kill@5", &err), MU_OK);
    mu_failpoint("client/pushed"); // not armed here: neither counted nor acted on
    assert_int_equal(first_killed("client/granted", 12, &killed), 0);
    assert_int_equal(first_killed("client/pushed", 12, &killed), 5);
    assert_int_equal(killed, 1);
    assert_int_equal(open_with("client/pushed=kill@4*2", &err), MU_OK);
    assert_int_equal(first_killed("client/pushed", 20, &killed), 4);
    assert_int_equal(killed, 2);
}

static void repeats_by_its_seed(void **state) {
    (void)state;
    mu_err err;
    int killed[2], first[2];
    for (int k = 0; k < 2; k++) {
        assert_int_equal(open_with("seed=11;learner/forward=kill@0.25", &err), MU_OK);
        first[k] = first_killed("learner/forward", 80, &killed[k]);
    }
    print_message("seed 11: %d of 80 killed, first %d\n", killed[0], first[0]);
    assert_int_equal(first[0], first[1]);
    assert_int_equal(killed[0], killed[1]);
    assert_true(killed[0] > 8 && killed[0] < 40);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refuses_what_would_test_nothing),
        cmocka_unit_test(counts_passes_over_processes),
        cmocka_unit_test(repeats_by_its_seed),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    mu_failpoints_close();
    return failed;
}
