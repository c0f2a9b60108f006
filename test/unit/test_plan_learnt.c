// SPDX-License-Identifier: Apache-2.0
// What runs teach: means of ratios in their bounds, by protocol; the file; which runs teach nothing.
#include "plan_help.h"

#include "plan/learnt.h"

static mu_config config_of(mu_arena *a, int learners, const char *protocol) {
    mu_config c = {.nodes = 1, .learners = learners, .workers = 1, .server_groups = 1, .mu = 16};
    snprintf(c.protocol, sizeof c.protocol, "%s", protocol);
    assert_ok(mu_config_bind_protocol(a, protocol, &c.how, ok_err));
    return c;
}

static const mu_prediction said = {.step_s = 1, .term_s = {[MU_TERM_COMPUTE] = 0.6, [MU_TERM_APPLY] = 0.3,
                                                           [MU_TERM_WAIT] = 0.1}};

static double factor(const mu_learnt *l, const mu_config *c, mu_plan_term t) {
    const mu_learnt_row *r = mu_learnt_of(l, c);
    return r ? r->factors.of[t] : -1;
}

static void test_learns(void **state) {
    (void)state;
    mu_arena a;
    mu_arena_init(&a, "test");
    mu_learnt l = {0};
    const mu_config async = config_of(&a, 2, "async"), hard = config_of(&a, 2, "hardsync"), one = config_of(&a, 1, "async");
    mu_learnt_add(&l, &async, &said, &(mu_learnt_run){1.2, {0.6 * 1.21, 0.3, 0.1 * 4}});
    mu_learnt_add(&l, &async, &said, &(mu_learnt_run){1, {0.6, 0.3, 0.1 * 4}});
    assert_true(fabs(factor(&l, &async, MU_TERM_COMPUTE) - 1.1) < 1e-9);   // the geometric mean
    assert_true(fabs(factor(&l, &async, MU_TERM_APPLY) - 1) < 1e-9);
    assert_true(fabs(factor(&l, &async, MU_TERM_WAIT) - 2) < 1e-9);        // bounded
    assert_null(mu_learnt_of(&l, &hard));
    assert_null(mu_learnt_of(&l, &one)); // alone is not by a protocol
    // A part too small to compare teaches nothing.
    mu_learnt_add(&l, &hard, &said, &(mu_learnt_run){1, {0.6, 0.001, 0.1}});
    assert_true(fabs(factor(&l, &hard, MU_TERM_APPLY) - 1) < 1e-9);
    // Old runs are forgotten.
    for (int i = 0; i < MU_LEARNT_RUNS; i++)
        mu_learnt_add(&l, &async, &said, &(mu_learnt_run){0.8, {0.6 * 0.8, 0.3, 0.1}});
    assert_true(fabs(factor(&l, &async, MU_TERM_COMPUTE) - 0.8) < 1e-9);
    char text[160];
    mu_learnt_text(&l, &async, text, sizeof text);
    assert_string_equal(text, "corrected by 8 runs of this job (async): compute x 0.80, apply x 1.00, wait x 1.00");
    mu_learnt_text(&l, &one, text, sizeof text);
    assert_string_equal(text, "");
    mu_arena_fini(&a);
}

static void test_corrects(void **state) {
    (void)state;
    mu_arena a;
    mu_arena_init(&a, "test");
    mu_machine m = plain_machine(1, 4);
    mu_costs k = plain_costs(2);
    mu_learnt l = {0};
    mu_prediction plain, corrected;
    const mu_config c = config_of(&a, 4, "async");
    assert_ok(mu_predict(&k, &m, &c, NULL, &plain, ok_err));
    double parts[MU_LEARNT_PARTS];
    mu_learnt_parts(&plain, parts);
    mu_learnt_run run = {plain.step_s, {parts[0] * 1.2, parts[1] * 0.9, parts[2]}};
    mu_learnt_add(&l, &c, &plain, &run);
    const mu_plan_corrections by = mu_learnt_corrections(&l);
    assert_ok(mu_predict(&k, &m, &c, &by, &corrected, ok_err));
    assert_true(corrected.corrected && !plain.corrected);
    assert_true(fabs(corrected.term_s[MU_TERM_COMPUTE] - 1.2 * plain.term_s[MU_TERM_COMPUTE]) < 1e-12);
    assert_true(corrected.step_s >= mu_predict_least_s(&k, &m, &c, &by) * (1 - 1e-12));
    mu_costs_fini(&k);
    mu_arena_fini(&a);
}

static void test_file(void **state) {
    (void)state;
    mu_arena a;
    mu_arena_init(&a, "test");
    mu_learnt l = {.job = 0xabc}, again;
    mu_err err = {0};
    const mu_config c = config_of(&a, 2, "async");
    mu_learnt_add(&l, &c, &said, &(mu_learnt_run){1.2, {0.7, 0.4, 0.1}});
    char *text = mu_learnt_write(&l);
    assert_ok(mu_learnt_parse(text, strlen(text), "test", &again, ok_err));
    assert_true(again.job == 0xabc && again.n == 1);
    assert_true(fabs(factor(&again, &c, MU_TERM_COMPUTE) - 0.7 / 0.6) < 1e-5);
    mu_free(text);
    static const char *const bad[] = {
        "", "[]", "{}", "{\"format\": 1, \"job\": \"x\", \"rows\": []}",
        "{\"format\": 1, \"job\": \"0000000000000abc\", \"rows\": [{}]}",
        "{\"format\": 1, \"job\": \"0000000000000abc\", \"rows\": [{\"of\": \"a\", \"compute\": [-1], \"apply\": [1], "
        "\"wait\": [1]}]}",
        "{\"format\": 1, \"job\": \"0000000000000abc\", \"rows\": [{\"of\": \"a\", \"compute\": [1], \"apply\": [], "
        "\"wait\": [1]}]}"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        mu_err_clear(&err);
        if (mu_learnt_parse(bad[i], strlen(bad[i]), "test", &again, &err) != MU_EDATA) fail_msg("`%s`", bad[i]);
    }
    mu_arena_fini(&a);
}

static void test_measures(void **state) {
    (void)state;
    mu_setup s = {.learners = 2, .workers = 1, .server_groups = 1, .global_batch = 64};
    mu_run_result r = {.wall_s = 10, .samples_per_s = 6400, .steps = 1000};
    mu_learnt_run run;
    r.learners = (mu_learners_result){.steps = 1000, .compute_s = 12, .apply_s = 6};
    assert_true(mu_learnt_measure(&s, &r, &run));
    assert_true(fabs(run.step_s - 0.01) < 1e-12);
    assert_true(fabs(run.part_s[MU_LEARNT_COMPUTE] - 0.006) < 1e-12);
    assert_true(fabs(run.part_s[MU_LEARNT_APPLY] - 0.003) < 1e-12);
    assert_true(fabs(run.part_s[MU_LEARNT_WAIT] - 0.001) < 1e-12);
    mu_setup warm = s;
    warm.warm_versions = 500; // half of it by another protocol
    assert_false(mu_learnt_measure(&warm, &r, &run));
    mu_run_result lost = r;
    lost.learners.learners_lost = 1;
    assert_false(mu_learnt_measure(&s, &lost, &run));
    mu_run_result shortly = r;
    shortly.learners.steps = 20;
    assert_false(mu_learnt_measure(&s, &shortly, &run));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_learns), cmocka_unit_test(test_corrects),
                                       cmocka_unit_test(test_file), cmocka_unit_test(test_measures)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
