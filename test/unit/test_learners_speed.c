// SPDX-License-Identifier: Apache-2.0
// Tests of learners/speed: which learners are called slow, from counts alone.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "learners/speed.h"

enum { N = 4 };

// All have run since the last look, and each has made so many more.
static void add(mu_speed *s, int64_t a, int64_t b, int64_t c, int64_t d) {
    const int64_t more[N] = {a, b, c, d};
    for (int i = 0; i < N; i++) {
        s[i].gradients += more[i];
        s[i].running = true;
    }
    mu_speed_compare(s, N);
}

static void expect_slow(const mu_speed *s, int who) {
    for (int i = 0; i < N; i++)
        if (s[i].slow != (i == who))
            fail_msg("learner %d: slow is %d, expected learner %d", i, s[i].slow, who);
}

static void slow_against_most(void **state) {
    (void)state;
    mu_speed s[N] = {0};
    add(s, 100, 100, 100, 33);
    expect_slow(s, 3);
    assert_int_equal(s[3].done, 33);
    assert_int_equal(s[3].n_faster, 3);
    add(s, 99, 99, 99, 33); // three times as many is not more than that
    expect_slow(s, -1);
    add(s, 20, 20, 100, 100); // half of them are faster: that is enough
    assert_true(s[0].slow && s[1].slow && !s[2].slow && !s[3].slow);
    add(s, 20, 80, 80, 20);
    assert_true(s[0].slow && !s[1].slow && !s[2].slow && s[3].slow);
    add(s, 40, 40, 40, 200); // one fast one makes the others not slow
    expect_slow(s, -1);
    add(s, 100, 100, 100, 0); // nothing at all: hung or waiting, which has words of its own
    expect_slow(s, -1);
}

// Only what was done since the last look counts.
static void since_the_last_look(void **state) {
    (void)state;
    mu_speed s[N] = {0};
    add(s, 1000000, 1000000, 1000000, 1000000);
    expect_slow(s, -1);
    add(s, 100, 100, 100, 10); // 1000010 against 1000100 in all
    expect_slow(s, 3);
    mu_speed t[N] = {0};
    add(t, 100000, 100000, 100000, 10);
    expect_slow(t, 3);
    add(t, 100, 100, 100, 100); // caught in one look, as fast as the others since
    expect_slow(t, -1);
    assert_int_equal(t[3].done, 100);
}

// A successor did not have the whole time.
static void a_replaced_learner_is_not_slow(void **state) {
    (void)state;
    mu_speed s[N] = {0};
    add(s, 100, 100, 100, 100);
    s[1].is_new = true;
    add(s, 100, 5, 100, 100);
    expect_slow(s, -1);
    assert_false(s[1].is_new);
    add(s, 100, 5, 100, 100); // a whole interval later it counts
    expect_slow(s, 1);
    for (int i = 0; i < N; i++) s[i].gradients += i == 2 ? 5 : 100;
    s[2].running = false; // ended, or dead and not yet replaced
    mu_speed_compare(s, N);
    expect_slow(s, -1);
}

static void one_alone_is_never_slow(void **state) {
    (void)state;
    mu_speed s = {.gradients = 1, .running = true};
    mu_speed_compare(&s, 1);
    assert_false(s.slow);
    mu_speed_compare(&s, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slow_against_most),
        cmocka_unit_test(since_the_last_look),
        cmocka_unit_test(a_replaced_learner_is_not_slow),
        cmocka_unit_test(one_alone_is_never_slow),
    };
    return cmocka_run_group_tests_name("learners/speed", tests, NULL, NULL);
}
