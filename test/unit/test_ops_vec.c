// SPDX-License-Identifier: Apache-2.0
// test_ops_vec.c - the vector functions against libm in double, and partial loads and stores.
#include "ops/vec.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <float.h>
#include <math.h>

typedef mu_vec (*vector_function)(mu_vec);
static mu_vec v_exp(mu_vec x) { return mu_vec_exp(x); }
static mu_vec v_tanh(mu_vec x) { return mu_vec_tanh(x); }
static mu_vec v_log(mu_vec x) { return mu_vec_log(x); }
static mu_vec v_rsqrt(mu_vec x) { return mu_vec_rsqrt(x); }
static double d_rsqrt(double x) { return 1.0 / sqrt(x); }

// Steps through [from, to] and returns the largest error relative to max(|y|, floor).
static double worst_error(vector_function f, double (*oracle)(double), double from, double to, double floor) {
    double worst = 0;
    float x[MU_LANES], y[MU_LANES];
    const int n = 200000;
    for (int i = 0; i < n; i += MU_LANES) {
        for (int j = 0; j < MU_LANES; j++) x[j] = (float)(from + (to - from) * (i + j) / n);
        mu_vec_store(y, f(mu_vec_load(x, MU_LANES)), MU_LANES);
        for (int j = 0; j < MU_LANES; j++) {
            double want = oracle((double)x[j]), error = fabs((double)y[j] - want) / fmax(fabs(want), floor);
            if (error > worst) worst = error;
        }
    }
    return worst;
}

static void check(const char *name, double worst, double limit) {
    print_message("  %-24s worst relative error %.2e, limit %.1e\n", name, worst, limit);
    if (!(worst <= limit)) fail_msg("%s: error %g over limit %g", name, worst, limit);
}

static void functions_are_accurate(void **state) {
    (void)state;
    check("exp [-87,88]", worst_error(v_exp, exp, -87, 88, 0), 2e-7);
    check("exp [-1,1]", worst_error(v_exp, exp, -1, 1, 0), 2e-7);
    check("exp below normal", worst_error(v_exp, exp, -103, -87, (double)FLT_MIN), 3e-7);
    check("tanh [-12,12]", worst_error(v_tanh, tanh, -12, 12, 0), 3e-7);
    check("tanh [-1e-3,1e-3]", worst_error(v_tanh, tanh, -1e-3, 1e-3, 1e-30), 3e-7);
    check("log [0.01,1000]", worst_error(v_log, log, 0.01, 1000, 1e-2), 3e-7);
    check("log near 1", worst_error(v_log, log, 0.5, 2, 1e-3), 3e-7);
    check("rsqrt [1e-3,1e3]", worst_error(v_rsqrt, d_rsqrt, 1e-3, 1e3, 0), 2e-7);
}

static float one(vector_function f, float x) { return f(mu_vec_set(x))[0]; }

static void special_values(void **state) {
    (void)state;
    assert_true(one(v_exp, INFINITY) == INFINITY);
    assert_true(one(v_exp, 1e30f) == INFINITY);
    assert_true(one(v_exp, 88.8f) == INFINITY);
    assert_true(one(v_exp, -INFINITY) == 0.0f);
    assert_true(one(v_exp, -1e30f) == 0.0f);
    assert_true(one(v_exp, 0.0f) == 1.0f);
    assert_true(isnan(one(v_exp, NAN)));
    assert_true(one(v_tanh, INFINITY) == 1.0f);
    assert_true(one(v_tanh, -INFINITY) == -1.0f);
    assert_true(one(v_tanh, -1e30f) == -1.0f);
    assert_true(one(v_tanh, 0.0f) == 0.0f);
    assert_true(isnan(one(v_tanh, NAN)));
    assert_true(one(v_log, 1.0f) == 0.0f);
}

static void parts_touch_only_themselves(void **state) {
    (void)state;
    for (int n = 1; n <= MU_LANES + 3; n++) {
        float from[2 * MU_LANES], to[2 * MU_LANES];
        uint8_t bytes[2 * MU_LANES], out[2 * MU_LANES];
        int whole = n < MU_LANES ? n : MU_LANES;
        for (int i = 0; i < 2 * MU_LANES; i++) {
            from[i] = (float)(i + 1), bytes[i] = (uint8_t)(200 + i);
            to[i] = -1, out[i] = 7;
        }
        mu_vec v = mu_vec_load(from, n);
        for (int i = 0; i < MU_LANES; i++) assert_true(v[i] == (i < n ? (float)(i + 1) : 0.0f));
        mu_vec_store(to, v, n);
        for (int i = 0; i < 2 * MU_LANES; i++) assert_true(to[i] == (i < whole ? (float)(i + 1) : -1.0f));
        mu_veci b = mu_veci_load_u8(bytes, n);
        for (int i = 0; i < MU_LANES; i++) assert_int_equal(b[i], i < n ? 200 + i : 0);
        mu_veci_store_u8(out, b, n);
        for (int i = 0; i < 2 * MU_LANES; i++) assert_int_equal(out[i], i < whole ? 200 + i : 7);
    }
}

static void masks_choose(void **state) {
    (void)state;
    mu_vec a = mu_vec_set(1), b = mu_vec_set(2);
    b[1] = NAN;
    b[2] = 1;
    mu_vec m = mu_vec_select(mu_vec_gt(b, a), b, a), e = mu_vec_add_if(mu_vec_eq(a, b), a, a);
    assert_true(m[0] == 2 && m[1] == 1 && m[2] == 1 && m[3] == 2);
    assert_true(e[0] == 1 && e[1] == 1 && e[2] == 2 && e[3] == 1);
    assert_true(mu_vmask_any(mu_vec_isnan(b)));
    assert_false(mu_vmask_any(mu_vec_isnan(a)));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(functions_are_accurate),
        cmocka_unit_test(special_values),
        cmocka_unit_test(parts_touch_only_themselves),
        cmocka_unit_test(masks_choose),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
