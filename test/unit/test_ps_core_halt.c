// SPDX-License-Identifier: Apache-2.0
// test_ps_core_halt.c - the halt of the core: updates stop exactly there, nothing begins that needs weights
// of it, and it neither loses nor blocks what comes to its end.
#include "core_rig.h"

static void test_a_run_ends_at_the_halt(void **unused) {
    (void)unused;
    mu_core_config config = rig_config("async", 6);
    config.longest_run = MU_CORE_RUN;
    rig r = rig_make(&config);
    mu_core_set_halt(r.c, 4);
    for (int i = 0; i < 6; i++) assert_int_equal(rig_begin(&r, i), MU_GO);
    for (int i = 0; i < 6; i++) assert_int_equal(rig_push(&r, i), MU_ACCEPTED);
    assert_false(mu_core_at_halt(r.c));
    assert_true(rig_form(&r));
    assert_int_equal(r.c->applying, 4);
    assert_false(mu_core_at_halt(r.c)); // it is still being applied
    rig_applied(&r);
    assert_true(mu_core_at_halt(r.c));
    assert_false(rig_form(&r));
    assert_int_equal(rig_begin(&r, 0), MU_GO); // a gradient that waits in its queue does no harm
    mu_core_set_halt(r.c, 5);
    assert_false(mu_core_at_halt(r.c));
    assert_true(rig_form(&r));
    assert_int_equal(r.c->applying, 1);
    rig_applied(&r);
    mu_core_set_halt(r.c, INT64_MAX);
    assert_true(rig_form(&r));
    assert_int_equal(r.c->applying, 1);
    rig_applied(&r);
    assert_int_equal(r.c->version, 6);
    rig_fini(&r);
}

// In step a learner may begin while the update before is being applied; not where that one is the halt.
static void test_in_step_none_begins_at_the_halt(void **unused) {
    (void)unused;
    mu_core_config config = rig_config("hardsync", 2);
    rig r = rig_make(&config);
    mu_core_set_halt(r.c, 2);
    for (int step = 0; step < 2; step++) {
        for (int i = 0; i < 2; i++) assert_int_equal(rig_begin(&r, i), MU_GO);
        for (int i = 0; i < 2; i++) assert_int_equal(rig_push(&r, i), MU_ACCEPTED);
        assert_true(rig_form(&r));
        assert_int_equal(rig_begin(&r, 0), step == 0 ? MU_GO : MU_HOLD);
        if (step == 0) assert_int_equal(rig_push(&r, 0) == MU_ACCEPTED, true);
        rig_applied(&r);
        if (step == 0) {
            assert_int_equal(rig_begin(&r, 1), MU_GO);
            assert_int_equal(rig_push(&r, 1), MU_ACCEPTED);
            assert_true(rig_form(&r));
            rig_applied(&r);
            break;
        }
    }
    assert_int_equal(r.c->version, 2);
    assert_true(mu_core_at_halt(r.c));
    for (int i = 0; i < 2; i++) assert_int_equal(rig_begin(&r, i), MU_HOLD);
    mu_core_set_halt(r.c, 9);
    for (int i = 0; i < 2; i++) assert_int_equal(rig_begin(&r, i), MU_GO);
    rig_fini(&r);
}

// Learners that write weights themselves: those that have begun may finish, no other begins.
static void test_hogwild_runs_out(void **unused) {
    (void)unused;
    mu_core_config config = rig_config("hogwild", 3);
    rig r = rig_make(&config);
    mu_core_set_halt(r.c, 1);
    for (int i = 0; i < 3; i++) assert_int_equal(rig_begin(&r, i), MU_GO);
    assert_int_equal(rig_push(&r, 0), MU_ACCEPTED);
    assert_int_equal(rig_begin(&r, 0), MU_HOLD);
    assert_int_equal(rig_push(&r, 1), MU_ACCEPTED);
    assert_int_equal(r.c->version, 2); // a little further
    assert_int_equal(rig_push(&r, 2), MU_ACCEPTED);
    assert_int_equal(r.c->computing, 0);
    for (int i = 0; i < 3; i++) assert_int_equal(rig_begin(&r, i), MU_HOLD);
    mu_core_set_halt(r.c, 10);
    for (int i = 0; i < 3; i++) assert_int_equal(rig_begin(&r, i), MU_GO);
    rig_fini(&r);
}

static void test_a_stop_ends_learners_at_a_halt(void **unused) {
    (void)unused;
    mu_core_config config = rig_config("hardsync", 2);
    rig r = rig_make(&config);
    mu_core_set_halt(r.c, 1);
    for (int i = 0; i < 2; i++) assert_int_equal(rig_begin(&r, i), MU_GO);
    for (int i = 0; i < 2; i++) assert_int_equal(rig_push(&r, i), MU_ACCEPTED);
    assert_true(rig_form(&r));
    rig_applied(&r);
    for (int i = 0; i < 2; i++) assert_int_equal(rig_begin(&r, i), MU_HOLD);
    mu_core_stop(r.c);
    for (int i = 0; i < 2; i++) assert_int_equal(rig_begin(&r, i), MU_END);
    rig_fini(&r);
}

// Gradients of every learner may wait for an update that is not given yet; no learner waits for it.
static void test_a_step_waits_until_it_is_given(void **unused) {
    (void)unused;
    mu_core_config config = rig_config("hardsync", 2);
    config.end_sample = 9; // a whole step, and one sample for the last learner
    rig r = rig_make(&config);
    mu_core_set_given(r.c, 0);
    for (int i = 0; i < 2; i++) assert_int_equal(rig_begin(&r, i), MU_GO);
    for (int i = 0; i < 2; i++) assert_int_equal(rig_push(&r, i), MU_ACCEPTED);
    assert_false(rig_form(&r));
    mu_core_set_given(r.c, 1);
    assert_true(rig_form(&r));
    assert_int_equal(rig_begin(&r, 0), MU_END);
    assert_int_equal(rig_begin(&r, 1), MU_GO);
    rig_applied(&r);
    assert_int_equal(rig_push(&r, 1), MU_ACCEPTED);
    assert_false(rig_form(&r));
    assert_int_equal(r.c->fifo_n, 1);
    mu_core_set_given(r.c, 2);
    assert_true(rig_form(&r));
    rig_applied(&r);
    assert_int_equal(r.c->version, 2);
    rig_fini(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_run_ends_at_the_halt),
        cmocka_unit_test(test_in_step_none_begins_at_the_halt),
        cmocka_unit_test(test_hogwild_runs_out),
        cmocka_unit_test(test_a_stop_ends_learners_at_a_halt),
        cmocka_unit_test(test_a_step_waits_until_it_is_given),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
