// SPDX-License-Identifier: Apache-2.0
// test_job_bind.c - field tables: every type, ranges, unknown and missing keys, plug-in blocks.
#include "job/bind.h"
#include "job/yaml.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

typedef struct opts {
    bool         flag;
    int64_t      count, parts;
    float        rate;
    double       wide;
    const char  *text, *path;
    int          method;
    int64_t      kernel[2];
    mu_ints      shape;
    mu_floats    means;
    mu_strings   words, files;
    double       wait;
    mu_interval  every;
    mu_class_ref schedule;
} opts;

typedef struct step { double base, gamma; } step;
static const mu_field step_fields[] = {
    MU_FIELD(step, base, MU_DOUBLE, NULL, "(0,)", "first rate"),
    MU_FIELD(step, gamma, MU_DOUBLE, "0.5", "(0,1]", "factor"),
    {0},
};
static const mu_plugin fixed_plugin = {.name = "fixed", .help = "x"};
static const mu_plugin step_plugin = {
    .name = "step", .help = "x", .fields = step_fields, .state_size = sizeof(step)};
static const mu_plugin *const plugins[] = {&fixed_plugin, &step_plugin};
static const mu_registry schedules = {"schedule", 2, plugins};
static const mu_registry *const registries[] = {&schedules, NULL};

static const mu_field fields[] = {
    MU_FIELD(opts, flag, MU_BOOL, "true", NULL, "a flag"),
    MU_FIELD(opts, count, MU_INT, "10k", "[1,1M]", "a count"),
    MU_FIELD(opts, parts, MU_INT_OR_AUTO, "auto", "[1,9]", "a count that can be found"),
    MU_FIELD(opts, rate, MU_FLOAT, "0.5", "[0,1)", "a rate"),
    MU_FIELD(opts, wide, MU_DOUBLE, "-1e100", NULL, "any number"),
    MU_FIELD(opts, text, MU_STRING, "", NULL, "a text"),
    MU_FIELD(opts, path, MU_PATH, "", NULL, "a file"),
    MU_FIELD_ENUM(opts, method, "average", "max|average", "kind of pooling"),
    MU_FIELD(opts, kernel, MU_PAIR, "3", "[1,)", "window"),
    MU_FIELD(opts, shape, MU_INTS, "[1, 28, 28]", "[1,)", "sizes"),
    MU_FIELD(opts, means, MU_FLOATS, "", NULL, "means"),
    MU_FIELD(opts, words, MU_STRINGS, "one", NULL, "words"),
    MU_FIELD(opts, files, MU_PATHS, "", NULL, "files"),
    MU_FIELD(opts, wait, MU_DURATION, "2m", "[0,86400]", "time"),
    MU_FIELD(opts, every, MU_INTERVAL, "1 epoch", NULL, "interval"),
    MU_FIELD_CLASS(opts, schedule, "fixed", "schedule", "rate over time"),
    {0},
};

typedef struct bench { mu_arena arena; mu_diags diags; opts out; } bench;

static bench *bind_fields(const char *text, const mu_field *table, bench *t) {
    mu_arena_init(&t->arena, "test");
    mu_diags_init(&t->diags, &t->arena);
    mu_diags_add_source(&t->diags, "a.yaml", text);
    mu_srcpos origin = {.path = "a.yaml", .line = 1, .col = 1};
    mu_err err = {0};
    mu_node *root = NULL;
    assert_int_equal(mu_yaml_parse(&t->arena, &t->diags, origin, text, strlen(text), &root, &err), MU_OK);
    mu_binder b = {&t->arena, &t->diags, "jobs", registries, 0};
    mu_bind_part part = {table, &t->out};
    const char *other[] = {"name"};
    mu_bind(&b, root, origin, "layer `a`", &part, 1, other, 1);
    return t;
}

static void done(bench *t) { mu_arena_fini(&t->arena); }

static void no_errors(const bench *t) {
    if (!t->diags.n_errors) return;
    mu_diags_print(&t->diags, stderr, false);
    fail_msg("%zu errors, want none", t->diags.n_errors);
}

static void test_defaults(void **unused) {
    (void)unused;
    bench t;
    no_errors(bind_fields("", fields, &t));
    assert_true(t.out.flag);
    assert_int_equal(t.out.count, 10000);
    assert_int_equal(t.out.parts, MU_AUTO);
    assert_true(t.out.rate == 0.5f && t.out.wide == -1e100);
    assert_null(t.out.text);
    assert_null(t.out.path);
    assert_int_equal(t.out.method, 1);
    assert_int_equal(t.out.kernel[0], 3);
    assert_int_equal(t.out.kernel[1], 3);
    assert_int_equal(t.out.shape.n, 3);
    assert_int_equal(t.out.shape.v[1], 28);
    assert_int_equal(t.out.means.n, 0);
    assert_int_equal(t.out.words.n, 1);
    assert_string_equal(t.out.words.v[0], "one");
    assert_int_equal(t.out.files.n, 0);
    assert_true(t.out.wait == 120);
    assert_int_equal(t.out.every.unit, MU_EVERY_EPOCH);
    assert_ptr_equal(t.out.schedule.plugin, &fixed_plugin);
    done(&t);
}

static void test_values(void **unused) {
    (void)unused;
    bench t;
    no_errors(
        bind_fields("name: a\nflag: Off\ncount: 1M\nparts: 9\nrate: 0\nwide: 3\ntext: 64\n"
                    "path: x/y\nmethod: max\nkernel: [5, 7]\nshape: 4\nmeans: [1, -2.5]\nwords: [a, 'b c']\n"
                    "files: /abs\nwait: 1h\nevery: 500\nschedule: {type: step, base: 0.1}\n",
                    fields, &t));
    assert_false(t.out.flag);
    assert_int_equal(t.out.count, 1000000);
    assert_int_equal(t.out.parts, 9);
    assert_true(t.out.rate == 0 && t.out.wide == 3);
    assert_string_equal(t.out.text, "64");
    assert_string_equal(t.out.path, "jobs/x/y");
    assert_int_equal(t.out.method, 0);
    assert_int_equal(t.out.kernel[0], 5);
    assert_int_equal(t.out.kernel[1], 7);
    assert_int_equal(t.out.shape.n, 1);
    assert_int_equal(t.out.shape.v[0], 4);
    assert_int_equal(t.out.means.n, 2);
    assert_true(t.out.means.v[1] == -2.5f);
    assert_string_equal(t.out.words.v[1], "b c");
    assert_string_equal(t.out.files.v[0], "/abs");
    assert_true(t.out.wait == 3600);
    assert_true(t.out.every.unit == MU_EVERY_STEP && t.out.every.n == 500);
    assert_ptr_equal(t.out.schedule.plugin, &step_plugin);
    const step *s = t.out.schedule.state;
    assert_true(s->base == 0.1 && s->gamma == 0.5);
    done(&t);
}

static void test_null_is_default(void **unused) {
    (void)unused;
    bench t;
    no_errors(bind_fields("count: ~\ntext: null\nschedule: ~\n", fields, &t));
    assert_int_equal(t.out.count, 10000);
    assert_null(t.out.text);
    assert_ptr_equal(t.out.schedule.plugin, &fixed_plugin);
    done(&t);
}

// Exactly one problem, at line 1 and the column, with these words.
static void expect_one(const char *text, int col, const char *msg, const char *help) {
    bench t;
    bind_fields(text, fields, &t);
    const mu_diag *g = &t.diags.list[0];
    bool helps = !help || (g->label && strstr(g->label, help)) || (g->hint && strstr(g->hint, help));
    if (t.diags.n != 1 || g->pos.line != 1 || g->pos.col != col || !strstr(g->msg, msg) || !helps) {
        mu_diags_print(&t.diags, stderr, false);
        fail_msg("want one problem at 1:%d: `%s` with `%s`", col, msg, help ? help : "");
    }
    done(&t);
}

static void test_problems(void **unused) {
    (void)unused;
    expect_one("cuont: 5", 1, "unknown key `cuont` in layer `a`", "did you mean `count`?");
    expect_one("zzzzz: 5", 1, "unknown key `zzzzz` in layer `a`", "Valid keys: flag, count, parts, rate");
    expect_one("nam: 5", 1, "unknown key `nam`", "did you mean `name`?");
    expect_one("flag: ture", 7, "`flag` in layer `a` must be true or false, found `ture`",
               "did you mean `true`?");
    expect_one("flag: 1", 7, "must be true or false", "did you mean `true`?");
    expect_one("count: many", 8, "must be a whole number, found `many`", NULL);
    expect_one("count: 2.5", 8, "must be a whole number, found `2.5`", NULL);
    expect_one("count: '5'", 8, "must be a whole number, found `5`", "leave the quotes out");
    expect_one("count: [5]", 8, "must be a whole number, not a list", NULL);
    expect_one("count: {a: 5}", 8, "must be a whole number, not a block", NULL);
    expect_one("count: 0", 8, "`count` in layer `a` is out of range: 0",
               "must be at least 1 and at most 1000000");
    expect_one("parts: 0", 8, "`parts` in layer `a` is out of range: 0", "at least 1 and at most 9, or auto");
    expect_one("parts: -1", 8, "out of range: -1", NULL);
    expect_one("parts: ''", 8, "must be a whole number or `auto`, found ``", NULL);
    expect_one("parts: autos", 8, "must be a whole number or `auto`, found `autos`", "did you mean `auto`?");
    expect_one("parts: 1.5", 8, "must be a whole number or `auto`, found `1.5`", NULL);
    expect_one("parts: [5]", 8, "must be a whole number or `auto`, not a list", NULL);
    expect_one("count:", 1, "`count` in layer `a` has no value", "a whole number");
    expect_one("rate: 1.5", 7, "out of range: 1.5", "must be at least 0 and below 1");
    expect_one("rate: fast", 7, "must be a number, found `fast`", NULL);
    expect_one("wide: inf", 7, "must be a number", NULL);
    expect_one("text: [a]", 7, "must be a text, not a list", NULL);
    expect_one("method: maxx", 9, "unknown value `maxx` for `method` in layer `a`", "did you mean `max`?");
    expect_one("method: avg", 9, "unknown value `avg`", "did you mean `average`?");
    expect_one("method: qqqqq", 9, "unknown value `qqqqq`", "Valid values: max, average.");
    expect_one("kernel: [1, 2, 3]", 9, "found 3 numbers", NULL);
    expect_one("kernel: [1, 0]", 13, "out of range: 0", NULL);
    expect_one("shape: [1, x]", 12, "a list of whole numbers, found `x`", NULL);
    expect_one("shape: [1, [2]]", 12, "a list of whole numbers, not a list", NULL);
    expect_one("words: {a: b}", 8, "not a block", NULL);
    expect_one("wait: soon", 7, "a duration such as", NULL);
    expect_one("wait: 2d", 7, "out of range: 2d", "at most 86400");
    expect_one("every: 5 epoks", 8, "an interval such as", "did you mean `5 epochs`?");
    expect_one("every: naver", 8, "an interval such as", "did you mean `never`?");
    expect_one("schedule: stp", 11, "unknown schedule type `stp` in `schedule` in layer `a`",
               "did you mean `step`?");
    expect_one("schedule: qqqqqq", 11, "unknown schedule type `qqqqqq`", "Valid schedules: fixed, step.");
    expect_one("schedule: [step]", 11, "must be a word or a block with `type`, not a list", NULL);
    expect_one("schedule: {base: 1}", 11, "missing key `type`", "Valid schedules: fixed, step.");
    expect_one("schedule: {typ: step}", 12, "unknown key `typ`", "did you mean `type`?");
    expect_one("schedule: {type: step}", 11, "missing key `base`", "add `base: ...`");
    expect_one("schedule: {type: step, bas: 1}", 24, "unknown key `bas`", "did you mean `base`?");
    expect_one("schedule: {type: [step]}", 18, "must be a word", NULL);
}

static void test_not_a_map(void **unused) {
    (void)unused;
    expect_one("[1]", 1, "layer `a` must be a block of `key: value` lines, not a list", "- ");
    expect_one("word", 1, "not a single value", NULL);
}

static void test_required(void **unused) {
    (void)unused;
    static const mu_field need[] = {MU_FIELD(opts, count, MU_INT, NULL, NULL, "a count"), {0}};
    bench t;
    bind_fields("", need, &t);
    assert_int_equal(t.diags.n_errors, 1);
    assert_string_equal(t.diags.list[0].msg, "missing key `count` in layer `a`");
    done(&t);
    bind_fields("coutn: 4", need, &t);          // one mistake, one message
    assert_int_equal(t.diags.n_errors, 1);
    assert_string_equal(t.diags.list[0].label, "did you mean `count`?");
    done(&t);
    static const mu_field texts[] = {MU_FIELD(opts, path, MU_PATH, NULL, NULL, "a file"),
                                     MU_FIELD(opts, text, MU_STRING, NULL, NULL, "a text"),
                                     MU_FIELD(opts, files, MU_PATHS, NULL, NULL, "files"), {0}};
    bind_fields("{path: '', text: \"\", files: [a, '']}", texts, &t);       // "" is as little as nothing
    assert_int_equal(t.diags.n_errors, 3);
    assert_string_equal(t.diags.list[0].msg, "`path` in layer `a` is empty");
    assert_string_equal(t.diags.list[0].label, "needs a path");
    assert_int_equal(t.diags.list[0].pos.col, 8);
    assert_string_equal(t.diags.list[1].msg, "`text` in layer `a` is empty");
    assert_string_equal(t.diags.list[2].msg, "`files` in layer `a` is empty");
    assert_int_equal(t.diags.list[2].pos.col, 33);
    done(&t);
    mu_arena a;
    mu_arena_init(&a, "test");
    opts out;
    assert_false(mu_bind_defaults(&a, need, &out, NULL));
    assert_true(mu_bind_defaults(&a, fields, &out, registries));
    assert_int_equal(out.count, 10000);
    assert_false(mu_bind_defaults(&a, fields, &out, NULL));     // no registry of schedules
    mu_arena_fini(&a);
}

// Wrong tables are our own mistakes, but must not go unnoticed either.
static void test_bad_table(void **unused) {
    (void)unused;
    static const mu_field bad_default[] = {MU_FIELD(opts, count, MU_INT, "lots", NULL, "x"), {0}};
    static const mu_field bad_range[] = {MU_FIELD(opts, count, MU_INT, "1", "0..5", "x"), {0}};
    bench t;
    bind_fields("", bad_default, &t);
    assert_true(t.diags.n_errors > 0);
    done(&t);
    bind_fields("", bad_range, &t);
    assert_true(t.diags.n_errors > 0);
    done(&t);
}

static void test_class_reader(void **unused) {
    (void)unused;
    bench t;
    bind_fields("", fields, &t);
    mu_binder b = {&t.arena, &t.diags, ".", registries, 0};
    mu_srcpos where = {.path = "a.yaml", .line = 3, .col = 5};
    const char *other[] = {"scale"};
    mu_node *n = mu_node_create(&t.arena, MU_MAP, where);
    mu_class_ref ref = mu_bind_class(&b, n, where, "`data.train`", &schedules, "reader", other, 1);
    assert_null(ref.plugin);
    assert_string_equal(t.diags.list[0].msg, "missing key `reader` in `data.train`");
    assert_int_equal(t.diags.list[0].pos.line, 3);
    ref = mu_bind_class(&b, NULL, where, "`data.test`", &schedules, "reader", other, 1);
    assert_null(ref.plugin);
    assert_int_equal(t.diags.n_errors, 2);
    done(&t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),        cmocka_unit_test(test_values),
        cmocka_unit_test(test_null_is_default), cmocka_unit_test(test_problems),
        cmocka_unit_test(test_not_a_map),       cmocka_unit_test(test_required),
        cmocka_unit_test(test_bad_table),       cmocka_unit_test(test_class_reader),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
