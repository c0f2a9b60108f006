// SPDX-License-Identifier: Apache-2.0
// test_cli_data.c - `muster data` called as the program calls it, on files with awkward names and content.
#include "data_help.h"

#include "cli/cli.h"

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
    static const char *const names[] = {"a: b.rec", "x #1.rec", "[set].rec", "{a}.rec", "'q.rec", "&x.rec",
                                        "- a.rec",  "~",        "null",      "a=b.rec", "!t.rec", "\ttab.rec"};
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

int main(void) {
    make_test_dir();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_record_file_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
