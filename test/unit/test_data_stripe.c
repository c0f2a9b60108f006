// SPDX-License-Identifier: Apache-2.0
// test_data_stripe.c - samples dealt to groups: each sample in exactly one group, batches in one stretch.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "data/stripe.h"

enum { SAMPLES = 200 };

static void test_every_sample_once(void **unused) {
    (void)unused;
    for (int of = 1; of <= 5; of++)
        for (int64_t width = 1; width <= 7; width++)
            for (int64_t end = 10; end < 60; end++) {
                int taken[SAMPLES] = {0};
                for (int g = 0; g < of; g++) {
                    const mu_stripe s = {.base = 10, .width = width, .index = g, .of = of};
                    const int64_t own_end = mu_stripe_count(&s, end);
                    for (int64_t i = 10; i < own_end; i++) taken[mu_stripe_sample(&s, i)]++;
                }
                for (int64_t i = 0; i < SAMPLES; i++) assert_int_equal(taken[i], i >= 10 && i < end);
            }
}

static void test_one_group_changes_nothing(void **unused) {
    (void)unused;
    const mu_stripe s = {.base = 7, .width = 3, .of = 1};
    assert_int_equal(mu_stripe_sample(&s, 23), 23);
    assert_int_equal(mu_stripe_count(&s, 23), 23);
    assert_int_equal(mu_stripe_level(&s, 23), 23);
}

static void test_ends_and_levels(void **unused) {
    (void)unused;
    const mu_stripe s = {.base = 100, .width = 8, .index = 1, .of = 4};
    assert_true(mu_stripe_count(&s, INT64_MAX) == INT64_MAX);
    assert_int_equal(mu_stripe_count(&s, 100), 100);
    assert_int_equal(mu_stripe_count(&s, 60), 60); // before the beginning both count alike
    assert_int_equal(mu_stripe_level(&s, 116), 164);
}

typedef struct seen { int n; mu_range r[16]; int most; } seen;
static bool see(void *ctx, mu_range r) {
    seen *s = ctx;
    if (s->n == s->most) return false;
    s->r[s->n++] = r;
    return true;
}

static void test_stretches(void **unused) {
    (void)unused;
    const mu_stripe s = {.base = 0, .width = 4, .index = 1, .of = 3};
    seen got = {.most = 16};
    assert_true(mu_stripe_each(&s, (mu_range){2, 9}, see, &got));
    const mu_range want[] = {{6, 8}, {16, 20}, {28, 29}};
    assert_int_equal(got.n, 3);
    assert_memory_equal(got.r, want, sizeof want);
    got = (seen){.most = 1};
    assert_false(mu_stripe_each(&s, (mu_range){2, 9}, see, &got));
    got = (seen){.most = 16};
    assert_true(mu_stripe_each(&s, (mu_range){5, 5}, see, &got));
    assert_int_equal(got.n, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_sample_once),
        cmocka_unit_test(test_one_group_changes_nothing),
        cmocka_unit_test(test_ends_and_levels),
        cmocka_unit_test(test_stretches),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
