// SPDX-License-Identifier: Apache-2.0
// Principal axes: known ones are found, random ones agree with the eigenvectors of the whole covariance.
#include "unit/run_help.h"

#include "look/project.h"

#include <math.h>

static double uniform(uint64_t *seed) { return (double)(next_random(seed) >> 11) * 0x1p-53 - 0.5; }

static void test_jacobi(void **state) {
    (void)state;
    double a[] = {2, 1, 1, 2}, v[4]; // values 1 and 3
    mu_project_jacobi(a, v, 2);
    double lo = fmin(a[0], a[3]), hi = fmax(a[0], a[3]);
    assert_near(lo, 1, 1e-12);
    assert_near(hi, 3, 1e-12);
    uint64_t seed = seed_from_env();
    enum { N = 9 };
    double m[N * N], copy[N * N], u[N * N];
    for (int i = 0; i < N; i++)
        for (int j = 0; j <= i; j++) m[i * N + j] = m[j * N + i] = uniform(&seed);
    memcpy(copy, m, sizeof m);
    mu_project_jacobi(m, u, N);
    for (int j = 0; j < N; j++)
        for (int i = 0; i < N; i++) { // A u = lambda u
            double s = 0;
            for (int k = 0; k < N; k++) s += copy[i * N + k] * u[k * N + j];
            assert_near(s, m[j * (N + 1)] * u[i * N + j], 1e-10);
        }
}

// Points on a line through (1, 2, 2) / 3, a little aside.
static void test_known(void **state) {
    (void)state;
    float x[21 * 3];
    double out[21 * 2], share[2];
    for (int i = 0; i < 21; i++) {
        double t = i - 10, s = i % 2 ? 0.1 : -0.1; // along, and along (2, -2, 1) / 3
        x[3 * i] = (float)(5 + t / 3 + s * 2 / 3);
        x[3 * i + 1] = (float)(-1 + 2 * t / 3 - s * 2 / 3);
        x[3 * i + 2] = (float)(2 * t / 3 + s / 3);
    }
    assert_ok(mu_project_pca(x, 21, 3, 2, out, share, err));
    double mean_s = (10 * 0.1 - 11 * 0.1) / 21, along = 770, aside = 21 * (0.01 - mean_s * mean_s);
    for (int i = 0; i < 21; i++) assert_near(out[2 * i], i - 10, 5e-3); // largest entry is positive
    assert_near(share[0], along / (along + aside), 1e-4);
    assert_near(share[1], aside / (along + aside), 1e-4);
}

static void test_against_covariance(void **state) {
    (void)state;
    uint64_t seed = seed_from_env();
    enum { N = 300, D = 24, K = 3 };
    static float x[N * D];
    static double cov[D * D], v[D * D], out[N * K];
    double share[K], mean[D] = {0}, total = 0;
    for (int i = 0; i < N; i++)
        for (int j = 0; j < D; j++) x[i * D + j] = (float)(uniform(&seed) * pow(0.8, j) + 3);
    for (int i = 0; i < N * D; i++) mean[i % D] += (double)x[i] / N;
    memset(cov, 0, sizeof cov);
    for (int r = 0; r < N; r++)
        for (int i = 0; i < D; i++)
            for (int j = 0; j < D; j++)
                cov[i * D + j] += ((double)x[r * D + i] - mean[i]) * ((double)x[r * D + j] - mean[j]);
    for (int i = 0; i < D; i++) total += cov[i * (D + 1)];
    mu_project_jacobi(cov, v, D);
    assert_ok(mu_project_pca(x, N, D, K, out, share, err));
    for (int k = 0; k < K; k++) { // the k-th largest value and its vector
        int best = 0;
        for (int i = 1; i < D; i++)
            if (cov[i * (D + 1)] > cov[best * (D + 1)]) best = i;
        assert_near(share[k], cov[best * (D + 1)] / total, 1e-9);
        double sign = 0;
        for (int r = 0; r < N; r++) {
            double s = 0;
            for (int i = 0; i < D; i++) s += ((double)x[r * D + i] - mean[i]) * v[i * D + best];
            if (sign == 0) sign = s * out[r * K + k] < 0 ? -1 : 1;
            if (fabs(out[r * K + k] - sign * s) > 1e-5)
                fail_msg("axis %d, row %d: %.9g, not %.9g", k, r, out[r * K + k], sign * s);
        }
        cov[best * (D + 1)] = -1;
    }
}

static void test_degenerate(void **state) {
    (void)state;
    const float same[] = {1, 2, 1, 2, 1, 2}, odd[] = {1, 2, NAN, 4};
    double out[6], share[2], again[6];
    assert_ok(mu_project_pca(same, 3, 2, 2, out, share, err));
    for (int i = 0; i < 6; i++) assert_near(out[i], 0, 0);
    assert_near(share[0], 0, 0);
    assert_ok(mu_project_pca(same, 1, 2, 2, out, share, err)); // one point
    const float line[] = {1, 1, 2, 2, 4, 4};
    assert_ok(mu_project_pca(line, 3, 2, 2, out, share, err)); // rank 1: nothing is left for the second
    assert_near(share[0], 1, 1e-9);
    assert_near(share[1], 0, 1e-9);
    assert_ok(mu_project_pca(line, 3, 2, 2, again, share, err));
    assert_memory_equal(out, again, sizeof out);
    assert_fails(mu_project_pca(odd, 2, 2, 2, out, share, err), MU_EDATA, "value 0 of row 1 is nan");
    assert_fails(mu_project_pca(line, 3, 2, 3, out, share, err), MU_EUSAGE, "no 3 principal axes");
    for (int64_t n = 1;; n++) {
        uint64_t live = mu_alloc_get_stats().n_live;
        mu_err err = {0};
        mu_alloc_fail_at(n);
        mu_status st = mu_project_pca(line, 3, 2, 2, out, share, &err);
        mu_alloc_fail_at(0);
        assert_int_equal(mu_alloc_get_stats().n_live, live);
        if (st == MU_OK) break;
        assert_int_equal(st, MU_ENOMEM);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_jacobi),
        cmocka_unit_test(test_known),
        cmocka_unit_test(test_against_covariance),
        cmocka_unit_test(test_degenerate),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
