// SPDX-License-Identifier: Apache-2.0
// test_job_yaml.c - places, limits, aliases, duplicate keys and syntax errors.
#include "job/job.h"
#include "job/yaml.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct bench { mu_arena arena; mu_diags diags; mu_node *root; mu_err err; mu_status status; } bench;

static bench parse_bytes(const char *text, size_t size) {
    bench t = {0};
    mu_arena_init(&t.arena, "test");
    mu_diags_init(&t.diags, &t.arena);
    mu_srcpos origin = {.path = "a.yaml", .line = 1, .col = 1};
    t.status = mu_yaml_parse(&t.arena, &t.diags, origin, text, size, &t.root, &t.err);
    return t;
}

static bench parse(const char *text) { return parse_bytes(text, strlen(text)); }

static void expect_place(mu_srcpos p, int line, int col, int span) {
    if (p.line != line || p.col != col || p.span != span)
        fail_msg("got %d:%d span %d, want %d:%d span %d", p.line, p.col, p.span, line, col, span);
}

static void test_places(void **unused) {
    (void)unused;
    bench t = parse("a: 12\nb:\n  - {c: \"x y\", d: [1, zwei]}\n  - e:\n      f: g\n");
    assert_int_equal(t.status, MU_OK);
    mu_node *a = mu_node_find(t.root, "a"), *b = mu_node_find(t.root, "b");
    expect_place(a->key_pos, 1, 1, 1);
    expect_place(a->pos, 1, 4, 2);
    expect_place(b->pos, 3, 3, 0);
    mu_node *c = mu_node_find(b->item[0], "c"), *d = mu_node_find(b->item[0], "d");
    expect_place(b->item[0]->pos, 3, 5, 0);
    expect_place(c->pos, 3, 9, 5);
    assert_true(c->quoted);
    expect_place(d->key_pos, 3, 16, 1);
    expect_place(d->item[1]->pos, 3, 23, 4);
    expect_place(mu_node_find(mu_node_find(b->item[1], "e"), "f")->pos, 5, 10, 1);
    mu_arena_fini(&t.arena);
}

static void test_columns_are_characters(void **unused) {
    (void)unused;
    bench t = parse("n: {\xc3\xa4\xc3\xb6\xc3\xbc: \xe6\x97\xa5\xe6\x9c\xac, x: 1}\n");
    assert_int_equal(t.status, MU_OK);
    mu_node *n = mu_node_find(t.root, "n");
    expect_place(n->item[0]->key_pos, 1, 5, 3);
    expect_place(n->item[0]->pos, 1, 10, 2);
    expect_place(n->item[1]->key_pos, 1, 14, 1);
    mu_arena_fini(&t.arena);
}

static void test_crlf(void **unused) {
    (void)unused;
    bench t = parse("a: 1\r\nb:\r\n  c: 2\r\n");
    assert_int_equal(t.status, MU_OK);
    mu_node *c = mu_node_find(mu_node_find(t.root, "b"), "c");
    assert_string_equal(c->text, "2");
    expect_place(c->pos, 3, 6, 1);
    mu_arena_fini(&t.arena);
}

static void test_bom(void **unused) {
    (void)unused;
    static const char text[] = "\xef\xbb\xbf" "nane: 1\n";
    mu_job *job;
    mu_err err = {0};
    assert_int_equal(mu_job_parse("a.yaml", text, sizeof text - 1, NULL, 0, &job, &err), MU_EJOB);
    bool found = false;
    for (size_t i = 0; i < job->diags.n; i++)
        found |= job->diags.list[i].pos.line == 1 && job->diags.list[i].pos.col == 1
              && !strcmp(job->diags.list[i].msg, "unknown section `nane`");
    assert_true(found);
    assert_int_equal(job->diags.source[0].text[0], 'n');
    mu_job_destroy(job);
}

static void test_kinds(void **unused) {
    (void)unused;
    bench t = parse("a: ~\nb:\nc: ''\nd: null\ne: 'null'\nf: |\n  x\ng: a:b\n");
    assert_int_equal(t.status, MU_OK);
    static const bool null[] = {true, true, false, true, false, false, false};
    for (size_t i = 0; i < MU_COUNT(null); i++) assert_int_equal(mu_node_is_null(t.root->item[i]), null[i]);
    assert_true(t.root->item[5]->quoted);
    assert_string_equal(t.root->item[5]->text, "x\n");
    assert_string_equal(t.root->item[6]->text, "a:b");
    mu_arena_fini(&t.arena);
}

static void test_alias(void **unused) {
    (void)unused;
    bench t =
        parse("base: &b {x: 1, y: [1, 2]}\ncopy: *b\nmerged: {x: 5, <<: *b, z: 3}\nlate: {<<: *b, x: 7}\n"
              "two: {<<: [*b, {w: 9, x: 8}]}\nlist: [*b]\nshadow: &b 6\nuse: *b\n");
    if (t.status != MU_OK) fail_msg("%s", t.err.msg);
    mu_node *copy = mu_node_find(t.root, "copy"), *merged = mu_node_find(t.root, "merged");
    assert_string_equal(mu_node_text(mu_node_find(copy, "x")), "1");
    assert_ptr_not_equal(mu_node_find(copy, "y"), mu_node_find(mu_node_find(t.root, "base"), "y"));
    assert_string_equal(mu_node_text(mu_node_find(merged, "x")), "5");
    assert_int_equal(mu_node_find(merged, "y")->n, 2);
    assert_int_equal(merged->n, 3);
    assert_string_equal(mu_node_text(mu_node_find(mu_node_find(t.root, "late"), "x")), "7");
    assert_string_equal(mu_node_text(mu_node_find(mu_node_find(t.root, "two"), "x")), "1");
    assert_string_equal(mu_node_text(mu_node_find(mu_node_find(t.root, "two"), "w")), "9");
    assert_null(mu_node_find(t.root, "list")->item[0]->key);
    assert_string_equal(mu_node_text(mu_node_find(t.root, "use")), "6");
    assert_int_equal(t.diags.n_errors, 0);
    mu_arena_fini(&t.arena);
}

static void expect_error(const char *text, int line, int col, const char *msg) {
    bench t = parse(text);
    const mu_diag *g = &t.diags.list[0];
    if (t.status != MU_EJOB || t.err.status != MU_EJOB || t.diags.n != 1 || g->pos.line != line ||
        g->pos.col != col || !strstr(g->msg, msg)) {
        mu_diags_add_source(&t.diags, "a.yaml", text);
        mu_diags_print(&t.diags, stderr, false);
        fail_msg("want one problem at %d:%d: `%s`", line, col, msg);
    }
    mu_arena_fini(&t.arena);
}

static void test_syntax(void **unused) {
    (void)unused;
    expect_error("a: 1\n\tb: 2\n", 2, 1, "a tab is used for indentation");
    expect_error("a:\n\tb: 2\n", 2, 1, "a tab is used for indentation");
    expect_error("a: \"open\nb: 2\n", 1, 4, "this quote is never closed");
    expect_error("a: 'open\nb: 2\n", 1, 4, "this quote is never closed");
    expect_error("a: 1\n  b: 2\n", 2, 4, "a `:` is not expected here");
    expect_error("a:\n    b: 1\n  c: 2\n", 3, 3, "the indentation does not fit the block above");
    expect_error("a:\n  - x\n - y\n", 3, 2, "the indentation does not fit");
    expect_error("a: {b: 1, c: 2\nd: 3\n", 1, 4, "this `{` is never closed");
    expect_error("a: [1, 2\nd: 3\n", 1, 4, "this `[` is never closed");
    expect_error("a: {b: 1 c: 2}\n", 1, 11, "expected `,` or `}` here");
    expect_error("a: [1, 2}\n", 1, 9, "expected `,` or `]` here");
    expect_error("a: - b\n", 1, 4, "a list item (`- `) cannot begin here");
    expect_error("net:\n  - a: 1\n  b: 2\n", 3, 3, "expected a list item");
    expect_error("a: @x\n", 1, 4, "a value cannot begin with `@`");
    expect_error("\xc3\xa4: `x`\n", 1, 4, "a value cannot begin with ```");
    expect_error("a: \"\\q\"\n", 1, 5, "unknown escape");
    expect_error("abc\ndef: 1\n", 2, 4, "a `:` is not expected here");
    expect_error("a: 1\nbatch 64\nb: 2\n", 2, 1, "expected `key: value` here");
    expect_error("a: *b\n", 1, 4, "alias `*b` has no anchor");
    expect_error("a: &b [*b]\n", 1, 8, "refers to the block it stands in");
    expect_error("a: !!str 5\n", 1, 4, "tags");
    expect_error("a: 1\n---\nb: 2\n", 2, 1, "a second document");
    expect_error("? [a]\n: 1\n", 1, 3, "a key must be a word");
    expect_error("{: 1}\n", 1, 2, "expected a value here");
    expect_error("? \n: 1\n", 1, 2, "a key is missing");
    expect_error("a: \"x\\0y\"\n", 1, 4, "zero byte");
    expect_error("<<: 5\n", 1, 5, "`<<` takes a block");
    expect_error("a: 1\nb: \x01\n", 2, 4, "a control character");
    expect_error("a: 1\nb: \xff\n", 2, 4, "not valid UTF-8");
}

static void test_duplicates(void **unused) {
    (void)unused;
    bench t = parse("a: 1\nb: {x: 1, x: {deep: [2]}, y: 3}\na: 2\n");
    assert_int_equal(t.status, MU_OK);          // reported, and the rest is still read
    assert_int_equal(t.diags.n_errors, 2);
    expect_place(t.diags.list[0].pos, 2, 11, 1);
    assert_string_equal(t.diags.list[0].msg, "duplicate key `x`");
    expect_place(t.diags.list[1].pos, 3, 1, 1);
    assert_string_equal(t.diags.list[1].label, "already given in line 1");
    assert_string_equal(mu_node_text(mu_node_find(t.root, "a")), "1");
    assert_string_equal(mu_node_text(mu_node_find(mu_node_find(t.root, "b"), "y")), "3");
    mu_arena_fini(&t.arena);
}

static double now(void) {
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + 1e-9 * (double)ts.tv_nsec;
}

static void test_alias_bomb(void **unused) {
    (void)unused;
    char text[4000] = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n";
    for (int i = 1; i < 10; i++) {
        snprintf(text + strlen(text), sizeof text - strlen(text), "a%d: &a%d [", i, i);
        for (int k = 0; k < 9; k++)
            snprintf(text + strlen(text), sizeof text - strlen(text), "%s*a%d", k ? ", " : "", i - 1);
        strcat(text, "]\n");
    }
    double start = now();
    bench t = parse(text);
    assert_int_equal(t.status, MU_EJOB);
    assert_non_null(strstr(t.err.msg, "more than 100000"));
    if (now() - start > 1) fail_msg("took %g s, want at most 1", now() - start);
    mu_arena_fini(&t.arena);
    strcpy(text, "<<: &a0 {x: 1}\n");           // depth grows by one with each alias
    strcat(text, "b0: &b0 [x]\n");
    for (int i = 1; i < 40; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "b%d: &b%d [*b%d]\n", i, i, i - 1);
    t = parse(text);
    assert_int_equal(t.status, MU_EJOB);
    assert_non_null(strstr(t.err.msg, "more than 32 deep"));
    mu_arena_fini(&t.arena);
}

static void test_limits(void **unused) {
    (void)unused;
    size_t size = MU_YAML_MAX_SIZE + 1;
    char *text = malloc(size + 1);
    memset(text, '#', size);
    text[size] = '\0';
    bench t = parse_bytes(text, size);
    assert_int_equal(t.status, MU_EJOB);
    assert_non_null(strstr(t.err.msg, "larger than 1 MiB"));
    mu_arena_fini(&t.arena);

    memset(text, '[', 40);
    text[40] = '\0';
    t = parse(text);
    assert_non_null(strstr(t.err.msg, "more than 32 deep"));
    mu_arena_fini(&t.arena);

    size_t used = 0;
    for (int i = 0; i < 1001; i++) used += (size_t)sprintf(text + used, "k%d: 1\n", i);
    t = parse(text);
    assert_non_null(strstr(t.err.msg, "more than 1000 keys"));
    mu_arena_fini(&t.arena);

    used = 0;
    for (int i = 0; i < 1001; i++) used += (size_t)sprintf(text + used, "- &k%d 1\n", i);
    t = parse(text);
    assert_non_null(strstr(t.err.msg, "more than 1000 anchors"));
    mu_arena_fini(&t.arena);

    sprintf(text, "%0200d: 1\n", 0);
    t = parse(text);
    assert_non_null(strstr(t.err.msg, "longer than 128"));
    mu_arena_fini(&t.arena);
    free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_places), cmocka_unit_test(test_columns_are_characters),
        cmocka_unit_test(test_crlf),   cmocka_unit_test(test_bom),
        cmocka_unit_test(test_kinds),  cmocka_unit_test(test_alias),
        cmocka_unit_test(test_syntax), cmocka_unit_test(test_duplicates),
        cmocka_unit_test(test_alias_bomb), cmocka_unit_test(test_limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
