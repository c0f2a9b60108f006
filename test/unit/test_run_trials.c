// SPDX-License-Identifier: Apache-2.0
// The table of trainings: what is saved is what is loaded, wrong files are refused with their line.
#include "unit/run_help.h"

#include "file/outfile.h"
#include "run/trials.h"

#include <math.h>

static mu_trial row(const char *protocol, int64_t mu, int64_t lambda, int64_t seed, double time,
                    double error) {
    mu_trial t = mu_trial_make(protocol, mu, lambda, seed);
    t.wall_s = time;
    t.test_error = error;
    snprintf(t.status, sizeof t.status, "ok");
    return t;
}

static void put(mu_trials *t, mu_trial r) { assert_ok(mu_trials_put(t, &r, err)); }

static void write_table(const char *dir, const char *text) {
    assert_ok(mu_outfile_replace(dir, MU_TRIALS_CSV, text, strlen(text), err));
}

#define HEADER                                                                                               \
    "protocol,mu,lambda,mu*lambda,seed,epochs,wall_s,samples_per_s,test_error,test_loss,staleness_mean,"     \
    "staleness_max,overlap,status\n"

static void test_round_trip(void **state) {
    (void)state;
    char dir[64];
    mu_trials a = {0}, b = {0};
    put(&a, row("hardsync", 4, 2, 1, 1.5, 0.25));
    mu_trial bad = mu_trial_make("softsync:2", 16, 8, -3);
    snprintf(bad.status, sizeof bad.status, "failed: a \"quoted\", reason");
    put(&a, bad);
    put(&a, row("hardsync", 4, 2, 2, 2.5, 0.125));
    put(&a, row("hardsync", 4, 2, 1, 3.5, 0.5)); // again: replaces
    assert_int_equal(a.n, 3);
    temp_dir(dir);
    assert_ok(mu_trials_save(&a, dir, err));
    assert_ok(mu_trials_load(&b, dir, err));
    assert_int_equal(b.n, a.n);
    for (size_t i = 0; i < a.n; i++) {
        assert_string_equal(b.v[i].protocol, a.v[i].protocol);
        assert_string_equal(b.v[i].status, a.v[i].status);
        assert_int_equal(b.v[i].seed, a.v[i].seed);
        assert_int_equal(isnan(b.v[i].wall_s), isnan(a.v[i].wall_s));
        assert_true(isnan(b.v[i].overlap));
    }
    mu_trial asked = mu_trial_make("hardsync", 4, 2, 1);
    const mu_trial *found = mu_trials_find(&b, &asked);
    assert_non_null(found);
    assert_float_equal(found->wall_s, 3.5, 1e-12);
    asked.lambda = 4;
    assert_null(mu_trials_find(&b, &asked));
    assert_true(mu_trial_settled(found) && !mu_trial_settled(&bad));
    remove_tree(dir);
    mu_trials_fini(&a);
    mu_trials_fini(&b);
}

static void test_refuses(void **state) {
    (void)state;
    static const struct {
        const char *text, *place;
    } cases[] = {
        {"", NULL},
        {HEADER, NULL},
        {HEADER "async,4,2,8,1,,,,,,,,,ok\r\n\n", NULL},
        {"protocol,mu\n", ":1:"},
        {HEADER "async,4,2,8,1,,,,,,,,ok\n", ":2:"},   // 13 fields
        {HEADER "async,4,2,8,1,,,,,,,,,ok,\n", ":2:"}, // 15
        {HEADER "async,4,2,9,1,,,,,,,,,ok\n", ":2:"},  // 4 x 2 is not 9
        {HEADER "async,4,2,8,1,,,,,,,,,ok\nasync,x,2,8,1,,,,,,,,,ok\n", ":3:"},
        {HEADER "async,4,2,8,1,1e999,,,,,,,,ok\n", ":2:"},
        {HEADER "async,4,2,8,1,,,,,,,,,\"ok\n", ":2:"},
        {HEADER "async,4,2,8,1,,,,,,,,,\n", ":2:"},
        {HEADER "async,4,99999999999999999999,8,1,,,,,,,,,ok\n", ":2:"},
    };
    char dir[64];
    temp_dir(dir);
    mu_trials t = {0};
    assert_fails(mu_trials_load(&t, dir, err), MU_ENOTFOUND, "");
    for (size_t i = 0; i < MU_COUNT(cases); i++) {
        write_table(dir, cases[i].text);
        if (cases[i].place) assert_fails(mu_trials_load(&t, dir, err), MU_EDATA, cases[i].place);
        else assert_ok(mu_trials_load(&t, dir, err));
        mu_trials_fini(&t);
    }
    remove_tree(dir);
}

int main(void) {
    mu_log_set_level(MU_LOG_NONE);
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_round_trip), cmocka_unit_test(test_refuses)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
