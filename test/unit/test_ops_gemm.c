// SPDX-License-Identifier: Apache-2.0
// test_ops_gemm.c - mu_gemm against mu_gemm_ref over all forms, sizes around every switch between the
// libraries, padded leading dimensions and both values of beta; the reference against a hand count; and first
// products in limited memory.
#include "base/startup.h"
#include "base/alloc.h"
#include "base/rng.h"
#include "ops/gemm.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static const uint64_t seed = 4711;

static float *draw(int64_t n, const char *purpose) {
    float *p = mu_alloc_array((size_t)n, sizeof *p, "test");
    assert_non_null(p);
    mu_rng_fill_gaussian(mu_rng_key_make(seed, purpose), 0, 0, p, (size_t)n);
    return p;
}

// Elements of C beyond column n (the padding of ldc) must stay as they were.
static void compare(bool ta, bool tb, int64_t m, int64_t n, int64_t k, int64_t pad, float beta) {
    int64_t lda = (ta ? m : k) + pad, ldb = (tb ? k : n) + pad, ldc = n + pad;
    float *a = draw((ta ? k : m) * lda, "a"), *b = draw((tb ? n : k) * ldb, "b");
    float *got = draw(m * ldc, "c"), *want = draw(m * ldc, "c");
    mu_gemm(ta, tb, m, n, k, a, lda, b, ldb, beta, got, ldc);
    mu_gemm_ref(ta, tb, m, n, k, a, lda, b, ldb, beta, want, ldc);
    double tolerance = 1e-5 * (1 + sqrt((double)k));
    for (int64_t i = 0; i < m * ldc; i++)
        if (!(fabs((double)got[i] - (double)want[i]) <= (i % ldc < n ? tolerance : 0)))
            fail_msg("%c%c %ldx%ldx%ld +%ld beta %g by %s: c[%ld][%ld] = %.9g, want %.9g +- %.2g (seed %llu)",
                     ta ? 'T' : 'N', tb ? 'T' : 'N', (long)m, (long)n, (long)k, (long)pad, (double)beta,
                     mu_gemm_choice(ta, tb, m, n, k), (long)(i / ldc), (long)(i % ldc), (double)got[i],
                     (double)want[i], tolerance, (unsigned long long)seed);
    mu_free(a);
    mu_free(b);
    mu_free(got);
    mu_free(want);
}

static void agrees_with_reference(void **state) {
    (void)state;
    static const int64_t size[][3] = {
        {1, 1, 1},     {1, 7, 3},    {2, 2, 127},   {8, 8, 8},      {8, 8, 9},
        {1, 100, 64},  {4, 130, 33}, {16, 127, 40}, {16, 128, 40},  {17, 33, 1024},
        {33, 129, 65}, {64, 64, 64}, {65, 64, 64},  {100, 10, 250}, {5, 300, 300},
    };
    for (size_t s = 0; s < sizeof size / sizeof size[0]; s++)
        for (int form = 0; form < 4; form++)
            for (int rest = 0; rest < 4; rest++)
                compare(form & 1, form & 2, size[s][0], size[s][1], size[s][2], rest & 1 ? 5 : 0,
                        rest & 2 ? 1.0f : 0.0f);
}

// beta 0 means "overwrite": what was in C, even NaN, must not come through.
static void beta_zero_ignores_old_values(void **state) {
    (void)state;
    static const int64_t size[] = {3, 16, 40, 70};
    for (size_t s = 0; s < sizeof size / sizeof size[0]; s++) {
        int64_t n = size[s];
        float *a = draw(n * n, "a"), *c = draw(n * n, "c");
        for (int64_t i = 0; i < n * n; i++) c[i] = NAN;
        mu_gemm(false, false, n, n, n, a, n, a, n, 0.0f, c, n);
        for (int64_t i = 0; i < n * n; i++) assert_true(c[i] == c[i]);
        mu_free(a);
        mu_free(c);
    }
}

static void reference_is_right(void **state) {
    (void)state;
    const float a[] = {1, 2, 3, 4, 5, 6}, b[] = {7, 8, 9, 10, 11, 12}; // 2x3 and 3x2
    const float ab[] = {58, 64, 139, 154}, atbt[] = {39, 49, 59, 54, 68, 82, 69, 87, 105};
    float c[9] = {1, 1, 1, 1};
    mu_gemm_ref(false, false, 2, 2, 3, a, 3, b, 2, 0.0f, c, 2);
    for (int i = 0; i < 4; i++) assert_true(c[i] == ab[i]);
    mu_gemm_ref(false, false, 2, 2, 3, a, 3, b, 2, 1.0f, c, 2);
    for (int i = 0; i < 4; i++) assert_true(c[i] == 2 * ab[i]);
    mu_gemm_ref(true, true, 3, 3, 2, a, 3, b, 2, 0.0f, c, 3);
    for (int i = 0; i < 9; i++) assert_true(c[i] == atbt[i]);
}

static void choice_has_a_name(void **state) {
    (void)state;
    assert_string_equal(mu_gemm_choice(false, false, 2, 2, 2), "plain");
    const char *big = mu_gemm_choice(false, false, 256, 256, 256);
    assert_true(!strcmp(big, "onednn") || !strcmp(big, "openblas") || !strcmp(big, "plain"));
}

// ---- first products in limited memory ----

static rlim_t used_bytes(void) {
    long pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    if (!f || fscanf(f, "%ld", &pages) != 1) pages = 0;
    if (f) fclose(f);
    return (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE);
}

// 0: the product is right, and took no memory of the heap.
static int first_product(rlim_t room) {
    enum { N = 48 };                    // one for OpenBLAS, where that is there
    static float a[N * N], got[N * N], want[N * N];
    mu_rng_fill_gaussian(mu_rng_key_make(seed, "a"), 0, 0, a, N * N);
    mu_gemm_ref(false, true, N, N, N, a, N, a, N, 0.0f, want, N);
    const rlim_t most = used_bytes() + room;
    if (setrlimit(RLIMIT_AS, &(struct rlimit){most, most})) return 2;
    const uint64_t before = mu_alloc_get_stats().n_calls;
    mu_gemm(false, true, N, N, N, a, N, a, N, 0.0f, got, N);
    if (mu_alloc_get_stats().n_calls != before) return 3;
    for (int i = 0; i < N * N; i++)
        if (!(fabsf(got[i] - want[i]) <= 1e-4f)) return 4;
    return 0;
}

// OpenBLAS wants more than 100 MiB for itself: it gets them, or another multiplies. Each product is the first
// of a process, so this test comes before the others.
static void first_product_in_little_memory(void **state) {
    (void)state;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    skip();                             // their own memory is beyond any limit
#endif
    static const rlim_t room[] = {(rlim_t)64 << 20, (rlim_t)1 << 30};
    for (size_t i = 0; i < sizeof room / sizeof room[0]; i++) {
        const pid_t pid = fork();
        assert_true(pid >= 0);
        if (!pid) {
            alarm(60);                  // a hang
            _exit(first_product(room[i]));
        }
        int status = 0;
        assert_int_equal(waitpid(pid, &status, 0), pid);
        if (status) fail_msg("room for %zu MiB: status %#x", (size_t)(room[i] >> 20), (unsigned)status);
    }
}

int main(MU_UNUSED int argc, char **argv) {
    mu_startup_begin_anew(argv);        // as the program: OpenBLAS without a thread for every core
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(first_product_in_little_memory),
        cmocka_unit_test(reference_is_right),
        cmocka_unit_test(agrees_with_reference),
        cmocka_unit_test(beta_zero_ignores_old_values),
        cmocka_unit_test(choice_has_a_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
