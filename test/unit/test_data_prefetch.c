// SPDX-License-Identifier: Apache-2.0
// test_data_prefetch.c - the ring alone: order, errors in place, stopping at any moment, cheap hand-over.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/attr.h"
#include "base/clock.h"
#include "data/prefetch.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/resource.h>

typedef struct maker {
    int64_t value[64];          // by slot
    int64_t next, end, fail_at; // -1 = never
    int     yields;             // how slow the producer is
} maker;

static mu_status make(void *ctx, int slot, bool *end, mu_err *err) {
    maker *m = ctx;
    for (int i = 0; i < m->yields; i++) sched_yield();
    if (m->next == m->fail_at) return MU_FAIL(err, MU_EDATA, "record %d is bad", (int)m->next);
    if (m->next == m->end) {
        *end = true;
        return MU_OK;
    }
    m->value[slot] = m->next++;
    return MU_OK;
}

static mu_prefetch *ring(int n_slots, maker *m) {
    mu_err err = {0};
    mu_prefetch *p = NULL;
    assert_int_equal(mu_prefetch_create(n_slots, make, m, &p, &err), MU_OK);
    assert_int_equal(mu_prefetch_start(p, &err), MU_OK);
    return p;
}

static void test_order_and_end(void **ctx) {
    (void)ctx;
    for (int n_slots = 1; n_slots <= 64; n_slots = n_slots * 2 + 1)
        for (int yields = 0; yields <= 2; yields += 2) {
            maker m = {.end = 1000, .fail_at = -1, .yields = yields};
            mu_prefetch *p = ring(n_slots, &m);
            mu_err err = {0};
            int slot;
            for (int64_t i = 0; i < 1000; i++) {
                if (i % 100 == 0) for (int k = 0; k < 20; k++) sched_yield();   // let the ring fill up
                assert_int_equal(mu_prefetch_next(p, &slot, &err), MU_OK);
                assert_in_range(slot, 0, n_slots - 1);
                assert_int_equal(m.value[slot], i);
            }
            for (int i = 0; i < 3; i++) {
                assert_int_equal(mu_prefetch_next(p, &slot, &err), MU_OK);
                assert_int_equal(slot, -1);
            }
            assert_true(mu_prefetch_destroy(p));
        }
}

static void test_error_comes_in_its_place(void **ctx) {
    (void)ctx;
    maker m = {.end = -1, .fail_at = 37};
    mu_prefetch *p = ring(8, &m);
    mu_err err = {0};
    int slot;
    for (int i = 0; i < 37; i++) assert_int_equal(mu_prefetch_next(p, &slot, &err), MU_OK);
    assert_int_equal(mu_prefetch_next(p, &slot, &err), MU_EDATA);
    assert_string_equal(err.msg, "record 37 is bad");
    assert_true(mu_prefetch_destroy(p));
}

// Stopping must not hang whatever the two sides are doing.
static void test_stop_at_any_moment(void **ctx) {
    (void)ctx;
    double t0 = mu_clock_s();
    for (int round = 0; round < 300; round++) {
        maker m = {.end = round % 5 ? -1 : 10, .fail_at = round % 7 ? -1 : 20, .yields = round % 3};
        mu_prefetch *p = ring(1 + round % 9, &m);
        mu_err err = {0};
        int slot = 0;
        for (int i = 0; i < round % 23 && slot >= 0; i++)
            if (mu_prefetch_next(p, &slot, &err) != MU_OK) break;
        if (round % 2) assert_true(mu_prefetch_stop(p));
        assert_true(mu_prefetch_destroy(p));
    }
    double spent = mu_clock_s() - t0;
    if (spent > 30) fail_msg("300 stops took %.1f s", spent);
}

static void test_restart(void **ctx) {
    (void)ctx;
    maker m = {.end = -1, .fail_at = -1};
    mu_prefetch *p = ring(4, &m);
    mu_err err = {0};
    int slot;
    for (int round = 0; round < 5; round++) {
        for (int i = 0; i < 10; i++) {
            assert_int_equal(mu_prefetch_next(p, &slot, &err), MU_OK);
            assert_int_equal(m.value[slot], i);
        }
        assert_int_equal(mu_prefetch_start(p, &err), MU_EUSAGE);
        mu_err_clear(&err);
        assert_true(mu_prefetch_stop(p));
        assert_true(mu_prefetch_stop(p));
        m.next = 0;
        assert_int_equal(mu_prefetch_start(p, &err), MU_OK);
    }
    assert_true(mu_prefetch_destroy(p));
}

// A learner that works 10 us a batch: the ring may sleep once in a group, not once in a batch.
static void test_hand_over_is_cheap(void **ctx) {
    (void)ctx;
    enum { N = 20000 };
    maker m = {.end = -1, .fail_at = -1};
    mu_prefetch *p = ring(64, &m);
    mu_err err = {0};
    struct rusage before, after;
    int slot;
    getrusage(RUSAGE_SELF, &before);
    double in_next = 0;
    for (int i = 0; i < N; i++) {
        double t = mu_clock_s();
        assert_int_equal(mu_prefetch_next(p, &slot, &err), MU_OK);
        double done = mu_clock_s();
        in_next += done - t;
        while (mu_clock_s() - done < 10e-6) { }
    }
    getrusage(RUSAGE_SELF, &after);
    long sleeps = after.ru_nvcsw - before.ru_nvcsw;
    print_message("%.2f us in next per batch, %ld sleeps for %d batches\n", in_next * 1e6 / N, sleeps, N);
    if (sleeps > N / 8) fail_msg("%ld sleeps for %d batches", sleeps, N);
    assert_true(mu_prefetch_destroy(p));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order_and_end),
        cmocka_unit_test(test_error_comes_in_its_place),
        cmocka_unit_test(test_stop_at_any_moment),
        cmocka_unit_test(test_restart),
        cmocka_unit_test(test_hand_over_is_cheap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
