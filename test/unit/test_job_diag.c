// SPDX-License-Identifier: Apache-2.0
// test_job_diag.c - the look of problems, sorting, limits, JSON.
#include "job/diag.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static mu_arena arena;

static void start(mu_diags *d, const char *text) {
    mu_arena_init(&arena, "test");
    mu_diags_init(d, &arena);
    mu_diags_add_source(d, "lenet.yaml", text);
}

static mu_srcpos at(int line, int col, int span) {
    return (mu_srcpos){.path = "lenet.yaml", .line = line, .col = col, .span = span};
}

static void expect_text(mu_diags *d, bool colour, const char *want) {
    char *text = NULL;
    size_t size;
    FILE *f = open_memstream(&text, &size);
    mu_diags_print(d, f, colour);
    fclose(f);
    assert_string_equal(text, want);
    free(text);
    mu_arena_fini(&arena);
}

static void test_look(void **unused) {
    (void)unused;
    mu_diags d;
    start(&d, "\n\n\n\n\n\n\n\n\n\n\n    kernal: 5\nlast");
    mu_diag *g = mu_diags_add(&d, MU_DIAG_ERROR, at(12, 5, 6), "unknown key `%s` in layer `conv1`", "kernal");
    mu_diag_label(&d, g, "did you mean `%s`?", "kernel");
    g = mu_diags_add(&d, MU_DIAG_WARNING, at(13, 1, 0), "odd");
    mu_diag_hint(&d, g, "Leave it out.");
    expect_text(&d, false,
                "lenet.yaml:12:5: error: unknown key `kernal` in layer `conv1`\n"
                "  12 |     kernal: 5\n"
                "     |     ^^^^^^ did you mean `kernel`?\n"
                "lenet.yaml:13:1: warning: odd\n"
                "  13 | last\n"
                "     | ^\n"
                "hint: Leave it out.\n"
                "1 error, 1 warning\n");
}

static void test_colour(void **unused) {
    (void)unused;
    mu_diags d;
    start(&d, "x: 1\n");
    mu_diags_add(&d, MU_DIAG_ERROR, at(1, 4, 1), "bad");
    expect_text(&d, true,
                "\x1b[1mlenet.yaml:1:4:\x1b[0m \x1b[1;31merror:\x1b[0m bad\n   1 | x: 1\n     |    "
                "\x1b[1;32m^\x1b[0m\n1 error\n");
}

static void test_sorted(void **unused) {
    (void)unused;
    mu_diags d;
    start(&d, "a\nb\n");
    mu_diags_add_source(&d, "--set", "c\n");
    mu_diags_add(&d, MU_DIAG_ERROR, (mu_srcpos){.path = "--set", .line = 1, .col = 1}, "four");
    mu_diags_add(&d, MU_DIAG_ERROR, (mu_srcpos){0}, "five");
    mu_diags_add(&d, MU_DIAG_ERROR, at(2, 1, 1), "two");
    mu_diags_add(&d, MU_DIAG_ERROR, at(2, 1, 1), "three");
    mu_diags_add(&d, MU_DIAG_ERROR, at(0, 0, 0), "one");
    mu_diags_add(&d, MU_DIAG_ERROR, at(2, 1, 1), "two");        // said before
    assert_int_equal(d.n_errors, 5);
    assert_string_equal(mu_diags_first_error(&d)->msg, "five"); // no place sorts as line 0
    expect_text(&d, false,
                "lenet.yaml: error: one\n"
                "lenet.yaml:2:1: error: two\n   2 | b\n     | ^\n"
                "lenet.yaml:2:1: error: three\n   2 | b\n     | ^\n"
                "--set:1:1: error: four\n   1 | c\n     | ^\n"
                "error: five\n5 errors\n");
}

static void test_characters(void **unused) {
    (void)unused;
    mu_diags d;
    start(&d, "gr\xc3\xb6\xc3\x9f" "e:\tx\r\n\x1b[31m \xff bad\n");
    mu_diags_add(&d, MU_DIAG_ERROR, at(1, 8, 5), "a");
    mu_diags_add(&d, MU_DIAG_ERROR, at(2, 7, 1), "text \x1b[2J\n two");
    expect_text(&d, false,
                "lenet.yaml:1:8: error: a\n   1 | gr\xc3\xb6\xc3\x9f" "e:\tx\n     |       \t^\n"
                "lenet.yaml:2:7: error: text ?[2J\\n two\n   2 | ?[31m ? bad\n     |       ^\n2 errors\n");
}

static void test_places_outside(void **unused) {
    (void)unused;
    mu_diags d;
    start(&d, "ab\n");
    mu_diags_add(&d, MU_DIAG_ERROR, at(1, 50, 3), "beyond the line");
    mu_diags_add(&d, MU_DIAG_ERROR, at(7, 1, 3), "beyond the file");
    expect_text(&d, false,
                "lenet.yaml:1:50: error: beyond the line\n   1 | ab\n     |   ^\n"
                "lenet.yaml:7:1: error: beyond the file\n2 errors\n");
}

static void test_long_line(void **unused) {
    (void)unused;
    char text[1001];
    memset(text, 'x', 1000);
    text[1000] = '\0';
    text[500] = 'y';
    mu_diags d;
    start(&d, text);
    mu_diags_add(&d, MU_DIAG_ERROR, at(1, 501, 400), "a");
    char *out = NULL;
    size_t size;
    FILE *f = open_memstream(&out, &size);
    mu_diags_print(&d, f, false);
    fclose(f);
    const char *line = strstr(out, "   1 | "), *caret = strstr(out, "     | ");
    assert_int_equal(strcspn(caret, "^"), strcspn(line, "y"));  // the caret stands under the y
    assert_true(strcspn(line, "\n") < 140);
    free(out);
    mu_arena_fini(&arena);
}

static void test_full(void **unused) {
    (void)unused;
    mu_diags d;
    start(&d, "");
    for (int i = 0; i < 25; i++) {
        mu_diag *g = mu_diags_add(&d, MU_DIAG_ERROR, MU_NOPOS, "problem %d", i);
        assert_non_null(g);
        mu_diag_label(&d, g, "label");
        mu_diag_hint(&d, g, "hint");
    }
    assert_int_equal(d.n, MU_DIAGS_MAX);
    assert_int_equal(d.n_errors, 25);
    assert_string_equal(d.list[19].msg, "problem 19");
    char *out = NULL;
    size_t size;
    FILE *f = open_memstream(&out, &size);
    mu_diags_print(&d, f, false);
    fclose(f);
    assert_non_null(strstr(out, "25 errors (the first 20 are shown)"));
    free(out);
    mu_arena_fini(&arena);
}

static void test_json(void **unused) {
    (void)unused;
    mu_diags d;
    start(&d, "a: \"\\\n");
    mu_diag *g = mu_diags_add(&d, MU_DIAG_ERROR, at(1, 4, 2), "quote \" and \\ and \x01 and \xff");
    mu_diag_label(&d, g, "l\xc3\xa4");
    mu_diags_add(&d, MU_DIAG_WARNING, MU_NOPOS, "w");
    char *out = NULL;
    size_t size;
    FILE *f = open_memstream(&out, &size);
    mu_diags_print_json(&d, f);
    fclose(f);
    json_error_t err;
    json_t *j = json_loads(out, 0, &err);
    if (!j) fail_msg("%s in: %s", err.text, out);
    assert_int_equal(json_array_size(j), 2);
    json_t *first = json_array_get(j, 0);
    assert_string_equal(json_string_value(json_object_get(first, "severity")), "error");
    assert_string_equal(json_string_value(json_object_get(first, "path")), "lenet.yaml");
    assert_int_equal(json_integer_value(json_object_get(first, "line")), 1);
    assert_int_equal(json_integer_value(json_object_get(first, "col")), 4);
    assert_string_equal(json_string_value(json_object_get(first, "label")), "l\xc3\xa4");
    assert_true(json_is_null(json_object_get(first, "hint")));
    assert_true(json_is_null(json_object_get(json_array_get(j, 1), "path")));
    json_decref(j);
    free(out);
    mu_arena_fini(&arena);
}

static void test_err_print(void **unused) {
    (void)unused;
    char path[] = "test_diag_XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "a: 1\nb: 2\n", 10), 10);
    close(fd);
    mu_err err = {0};
    mu_status s =
        MU_FAIL_AT(&err, MU_EJOB, ((mu_srcpos){.path = path, .line = 2, .col = 4, .span = 1}), "bad value");
    assert_int_equal(s, MU_EJOB);
    mu_err_hint(&err, "Use 3.");
    mu_err_note(&err, "while testing");
    char *out = NULL, want[200];
    size_t size;
    FILE *f = open_memstream(&out, &size);
    mu_err_print(&err, f, false);
    fclose(f);
    snprintf(want, sizeof want,
             "%s:2:4: error: bad value\n   2 | b: 2\n     |    ^\nhint: Use 3.\nnote: while testing\n", path);
    assert_string_equal(out, want);
    free(out);
    unlink(path);
    f = open_memstream(&out, &size);            // the file is gone: the message stays
    mu_err_print(&err, f, false);
    fclose(f);
    snprintf(want, sizeof want, "%s:2:4: error: bad value\nhint: Use 3.\nnote: while testing\n", path);
    assert_string_equal(out, want);
    free(out);
}

static void test_no_memory(void **unused) {
    (void)unused;
    mu_diags d;
    start(&d, "");
    mu_alloc_fail_at(1);
    mu_diag *g = mu_diags_add(&d, MU_DIAG_ERROR, MU_NOPOS, "lost");
    mu_alloc_fail_at(0);
    assert_non_null(g);
    assert_true(d.no_memory);
    assert_true(d.n_errors > 0);
    mu_arena_fini(&arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_look),           cmocka_unit_test(test_colour),
        cmocka_unit_test(test_sorted),         cmocka_unit_test(test_characters),
        cmocka_unit_test(test_places_outside), cmocka_unit_test(test_long_line),
        cmocka_unit_test(test_full),           cmocka_unit_test(test_json),
        cmocka_unit_test(test_err_print),      cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
