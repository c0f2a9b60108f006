// SPDX-License-Identifier: Apache-2.0
// test_updater_momentum.c - momentum that begins small: by steps or epochs of samples, not by updates.
#include "updater_help.h"

// The share of the last step that an update keeps: without a gradient a rule moves by that much.
static double kept(mu_updater *u, int64_t update, int64_t step, double epoch) {
    mu_param p = {.shape = MU_SHAPE(1), .count = 1, .lr_mult = 1};
    float w[1] = {0}, v[1] = {-1}, g[1] = {0};
    float *const slots[MU_MAX_SLOTS] = {v};
    mu_grad grad = {.form = MU_GRAD_DENSE, .dense = g};
    const mu_target t = target(u, &p, w, slots);
    const mu_rule_step at = {.update = update, .young = mu_updater_is_young(u, step, epoch)};
    mu_updater_apply(&t, &(mu_update){1, (const mu_grad *[]){&grad}, (float[]){1}, 0.1, at});
    return -(double)v[0];
}

static void expect(mu_updater *u, int64_t step, double epoch, double want) {
    for (int64_t update = step; update < 100; update += 33) { // protocols make several of a step
        const double got = kept(u, update, step, epoch);
        if (!(fabs(got - want) < 1e-6))
            fail_msg("%s, step %d, update %d: momentum %g, want %g", u->class->name, (int)step, (int)update,
                     got, want);
    }
}

static void test_steps(void **unused) {
    (void)unused;
    static const char *const text[] = {
        "{type: sgd, rate: 1, momentum: 0.9, early_momentum: 0.25, early: 7 steps}",
        "{type: nesterov, rate: 1, early_momentum: 0.25, early: 7 steps}"};
    for (size_t i = 0; i < 2; i++) {
        bound b;
        mu_updater *u = bound_get(&b, text[i]);
        expect(u, 0, 0, 0.25);
        expect(u, 6, 50, 0.25);
        expect(u, 7, 50, 0.9);
        expect(u, 6, 50, 0.25); // made again
        bound_fini(&b);
    }
}

static void test_epochs(void **unused) {
    (void)unused;
    bound b;
    mu_updater *u = bound_get(&b, "{type: sgd, rate: 1, momentum: 0.9, early: 2 epochs}");
    expect(u, 0, 0, 0.5); // when early_momentum is left out
    expect(u, 11, 1.99, 0.5);
    expect(u, 11, 2, 0.9);
    bound_fini(&b);
}

static void expect_problem(const char *text, const char *words) {
    bound b;
    bound_init(&b, text);
    assert_null(b.u);
    assert_int_equal(b.diags.n, 1);
    const char *msg = b.diags.list[0].msg;
    if (!strstr(msg, words)) fail_msg("%s: `%s`, want `%s`", text, msg, words);
    bound_fini(&b);
}

static void test_mistakes(void **unused) {
    (void)unused;
    expect_problem("{type: sgd, rate: 1, momentum: 0.9, early_momentum: 0.5}", "needs `early`");
    expect_problem("{type: nesterov, rate: 1, early_momentum: 0}", "needs `early`");
    expect_problem("{type: sgd, rate: 1, early: 5m}", "not a time");
    expect_problem("{type: sgd, rate: 1, early_momentum: -0.5, early: 5 epochs}", "at least 0");
}

static void test_never(void **unused) {
    (void)unused;
    bound b;
    mu_updater *u = bound_get(&b, "{type: sgd, rate: 1, momentum: 0.9}");
    expect(u, 0, 0, 0.9);
    assert_int_equal(mu_updater_n_changed(u), 1);
    bound_fini(&b);
    u = bound_get(&b, "{type: sgd, rate: 1}");
    assert_int_equal(mu_updater_n_changed(u), 0);
    bound_fini(&b);
    u = bound_get(&b, "{type: sgd, rate: 1, early: 3 steps}"); // momentum only at first
    assert_int_equal(mu_updater_n_changed(u), 1);
    bound_fini(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_steps),
        cmocka_unit_test(test_epochs),
        cmocka_unit_test(test_never),
        cmocka_unit_test(test_mistakes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
