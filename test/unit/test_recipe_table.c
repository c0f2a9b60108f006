// SPDX-License-Identifier: Apache-2.0
// test_recipe_table.c - the job that is written for a table: what it decides, and that it holds.
#include "data_help.h"

#include "job/job.h"
#include "recipe/recipe.h"
#include "train/session.h"

static char job_text[8192], found[256];

static mu_status write_job(const char *path, const char *label, mu_err *err) {
    const mu_recipe_class *k =
        (const mu_recipe_class *)(const void *)mu_registry_find(&mu_recipes, "table");
    assert_non_null(k);
    const mu_recipe_ask ask = {.path = path, .file = path, .label = label, .name = "a-b"};
    memset(job_text, 0, sizeof job_text);
    FILE *f = fmemopen(job_text, sizeof job_text - 1, "w");
    assert_non_null(f);
    mu_status st = k->write(&ask, f, found, sizeof found, err);
    fclose(f);
    return st;
}

static void job_has(const char *text) {
    if (!strstr(job_text, text)) fail_msg("no `%s` in\n%s", text, job_text);
}

// The whole job, with its data opened and its net shaped.
static void assert_checks(void) {
    mu_job *job;
    mu_session *s = NULL;
    mu_err err = {0};
    assert_ok(mu_job_parse(test_path("job.yaml"), job_text, strlen(job_text), NULL, 0, &job, &err), &err);
    const mu_session_opts o = {.phases = MU_TRAIN | MU_VALIDATION | MU_TEST, .check_only = true};
    mu_status st = mu_session_open(job, &o, &s, &err);
    if (st != MU_OK) fail_msg("%s\n%s", err.msg, job_text);
    mu_session_close(s);
    mu_job_destroy(job);
}

typedef void (*row_fn)(FILE *f, int i);

static const char *table_of_rows(const char *name, const char *header, int n, row_fn row) {
    const char *path = test_path(name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fprintf(f, "%s\n", header);
    for (int i = 0; i < n; i++) row(f, i);
    fclose(f);
    return path;
}

static void plain_row(FILE *f, int i) {
    fprintf(f, "%d,%s,%s,%d.5\n", i, i % 2 ? "a" : "", i % 3 ? "x" : "y", i);
}

static void test_class_and_number(void **ctx) {
    (void)ctx;
    mu_err err = {0};
    const char *path = table_of_rows("p.csv", "size,kind,species,price", 30, plain_row);
    assert_ok(write_job(path, NULL, &err), &err); // price is a usual name too, and stands later
    assert_string_equal(found, "30 rows, 4 columns; `price` is a number, 0.5 to 29.5");
    job_has("label: \"price\", target: number, pieces: 8}");
    job_has("type: euclidean_loss");
    job_has("# validation:");
    assert_checks();
    assert_ok(write_job(path, "species", &err), &err);
    assert_string_equal(found, "30 rows, 4 columns; `species` is one of 2 classes");
    job_has("label: \"species\", target: class}");
    job_has("steps: 1000}");
    assert_checks();
    assert_status(write_job(path, "pirce", &err), MU_EDATA, &err);
    assert_says(&err, "no column `pirce`");
    assert_status(write_job(test_path("none.csv"), NULL, &err), MU_EIO, &err);
}

// 500 cities of 5 rows each are embedded, sentences are read, names of rows are left out.
static void wordy_row(FILE *f, int i) {
    fprintf(f, "row %d,city %d,the %dth sentence of this table,%d,%d\n", i, i % 500, i % 700, i % 40, i % 2);
}

static void test_words(void **ctx) {
    (void)ctx;
    mu_err err = {0};
    assert_ok(write_job(table_of_rows("w.csv", "id,city,note,size,y", 2500, wordy_row), NULL, &err), &err);
    job_has("label: \"y\", target: class, embed: [\"city\"], text: [\"note\"]}");
    job_has("src: [data.features, places, bag]}");
    job_has("\n  validation: {fraction: 0.1, seed: 1}");
    job_has("steps: 2343}");
    assert_checks();
}

static void bare_row(FILE *f, int i) { fprintf(f, "city %d,%d\n", i % 150, i % 2); }

static void test_words_alone(void **ctx) {
    (void)ctx;
    mu_err err = {0};
    assert_ok(write_job(table_of_rows("b.csv", "city,y", 900, bare_row), NULL, &err), &err);
    job_has("src: places, outputs: ");
    assert_checks();
    static const char few[] = "note,y\nsome text,a\nother text,b\n";
    assert_status(write_job(write_file("f.csv", few, strlen(few)), "y", &err), MU_EDATA, &err);
    assert_says(&err, "no column to learn from beside `y`");
}

int main(void) {
    make_test_dir();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_class_and_number),
        cmocka_unit_test(test_words),
        cmocka_unit_test(test_words_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
