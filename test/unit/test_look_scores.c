// SPDX-License-Identifier: Apache-2.0
// Scores of answers: against numbers worked out by hand, against scikit-learn's on the same made-up answers,
// and against brute force.
#include "unit/run_help.h"

#include "layer/score.h"
#include "look/scores.h"

#include <math.h>

static void assert_rates(mu_rates got, double precision, double recall, double f1) {
    const double want[3] = {precision, recall, f1}, is[3] = {got.precision, got.recall, got.f1};
    for (int i = 0; i < 3; i++) {
        if (isnan(want[i]) != isnan(is[i])) fail_msg("value %d is %g, not %g", i, is[i], want[i]);
        if (!isnan(want[i])) assert_near(is[i], want[i], 1e-11);
    }
}

// A sample of class `truth` that is answered by `answer` with logits 1 and 0.
static void answer(mu_class_scores *s, int64_t truth, int64_t answered, int times) {
    float score[16] = {0};
    score[answered] = 1;
    for (int i = 0; i < times; i++) mu_class_scores_add(s, score, truth, MU_SCORES_ONLY);
}

// Three classes and a fourth of which nobody ever spoke:
//             answered 0  1  2
//   truth 0            4  1  0     precision 4/6, recall 4/5, f1 8/11
//   truth 1            2  0  0     precision 0/1, recall 0/2, f1 0
//   truth 2            0  0  0     no samples, no answers
static void test_by_hand(void **state) {
    (void)state;
    mu_class_scores s;
    assert_ok(mu_class_scores_init(&s, 4, err));
    assert_true(isnan(mu_class_scores_accuracy(&s)));
    assert_rates(mu_class_scores_mean(&s, false), NAN, NAN, NAN);
    answer(&s, 0, 0, 4), answer(&s, 0, 1, 1), answer(&s, 1, 0, 2);
    assert_rates(mu_class_scores_of(&s, 0), 4.0 / 6, 4.0 / 5, 8.0 / 11);
    assert_rates(mu_class_scores_of(&s, 1), 0, 0, 0);
    assert_rates(mu_class_scores_of(&s, 2), NAN, NAN, NAN);
    assert_rates(mu_class_scores_mean(&s, false), 4.0 / 6 / 2, 4.0 / 5 / 2, 8.0 / 11 / 2);
    assert_rates(mu_class_scores_mean(&s, true), 4.0 / 6 * 5 / 7, 4.0 / 7, 8.0 / 11 * 5 / 7);
    assert_near(mu_class_scores_accuracy(&s), 4.0 / 7, 1e-12);
    assert_true(isnan(mu_class_scores_top5(&s)));        // of four classes five are always right
    assert_true(isnan(mu_class_scores_calibration(&s))); // no probabilities
    assert_true(isnan(mu_class_scores_confidence(&s)));
    // a class that is answered but has no samples: precision 0, no recall, f1 0
    answer(&s, 0, 3, 1);
    assert_rates(mu_class_scores_of(&s, 3), 0, NAN, 0);
    // scores that are no numbers: a sample of its class that nobody answered
    const float nan[4] = {0, NAN, 1, 0};
    mu_class_scores_add(&s, nan, 2, MU_SCORES_LOGITS);
    assert_rates(mu_class_scores_of(&s, 2), NAN, 0, 0);
    assert_int_equal(s.broken, 1);
    assert_int_equal(s.samples, 9);
    assert_near(mu_class_scores_accuracy(&s), 4.0 / 9, 1e-12);
    assert_true(isnan(mu_class_scores_calibration(&s)));
    mu_class_scores_fini(&s);
}

// Recorded from scikit-learn 1.2 for exactly these answers. It had no zero_division=nan then: its means were
// taken over the `labels` for which the value is defined, which is the same.
static void test_against_scikit_learn(void **state) {
    (void)state;
    enum { N = 200, C = 8 };
    mu_class_scores s;
    assert_ok(mu_class_scores_init(&s, C, err));
    for (int i = 0; i < N; i++) {
        float score[C];
        const int truth = (i * i * 5 + i / 3) % 6;
        for (int k = 0; k < C; k++) score[k] = (float)((i * 37 + k * 101 + i * k * 13) % 64) / 16;
        score[7] = -9, score[2] = -5;
        if (i % 2 == 0) score[truth == 2 ? 0 : truth] += 2;
        mu_class_scores_add(&s, score, truth, MU_SCORES_LOGITS);
    }
    static const struct {
        double precision, recall, f1;
        int support;
    } want[C] = {
        {0.315068493151, 0.511111111111, 0.389830508475, 45},
        {0.25, 0.181818181818, 0.210526315789, 22},
        {NAN, 0, 0, 44},
        {0.428571428571, 0.545454545455, 0.48, 22},
        {0.454545454545, 0.340909090909, 0.38961038961, 44},
        {0.290322580645, 0.391304347826, 0.333333333333, 23},
        {0, NAN, 0, 0},
        {NAN, NAN, NAN, 0},
    };
    for (int k = 0; k < C; k++) {
        assert_rates(mu_class_scores_of(&s, k), want[k].precision, want[k].recall, want[k].f1);
        assert_int_equal(s.support[k], want[k].support);
    }
    assert_rates(mu_class_scores_mean(&s, false), 0.289751326152, 0.32843287952, 0.257614363887);
    assert_rates(mu_class_scores_mean(&s, true), 0.357590211379, 0.315, 0.287717378191);
    assert_near(mu_class_scores_accuracy(&s), 0.315, 1e-12);
    assert_near(mu_class_scores_top5(&s), 0.7, 1e-12);
    assert_near(mu_class_scores_calibration(&s), 0.191043335147, 1e-11); // of NumPy
    assert_near(mu_class_scores_confidence(&s), 0.464242082134, 1e-11);
    mu_class_scores_fini(&s);
}

// Bins are (b / 15, (b + 1) / 15]. Two answers of 0.9 and two of 0.59, of which 1 and 2 are right; one of
// 0.19 that is right shares the bin that ends at 3/15 with one of 0.17 that is not:
//   |1 - 1.8| + |2 - 1.18| + |1 - 0.36| of 6.
static void test_calibration(void **state) {
    (void)state;
    mu_class_scores s;
    assert_ok(mu_class_scores_init(&s, 8, err));
    static const struct {
        float top;
        bool right;
    } of[] = {{0.9f, true}, {0.9f, false}, {0.59f, true}, {0.59f, true}, {0.19f, true}, {0.17f, false}};
    for (size_t i = 0; i < MU_COUNT(of); i++) {
        float p[8];
        for (int k = 0; k < 8; k++) p[k] = (1 - of[i].top) / 7;
        p[3] = of[i].top;
        mu_class_scores_add(&s, p, of[i].right ? 3 : 1, MU_SCORES_PROBABILITIES);
    }
    assert_near(mu_class_scores_calibration(&s), (0.8 + 0.82 + 0.64) / 6, 1e-7);
    assert_near(mu_class_scores_confidence(&s), (1.8 + 1.18 + 0.36) / 6, 1e-7);
    mu_class_scores_fini(&s);
    // the ends: certain, and as unsure as can be
    assert_ok(mu_class_scores_init(&s, 2, err));
    const float sure[2] = {INFINITY, 0}, even[2] = {3, 3}, nothing[2] = {-INFINITY, -INFINITY};
    assert_near(mu_scores_confidence(sure, 2, 0, MU_SCORES_LOGITS), 1, 0);
    assert_near(mu_scores_confidence(even, 2, 0, MU_SCORES_LOGITS), 0.5, 0);
    assert_near(mu_scores_confidence(nothing, 2, 0, MU_SCORES_LOGITS), 0.5, 0);
    mu_class_scores_add(&s, sure, 0, MU_SCORES_LOGITS);
    assert_int_equal(s.bin[MU_CALIBRATION_BINS - 1].n, 1);
    mu_class_scores_add(&s, even, 0, MU_SCORES_LOGITS);
    assert_int_equal(s.bin[7].n, 1);
    assert_near(mu_class_scores_calibration(&s), 0.25, 1e-12);
    mu_class_scores_fini(&s);
    // a third is 5/15 and belongs to the bin that ends there
    assert_ok(mu_class_scores_init(&s, 3, err));
    mu_class_scores_add(&s, (const float[3]){2, 2, 2}, 1, MU_SCORES_LOGITS);
    assert_int_equal(s.bin[4].n, 1);
    mu_class_scores_fini(&s);
}

// Many classes have no matrix, and the same numbers.
static void test_many_classes(void **state) {
    (void)state;
    uint64_t seed = seed_from_env();
    enum { C = MU_CONFUSION_MOST + 1, N = 400 };
    static float score[C];
    int64_t right = 0, top5 = 0;
    mu_class_scores s;
    assert_ok(mu_class_scores_init(&s, C, err));
    assert_null(s.confusion.count);
    for (int i = 0; i < N; i++) {
        const int64_t truth = (int64_t)(next_random(&seed) % C);
        for (int k = 0; k < C; k++) score[k] = (float)(next_random(&seed) % 1000);
        score[truth] += 997;
        right += mu_score_rank(score, C, truth) == 0;
        top5 += mu_score_rank(score, C, truth) < 5;
        mu_class_scores_add(&s, score, truth, MU_SCORES_LOGITS);
    }
    assert_int_equal(s.right, right);
    assert_near(mu_class_scores_top5(&s), (double)top5 / N, 1e-12);
    assert_near(mu_class_scores_mean(&s, true).recall, (double)right / N, 1e-12); // what accuracy is
    mu_class_scores_fini(&s);
    assert_ok(mu_class_scores_init(&s, MU_CONFUSION_MOST, err));
    assert_non_null(s.confusion.count);
    mu_class_scores_fini(&s);
}

static void test_order(void **state) {
    (void)state;
    mu_class_scores s;
    int64_t out[8];
    assert_ok(mu_class_scores_init(&s, 6, err));
    answer(&s, 0, 0, 3), answer(&s, 1, 1, 5), answer(&s, 1, 2, 5); // f1: 1, 2/3, 0
    answer(&s, 3, 4, 2);                                           // 3 and 4: 0
    static const int64_t worst[] = {3, 2, 4, 1, 0}, large[] = {1, 0, 3, 2, 4, 5};
    assert_int_equal(mu_class_scores_order(&s, MU_BY_WORST_F1, out, 8), 5); // nobody spoke of 5
    assert_memory_equal(out, worst, sizeof worst);
    assert_int_equal(mu_class_scores_order(&s, MU_BY_SUPPORT, out, 8), 6);
    assert_memory_equal(out, large, sizeof large);
    for (int most = 0; most < 5; most++) {
        assert_int_equal(mu_class_scores_order(&s, MU_BY_WORST_F1, out, most), most);
        assert_memory_equal(out, worst, (size_t)most * sizeof *out);
    }
    mu_class_scores_fini(&s);
}

// ---- numbers ----

static void assert_errors(mu_errors got, double rmse, double mae, double r2) {
    assert_near(got.rmse, rmse, 1e-10);
    assert_near(got.mae, mae, 1e-10);
    if (isnan(r2)) assert_true(isnan(got.r2));
    else assert_near(got.r2, r2, 1e-10);
}

// Targets 1, 2, 6 with answers 2, 2, 4: errors 1, 0, -2. Mean target 3, spread 4 + 1 + 9 = 14.
// A second output whose target never changes has no R2, and the mean leaves it out.
static void test_numbers_by_hand(void **state) {
    (void)state;
    mu_number_scores s;
    int64_t out[4];
    assert_ok(mu_number_scores_init(&s, 2, err));
    assert_true(isnan(mu_number_scores_all(&s).rmse)); // nothing yet
    assert_true(isnan(mu_number_scores_of(&s, 0).mae));
    const double target[3] = {1, 2, 6}, answered[3] = {2, 2, 4};
    for (int i = 0; i < 3; i++) {
        mu_number_scores_add(&s, 0, answered[i], target[i]);
        mu_number_scores_add(&s, 1, 0.3, 0.1);
    }
    assert_errors(mu_number_scores_of(&s, 0), sqrt(5.0 / 3), 1, 1 - 5.0 / 14);
    assert_errors(mu_number_scores_of(&s, 1), 0.2, 0.2, NAN);
    assert_errors(mu_number_scores_all(&s), sqrt(5.12 / 6), 3.6 / 6, 1 - 5.0 / 14);
    assert_int_equal(mu_number_scores_worst(&s, out, 4), 1);
    assert_int_equal(out[0], 0);
    mu_number_scores_add(&s, 1, NAN, 1); // the first output has its R2 still
    assert_errors(mu_number_scores_of(&s, 0), sqrt(5.0 / 3), 1, 1 - 5.0 / 14);
    assert_true(isnan(mu_number_scores_all(&s).rmse) && isnan(mu_number_scores_all(&s).r2));
    mu_number_scores_fini(&s);
}

static void test_numbers_against_scikit_learn(void **state) {
    (void)state;
    mu_number_scores s;
    int64_t out[2];
    assert_ok(mu_number_scores_init(&s, 3, err));
    for (int i = 0; i < 40; i++)
        for (int k = 0; k < 3; k++) {
            const double target = ((i * 29 + k * 17 + i * k * 7) % 50) / 8.0;
            const double answered = target + ((i * 11 + k * 5) % 9 - 4) / 4.0;
            mu_number_scores_add(&s, k, k == 2 ? answered * 0.5 - 1 : answered, target);
        }
    assert_errors(mu_number_scores_of(&s, 0), 0.642261628933, 0.55, 0.876019958908);
    assert_errors(mu_number_scores_of(&s, 1), 0.649519052838, 0.5625, 0.868573167022);
    assert_errors(mu_number_scores_of(&s, 2), 2.66707353667, 2.484375, -1.34740573638);
    assert_errors(mu_number_scores_all(&s), 1.62764208289, 1.19895833333, 0.132395796515);
    assert_int_equal(mu_number_scores_worst(&s, out, 2), 2);
    assert_int_equal(out[0], 2);
    assert_int_equal(out[1], 1);
    mu_number_scores_fini(&s);
}

// Whichever allocation fails, the answer is "no memory" and nothing stays behind.
static void test_no_memory(void **state) {
    (void)state;
    const uint64_t live = mu_alloc_get_stats().n_live;
    for (int64_t n = 1; n <= 5; n++) {
        mu_class_scores c = {0};
        mu_number_scores v = {0};
        mu_err err = {0};
        mu_alloc_fail_at(n);
        mu_status st = mu_class_scores_init(&c, 3, &err);
        if (st == MU_OK) st = mu_number_scores_init(&v, 3, &err);
        mu_alloc_fail_at(0);
        if (st != MU_ENOMEM) fail_msg("allocation %d fails: status %d", (int)n, (int)st);
        mu_class_scores_fini(&c);
        mu_number_scores_fini(&v);
    }
    assert_int_equal(mu_alloc_get_stats().n_live, live);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_by_hand),
        cmocka_unit_test(test_against_scikit_learn),
        cmocka_unit_test(test_calibration),
        cmocka_unit_test(test_many_classes),
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_numbers_by_hand),
        cmocka_unit_test(test_numbers_against_scikit_learn),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
