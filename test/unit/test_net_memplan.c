// SPDX-License-Identifier: Apache-2.0
// test_net_memplan.c - the planner never overlays buffers that live at the same time, and does reuse.
#include "net/memplan.h"

#include "base/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

static void check_disjoint(const mu_plan_item *it, size_t n, size_t total) {
    for (size_t i = 0; i < n; i++) {
        assert_true(it[i].offset % 64 == 0);
        assert_true(it[i].offset + it[i].bytes <= total);
        for (size_t j = 0; j < i; j++) {
            bool together = it[i].first <= it[j].last && it[j].first <= it[i].last;
            bool overlap =
                it[i].offset < it[j].offset + it[j].bytes && it[j].offset < it[i].offset + it[i].bytes;
            if (together && overlap)
                fail_msg("items %zu [%zu,%zu) and %zu [%zu,%zu) overlap", i, it[i].offset,
                         it[i].offset + it[i].bytes, j, it[j].offset, it[j].offset + it[j].bytes);
        }
    }
}

static void random_plans(void **state) {
    (void)state;
    uint64_t seed = 20261;
    print_message("seed %llu\n", (unsigned long long)seed);
    mu_rng_key key = mu_rng_key_make(seed, "memplan");
    for (uint64_t trial = 0; trial < 300; trial++) {
        mu_plan_item it[40];
        uint32_t u[40 * 3];
        mu_rng_fill_u32(key, trial, 0, u, 120);
        size_t n = 1 + u[0] % 40, total, peak = 0;
        for (size_t i = 0; i < n; i++) {
            int first = (int)(u[3 * i] % 50), len = (int)(u[3 * i + 1] % 20);
            it[i] = (mu_plan_item){u[3 * i + 2] % 10000, first, first + len, 0};
        }
        assert_int_equal(mu_memplan(it, n, true, &total, NULL), MU_OK);
        check_disjoint(it, n, total);
        for (int t = 0; t < 70; t++) { // lower bound: what lives at one moment
            size_t live = 0;
            for (size_t i = 0; i < n; i++) live += it[i].first <= t && t <= it[i].last ? it[i].bytes : 0;
            if (live > peak) peak = live;
        }
        assert_true(total >= peak);
        assert_true(total <= 2 * peak + 64 * n);
    }
}

static void without_reuse_all_are_apart(void **state) {
    (void)state;
    mu_plan_item it[3] = {{100, 0, 0, 0}, {0, 1, 1, 0}, {100, 2, 2, 0}};
    size_t total;
    assert_int_equal(mu_memplan(it, 3, false, &total, NULL), MU_OK);
    assert_int_equal(total, 256);
    assert_int_equal(mu_memplan(it, 3, true, &total, NULL), MU_OK);
    assert_int_equal(total, 128);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_plans),
                                       cmocka_unit_test(without_reuse_all_are_apart)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
