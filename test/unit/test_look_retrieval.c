// SPDX-License-Identifier: Apache-2.0
// test_look_retrieval.c - ranks against brute force, ties, groups, and what is not a number.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/rng.h"
#include "look/retrieval.h"

#include <math.h>
#include <string.h>

enum { N = 90, D = 7 };

static float random_at(uint64_t seed, uint64_t i) {
    uint32_t w[4];
    mu_rng_block((mu_rng_key){{(uint32_t)seed, 5}}, 0, i, w);
    return 2 * mu_rng_to_uniform(w[0]) - 1;
}

static double distance_of(const float *a, const float *b, mu_distance kind) {
    double dot = 0, aa = 0, bb = 0, square = 0;
    for (int k = 0; k < D; k++) {
        dot += (double)a[k] * (double)b[k];
        aa += (double)a[k] * (double)a[k];
        bb += (double)b[k] * (double)b[k];
        square += ((double)a[k] - (double)b[k]) * ((double)a[k] - (double)b[k]);
    }
    return kind == MU_COSINE ? 1 - dot / sqrt(aa * bb) : square;
}

// Rank straight from the definition.
static int64_t rank_by_hand(const float *q, const float *answers, const int32_t *group, int i,
                            mu_distance kind) {
    double best[N];
    for (int g = 0; g < N; g++) best[g] = INFINITY;
    for (int j = 0; j < N; j++) {
        double d = distance_of(q, answers + j * D, kind);
        if (d < best[group[j]]) best[group[j]] = d;
    }
    int64_t rank = 1;
    for (int g = 0; g < N; g++) rank += g != group[i] && isfinite(best[g]) && best[g] <= best[group[i]];
    return rank;
}

static void test_against_brute_force(void **ctx) {
    (void)ctx;
    for (uint64_t seed = 1; seed <= 6; seed++) {
        static float q[N * D], a[N * D];
        int32_t group[N];
        for (int i = 0; i < N * D; i++) {
            a[i] = random_at(seed, (uint64_t)i);
            q[i] = a[i] + 0.7f * random_at(seed + 100, (uint64_t)i);
        }
        for (int i = 0; i < N; i++) group[i] = seed % 2 ? i / 3 : (i * 7) % 31;
        for (int kind = 0; kind < 2; kind++) {
            mu_retrieval *r;
            mu_recall got;
            mu_err err = {0};
            int64_t rank[N];
            assert_int_equal(mu_retrieval_create(q, a, N, D, (mu_distance)kind, group, &r, &err), MU_OK);
            assert_int_equal(mu_retrieval_score(r, rank, &got, &err), MU_OK);
            double at1 = 0, sum = 0;
            for (int i = 0; i < N; i++) {
                int64_t want = rank_by_hand(q + i * D, a, group, i, (mu_distance)kind);
                if (rank[i] != want)
                    fail_msg("seed %d, kind %d, query %d: rank %d, want %d", (int)seed, kind, i, (int)rank[i],
                             (int)want);
                at1 += want == 1;
                sum += (double)want;
                int64_t top[3];
                assert_int_equal(mu_retrieval_nearest(r, i, 3, top), 3);
                assert_int_equal(want == 1, group[top[0]] == group[i]);
                assert_true(group[top[0]] != group[top[1]] && group[top[1]] != group[top[2]]);
                assert_true(distance_of(q + i * D, a + top[0] * D, (mu_distance)kind) <=
                            distance_of(q + i * D, a + top[2] * D, (mu_distance)kind) + 1e-6);
            }
            assert_true(fabs(got.at1 - at1 / N) < 1e-12 && fabs(got.mean_rank - sum / N) < 1e-9);
            assert_true(got.at1 > 0.1 && got.at1 < 1); // the data is neither trivial nor noise
            assert_true(got.at1 <= got.at5 && got.at5 <= got.at10);
            assert_int_equal(got.groups, seed % 2 ? 30 : 31);
            mu_retrieval_destroy(r);
        }
    }
}

static mu_recall score(const float *q, const float *a, int64_t n, int64_t d, const int32_t *group) {
    mu_retrieval *r;
    mu_recall got;
    mu_err err = {0};
    assert_int_equal(mu_retrieval_create(q, a, n, d, MU_EUCLIDEAN, group, &r, &err), MU_OK);
    assert_int_equal(mu_retrieval_score(r, NULL, &got, &err), MU_OK);
    mu_retrieval_destroy(r);
    return got;
}

static void test_ties_and_broken_codes_find_nothing(void **ctx) {
    (void)ctx;
    const float same[8] = {1, 1, 1, 1, 1, 1, 1, 1};
    mu_recall got = score(same, same, 4, 2, NULL);
    assert_true(got.at1 == 0 && got.median_rank == 4);
    const float broken[4] = {NAN, NAN, NAN, NAN};
    assert_true(score(broken, broken, 4, 1, NULL).at1 == 0);
    const float line[4] = {1, 2, 3, 4};
    assert_true(score(line, line, 4, 1, NULL).at1 == 1);
    assert_true(score(same, same, 4, 2, (const int32_t[]){5, 5, 5, 5}).at1 == 1); // one group only
}

// Three copies of a wrong answer cost one place, not three; any answer of the group is right.
static void test_groups_answer_once(void **ctx) {
    (void)ctx;
    const float q[5] = {0, 10, 10, 10, 20}, a[5] = {4, 1, 1, 1, 20};
    const int32_t group[5] = {0, 1, 1, 1, 2};
    mu_retrieval *r;
    mu_recall got;
    mu_err err = {0};
    int64_t rank[5];
    assert_int_equal(mu_retrieval_create(q, a, 5, 1, MU_EUCLIDEAN, group, &r, &err), MU_OK);
    assert_int_equal(mu_retrieval_score(r, rank, &got, &err), MU_OK);
    assert_int_equal(rank[0], 2);
    assert_int_equal(rank[4], 1);
    assert_int_equal(got.groups, 3);
    mu_retrieval_destroy(r);
}

static void test_rows_are_grouped_by_content(void **ctx) {
    (void)ctx;
    const int32_t rows[6][2] = {{1, 2}, {3, 4}, {1, 2}, {2, 1}, {3, 4}, {0, 0}};
    int32_t group[6];
    mu_err err = {0};
    assert_int_equal(mu_shared_rows(rows, 6, sizeof rows[0], group, &err), MU_OK);
    assert_memory_equal(group, ((const int32_t[]){0, 1, 0, 2, 1, 3}), sizeof group);
}

static void test_no_memory(void **ctx) {
    (void)ctx;
    const float code[4] = {1, 2, 3, 4};
    const int32_t group[4] = {0, 0, 1, 1};
    uint64_t live = mu_alloc_get_stats().n_live;
    mu_status st = MU_ENOMEM;
    for (int n = 1; st != MU_OK; n++) {
        assert_true(n < 100);
        mu_retrieval *r = NULL;
        mu_recall got;
        mu_err err = {0};
        mu_alloc_fail_at(n);
        st = mu_retrieval_create(code, code, 4, 1, MU_COSINE, group, &r, &err);
        if (st == MU_OK) st = mu_retrieval_score(r, NULL, &got, &err);
        mu_alloc_fail_at(0);
        mu_retrieval_destroy(r);
        if (st != MU_OK) assert_int_equal(st, MU_ENOMEM);
        assert_int_equal(mu_alloc_get_stats().n_live, live);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_brute_force), cmocka_unit_test(test_ties_and_broken_codes_find_nothing),
        cmocka_unit_test(test_groups_answer_once),  cmocka_unit_test(test_rows_are_grouped_by_content),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
