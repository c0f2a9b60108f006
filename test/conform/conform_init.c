// SPDX-License-Identifier: Apache-2.0
// conform_init.c - what every initialiser must do: element i is a function of (key, i), all values are
// finite, nothing is written behind the end. Then the distributions against their formulas.
#include "job/bind.h"
#include "layer/param.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define MAX_VALUES 70000
static float a[MAX_VALUES], b[MAX_VALUES];

typedef struct setting {
    const char *key;
    double value;
    int choice;
} setting; // key NULL = none

static void fill(const char *name, const setting *set, mu_shape shape, int64_t fan_in, int64_t fan_out,
                 uint64_t seed, float *out) {
    const mu_init_class *c = (const mu_init_class *)mu_registry_find(&mu_inits, name);
    assert_non_null(c);
    mu_arena arena;
    mu_arena_init(&arena, "test");
    char *state = mu_arena_alloc(&arena, c->state_size + 1);
    if (c->fields) assert_true(mu_bind_defaults(&arena, c->fields, state, NULL));
    for (; set && set->key; set++)
        for (const mu_field *f = c->fields; f->key; f++) {
            if (strcmp(f->key, set->key)) continue;
            if (f->type == MU_FLOAT) *(float *)(void *)(state + f->offset) = (float)set->value;
            else if (f->type == MU_INT) *(int64_t *)(void *)(state + f->offset) = (int64_t)set->value;
            else *(int *)(void *)(state + f->offset) = set->choice;
        }
    c->fill(state, &(mu_init_args){mu_rng_key_make(seed, "init/test"), &shape, fan_in, fan_out}, out);
    mu_arena_fini(&arena);
}

static void every_initialiser_is_a_function_of_its_key(void **state) {
    (void)state;
    static const mu_shape shapes[] = {
        {4, {6, 3, 5, 5}}, {2, {7, 33}}, {1, {13}}, {4, {1, 1, 1, 1}}, {0, {0}}};
    for (size_t i = 0; i < mu_inits.n; i++)
        for (size_t k = 0; k < MU_COUNT(shapes); k++) {
            const char *name = mu_inits.list[i]->name;
            const mu_init_class *c = (const mu_init_class *)mu_inits.list[i];
            if (!c->fill == !c->load) fail_msg("initialiser %s needs either fill or load", name);
            if (c->load) continue; // from outside: tests of their own
            int64_t n = mu_shape_count(&shapes[k]);
            if (!mu_inits.list[i]->help) fail_msg("initialiser %s has no help", name);
            for (int64_t j = 0; j < n + 16; j++) a[j] = b[j] = 12345;
            fill(name, NULL, shapes[k], 75, 150, 1, a);
            fill(name, NULL, shapes[k], 75, 150, 1, b);
            for (int64_t j = 0; j < n; j++)
                if (!isfinite(a[j]) || a[j] == 12345 || memcmp(&a[j], &b[j], 4))
                    fail_msg("%s: element %d is %g and %g", name, (int)j, (double)a[j], (double)b[j]);
            for (int64_t j = n; j < n + 16; j++)
                if (a[j] != 12345) fail_msg("%s writes behind the end", name);
        }
}

typedef struct moments {
    double mean, std, low, high;
    int64_t zeros;
} moments;

static moments measure(const float *v, int64_t n) {
    moments m = {0, 0, INFINITY, -INFINITY, 0};
    for (int64_t i = 0; i < n; i++) {
        m.mean += (double)v[i] / (double)n;
        m.low = fmin(m.low, (double)v[i]);
        m.high = fmax(m.high, (double)v[i]);
        m.zeros += v[i] == 0;
    }
    for (int64_t i = 0; i < n; i++) m.std += ((double)v[i] - m.mean) * ((double)v[i] - m.mean) / (double)n;
    m.std = sqrt(m.std);
    return m;
}

static void expect(const char *name, const char *what, double got, double want, double tol) {
    if (!(fabs(got - want) <= tol))
        fail_msg("%s: %s is %.6g, want %.6g within %.2g", name, what, got, want, tol);
}

// 64 x 1000 values, fan_in 1000, fan_out 64.
static moments draw(const char *name, const setting *set) {
    fill(name, set, (mu_shape){2, {64, 1000}}, 1000, 64, 3, a);
    return measure(a, 64000);
}

static void expect_uniform(const char *name, const setting *set, double low, double high) {
    moments m = draw(name, set);
    double width = high - low;
    expect(name, "lowest value", m.low, low, 0.001 * width);
    expect(name, "highest value", m.high, high, 0.001 * width);
    expect(name, "mean", m.mean, (low + high) / 2, 0.01 * width);
    expect(name, "standard deviation", m.std, width / sqrt(12), 0.01 * width);
}

static void expect_gaussian(const char *name, const setting *set, double mean, double std) {
    moments m = draw(name, set);
    expect(name, "mean", m.mean, mean, 0.02 * std);
    expect(name, "standard deviation", m.std, std, 0.02 * std);
    if (m.high < mean + 3 * std) fail_msg("%s: no tail, the highest value is %g", name, m.high);
}

static void distributions_are_those_of_the_formulas(void **state) {
    (void)state;
    expect_uniform("uniform", NULL, -1, 1);
    expect_uniform("uniform", (setting[]){{"low", 0.1, 0}, {"high", 0.3, 0}, {0}}, 0.1, 0.3);
    expect_uniform("xavier", NULL, -sqrt(3 / 1000.0), sqrt(3 / 1000.0));
    expect_uniform("xavier", (setting[]){{"fan", 0, 1}, {0}}, -sqrt(3 / 64.0), sqrt(3 / 64.0));
    expect_uniform("xavier", (setting[]){{"fan", 0, 2}, {0}}, -sqrt(6 / 1064.0), sqrt(6 / 1064.0));
    expect_uniform("glorot", NULL, -sqrt(6 / 1064.0), sqrt(6 / 1064.0));
    expect_uniform("uniform_fan_in", NULL, -sqrt(3 / 1000.0), sqrt(3 / 1000.0));
    expect_uniform("pytorch", NULL, -1 / sqrt(1000), 1 / sqrt(1000));
    expect_gaussian("gaussian", NULL, 0, 1);
    expect_gaussian("gaussian", (setting[]){{"mean", 2, 0}, {"std", 0.01, 0}, {0}}, 2, 0.01);
    expect_gaussian("msra", NULL, 0, sqrt(2 / 1000.0));
    expect_gaussian("gaussian_fan_in", NULL, 0, 1 / sqrt(1000));
    moments m = draw("constant", (setting[]){{"value", 0.5, 0}, {0}});
    expect("constant", "lowest value", m.low, 0.5, 0);
    expect("constant", "highest value", m.high, 0.5, 0);
}

static void sparse_gaussian_keeps_few_inputs(void **state) {
    (void)state;
    moments m = draw("gaussian", (setting[]){{"sparse", 15, 0}, {0}});
    expect("gaussian", "inputs of an output", (64000 - (double)m.zeros) / 64, 15, 1.5);
    // Which ones is a draw of its own for each place.
    mu_rng_fill_uniform(mu_rng_key_make(3, "init/test"), 1, 0, b, 64000);
    for (int i = 0; i < 64000; i++)
        if ((a[i] != 0) != (b[i] < 15.0f / 1000.0f)) fail_msg("element %d is %g", i, (double)a[i]);
}

static void unitball_rows_sum_to_one(void **state) {
    (void)state;
    draw("positive_unitball", NULL);
    for (int r = 0; r < 64; r++) {
        double sum = 0;
        for (int i = 0; i < 1000; i++) {
            if (a[r * 1000 + i] < 0) fail_msg("row %d has %g", r, (double)a[r * 1000 + i]);
            sum += (double)a[r * 1000 + i];
        }
        expect("positive_unitball", "sum of a row", sum, 1, 1e-5);
    }
}

// Up-sampling by 2 with kernel 4 repeats [1 3 3 1]/4 along each axis.
static void bilinear_is_a_tent(void **state) {
    (void)state;
    static const double tent[] = {0.25, 0.75, 0.75, 0.25}, odd[] = {1 / 3.0, 2 / 3.0, 1, 2 / 3.0, 1 / 3.0};
    fill("bilinear", NULL, (mu_shape){4, {2, 1, 4, 4}}, 16, 16, 1, a);
    for (int i = 0; i < 32; i++)
        expect("bilinear", "kernel 4", (double)a[i], tent[i / 4 % 4] * tent[i % 4], 1e-6);
    fill("bilinear", NULL, (mu_shape){4, {1, 1, 5, 5}}, 25, 25, 1, a);
    for (int i = 0; i < 25; i++) expect("bilinear", "kernel 5", (double)a[i], odd[i / 5] * odd[i % 5], 1e-6);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_initialiser_is_a_function_of_its_key),
        cmocka_unit_test(distributions_are_those_of_the_formulas),
        cmocka_unit_test(sparse_gaussian_keeps_few_inputs),
        cmocka_unit_test(unitball_rows_sum_to_one),
        cmocka_unit_test(bilinear_is_a_tent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
