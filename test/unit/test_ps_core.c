// SPDX-License-Identifier: Apache-2.0
// test_ps_core.c - the protocol core by hand-made events: who may begin, on what, what becomes an update, and
// what happens to gradients and samples when learners are lost in every state.
#include "unit/core_rig.h"

// ---- hardsync ----

static void test_hardsync_steps(void **unused) {
    (void)unused;
    mu_core_config config = rig_config("hardsync", 3);
    config.global_batch = 10;   // 3, 3 and 4 rows
    config.first_version = 7, config.first_sample = 100, config.end_version = 9;
    rig r = rig_make(&config);
    assert_int_equal(rig_ask(&r, 0), MU_HOLD);  // no lease yet
    for (int l = 0; l < 3; l++) assert_int_equal(rig_begin(&r, l), MU_GO);
    assert_grant(&r, 0, 0, 7, 100, 3, 10);
    assert_grant(&r, 1, 0, 7, 103, 3, 10);
    assert_grant(&r, 2, 0, 7, 106, 4, 10);
    assert_int_equal(rig_push(&r, 2), MU_ACCEPTED);
    assert_int_equal(rig_begin(&r, 2), MU_HOLD);        // the others are still at step 0
    assert_false(rig_form(&r));
    assert_int_equal(rig_push(&r, 0), MU_ACCEPTED);
    assert_int_equal(rig_push(&r, 1), MU_ACCEPTED);
    assert_true(rig_form(&r));
    assert_false(rig_form(&r));         // one at a time
    assert_int_equal(r.c->n_parts, 3);
    for (int l = 0; l < 3; l++) {       // in the order of the learners, not of arrival
        const mu_core_part *p = &mu_core_parts(r.c)[l];
        assert_int_equal(p->id.learner, l);
        assert_int_equal(mu_core_staleness(r.c, p), 0);
        assert_float_equal(p->weight, 1, 0);
    }
    assert_int_equal(rig_begin(&r, 1), MU_GO);  // on the version in the making
    assert_grant(&r, 1, 1, 8, 113, 3, 10);
    assert_int_equal(rig_push(&r, 1), MU_ACCEPTED);
    assert_int_equal(rig_begin(&r, 1), MU_END); // 9 is the last version
    rig_applied(&r);
    assert_int_equal(r.c->version, 8);
    assert_int_equal(r.c->samples_applied, 10);
    rig_gradient(&r, 0);
    rig_gradient(&r, 2);
    assert_grant(&r, 2, 1, 8, 116, 4, 10);
    rig_update(&r, 3);
    for (int l = 0; l < 3; l++) assert_int_equal(rig_begin(&r, l), MU_END);
    assert_true(mu_core_idle(r.c));
    assert_ledger(&r, 6, 6, 0, 0);
    rig_fini(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hardsync_steps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
