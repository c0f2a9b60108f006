// SPDX-License-Identifier: Apache-2.0
// metrics.jsonl read back: gaps, steps told again, damage of every kind.
#include "unit/run_help.h"

#include "look/curves.h"
#include "store/metrics.h"

#include <math.h>

static mu_curves parsed(const char *text) {
    mu_curves c = {0};
    assert_ok(mu_curves_parse(&c, text, strlen(text), "test", err));
    return c;
}

static void assert_curve(const mu_curves *c, const char *key, const double *step, const double *value,
                         size_t n) {
    const mu_curve *k = mu_curves_find(c, key);
    if (!k) fail_msg("no curve `%s`", key);
    if (k->n != n) fail_msg("`%s` has %zu points, not %zu", key, k->n, n);
    for (size_t i = 0; i < n; i++) {
        bool same = isnan(value[i]) ? isnan(k->v[i].value) : k->v[i].value == value[i];
        if (k->v[i].step != step[i] || !same)
            fail_msg("`%s` %zu: (%g, %g), not (%g, %g)", key, i, k->v[i].step, k->v[i].value, step[i],
                     value[i]);
    }
}
#define CURVE(c, key, steps, values)                                                                         \
    assert_curve(&(c), key, (const double[])steps, (const double[])values,                                   \
                 sizeof((double[])steps) / sizeof(double))
#define L(...)                                                                                               \
    { __VA_ARGS__ }

static void test_reads(void **state) {
    (void)state;
    mu_curves c = parsed("{\"step\":1,\"epoch\":0.5,\"wall_s\":2,\"train_loss\":3,\"lr\":0.1}\n"
                         "{\"step\":2,\"train_loss\":null,\"lr\":0.1,\"note\":\"x\",\"deep\":{\"a\":[1]}}\n"
                         "{\"step\":2,\"epoch\":1,\"wall_s\":4,\"test_loss\":2.5}\n"
                         "{\"step\":3,\"train_loss\":1}\n");
    CURVE(c, "train_loss", L(1, 2, 3), L(3, NAN, 1));
    CURVE(c, "test_loss", L(2), L(2.5));
    assert_null(mu_curves_find(&c, "note"));
    assert_null(mu_curves_find(&c, "epoch"));
    assert_int_equal(c.n_bad, 0);
    const mu_curve_point *p = mu_curves_find(&c, "test_loss")->v;
    assert_near(p->epoch, 1, 0);
    assert_near(p->time_s, 4, 0);
    assert_true(isnan(mu_curves_find(&c, "train_loss")->v[1].epoch));
    assert_near(mu_curve_last(mu_curves_find(&c, "train_loss")), 1, 0);
    assert_true(isnan(mu_curve_last(NULL)));
    mu_curves_fini(&c);
}

// A run that went back to step 2: the later word counts, and other keys are left alone.
static void test_told_again(void **state) {
    (void)state;
    mu_curves c = parsed("{\"step\":1,\"train_loss\":1}\n{\"step\":2,\"train_loss\":2}\n"
                         "{\"step\":3,\"train_loss\":99}\n{\"step\":4,\"train_loss\":99}\n"
                         "{\"step\":2,\"val_loss\":7}\n" // evaluated later than its step
                         "{\"step\":3,\"train_loss\":3}\n{\"step\":5,\"train_loss\":5}\n");
    CURVE(c, "train_loss", L(1, 2, 3, 5), L(1, 2, 3, 5));
    CURVE(c, "val_loss", L(2), L(7));
    mu_curves_fini(&c);
}

static void test_damage(void **state) {
    (void)state;
    mu_curves c =
        parsed("{\"step\":1,\"train_loss\":1}\nnot json\n[1]\n\n{\"train_loss\":5}\n{\"step\":null}\n"
               "{\"step\":2,\"step\":3,\"a\":1}\n{\"step\":2,\"train_loss\":2}\n{\"step\":3,\"train_lo");
    CURVE(c, "train_loss", L(1, 2), L(1, 2));
    assert_int_equal(c.n_lines, 8); // the torn one is not told yet
    assert_int_equal(c.n_bad, 6);
    mu_curves_fini(&c);
    assert_fails(mu_curves_parse(&c, "", 0, "m", err), MU_EDATA, "`m` is empty");
    mu_curves_fini(&c);
    assert_fails(mu_curves_parse(&c, "x\n", 2, "m", err), MU_EDATA, "no line of metrics");
    mu_curves_fini(&c);
    assert_fails(mu_curves_load(&c, "no/such/run", err), MU_ENOTFOUND, "holds no run");
    mu_curves_fini(&c);
}

static void test_many_keys(void **state) {
    (void)state;
    char text[4000] = "{\"step\":1", *at = text + strlen(text);
    for (int i = 0; i < 200; i++) at += sprintf(at, ",\"key%d\":%d", i, i);
    strcpy(at, "}\n");
    mu_curves c = parsed(text);
    assert_int_equal(c.n, MU_CURVES_MAX);
    mu_curves_fini(&c);
}

// What mu_metrics_write wrote, for any doubles.
static void test_round_trip(void **state) {
    (void)state;
    char dir[64], path[100];
    mu_metrics *m;
    mu_curves c = {0};
    uint64_t seed = seed_from_env();
    double value[50];
    snprintf(path, sizeof path, "%s/metrics.jsonl", temp_dir(dir));
    assert_ok(mu_metrics_open(path, -1, &m, err));
    for (int i = 0; i < 50; i++) {
        uint64_t bits = next_random(&seed);
        memcpy(&value[i], &bits, sizeof bits);
        const mu_metric_value line[] = {{"step", i}, {"x", value[i]}};
        assert_ok(mu_metrics_write(m, line, 2, err));
    }
    mu_metrics_close(m);
    assert_ok(mu_curves_load(&c, dir, err));
    const mu_curve *x = mu_curves_find(&c, "x");
    assert_int_equal(x->n, 50);
    for (int i = 0; i < 50; i++) {
        double got = x->v[i].value;
        if (isfinite(value[i]) ? fabs(got - value[i]) > 1e-8 * fabs(value[i]) : !isnan(got))
            fail_msg("%.17g became %.17g", value[i], got);
    }
    mu_curves_fini(&c);
    remove_tree(dir);
}

static void test_no_memory(void **state) {
    (void)state;
    const char *text = "{\"step\":1,\"a\":1,\"b\":2}\n{\"step\":2,\"a\":3}\n";
    for (int64_t n = 1;; n++) {
        mu_curves c = {0};
        mu_err err = {0};
        uint64_t live = mu_alloc_get_stats().n_live;
        mu_alloc_fail_at(n);
        mu_status st = mu_curves_parse(&c, text, strlen(text), "m", &err);
        mu_alloc_fail_at(0);
        mu_curves_fini(&c);
        assert_int_equal(mu_alloc_get_stats().n_live, live);
        if (st == MU_OK) break;
        assert_int_equal(st, MU_ENOMEM);
        assert_true(n < 1000);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reads),     cmocka_unit_test(test_told_again), cmocka_unit_test(test_damage),
        cmocka_unit_test(test_many_keys), cmocka_unit_test(test_round_trip), cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
