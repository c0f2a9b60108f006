// SPDX-License-Identifier: Apache-2.0
// test_ps_core_phases.c - one protocol after the other in a run: the change comes at an update's end and
// nothing that was under way is lost, refused or counted twice.
#include "core_rig.h"

static mu_core_phase phase(const char *protocol, int64_t until, int splits, int bound, int own) {
    return (mu_core_phase){.until = until,
                           .protocol = mu_protocol_index(protocol),
                           .splits = splits,
                           .bound = bound,
                           .own = own};
}

static void assert_in_force(const rig *r, const char *protocol) {
    assert_string_equal(mu_protocol_at(r->c->config.protocol)->name, protocol);
}

static void test_change_at_an_updates_end(void **unused) {
    (void)unused;
    mu_core_config config = rig_config("softsync", 4);
    config.n_phases = 2;
    config.phase[0] = phase("softsync", 6, 1, 0, 0); // an update takes 4 gradients of 4 samples
    config.phase[1] = phase("async", INT64_MAX, 4, 0, 0);
    rig r = rig_make(&config);
    for (int i = 0; i < 4; i++) assert_int_equal(rig_begin(&r, i), MU_GO);
    for (int i = 0; i < 3; i++) assert_int_equal(rig_push(&r, i), MU_ACCEPTED);
    assert_false(rig_form(&r)); // 12 samples are there, none is applied
    assert_int_equal(rig_push(&r, 3), MU_ACCEPTED);
    assert_true(rig_form(&r));
    assert_int_equal(r.c->n_parts, 4);
    assert_in_force(&r, "softsync");
    for (int i = 0; i < 2; i++) assert_int_equal(rig_begin(&r, i), MU_GO);
    assert_int_equal(rig_push(&r, 0), MU_ACCEPTED);
    assert_false(rig_form(&r));
    rig_applied(&r);
    assert_in_force(&r, "async");
    assert_int_equal(r.c->phase, 1);
    assert_int_equal(r.c->phase_version, 1);
    assert_true(rig_form(&r)); // what waited goes on under the new one
    assert_int_equal(r.c->n_parts, 1);
    assert_int_equal(mu_core_staleness(r.c, 0), 1);
    assert_int_equal(rig_push(&r, 1), MU_ACCEPTED); // and what was computed
    rig_applied(&r);
    assert_true(rig_form(&r));
    assert_int_equal(r.c->n_parts, 1);
    rig_applied(&r);
    const mu_ledger sum = mu_core_ledger(r.c);
    assert_int_equal(sum.applied, 6);
    assert_int_equal(sum.produced, 6);
    rig_fini(&r);
}

// A run of several updates ends where the protocol does.
static void test_a_run_ends_with_the_phase(void **unused) {
    (void)unused;
    mu_core_config config = rig_config("async", 4);
    config.longest_run = MU_CORE_RUN;
    config.n_phases = 2;
    config.phase[0] = phase("async", 8, 4, 0, 0); // two gradients of 4 samples
    config.phase[1] = phase("softsync", INT64_MAX, 2, 0, 0);
    rig r = rig_make(&config);
    for (int i = 0; i < 4; i++) assert_int_equal(rig_begin(&r, i), MU_GO);
    for (int i = 0; i < 4; i++) assert_int_equal(rig_push(&r, i), MU_ACCEPTED);
    assert_true(rig_form(&r));
    assert_int_equal(r.c->applying, 2);
    rig_applied(&r);
    assert_in_force(&r, "softsync");
    assert_true(rig_form(&r));
    assert_int_equal(r.c->applying, 1);
    assert_int_equal(r.c->n_parts, 2);
    rig_applied(&r);
    rig_fini(&r);
}

// What began before is free of a bound that comes later; what is computed again after a loss is not.
static void test_bound_holds_from_its_phase_on(void **unused) {
    (void)unused;
    mu_core_config config = rig_config("async", 3);
    config.n_phases = 2;
    config.phase[0] = phase("async", 20, 3, 0, 0);
    config.phase[1] = phase("async", INT64_MAX, 3, 1, 0);
    rig r = rig_make(&config);
    for (int i = 0; i < 3; i++) assert_int_equal(rig_begin(&r, i), MU_GO); // on version 0
    for (int n = 0; n < 5; n++) {                                          // learner 0 alone
        assert_int_equal(rig_push(&r, 0), MU_ACCEPTED);
        assert_true(rig_form(&r));
        rig_applied(&r);
        if (n < 4) assert_int_equal(rig_begin(&r, 0), MU_GO);
    }
    assert_int_equal(r.c->phase, 1);
    assert_int_equal(r.c->config.bound, 1);
    assert_int_equal(rig_push(&r, 1), MU_ACCEPTED); // five updates old
    assert_true(rig_form(&r));
    assert_int_equal(mu_core_staleness(r.c, 0), 5);
    rig_applied(&r);
    rig_lost(&r, 2);
    rig_join(&r, 2);
    assert_int_equal(rig_begin(&r, 2), MU_GO); // again, on version 6
    assert_int_equal(rig_begin(&r, 1), MU_GO);
    assert_int_equal(rig_push(&r, 1), MU_ACCEPTED);
    assert_true(rig_form(&r)); // makes version 7: learner 2 is one behind then
    rig_applied(&r);
    assert_int_equal(rig_begin(&r, 1), MU_GO);
    assert_int_equal(rig_push(&r, 1), MU_ACCEPTED);
    assert_false(rig_form(&r)); // would leave it two behind
    assert_int_equal(rig_push(&r, 2), MU_ACCEPTED);
    assert_true(rig_form(&r));
    rig_applied(&r);
    rig_fini(&r);
}

// ssp counts from its own beginning: nobody waits for what a slow learner did not do before.
static void test_ssp_begins_level(void **unused) {
    (void)unused;
    mu_core_config config = rig_config("async", 2);
    config.n_phases = 2;
    config.phase[0] = phase("async", 40, 2, 0, 0);
    config.phase[1] = phase("ssp", INT64_MAX, 2, 0, 1);
    rig r = rig_make(&config);
    for (int n = 0; n < 10; n++) {
        assert_int_equal(rig_begin(&r, 0), MU_GO);
        assert_int_equal(rig_push(&r, 0), MU_ACCEPTED);
        assert_true(rig_form(&r));
        rig_applied(&r);
    }
    assert_in_force(&r, "ssp");
    for (int n = 0; n < 2; n++) { // at most one ahead
        assert_int_equal(rig_begin(&r, 0), MU_GO);
        assert_int_equal(rig_push(&r, 0), MU_ACCEPTED);
        assert_true(rig_form(&r));
        rig_applied(&r);
    }
    assert_int_equal(rig_begin(&r, 0), MU_HOLD);
    assert_int_equal(rig_begin(&r, 1), MU_GO);
    assert_int_equal(rig_push(&r, 1), MU_ACCEPTED);
    assert_int_equal(rig_begin(&r, 0), MU_GO);
    rig_fini(&r);
}

// A resumed run begins in the phase that its samples are in; several may be over by one update.
static void test_where_a_run_begins(void **unused) {
    (void)unused;
    for (int64_t at = 0; at <= 60; at++) {
        mu_core_config config = rig_config("softsync", 2);
        config.first_sample = at;
        config.first_version = 7;
        config.n_phases = 4;
        config.phase[0] = phase("softsync", 20, 1, 0, 0);
        config.phase[1] = phase("async", 24, 2, 0, 0);
        config.phase[2] = phase("ssp", 25, 2, 0, 3);
        config.phase[3] = phase("softsync", INT64_MAX, 2, 3, 0);
        rig r = rig_make(&config);
        assert_int_equal(r.c->phase, at < 20 ? 0 : at < 24 ? 1 : at < 25 ? 2 : 3);
        assert_int_equal(r.c->phase_version, -1); // the history is of the same protocol
        if (at == 19) { // an update of 8 samples
            for (int i = 0; i < 2; i++) assert_int_equal(rig_begin(&r, i), MU_GO);
            for (int i = 0; i < 2; i++) assert_int_equal(rig_push(&r, i), MU_ACCEPTED);
            assert_true(rig_form(&r));
            rig_applied(&r);
            assert_int_equal(r.c->phase, 3);
            assert_int_equal(r.c->phase_version, 8);
        }
        rig_fini(&r);
    }
}

// Behind steps made in step, and with the rates of each.
static void test_behind_a_warm_start(void **unused) {
    (void)unused;
    mu_core_config config = rig_config("softsync", 2);
    config.warm_versions = 1;
    config.n_phases = 2;
    config.phase[0] = phase("softsync", 16, 1, 0, 0);
    config.phase[1] = phase("async", INT64_MAX, 2, 0, 0);
    config.phase[1].rate_rule = MU_RATE_MEAN;
    rig r = rig_make(&config);
    static const double weight[] = {1, 0.5, 0.5, 0.5};
    static const int parts[] = {2, 2, 1, 1};
    for (int n = 0; n < 4; n++) {
        for (int i = 0; i < 2; i++) assert_int_equal(rig_begin(&r, i), MU_GO);
        for (int i = 0; i < 2; i++) assert_int_equal(rig_push(&r, i), MU_ACCEPTED);
        do {
            assert_true(rig_form(&r));
            assert_int_equal(r.c->n_parts, parts[n]);
            assert_float_equal(mu_core_weight(r.c, 1, parts[n]), weight[n], 1e-7);
            rig_applied(&r);
        } while (r.c->fifo_n);
        assert_int_equal(r.c->phase, n >= 1);
    }
    rig_fini(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_change_at_an_updates_end),
        cmocka_unit_test(test_a_run_ends_with_the_phase),
        cmocka_unit_test(test_bound_holds_from_its_phase_on),
        cmocka_unit_test(test_ssp_begins_level),
        cmocka_unit_test(test_where_a_run_begins),
        cmocka_unit_test(test_behind_a_warm_start),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
