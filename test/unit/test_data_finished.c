// SPDX-License-Identifier: Apache-2.0
// test_data_finished.c - the list of finished samples: merging, its bound, what numbers stand for, and a
// training that is broken off and resumed again and again.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/rng.h"
#include "data/finished.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SAMPLES = 400 };
static const uint64_t SEED = 11;
static uint64_t drawn;

static int64_t below(int64_t n) {
    uint32_t word[4];
    mu_rng_block(mu_rng_key_make(SEED, "finished"), drawn++, 0, word);
    return (int64_t)(word[0] % (uint64_t)n);
}

static void assert_list(const mu_finished *f, int64_t cursor, const char *expected) {
    char text[300] = "";
    for (int i = 0; i < f->n; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%" PRId64 "-%" PRId64 " ",
                 f->range[i].first, f->range[i].end);
    assert_int_equal(f->cursor, cursor);
    assert_string_equal(text, expected);
}

static void add(mu_finished *f, int64_t first, int64_t end) { mu_finished_add(f, (mu_range){first, end}); }

static void test_merging(void **unused) {
    (void)unused;
    static mu_finished f;
    add(&f, 10, 20);
    add(&f, 40, 50);
    add(&f, 25, 30);
    assert_list(&f, 0, "10-20 25-30 40-50 ");
    add(&f, 20, 25); // touches both
    assert_list(&f, 0, "10-30 40-50 ");
    add(&f, 35, 60); // over and beyond
    add(&f, 45, 46); // inside
    add(&f, 7, 7);   // nothing
    assert_list(&f, 0, "10-30 35-60 ");
    add(&f, 0, 3);
    assert_list(&f, 3, "10-30 35-60 ");
    add(&f, 1, 12);
    assert_list(&f, 30, "35-60 ");
    add(&f, 5, 20); // long finished
    assert_int_equal(mu_finished_count(&f), 55);
    add(&f, 30, 35);
    assert_list(&f, 60, "");
    assert_int_equal(f.dropped, 0);
}

// Against one flag for each sample.
static void test_random_ranges(void **unused) {
    (void)unused;
    for (int round = 0; round < 300; round++) {
        static mu_finished f;
        bool done[SAMPLES + 1] = {false};
        memset(&f, 0, sizeof f);
        for (int k = 0; k < 60; k++) {
            const int64_t first = below(SAMPLES), end = first + below(12);
            mu_finished_add(&f, (mu_range){first, end < SAMPLES ? end : SAMPLES});
            for (int64_t i = first; i < end && i < SAMPLES; i++) done[i] = true;
            int64_t at = 0, n = 0, number = mu_finished_count(&f);
            for (int64_t i = 0; i < SAMPLES; i++) {
                while (at < f.n && f.range[at].end <= i) at++;
                const bool has = i < f.cursor || (at < f.n && i >= f.range[at].first);
                if (has != done[i]) fail_msg("seed %" PRIu64 ", round %d: sample %" PRId64, SEED, round, i);
                if (!done[i]) assert_int_equal(mu_finished_sample(&f, number + n++), i);
            }
            assert_int_equal(number, SAMPLES - n);
            assert_int_equal(mu_finished_sample(&f, SAMPLES + 7), SAMPLES + 7);
        }
    }
}

static void test_bound(void **unused) {
    (void)unused;
    static mu_finished f;
    int64_t at = 1, all = 0;
    for (int i = 0; i < MU_FINISHED_MAX; i++, at += 10) add(&f, at, at + 5), all += 5;
    assert_int_equal(f.n, MU_FINISHED_MAX);
    assert_int_equal(f.dropped, 0);
    add(&f, at, at + 3); // the smallest of all goes: this one
    assert_int_equal(f.n, MU_FINISHED_MAX);
    assert_int_equal(f.dropped, 3);
    assert_int_equal(f.range[f.n - 1].end, at - 5);
    add(&f, at + 10, at + 18); // and now one of the others
    assert_int_equal(f.dropped, 3 + 5);
    assert_int_equal(f.range[f.n - 1].end, at + 18);
    assert_int_equal(mu_finished_count(&f), all - 5 + 8);
    const int64_t gap = f.range[0].end; // merging needs no room
    add(&f, gap, f.range[1].first);
    assert_int_equal(f.n, MU_FINISHED_MAX - 1);
    assert_int_equal(f.dropped, 8);
    assert_int_equal(mu_finished_sample(&f, mu_finished_count(&f)), 0);
}

// Numbers are handed out in ranges, some stay open when the run ends, and the next run goes on: after many
// of them every sample was used once.
static void test_resumes(void **unused) {
    (void)unused;
    for (int round = 0; round < 100; round++) {
        static mu_finished f;
        uint8_t used[SAMPLES] = {0};
        memset(&f, 0, sizeof f);
        for (int run = 0; mu_finished_count(&f) < SAMPLES; run++) {
            const mu_finished begin = f;
            mu_range open[64];
            int n_open = 0;
            int64_t next = mu_finished_count(&f);
            while (next < SAMPLES && n_open < 60 && (below(20) || run > 30)) {
                const int64_t rows = 1 + below(9), end = next + rows < SAMPLES ? next + rows : SAMPLES;
                const bool stays = run <= 30 && below(3) == 0;
                if (stays) open[n_open++] = (mu_range){next, end};
                for (int64_t i = next; i < end && !stays; i++) used[mu_finished_sample(&begin, i)]++;
                next = end;
            }
            for (int i = 1; i < n_open; i++) { // in any order
                const int64_t k = below(i + 1);
                const mu_range r = open[i];
                open[i] = open[k], open[k] = r;
            }
            mu_finished_extend(&f, open, n_open, next);
            int64_t n = 0;
            for (int i = 0; i < SAMPLES; i++) n += used[i];
            assert_int_equal(mu_finished_count(&f), n);
        }
        assert_list(&f, SAMPLES, "");
        for (int i = 0; i < SAMPLES; i++)
            if (used[i] != 1) fail_msg("seed %" PRIu64 ", round %d: sample %d used %d times", SEED, round, i,
                                       used[i]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_merging),
        cmocka_unit_test(test_random_ranges),
        cmocka_unit_test(test_bound),
        cmocka_unit_test(test_resumes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
