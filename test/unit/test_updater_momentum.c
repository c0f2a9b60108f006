// SPDX-License-Identifier: Apache-2.0
// test_updater_momentum.c - momentum that begins small: a function of the update's number alone.
#include "updater_help.h"

// The share of the last step that update `step` keeps: without a gradient a rule moves by that much.
static double kept(mu_updater *u, int64_t step) {
    mu_param p = {.shape = MU_SHAPE(1), .count = 1, .lr_mult = 1};
    float w[1] = {0}, v[1] = {-1}, g[1] = {0};
    float *const slots[MU_MAX_SLOTS] = {v};
    mu_grad grad = {.form = MU_GRAD_DENSE, .dense = g};
    mu_updater_apply(u, &p, w, slots, &grad, 1, 0.1, step);
    return -(double)v[0];
}

static void expect(mu_updater *u, int64_t step, double want) {
    const double got = kept(u, step);
    if (!(fabs(got - want) < 1e-6))
        fail_msg("%s, step %d: momentum %g, want %g", u->class->name, (int)step, got, want);
}

static void test_steps(void **unused) {
    (void)unused;
    static const char *const text[] = {
        "{type: sgd, rate: 1, momentum: 0.9, early_momentum: 0.5, early: 7 steps}",
        "{type: nesterov, rate: 1, early_momentum: 0.5, early: 7 steps}"};
    for (size_t i = 0; i < 2; i++) {
        bound b;
        mu_updater *u = bound_get(&b, text[i]);
        mu_updater_set_epoch(u, 100);
        expect(u, 0, 0.5);
        expect(u, 6, 0.5);
        expect(u, 7, 0.9);
        expect(u, 6, 0.5); // made again
        bound_fini(&b);
    }
}

static void test_epochs(void **unused) {
    (void)unused;
    bound b;
    mu_updater *u =
        bound_get(&b, "{type: sgd, rate: 1, momentum: 0.9, early_momentum: 0.25, early: 2 epochs}");
    mu_updater_set_epoch(u, 5.5);
    expect(u, 10, 0.25);
    expect(u, 11, 0.9);
    mu_updater_set_epoch(u, 5.6); // an epoch that ends inside a batch: that update is early, too
    expect(u, 11, 0.25);
    expect(u, 12, 0.9);
    bound_fini(&b);
}

static void test_never(void **unused) {
    (void)unused;
    bound b;
    mu_updater *u = bound_get(&b, "{type: sgd, rate: 1, momentum: 0.9}");
    mu_updater_set_epoch(u, 100);
    expect(u, 0, 0.9);
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
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
