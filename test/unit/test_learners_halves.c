// SPDX-License-Identifier: Apache-2.0
// test_learners_halves.c - sums in half width over many steps: what was sent is, all in all, what was to be
// sent, however small it is; without what was left of the steps before it is not.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "learners/halves.h"

#include <math.h>
#include <string.h>

enum { N = 3000, STEPS = 200 };

// Gradients that go on pointing somewhere, and noise ten times as large.
static void gradient(int step, double size, float *v) {
    for (int i = 0; i < N; i++)
        v[i] = (float)(size * (cos(i) + 10 * sin(1e4 * i + 77.7 * step * (1 + i % 13))));
}

// How far the sum of what all got in 200 steps is from what it should be, relative. forgets: as if nothing
// was kept of the step before.
static double error_of(mu_half form, double size, bool forgets) {
    static double want[N], got[N];
    static float v[N], sent[N];
    mu_halves h;
    mu_err err = {0};
    double all = 0, off = 0;
    memset(want, 0, sizeof want);
    memset(got, 0, sizeof got);
    if (mu_halves_init(&h, form, N + 5, &err) != MU_OK) fail_msg("%s", err.msg);
    for (int step = 0; step < STEPS; step++) {
        gradient(step, size, v);
        for (int i = 0; i < N; i++) want[i] += (double)v[i];
        mu_halves_round(&h, step, 5, N, v);
        if (form) mu_half_widen(form, N, mu_halves_of(&h, step, 5, v), sent);
        else memcpy(sent, mu_halves_of(&h, step, 5, v), sizeof sent);
        assert_memory_equal(sent, v, sizeof v); // who made it has what all others get
        for (int i = 0; i < N; i++) got[i] += (double)sent[i];
        if (forgets) memset(h.left, 0, (N + 5) * sizeof *h.left);
    }
    for (int i = 0; i < N; i++) all += want[i] * want[i], off += (got[i] - want[i]) * (got[i] - want[i]);
    for (int k = 0; k < 2; k++) mu_free(h.out[k]), h.out[k] = NULL;
    mu_halves_fini(&h, NULL);
    return sqrt(off / all);
}

static void test_feedback(void **unused) {
    (void)unused;
    assert_true(error_of(MU_HALF_NONE, 1e-3, false) == 0);
    const struct {
        mu_half form;
        double size, most; // error with feedback
    } cases[] = {
        {MU_HALF_BF16, 1e-3, 5e-4}, {MU_HALF_BF16, 1e-9, 5e-4},
        {MU_HALF_FP16, 1e-3, 5e-5}, {MU_HALF_FP16, 1e-9, 2e-1}, // far below the smallest that fp16 has, 6e-8
        {MU_HALF_FP16, 3e4, 2e-1},                              // beyond the largest
    };
    for (size_t c = 0; c < MU_COUNT(cases); c++) {
        const double with = error_of(cases[c].form, cases[c].size, false);
        const double without = error_of(cases[c].form, cases[c].size, true);
        if (!(with <= cases[c].most && without >= 5 * with))
            fail_msg("case %zu: %g with feedback, %g without", c, with, without);
    }
}

static void test_no_memory(void **unused) {
    (void)unused;
    mu_status st = MU_ENOMEM;
    int n = 1;
    for (; st == MU_ENOMEM; n++) {
        mu_halves h;
        mu_err err = {0};
        mu_alloc_fail_at(n);
        st = mu_halves_init(&h, MU_HALF_FP16, 100, &err);
        mu_alloc_fail_at(0);
        for (int k = 0; k < 2; k++) mu_free(h.out[k]), h.out[k] = NULL;
        mu_halves_fini(&h, NULL);
    }
    assert_int_equal(st, MU_OK);
    assert_int_equal(n, 5); // three blocks
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_feedback), cmocka_unit_test(test_no_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
