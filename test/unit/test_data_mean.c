// SPDX-License-Identifier: Apache-2.0
// test_data_mean.c - the mean of numbers in the job, and of records summed up.
#include "data_help.h"

#include "data/mean.h"

// One number stands for all channels; as many as channels stand for one each.
static void test_values(void **ctx) {
    (void)ctx;
    float given[] = {7, 8, 9};
    mu_arena a;
    mu_arena_init(&a, "test/mean");
    mu_mean mean;
    mu_err err = {0};
    for (size_t n = 1; n <= 3; n += 2) {
        assert_ok(mu_mean_from_values(&a, &(mu_floats){.v = given, .n = n}, 3, MU_NOPOS, &mean, &err), &err);
        assert_int_equal(mean.n, 3);
        for (size_t i = 0; i < 3; i++)
            if (mean.v[i] != given[n == 1 ? 0 : i])
                fail_msg("%zu of %zu numbers: %g", i, n, (double)mean.v[i]);
    }
    const mu_floats two = {.v = given, .n = 2};
    assert_status(mu_mean_from_values(&a, &two, 3, MU_NOPOS, &mean, &err), MU_EJOB, &err);
    mu_arena_fini(&a);
}

// Bytes and floats are summed alike; nothing beyond the elements is written; no records have mean 0.
static void test_sums(void **ctx) {
    (void)ctx;
    const uint8_t bytes[][2] = {{1, 250}, {2, 100}};
    const float floats[][2] = {{1, 250}, {2, 100}};
    double sum[2] = {0};
    float mean[3] = {-1, -1, -1};
    mu_mean_sum m = {sum, 2, 0};
    mu_mean_finish(&m, mean);
    assert_true(mean[0] == 0 && mean[1] == 0 && mean[2] == -1);
    for (int i = 0; i < 2; i++) mu_mean_add(&m, bytes[i], MU_STORE_U8);
    for (int i = 0; i < 2; i++) mu_mean_add(&m, floats[i], MU_STORE_F32);
    mu_mean_finish(&m, mean);
    if (mean[0] != 1.5f || mean[1] != 175.0f || mean[2] != -1)
        fail_msg("%g, %g, %g, want 1.5, 175, -1", (double)mean[0], (double)mean[1], (double)mean[2]);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_values), cmocka_unit_test(test_sums)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
