// SPDX-License-Identifier: Apache-2.0
// Confusion counts against brute force, and the ranking of mistakes.
#include "unit/run_help.h"

#include "layer/score.h"
#include "look/confusion.h"

#include <math.h>

static void test_against_brute_force(void **state) {
    (void)state;
    uint64_t seed = seed_from_env();
    enum { C = 7, N = 3000 };
    int32_t want[C][C] = {{0}};
    int64_t right = 0, broken = 0;
    mu_confusion c;
    assert_ok(mu_confusion_init(&c, C, err));
    for (int i = 0; i < N; i++) {
        float score[C];
        for (int k = 0; k < C; k++) score[k] = (float)(next_random(&seed) % 5) - 2; // ties are frequent
        if (i % 50 == 0) score[next_random(&seed) % C] = NAN;
        if (i % 70 == 0) score[next_random(&seed) % C] = INFINITY;
        int truth = (int)(next_random(&seed) % C), answer = -1;
        for (int k = 0; k < C; k++) // who stands first in accuracy's own order; nobody beside a NaN
            if (mu_score_rank(score, C, k) == 0) answer = k;
        if (answer >= 0) want[truth][answer]++;
        broken += answer < 0;
        right += mu_score_rank(score, C, truth) == 0;
        mu_confusion_count(&c, score, truth);
    }
    for (int t = 0; t < C; t++) {
        int64_t row = 0;
        for (int a = 0; a < C; a++) {
            row += want[t][a];
            if (c.count[t * C + a] != want[t][a])
                fail_msg("%d for %d: %d, not %d", a, t, c.count[t * C + a], want[t][a]);
        }
        assert_int_equal(mu_confusion_truths(&c, t), row);
    }
    assert_int_equal(c.samples, N);
    assert_int_equal(c.right, right);
    assert_int_equal(c.broken, broken);
    assert_true(broken > 0);
    mu_confusion_fini(&c);
}

static void test_mistakes(void **state) {
    (void)state;
    mu_confusion c;
    mu_mistake m[4];
    assert_ok(mu_confusion_init(&c, 4, err));
    assert_int_equal(mu_confusion_mistakes(&c, m, 4), 0);
    const int32_t count[16] = {90, 3, 0, 5, /**/ 1, 80, 9, 0, /**/ 5, 2, 70, 0, /**/ 0, 0, 4, 60};
    memcpy(c.count, count, sizeof count);
    assert_int_equal(mu_confusion_mistakes(&c, m, 4), 4);
    const int64_t want[4][3] = {
        {1, 2, 9}, {0, 3, 5}, {2, 0, 5}, {3, 2, 4}}; // the first of equals stays first
    for (int i = 0; i < 4; i++) {
        assert_int_equal(m[i].truth, want[i][0]);
        assert_int_equal(m[i].answer, want[i][1]);
        assert_int_equal(m[i].count, want[i][2]);
    }
    mu_confusion_fini(&c);
    assert_fails(mu_confusion_init(&c, 0, err), MU_EUSAGE, "0 classes");
    assert_fails(mu_confusion_init(&c, 1000000, err), MU_EUSAGE, "beyond the limit");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_brute_force),
        cmocka_unit_test(test_mistakes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
