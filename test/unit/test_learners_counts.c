// SPDX-License-Identifier: Apache-2.0
// test_learners_counts.c - what ranks tell of their gradients adds up, as if one rank had counted all.
#include "learners/counts.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static mu_learners_result of_rank(int k) {
    mu_learners_result r = {.versions = 10 + k, .produced = 20, .rejected = 2, .merges = 5};
    r.applied = 17 - k, r.lost = 1 + k;
    r.learners_lost = k, r.learners_replaced = k, r.merged_bytes = 100 * k, r.bad_records = 3 * k;
    r.records_read = 700 + k;
    r.n_stale = 4 * (k + 1), r.staleness_mean = k, r.staleness_max = 2 * k;
    r.staleness_hist[0] = 3, r.staleness_hist[2 * k] += 4 * k;
    r.most_staleness = 2 * k + 1;
    r.compute_s = 3 * k, r.wait_s = 1, r.apply_s = 0.5;
    r.replace_p50_s = k ? 0.25 * k : NAN, r.replace_p99_s = NAN;
    return r;
}

static void test_sum(void **unused) {
    (void)unused;
    mu_learners_result all = of_rank(0);
    for (int k = 1; k < 3; k++) {
        const mu_learners_result r = of_rank(k);
        const mu_wire_counts c = mu_counts_of(k, &r, 640, 2);
        assert_int_equal(c.rank, k);
        assert_int_equal(c.used, 640);
        assert_int_equal(c.skipped, 2);
        mu_counts_add(&c, &all);
    }
    assert_int_equal(all.versions, 33);
    assert_int_equal(all.produced, 60);
    assert_int_equal(all.applied, 48);
    assert_int_equal(all.rejected, 6);
    assert_int_equal(all.lost, 6);
    assert_int_equal(all.learners_lost, 3);
    assert_int_equal(all.learners_replaced, 3);
    assert_int_equal(all.merges, 15);
    assert_int_equal(all.merged_bytes, 300);
    assert_int_equal(all.bad_records, 9);
    assert_int_equal(all.records_read, 2103);
    assert_true(fabs(all.n_stale - 24) < 1e-12);
    assert_true(fabs(all.staleness_mean - (8 * 1 + 12 * 2) / 24.0) < 1e-12);
    assert_int_equal(all.staleness_max, 4);
    assert_int_equal(all.staleness_hist[0], 9);
    assert_int_equal(all.staleness_hist[2], 4);
    assert_int_equal(all.staleness_hist[4], 8);
    assert_int_equal(all.most_staleness, 5);
    assert_true(fabs(all.overlap - 9.0 / 12) < 1e-12);
    for (int k = 1; k < 3; k++) assert_true(all.rank[k].compute_s == 3 * k && all.rank[k].wait_s == 1);
    assert_true(fabs(all.apply_s - 1.5) < 1e-12);
    assert_true(fabs(all.replace_p50_s - 0.5) < 1e-12);
    assert_true(isnan(all.replace_p99_s));
}

static void test_ledger(void **unused) {
    (void)unused;
    mu_err err = {0};
    mu_learners_result r = of_rank(1);
    assert_int_equal(mu_counts_check(&r, &err), MU_OK);
    r.lost++;
    assert_int_equal(mu_counts_check(&r, &err), MU_EBACKEND);
    assert_non_null(strstr(err.msg, "20 produced, 16 + 2 + 3"));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_sum), cmocka_unit_test(test_ledger)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
