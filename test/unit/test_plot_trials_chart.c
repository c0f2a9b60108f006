// SPDX-License-Identifier: Apache-2.0
// The chart of trainings shows means of seeds and connects equal products.
#include "unit/run_help.h"

#include "plot/trials_chart.h"

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

static size_t count(const char *text, const char *what) {
    size_t n = 0;
    for (const char *p = text; (p = strstr(p, what)); p += strlen(what)) n++;
    return n;
}

static void test_chart(void **state) {
    (void)state;
    mu_trials t = {0};
    mu_text svg = {0};
    put(&t, row("async", 16, 1, 1, 10, 0.2));
    put(&t, row("hardsync", 16, 1, 1, 8, 0.1));
    put(&t, row("async", 8, 2, 1, 6, 0.3));
    put(&t, row("async", 8, 2, 2, 7, 0.5)); // another seed of the same cell
    put(&t, row("async", 4, 2, 1, 5, 0.2));
    mu_trial bad = mu_trial_make("ssp:3", 1, 1, 1);
    snprintf(bad.status, sizeof bad.status, "diverged: nan");
    put(&t, bad);
    assert_ok(mu_trials_chart(&t, "my <job>", &svg, err));
    assert_non_null(strstr(svg.s, "my &lt;job&gt;: test error against time"));
    assert_int_equal(count(svg.s, ">(8, 2)</text>"), 1);
    assert_non_null(strstr(svg.s, "async, mu 8, lambda 2: 0.4 in 6.5 s")); // the mean
    assert_int_equal(count(svg.s, "stroke-dasharray"), 1);                 // 16 x 1 with 8 x 2, async only
    assert_int_equal(count(svg.s, ">async</text>"), 1);
    assert_null(strstr(svg.s, "ssp"));
    mu_text_fini(&svg);
    mu_trials_fini(&t);
}

static void test_chart_by_loss(void **state) {
    (void)state;
    mu_trials t = {0};
    mu_text svg = {0};
    mu_trial r = row("async", 1, 1, 1, 2, NAN);
    r.test_loss = 0.7;
    put(&t, r);
    assert_ok(mu_trials_chart(&t, "job", &svg, err));
    assert_non_null(strstr(svg.s, ">test loss</text>"));
    assert_int_equal(count(svg.s, "(1, 1)"), 1);
    mu_text_fini(&svg);
    mu_trials_fini(&t);
}

static void test_no_memory(void **state) {
    (void)state;
    mu_trials t = {0};
    put(&t, row("async", 1, 1, 1, 2, 0.5));
    uint64_t live = mu_alloc_get_stats().n_live;
    for (int64_t n = 1;; n++) {
        mu_text svg = {0};
        mu_err err = {0};
        mu_alloc_fail_at(n);
        mu_status st = mu_trials_chart(&t, "job", &svg, &err);
        mu_alloc_fail_at(0);
        mu_text_fini(&svg);
        assert_int_equal(mu_alloc_get_stats().n_live, live);
        if (st == MU_OK) break;
        assert_int_equal(st, MU_ENOMEM);
        assert_true(n < 100);
    }
    mu_trials_fini(&t);
}

int main(void) {
    mu_log_set_level(MU_LOG_NONE);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_chart),
        cmocka_unit_test(test_chart_by_loss),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
