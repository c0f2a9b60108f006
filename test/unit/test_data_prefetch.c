// SPDX-License-Identifier: Apache-2.0
// test_data_prefetch.c - the ring alone: order, errors in place, stopping at any moment, cheap hand-over,
// and how long it waits for a reader that is stuck.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/attr.h"
#include "base/clock.h"
#include "base/log.h"
#include "data/prefetch.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
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

// ---- a reader that is stuck, as in a read from a dead file server ----

typedef struct stuck { atomic_bool inside, go; } stuck;

// Fills the first slot; in the second it hears nothing until it is let go.
static mu_status get_stuck(void *ctx, int slot, bool *end, mu_err *err) {
    stuck *s = ctx;
    (void)end;
    (void)err;
    if (slot == 0) return MU_OK;
    atomic_store(&s->inside, true);
    while (!atomic_load(&s->go)) sched_yield();
    return MU_OK;
}

static mu_prefetch *stuck_ring(stuck *s, mu_prefetch_patience patience) {
    mu_err err = {0};
    mu_prefetch *p = NULL;
    int slot;
    assert_int_equal(mu_prefetch_create(2, get_stuck, s, &p, &err), MU_OK);
    mu_prefetch_set_patience(p, patience);
    assert_int_equal(mu_prefetch_start(p, &err), MU_OK);
    assert_int_equal(mu_prefetch_next(p, &slot, &err), MU_OK);
    while (!atomic_load(&s->inside)) sched_yield();
    return p;
}

// The lines logged since caught() was called with true.
static const char *caught(bool start) {
    static FILE *file;
    static char text[1024];
    if (start) {
        file = tmpfile();
        assert_non_null(file);
        mu_log_set_file(fileno(file));
        return NULL;
    }
    mu_log_drop_file(fileno(file));
    rewind(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    return text;
}

static void test_next_warns_and_gives_up(void **ctx) {
    (void)ctx;
    stuck s = {0};
    mu_err err = {0};
    int slot;
    mu_prefetch *p = stuck_ring(&s, (mu_prefetch_patience){.slow_s = 0.05, .give_up_s = 0.3, .join_s = 10});
    caught(true);
    double t0 = mu_clock_s();
    mu_status st = mu_prefetch_next(p, &slot, &err);
    double spent = mu_clock_s() - t0;
    const char *log = caught(false);
    assert_int_equal(st, MU_EIO);
    assert_string_equal(err.msg, "the reader gave no data for 0.3 s");
    if (spent < 0.3 || spent > 20) fail_msg("gave up after %.2f s, not 0.3", spent);
    if (mu_prefetch_wait_s(p) < 0.3) fail_msg("%.2f s are counted as waiting", mu_prefetch_wait_s(p));
    const char *line = strstr(log, "no data for 0.05 s");
    if (!line || strstr(line + 1, "no data for")) fail_msg("not one warning in `%s`", log);
    atomic_store(&s.go, true);                  // late, but it comes: the ring goes on
    mu_err_clear(&err);
    assert_int_equal(mu_prefetch_next(p, &slot, &err), MU_OK);
    assert_int_equal(slot, 1);
    assert_true(mu_prefetch_destroy(p));
}

static void test_stop_leaves_a_stuck_thread_behind(void **ctx) {
    (void)ctx;
    static stuck s;                             // both outlive the test, as the thread may
    static mu_prefetch *p;
    mu_err err = {0};
    p = stuck_ring(&s, (mu_prefetch_patience){.slow_s = 10, .give_up_s = 300, .join_s = 0.2});
    caught(true);
    double t0 = mu_clock_s();
    bool stopped = mu_prefetch_stop(p);
    double spent = mu_clock_s() - t0;
    const char *log = caught(false);
    assert_false(stopped);
    if (spent < 0.19 || spent > 20) fail_msg("left it after %.2f s, not 0.2", spent);
    if (!strstr(log, "did not stop within 0.2 s")) fail_msg("nothing said: `%s`", log);
    assert_false(mu_prefetch_running(p));
    assert_int_equal(mu_prefetch_start(p, &err), MU_EUSAGE);    // two threads must never fill one ring
    assert_false(mu_prefetch_stop(p));
    assert_false(mu_prefetch_destroy(p));       // what the thread uses is still there
    atomic_store(&s.go, true);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order_and_end),
        cmocka_unit_test(test_error_comes_in_its_place),
        cmocka_unit_test(test_stop_at_any_moment),
        cmocka_unit_test(test_restart),
        cmocka_unit_test(test_hand_over_is_cheap),
        cmocka_unit_test(test_next_warns_and_gives_up),
        cmocka_unit_test(test_stop_leaves_a_stuck_thread_behind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
