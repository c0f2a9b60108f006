// SPDX-License-Identifier: Apache-2.0
// test_recipe_helpers.c - what recipes stand on: linear fits, paths as a job calls them, guesses, what a
// series repeats by.
#include "data_help.h"

#include "job/job.h"
#include "recipe/guess.h"
#include "recipe/place.h"
#include "recipe/ridge.h"
#include "recipe/series_fit.h"

#include <math.h>

// y = 1 + 2 a - b exactly; then with decay on one x by hand.
static void test_ridge(void **ctx) {
    (void)ctx;
    static const double x[][2] = {{0, 0}, {1, 0}, {0, 1}, {2, 3}, {-1, 4}};
    mu_ridge r;
    mu_err err = {0};
    assert_ok(mu_ridge_init(&r, 2, &err), &err);
    for (size_t i = 0; i < MU_COUNT(x); i++) mu_ridge_add(&r, x[i], 1 + 2 * x[i][0] - x[i][1]);
    assert_true(mu_ridge_solve(&r, 0));
    assert_float_equal(r.w[0], 2, 1e-9);
    assert_float_equal(r.w[1], -1, 1e-9);
    assert_float_equal(r.w[2], 1, 1e-9);
    assert_float_equal(mu_ridge_answer(&r, (double[]){3, 5}), 2, 1e-9);
    mu_ridge_fini(&r);
    // x = -1, 1 and y = -3, 3: w = 3 / (1 + decay), because sum xx / n = 1
    assert_ok(mu_ridge_init(&r, 1, &err), &err);
    mu_ridge_add(&r, (double[]){-1}, -3);
    mu_ridge_add(&r, (double[]){1}, 3);
    assert_true(mu_ridge_solve(&r, 0.5));
    assert_float_equal(r.w[0], 2, 1e-9);
    assert_float_equal(r.w[1], 0, 1e-9);
    mu_ridge_fini(&r);
    // the same column twice has no unique fit, but for decay
    assert_ok(mu_ridge_init(&r, 2, &err), &err);
    for (int i = 0; i < 5; i++) mu_ridge_add(&r, (double[]){i, i}, i);
    assert_false(mu_ridge_solve(&r, 0));
    assert_true(mu_ridge_solve(&r, 0.01));
    mu_ridge_fini(&r);
}

static void assert_place(const char *file, const char *job, const char *want) {
    char out[MU_FS_PATH];
    mu_err err = {0};
    assert_ok(mu_recipe_place(file, job, out, &err), &err);
    assert_string_equal(out, want);
}

static void test_places(void **ctx) {
    (void)ctx;
    char before[MU_FS_PATH], whole[MU_FS_PATH + 16], out[MU_FS_PATH], dir[MU_FS_PATH];
    mu_err err = {0};
    assert_non_null(getcwd(before, sizeof before));
    assert_int_equal(chdir(test_dir), 0);
    assert_non_null(realpath(".", dir));
    assert_int_equal(mkdir("a", 0777) | mkdir("a/b", 0777) | mkdir("ab", 0777), 0);
    assert_int_equal(symlink("a/b", "link"), 0);
    assert_place("x.csv", "job.yaml", "x.csv");
    assert_place("a/x.csv", "-", "a/x.csv");
    assert_place("/data/x.csv", "a/job.yaml", "/data/x.csv");
    assert_place("x.csv", "a/job.yaml", "../x.csv");
    assert_place("a/x.csv", "a/job.yaml", "x.csv");
    assert_place("ab/x.csv", "a/job.yaml", "../ab/x.csv"); // a is no beginning of a name
    assert_place("a/b/x.csv", "./a/../a/job.yaml", "b/x.csv");
    assert_place("x.csv", "link/job.yaml", "../../x.csv"); // where the link leads
    assert_place("a/", "a/b/job.yaml", "../");
    assert_place(".", "a/job.yaml", "../");
    snprintf(whole, sizeof whole, "%s/a/job.yaml", dir);
    assert_status(mu_recipe_place("x.csv", whole, out, &err), MU_OK, &err);
    snprintf(whole, sizeof whole, "%s/x.csv", dir);
    assert_string_equal(out, whole);
    assert_status(mu_recipe_place("x.csv", "none/job.yaml", out, &err), MU_EIO, &err);
    mu_err_clear(&err);
    assert_status(mu_recipe_place("\xe4.csv", "job.yaml", out, &err), MU_EUSAGE, &err);
    assert_int_equal(chdir(before), 0);
}

static void test_names(void **ctx) {
    (void)ctx;
    static const char *const names[][2] = {{"a/b.yaml", "b"},        {"my job.yml", "my-job"},
                                           {"\xc3\xbc.yaml", "job"}, {".yaml", "job"},
                                           {"x.v2.yaml", "x.v2"},    {"-a b-.yaml", "a-b"}};
    for (size_t i = 0; i < MU_COUNT(names); i++) {
        char out[MU_RECIPE_NAME];
        mu_recipe_name(names[i][0], out);
        assert_string_equal(out, names[i][1]);
        assert_true(mu_recipe_name_fits(out));
    }
    assert_false(mu_recipe_name_fits("") || mu_recipe_name_fits("a b") || mu_recipe_name_fits(".a"));
}

static void assert_guess(const char *text, const char *want) {
    const char *guess = mu_recipe_guess(write_file("guess", text, strlen(text)));
    if (!guess != !want || (want && strcmp(guess, want)))
        fail_msg("`%s` looks like %s, not %s", text, guess ? guess : "nothing", want ? want : "nothing");
}

static void test_guesses(void **ctx) {
    (void)ctx;
    assert_string_equal(mu_recipe_guess(test_dir), "images");
    assert_null(mu_recipe_guess(test_path("missing")));
    assert_guess("", NULL);
    assert_guess("spam\tbuy this now\nham\tsee you there\n", "text");
    assert_guess("a,b\n1,2\n3,4\n", "table");
    assert_guess("a\tb\n1\t2\n3\t4\n", "table");
    assert_guess("Once upon a time there was a king.\nHe had a dog, and a cat, too.\n", "char");
    assert_guess("It rained, and they went home again at last.\nIt dried, and they came out into the sun.\n",
                 "char");
    char text[1024] = "day,x\n";
    for (int i = 1; i < 20; i++) snprintf(text + strlen(text), 32, "2020-01-%02d,%d\n", i, i * i % 7);
    assert_guess(text, "timeseries");
    text[14] = '3'; // the first day is the 31st: not in order
    text[15] = '1';
    assert_guess(text, "table");
    write_file("guess", "a\0b", 3);
    assert_null(mu_recipe_guess(test_path("guess")));
}

static mu_series_fit fit_of(const char *text) {
    mu_arena a;
    mu_series s;
    mu_series_fit f;
    mu_err err = {0};
    mu_arena_init(&a, "test");
    assert_ok(mu_series_load(&s, &a, write_file("f.csv", text, strlen(text)), (mu_strings){0}, &err), &err);
    const size_t column[] = {1};
    assert_ok(mu_series_fit_choose(&s, column, 1, 0, (int64_t)s.n_rows, &f, &err), &err);
    mu_series_fini(&s);
    mu_arena_fini(&a);
    return f;
}

static void test_seasons(void **ctx) {
    (void)ctx;
    char text[8192] = "month,x\n";
    for (int i = 0; i < 96; i++) // a trend, months that differ, and a little that nobody knows
        snprintf(text + strlen(text), 64, "%d-%02d,%.3f\n", 2000 + i / 12, i % 12 + 1,
                 i + 20.0 * (i % 12 == 3) - 9.0 * (i % 12 == 8) + i * 7919 % 11 / 10.0);
    mu_series_fit f = fit_of(text);
    assert_int_equal(f.natural, 12);
    assert_int_equal(f.found, 12);
    assert_true(f.rmse < 0.5 * f.season_rmse && f.rmse < 0.5 * f.last_rmse);
    assert_true(f.window >= 12);
    // a walk of steps that do not depend on each other: nothing beats the last value by much
    strcpy(text, "t,x\n");
    double x = 0;
    uint32_t state = 12345;
    for (int i = 0; i < 200; i++) {
        state = state * 1664525u + 1013904223u;
        x += (double)(state >> 8) / (1 << 24) - 0.5;
        snprintf(text + strlen(text), 32, "%d,%.4f\n", i, x);
    }
    f = fit_of(text);
    assert_int_equal(f.found, 0);
    assert_int_equal(f.season, 0);
    assert_true(f.rmse <= f.last_rmse && f.rmse > 0.8 * f.last_rmse);
}

static void test_quotes(void **ctx) {
    (void)ctx;
    static const char *const odd[] = {
        "a \"b\" 'c'", "\\n: {x}, [y] # z & *", "\t\n\x7f", "\xc3\xbc \xe2\x80\xa8 \xc2\x85", "null", "12",
        "%s - ? | >"};
    for (size_t i = 0; i < MU_COUNT(odd); i++) {
        char *text = NULL;
        size_t size = 0;
        FILE *f = open_memstream(&text, &size);
        fputs("{k: ", f);
        mu_job_put_text(odd[i], f);
        fputs("}", f);
        fclose(f);
        mu_arena a;
        mu_diags diags;
        mu_node *root;
        mu_err err = {0};
        mu_arena_init(&a, "test");
        mu_diags_init(&diags, &a);
        assert_ok(
            mu_yaml_parse(&a, &diags, (mu_srcpos){.path = "t", .line = 1, .col = 1}, text, size, &root, &err),
            &err);
        assert_int_equal(diags.n_errors, 0);
        assert_string_equal(mu_node_text(mu_node_find(root, "k")), odd[i]);
        mu_arena_fini(&a);
        free(text);
    }
}

int main(void) {
    make_test_dir();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ridge),   cmocka_unit_test(test_places),  cmocka_unit_test(test_names),
        cmocka_unit_test(test_guesses), cmocka_unit_test(test_seasons), cmocka_unit_test(test_quotes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
