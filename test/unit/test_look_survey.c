// SPDX-License-Identifier: Apache-2.0
// test_look_survey.c - what files are, values and classes of a data set, the column to be predicted.
#include "data_help.h"

#include "look/survey.h"
#include "read/table.h"

static mu_file_kind kind_of(const char *name, const char *text) {
    mu_file_kind kind = MU_FILE_RECORDS;
    mu_err err = {0};
    assert_ok(mu_survey_file(write_file(name, text, strlen(text)), &kind, &err), &err);
    return kind;
}

static void test_files(void **ctx) {
    (void)ctx;
    assert_int_equal(kind_of("a.csv", "a,b\n1,2\n"), MU_FILE_TABLE);
    assert_int_equal(kind_of("a.CSV.gz", "a,b\n1,2\n"), MU_FILE_TABLE);
    assert_int_equal(kind_of("a.csv.zst", "x\tsome words\n"), MU_FILE_TABLE); // named so
    assert_int_equal(kind_of("a.tsv", "a\tb\tc\n1\t2\t3\n"), MU_FILE_TABLE);
    assert_int_equal(kind_of("a.tsv", "a\tb\n1\t2\n"), MU_FILE_TABLE); // one word is no text
    assert_int_equal(kind_of("a.tsv.xz", "yes\tthe sea\n\nno\tthe hills\r\nno\tx\n"), MU_FILE_SENTENCES);
    assert_int_equal(kind_of("a.txt", "yes\tthe sea\nno\tthe hills"), MU_FILE_SENTENCES);
    assert_int_equal(kind_of("a.txt", "yes\tthe sea\nno such line\n"), MU_FILE_RECORDS);
    assert_int_equal(kind_of("a.txt", "yes\tthe sea\nno\tthe\thills\n"), MU_FILE_RECORDS);
    assert_int_equal(kind_of("a.csv", MU_RECORD_MAGIC "and more"), MU_FILE_RECORDS); // whatever its name
    assert_int_equal(kind_of("empty", ""), MU_FILE_RECORDS);
    mu_file_kind kind;
    mu_err err = {0};
    assert_ok(mu_survey_file(test_dir, &kind, &err), &err);
    assert_int_equal(kind, MU_FILE_IMAGES);
    assert_status(mu_survey_file(test_path("none.csv"), &kind, &err), MU_EIO, &err);
}

static void test_values(void **ctx) {
    (void)ctx;
    static const char text[] = "1,5,b\n2,-3,a\nx,9,a\n4,8,b\n3,0,b\n";
    block b;
    mu_reader *r;
    mu_survey s;
    mu_err err = {0};
    const char *path = write_file("v.csv", text, strlen(text));
    const char *yaml = yaml_of("{reader: csv, file: %s, label: 2%s}", path, "");
    assert_ok(reader_open(&b, yaml, &r, &err), &err);
    assert_ok(mu_survey_take(&s, r, NULL, NULL, &err), &err);
    assert_int_equal(s.n_read, 4);
    assert_int_equal(s.n_bad, 1); // x is no number
    assert_true(s.field[0].least == -3 && s.field[0].most == 8 && s.field[0].mean == 2.5);
    assert_null(s.field[0].count);
    assert_int_equal(s.field[1].count[0], 1);
    assert_int_equal(s.field[1].count[1], 3);
    mu_survey_fini(&s);
    mu_reader_close(r);
    block_fini(&b);
}

static mu_status refuse(void *ctx) { return ++*(int *)ctx > 2 ? MU_EIO : MU_OK; }

static void test_stop(void **ctx) {
    (void)ctx;
    block b;
    mu_reader *r;
    mu_survey s;
    mu_err err = {0};
    int asked = 0;
    assert_ok(reader_open(&b, "{reader: synthetic, shape: [1, 4, 4], records: 100}", &r, &err), &err);
    assert_status(mu_survey_take(&s, r, refuse, &asked, &err), MU_EIO, &err);
    assert_int_equal(s.n_read, 2);
    mu_survey_fini(&s);
    mu_reader_close(r);
    block_fini(&b);
}

static void test_largest(void **ctx) {
    (void)ctx;
    const int64_t count[] = {3, 9, 0, 9, 5};
    size_t place[5];
    assert_int_equal(mu_survey_largest(count, 5, 3, place), 3);
    assert_int_equal(place[0], 1);
    assert_int_equal(place[1], 3);
    assert_int_equal(place[2], 4);
    assert_int_equal(mu_survey_largest(count, 1, 3, place), 1);
    assert_int_equal(mu_survey_largest(count, 5, 5, place), 5);
    assert_int_equal(place[4], 2);
}

static void guess_is(const char *text, const char *want) {
    mu_arena a;
    mu_err err = {0};
    const char *label = "";
    mu_arena_init(&a, "test");
    assert_ok(mu_table_guess_file(write_file("g.csv", text, strlen(text)), &a, &label, &err), &err);
    if (strcmp(label, want)) fail_msg("`%s`: the label is `%s`, want `%s`", text, label, want);
    mu_arena_fini(&a);
}

static void test_guessed_label(void **ctx) {
    (void)ctx;
    guess_is("a,b\n1,2\n3,4\n", "b");
    guess_is("a,Class,b\n1,u,2\n3,u,4\n", "Class");
    guess_is("1,2,u\n3,4,u\n", "2");
    guess_is("a,b,remark\n1,2,some text\n3,4,other text\n", "b"); // a text is no label
    guess_is("a,b,gone\n1,2,\n3,4,\n", "b");
}

int main(void) {
    make_test_dir();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_files),   cmocka_unit_test(test_values),        cmocka_unit_test(test_stop),
        cmocka_unit_test(test_largest), cmocka_unit_test(test_guessed_label),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
