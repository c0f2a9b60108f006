// SPDX-License-Identifier: Apache-2.0
// test_cli_data.c - `muster data` called as the program calls it, on files with awkward names and content.
#include "data_help.h"

#include "cli/cli.h"
#include "file/json.h"

extern const mu_verb_class mu_verb_data;

static char printed[4096];      // what the last call wrote to stdout

// Runs the verb with stdout caught in `printed`.
static mu_status data_verb(bool json, int n, const char **words, mu_err *err) {
    char values[64] = {0};
    assert_true(mu_verb_data.state_size <= sizeof values);
    mu_args a = {.word = words, .n_words = n, .json = json, .quiet = true, .log_format = "text"};
    FILE *catch = fopen(test_path("stdout"), "w+b");
    assert_non_null(catch);
    fflush(stdout);
    int before = dup(STDOUT_FILENO);
    assert_true(before >= 0 && dup2(fileno(catch), STDOUT_FILENO) >= 0);
    mu_status st = mu_verb_data.run(&a, values, err);
    fflush(stdout);
    assert_true(dup2(before, STDOUT_FILENO) >= 0);
    close(before);
    rewind(catch);
    printed[fread(printed, 1, sizeof printed - 1, catch)] = '\0';
    fclose(catch);
    return st;
}

// A file name is a file name: no character of it is YAML.
static void test_record_file_names(void **ctx) {
    (void)ctx;
    static const char *const names[] = {"a: b.rec", "x #1.rec", "[set].rec", "{a}.rec", "'q.rec",
                                        "&x.rec",   "- a.rec",  "~",         "null",    "a=b.rec",
                                        "!t.rec",   "\ttab.rec"};
    uint8_t bytes[4096];
    char before[1024];
    sample_of("record");
    size_t n = load_bytes(test_path("s.rec"), bytes, sizeof bytes);
    assert_non_null(getcwd(before, sizeof before));
    for (size_t i = 0; i < MU_COUNT(names); i++) write_file(names[i], bytes, n);
    assert_int_equal(chdir(test_dir), 0);
    for (size_t i = 0; i < MU_COUNT(names); i++) {
        mu_err err = {0};
        const char *words[] = {"info", names[i]};
        if (data_verb(false, 2, words, &err) != MU_OK) fail_msg("`%s`: %s", names[i], err.msg);
        if (!strstr(printed, "records  12 ")) fail_msg("`%s`: printed `%s`", names[i], printed);
    }
    assert_int_equal(chdir(before), 0);
}

// Field names come from the file, which anyone may have written.
static void test_info_json_is_json(void **ctx) {
    (void)ctx;
    block b;
    mu_reader *r;
    mu_err err = {0};
    mu_record_progress p = {0};
    const char *name = "a\"b\\\n\t", *words[] = {"info", test_path("odd.rec")};
    assert_ok(reader_open(&b, sample_csv(), &r, &err), &err);
    r->field[0].name = name;
    assert_ok(mu_record_write(r, words[1], &p, &err), &err);
    mu_reader_close(r);
    block_fini(&b);
    assert_ok(data_verb(true, 2, words, &err), &err);
    mu_json_init();
    json_error_t why;
    json_t *root = json_loads(printed, 0, &why);
    if (!root) fail_msg("%s at column %d of `%s`", why.text, why.column, printed);
    const json_t *fields = json_object_get(root, "fields"), *first = json_array_get(fields, 0);
    assert_int_equal(json_array_size(fields), 2);
    assert_string_equal(json_string_value(json_object_get(first, "name")), name);
    assert_int_equal(json_integer_value(json_array_get(json_object_get(first, "shape"), 0)), 3);
    assert_int_equal(json_integer_value(json_object_get(root, "records")), SAMPLES);
    json_decref(root);
}

int main(void) {
    make_test_dir();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_record_file_names),
        cmocka_unit_test(test_info_json_is_json),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
