// SPDX-License-Identifier: Apache-2.0
// test_ps_core_lease.c - the protocol core from its first sample to its last version, by hand-made events:
// leases and who inherits them, the change from the warm start to the protocol, and every way a run can end
// without a gradient that nobody waits for.
#include "unit/core_rig.h"

// ---- leases and the warm start ----

static void test_leases(void **unused) {
    (void)unused;
    mu_core_config config = rig_config("async", 2);
    config.first_sample = 10, config.end_sample = 10 + 4 * 17 + 3, config.lease_batches = 2;
    rig r = rig_make(&config);
    mu_lease s;
    bool ended;
    for (int i = 0; i < MU_CORE_LEASES; i++) {
        assert_true(mu_core_lease(r.c, 0, &s, &ended));
        assert_int_equal(s.first, 10 + 8 * i);
        assert_int_equal(s.batches * s.rows, 8);
        assert_int_equal(s.stride, 4);
        assert_int_equal(s.last_rows, 4);
    }
    assert_false(mu_core_lease(r.c, 0, &s, &ended)); // as many as it may hold
    assert_false(ended);
    assert_true(mu_core_lease(r.c, 1, &s, &ended));
    assert_int_equal(s.first, 10 + 8 * MU_CORE_LEASES);
    assert_int_equal(s.batches, 2);
    assert_int_equal(s.last_rows, 3);
    assert_int_equal(mu_lease_rows(&s, 0), 4);
    assert_int_equal(mu_lease_rows(&s, 1), 3);
    assert_false(mu_core_lease(r.c, 1, &s, &ended));
    assert_true(ended);
    rig_check(&r);
    rig_fini(&r);
}

// The next incarnation is handed what the last one left of its leases, then goes on.
static void test_leases_are_inherited(void **unused) {
    (void)unused;
    mu_core_config config = rig_config("async", 2);
    config.lease_batches = 3;
    rig r = rig_make(&config);
    mu_lease s;
    bool ended;
    assert_true(mu_core_lease(r.c, 0, &s, &ended)); // samples 0, 4, 8
    assert_true(mu_core_lease(r.c, 1, &s, &ended)); // 12 ...
    assert_int_equal(s.first, 12);
    assert_true(mu_core_lease(r.c, 0, &s, &ended)); // 24, 28, 32
    rig_gradient(&r, 0);
    assert_int_equal(rig_begin(&r, 0), MU_HOLD); // the server is behind
    assert_true(rig_form(&r));
    assert_int_equal(rig_begin(&r, 0), MU_GO);
    assert_grant(&r, 0, 1, 0, 4, 4, 4);
    rig_lost(&r, 0);
    rig_join(&r, 0);
    assert_int_equal(rig_ask(&r, 0), MU_HOLD); // not handed yet
    assert_true(mu_core_lease(r.c, 0, &s, &ended));
    assert_int_equal(s.first, 4);
    assert_int_equal(s.batches, 2);
    assert_int_equal(s.stride, 4);
    assert_true(mu_core_lease(r.c, 0, &s, &ended));
    assert_int_equal(s.first, 24);
    assert_int_equal(s.batches, 3);
    assert_true(mu_core_lease(r.c, 0, &s, &ended));
    assert_int_equal(s.first, 36);
    rig_check(&r);
    rig_fini(&r);
}

static void test_warm_start(void **unused) {
    (void)unused;
    mu_core_config config = rig_config("async", 2);
    config.warm_versions = 3, config.lease_batches = 2, config.global_batch = 7, config.first_version = 5;
    rig r = rig_make(&config);
    for (int step = 0; step < 3; step++) {
        for (int l = 0; l < 2; l++) {
            rig_gradient(&r, l);
            assert_grant(&r, l, step, 5 + step, 7 * step + 3 * l, 3 + l, 7);
        }
        assert_true(rig_form(&r));
        assert_float_equal(rig_weight(&r, 0), 1, 0);
        assert_int_equal(rig_begin(&r, 0), step < 2 ? MU_GO : MU_HOLD); // asynchronous ones wait for the end
        rig_applied(&r);
        if (step < 2) rig_lost(&r, 0), rig_join(&r, 0);
    }
    assert_int_equal(rig_begin(&r, 1), MU_GO);
    assert_int_equal(rig_ask(&r, 0), MU_GO);
    assert_grant(&r, 0, 3, 8, 21, 4, 4);
    assert_grant(&r, 1, 3, 8, 29, 4, 4);
    assert_int_equal(rig_push(&r, 1), MU_ACCEPTED);
    rig_update(&r, 1);
    rig_fini(&r);
}

// ---- the last samples ----

// 9 batches, the last of 2 samples, in leases of 2 for groups of 4: groups shrink with the learners that
// still have work, and the rest is applied when nobody has.
static void test_softsync_end_of_samples(void **unused) {
    (void)unused;
    mu_core_config config = rig_config("softsync", 4);
    config.end_sample = 34;
    rig r = rig_make(&config);
    for (int l = 0; l < 4; l++) rig_gradient(&r, l);
    rig_update(&r, 4);
    for (int l = 0; l < 4; l++) rig_gradient(&r, l); // all leases but the last are used up
    rig_update(&r, 4);
    assert_int_equal(rig_begin(&r, 2), MU_GO);
    assert_grant(&r, 2, 2, 2, 32, 2, 2);
    for (int l = 0; l < 4; l++)
        if (l != 2) assert_int_equal(rig_begin(&r, l), MU_END);
    assert_int_equal(rig_push(&r, 2), MU_ACCEPTED);
    rig_update(&r, 1);
    assert_int_equal(rig_begin(&r, 2), MU_END);
    assert_int_equal(r.c->samples_applied, 34);
    assert_true(mu_core_idle(r.c));
    rig_fini(&r);
}

// One learner with much work left and three without must not wait for groups of four.
static void test_softsync_last_worker(void **unused) {
    (void)unused;
    mu_core_config config = rig_config("softsync", 4);
    config.lease_batches = 5, config.end_sample = 20;
    rig r = rig_make(&config);
    for (int i = 0; i < 5; i++) {
        rig_gradient(&r, 0);
        rig_update(&r, 1);
    }
    for (int l = 0; l < 4; l++) assert_int_equal(rig_begin(&r, l), MU_END);
    rig_fini(&r);
}

// 11 samples for 4 learners with a global batch of 8: the second step has 3 rows, one learner has none.
static void test_hardsync_last_batch(void **unused) {
    (void)unused;
    mu_core_config config = rig_config("hardsync", 4);
    config.global_batch = 8, config.end_sample = 11;
    rig r = rig_make(&config);
    for (int l = 0; l < 4; l++) rig_gradient(&r, l);
    rig_update(&r, 4);
    assert_int_equal(rig_begin(&r, 0), MU_END); // rows [0, 0), [0, 1), [1, 2), [2, 3)
    for (int l = 1; l < 4; l++) {
        rig_gradient(&r, l);
        assert_grant(&r, l, 1, 1, 8 + l - 1, 1, 3);
    }
    rig_update(&r, 3);
    for (int l = 0; l < 4; l++) assert_int_equal(rig_begin(&r, l), MU_END);
    assert_int_equal(r.c->samples_applied, 11);
    rig_fini(&r);
    config.end_sample = 8; // nothing beyond whole batches, either
    r = rig_make(&config);
    for (int l = 0; l < 4; l++) rig_gradient(&r, l);
    rig_update(&r, 4);
    assert_false(rig_form(&r));
    rig_fini(&r);
}

// ---- stopped ----

static void test_hardsync_stop_ends_a_step(void **unused) {
    (void)unused;
    mu_core_config config = rig_config("hardsync", 3);
    rig r = rig_make(&config);
    for (int l = 0; l < 3; l++) rig_gradient(&r, l);
    assert_true(rig_form(&r));
    assert_int_equal(rig_begin(&r, 1), MU_GO); // step 1
    mu_core_stop(r.c);
    rig_check(&r);
    rig_applied(&r);
    assert_int_equal(rig_push(&r, 1), MU_ACCEPTED);
    assert_int_equal(rig_begin(&r, 1), MU_END);
    rig_gradient(&r, 0); // the others finish the step that was begun
    rig_gradient(&r, 2);
    rig_update(&r, 3);
    for (int l = 0; l < 3; l++) assert_int_equal(rig_begin(&r, l), MU_END);
    assert_true(mu_core_idle(r.c));
    assert_ledger(&r, 6, 6, 0, 0);
    rig_fini(&r);
}

static void test_stop_flushes(void **unused) {
    (void)unused;
    mu_core_config config = rig_config("softsync", 3);
    rig r = rig_make(&config);
    rig_gradient(&r, 0);
    assert_int_equal(rig_begin(&r, 1), MU_GO);
    mu_core_stop(r.c);
    rig_check(&r);
    assert_int_equal(rig_begin(&r, 2), MU_END);
    assert_false(rig_form(&r)); // one is still computed
    assert_int_equal(rig_push(&r, 1), MU_ACCEPTED);
    rig_update(&r, 2);
    assert_true(mu_core_idle(r.c));
    rig_fini(&r);
}

static void test_abandon(void **unused) {
    (void)unused;
    static const char *const all[] = {"hardsync", "softsync"};
    for (size_t k = 0; k < 2; k++) {
        mu_core_config config = rig_config(all[k], 3);
        rig r = rig_make(&config);
        for (int l = 0; l < 3; l++) rig_gradient(&r, l);
        assert_true(rig_form(&r));
        rig_gradient(&r, 0);
        assert_int_equal(rig_begin(&r, 1), MU_GO);
        mu_core_abandon(r.c);
        rig_check(&r);
        rig_applied(&r);
        assert_false(rig_form(&r));
        assert_true(mu_core_idle(r.c));
        assert_ledger(&r, 5, 3, 1, 1);
        rig_fini(&r);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_leases),
        cmocka_unit_test(test_leases_are_inherited),
        cmocka_unit_test(test_warm_start),
        cmocka_unit_test(test_softsync_end_of_samples),
        cmocka_unit_test(test_softsync_last_worker),
        cmocka_unit_test(test_hardsync_last_batch),
        cmocka_unit_test(test_hardsync_stop_ends_a_step),
        cmocka_unit_test(test_stop_flushes),
        cmocka_unit_test(test_abandon),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
