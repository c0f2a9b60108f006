// SPDX-License-Identifier: Apache-2.0
// test_job_job.c - loading of jobs: options, outline, --set, writing, hash, lack of memory.
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
#include <unistd.h>

static const char lenet[] =
    "name: fashion-lenet\n"
    "seed: 7\n"
    "data:\n"
    "  train: {reader: idx, images: a.gz, labels: b.gz, scale: 0.00390625}\n"
    "  test:  {reader: idx, images: c.gz, labels: d.gz}\n"
    "net:\n"
    "  - {name: conv1, type: convolution, src: data.image, filters: 20, kernel: 5, init: xavier}\n"
    "  - {name: ip1, type: inner_product, outputs: 10}\n"
    "  - {name: loss, type: softmax_loss, src: [ip1, data.label]}\n"
    "train: {batch: 32, epochs: 10, init_from: [old/a.safetensors, /abs/b]}\n"
    "updater: {type: sgd, momentum: 0.9, rate: {type: inverse, base: 0.01}}\n"
    "checkpoint: {every: 500 steps, keep: 5}\n";

static mu_job *parse_sets(const char *text, const char *const *sets, size_t n_sets, mu_status want) {
    mu_job *job = NULL;
    mu_err err = {0};
    mu_status s = mu_job_parse("dir/lenet.yaml", text, strlen(text), sets, n_sets, &job, &err);
    if (s != want) {
        if (job) mu_diags_print(&job->diags, stderr, false);
        fail_msg("status %s, want %s: %s", mu_status_name(s), mu_status_name(want), err.msg);
    }
    assert_non_null(job);
    assert_int_equal(err.status, want);
    return job;
}

static mu_job *parse(const char *text, mu_status want) { return parse_sets(text, NULL, 0, want); }

// There is a problem at line:col whose message contains msg and whose label or hint contains help.
static void expect_problem_sets(const char *text, const char *const *sets, size_t n_sets, int line, int col,
                                const char *msg, const char *help) {
    mu_job *job = parse_sets(text, sets, n_sets, MU_EJOB);
    bool found = false;
    for (size_t i = 0; i < job->diags.n; i++) {
        const mu_diag *g = &job->diags.list[i];
        if (g->pos.line != line || g->pos.col != col || !strstr(g->msg, msg)) continue;
        found = !help || (g->label && strstr(g->label, help)) || (g->hint && strstr(g->hint, help));
    }
    if (!found) {
        mu_diags_print(&job->diags, stderr, false);
        fail_msg("no problem %d:%d `%s` with `%s`", line, col, msg, help ? help : "");
    }
    mu_job_destroy(job);
}

static void expect_problem(const char *text, int line, int col, const char *msg, const char *help) {
    expect_problem_sets(text, NULL, 0, line, col, msg, help);
}

static void test_options(void **unused) {
    (void)unused;
    mu_job *job = parse(lenet, MU_OK);
    assert_string_equal(job->name, "fashion-lenet");
    assert_string_equal(job->folder, "dir");
    assert_int_equal(job->seed, 7);
    assert_int_equal(job->train.batch, 32);
    assert_true(job->train.epochs == 10);
    assert_int_equal(job->train.accumulate, 1);
    assert_int_equal(job->train.nonfinite, MU_NONFINITE_STOP);
    assert_true(job->train.shuffle);
    assert_int_equal(job->train.init_from.n, 2);
    assert_string_equal(job->train.init_from.v[0], "dir/old/a.safetensors");
    assert_string_equal(job->train.init_from.v[1], "/abs/b");
    assert_int_equal(job->checkpoint.every.unit, MU_EVERY_STEP);
    assert_true(job->checkpoint.every.n == 500);
    assert_int_equal(job->checkpoint.keep, 5);
    assert_true(job->checkpoint.best);
    assert_int_equal(job->test.every.unit, MU_EVERY_EPOCH);
    assert_int_equal(job->log.every.unit, MU_EVERY_STEP);
    assert_true(job->log.every.n == 100);
    assert_null(job->cluster);
    assert_int_equal(job->net->n, 3);
    assert_string_equal(mu_node_text(mu_node_find(job->net->item[1], "type")), "inner_product");
    assert_string_equal(mu_node_text(mu_node_find(job->updater, "type")), "sgd");
    mu_job_destroy(job);
}

#define DATA "data: {train: {reader: idx}}\n"
#define NET "net: [{name: a, type: relu}]\n"
#define TRAIN "train: {epochs: 1}\n"

static void test_outline_problems(void **unused) {
    (void)unused;
    expect_problem("", 0, 0, "the job file is empty", "muster init");
    expect_problem("# nothing\n", 0, 0, "the job file is empty", NULL);
    expect_problem("- a\n", 1, 1, "a job file begins with keys", NULL);
    expect_problem(NET TRAIN, 0, 0, "missing section `data`", "data:");
    expect_problem(DATA TRAIN, 0, 0, "missing section `net`", NULL);
    expect_problem(DATA NET "trian: {epochs: 1}\n", 3, 1, "unknown section `trian`", "did you mean `train`?");
    expect_problem(DATA NET TRAIN "optimizer: sgd\n", 4, 1, "unknown section `optimizer`", "`updater`");
    expect_problem(DATA NET TRAIN "batch: 4\n", 4, 1, "unknown section `batch`", "belongs in `train`");
    expect_problem(DATA NET TRAIN "zzzzzz: 4\n", 4, 1, "unknown section `zzzzzz`", "checkpoint");
    expect_problem(DATA "net: {name: a}\n" TRAIN, 2, 6, "`net` must be a list", "- ");
    expect_problem(DATA "net: []\n" TRAIN, 2, 6, "`net` has no layers", NULL);
    expect_problem(DATA "net:\n  - relu\n" TRAIN, 3, 5, "a layer must be a block", NULL);
    expect_problem("data: {trian: {reader: idx}}\n" NET TRAIN, 1, 8, "unknown key `trian` in `data`",
                   "`train`");
    expect_problem("data: {reader: idx}\n" NET TRAIN, 1, 8, "unknown key `reader` in `data`", "data.train");
    expect_problem("data: {train: idx}\n" NET TRAIN, 1, 8, "`data.train` must be a block", "reader");
    expect_problem("data: 5\n" NET TRAIN, 1, 7, "`data` must be a block", NULL);
    expect_problem(DATA NET, 1, 8, "the training has no end", "epochs");
    expect_problem(DATA NET "train: {batch: 4}\n", 3, 1, "the training has no end", "epochs");
    expect_problem(DATA NET "train: [epochs]\n", 3, 8, "`train` must be a block", NULL);
    expect_problem(DATA NET "train: {epochs: ten}\n", 3, 17, "must be a number, found `ten`", NULL);
    expect_problem(DATA NET "train:\n  epochs:\n", 4, 3, "`epochs` in `train` has no value", "a number");
    expect_problem(DATA NET TRAIN "name: a/b\n", 4, 7, "folder name", "letters");
}

static void test_one_mistake_one_message(void **unused) {
    (void)unused;
    static const char *const texts[] = {
        DATA NET "trian: {epochs: 1}\n",
        "dta: {train: {reader: idx}}\n" NET TRAIN,
        DATA "network: [{name: a, type: relu}]\n" TRAIN,
        DATA NET "train: {epochs: ten}\n",
        DATA NET "train: {epochs: -3}\n",
        DATA NET "train: {epoch: 3}\n",
        DATA NET "train: 3\n",
        "data: {trian: {reader: idx}}\n" NET TRAIN,
    };
    for (size_t i = 0; i < MU_COUNT(texts); i++) {
        mu_job *job = parse(texts[i], MU_EJOB);
        if (job->diags.n_errors != 1) {
            mu_diags_print(&job->diags, stderr, false);
            fail_msg("text %zu: %zu errors, want 1", i, job->diags.n_errors);
        }
        mu_job_destroy(job);
    }
}

// What stands under a misspelt key is checked in the same run.
static void test_misspelt_sections(void **unused) {
    (void)unused;
    expect_problem(DATA NET "trian: {epochs: 1, batch: -1}\n", 3, 27, "out of range: -1", NULL);
    mu_job *job = parse("dta: {tset: {reader: idx}}\n" NET "optimizer: sgd\n", MU_EJOB);
    assert_int_equal(job->diags.n_errors, 3);
    assert_non_null(mu_node_find(job->data, "test"));
    assert_string_equal(mu_node_text(job->updater), "sgd");
    mu_job_destroy(job);
}

static void test_evaluation_only(void **unused) {
    (void)unused;
    mu_job *job = parse("data: {test: {reader: idx}}\n" NET, MU_OK);
    assert_string_equal(job->name, "lenet");
    assert_int_equal(job->train.batch, 64);
    mu_job_destroy(job);
}

static void test_set(void **unused) {
    (void)unused;
    const char *sets[] = {"train.batch=8",      "net.conv1.filters=64", "net.1.outputs=20",
                          "data.train.scale=1", "updater.rate.gamma=2", "log.tensorboard=no",
                          "net.loss.src=[a, b]"};
    mu_job *job = parse_sets(lenet, sets, MU_COUNT(sets), MU_OK);
    assert_int_equal(job->train.batch, 8);
    assert_string_equal(mu_node_text(mu_node_find(job->net->item[0], "filters")), "64");
    assert_string_equal(mu_node_text(mu_node_find(job->net->item[1], "outputs")), "20");
    assert_string_equal(mu_node_text(mu_node_find(mu_node_find(job->updater, "rate"), "gamma")), "2");
    assert_false(job->log.tensorboard);
    assert_int_equal(mu_node_find(job->net->item[2], "src")->n, 2);
    mu_job_destroy(job);
}

static void expect_set_problem(const char *set, int col, const char *msg, const char *help) {
    expect_problem_sets(lenet, &set, 1, 1, col, msg, help);
}

static void test_set_problems(void **unused) {
    (void)unused;
    expect_set_problem("train.bach=8", 7, "unknown key `bach` in `train`", "did you mean `batch`?");
    expect_set_problem("trian.batch=8", 1, "unknown section `trian`", "did you mean `train`?");
    expect_set_problem("net.conv2.filters=8", 5, "no item `conv2` in the list `net`",
                       "did you mean `conv1`?");
    expect_set_problem("net.17.filters=8", 5, "no item `17`", "0 to 2");
    expect_set_problem("seed.a=8", 6, "holds a single value", NULL);
    expect_set_problem("train.batch", 1, "`--set train.batch`: there is no `=`", NULL);
    expect_set_problem("=8", 1, "no key before the `=`", NULL);
    expect_set_problem("train..batch=8", 7, "is empty", NULL);
    expect_set_problem("train.=8", 6, "is empty", NULL);
    expect_set_problem("train.batch=[8", 13, "never closed", NULL);
    expect_set_problem("train.batch=many", 13, "must be a whole number, found `many`", NULL);
    expect_set_problem("train.batch=0", 13, "out of range: 0", "at least 1");
    expect_set_problem("train.batch=", 7, "has no value", "a whole number");
}

// A --set edit of an aliased block must not change the other uses.
static void test_set_alias(void **unused) {
    (void)unused;
    const char *set = "net.b.filters=9";
    mu_job *job =
        parse_sets(DATA "net:\n  - &c {name: a, filters: 5}\n  - {<<: *c, name: b}\n" TRAIN, &set, 1, MU_OK);
    assert_string_equal(mu_node_text(mu_node_find(job->net->item[0], "filters")), "5");
    assert_string_equal(mu_node_text(mu_node_find(job->net->item[1], "filters")), "9");
    assert_string_equal(mu_node_text(mu_node_find(job->net->item[0], "name")), "a");
    mu_job_destroy(job);
}

static char *write_text(const mu_job *job) {
    char *text = NULL;
    size_t size;
    FILE *f = open_memstream(&text, &size);
    mu_err err = {0};
    assert_int_equal(mu_job_write(job, f, &err), MU_OK);
    fclose(f);
    return text;
}

static bool same_tree(const mu_node *a, const mu_node *b) {
    if (a->kind != b->kind || a->n != b->n || mu_node_is_null(a) != mu_node_is_null(b)) return false;
    if ((a->key || b->key) && strcmp(a->key, b->key)) return false;
    if (a->kind == MU_SCALAR && strcmp(a->text, b->text)) return false;
    for (size_t i = 0; i < a->n; i++)
        if (!same_tree(a->item[i], b->item[i])) return false;
    return true;
}

static void expect_round_trip(const char *text) {
    mu_job *a = NULL, *b = NULL;
    mu_err err = {0};
    if (mu_job_parse("a.yaml", text, strlen(text), NULL, 0, &a, &err) != MU_OK && !a->root)
        fail_msg("%s: %s", text, err.msg);
    char *written = write_text(a);
    mu_err_clear(&err);
    mu_status s = mu_job_parse("b.yaml", written, strlen(written), NULL, 0, &b, &err);
    if ((s != MU_OK && !b->root) || !same_tree(a->root, b->root))
        fail_msg("not the same:\n%s\n---\n%s\n%s", text, written, err.msg);
    assert_int_equal(mu_job_hash(a), mu_job_hash(b));
    free(written);
    mu_job_destroy(a);
    mu_job_destroy(b);
}

static void test_write(void **unused) {
    (void)unused;
    expect_round_trip(lenet);
    expect_round_trip("a: \"64\"\nb: 64\nc: ~\nd:\ne: ''\nf: null\ng: 'null'\n");
    expect_round_trip("a: {}\nb: []\nc: [[1, 2], [], {x: [3]}]\nd: [~, '']\n");
    expect_round_trip("a: |\n  two\n  lines\nb: >\n  folded\n  text\nc: plain text\n  over lines\n");
    expect_round_trip("a: \"\\x07\\e \\N \\L \\P \\uFEFF tab\\t\"\n\"key: with # colon\": 'it''s'\n");
    expect_round_trip(
        "a: '- b'\nb: '...'\nc: '---'\nd: '? x'\ne: '#c'\nf: ' lead'\ng: 'trail '\nh: '&a'\ni: '*a'\n");
    expect_round_trip("a: gr\xc3\xb6\xc3\x9f" "e\n\"<<\": 1\n\"x\\ny\": 2\n");
    expect_round_trip("a: http://x/y\nb: a#b\nc: -5\nd: +.5\ne: -x\nf: .5e-3\ng: 50%\nh: a, b\n");
}

static void test_hash(void **unused) {
    (void)unused;
    mu_job *a = parse(DATA NET TRAIN, MU_OK);
    mu_job *b =
        parse("# comment\ndata:\n  train:\n    reader:   idx\nnet:\n- name: a\n  type: relu\n" TRAIN, MU_OK);
    mu_job *c = parse(DATA "net: [{type: relu, name: a}]\n" TRAIN, MU_OK);
    mu_job *d = parse(DATA NET "train: {epochs: 2}\n", MU_OK);
    assert_true(mu_job_hash(a) == mu_job_hash(b));
    assert_true(mu_job_hash(a) != mu_job_hash(c));
    assert_true(mu_job_hash(a) != mu_job_hash(d));
    mu_job_destroy(a);
    mu_job_destroy(b);
    mu_job_destroy(c);
    mu_job_destroy(d);
}

static void test_load(void **unused) {
    (void)unused;
    char path[] = "test_job_XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, lenet, strlen(lenet)), (ssize_t)strlen(lenet));
    close(fd);
    mu_job *job = NULL;
    mu_err err = {0};
    assert_int_equal(mu_job_load(path, NULL, 0, &job, &err), MU_OK);
    assert_string_equal(job->folder, ".");
    mu_job_destroy(job);
    unlink(path);
    assert_int_equal(mu_job_load(path, NULL, 0, &job, &err), MU_EJOB);
    assert_non_null(job);
    assert_non_null(strstr(err.msg, "No such file"));
    mu_job_destroy(job);
    mu_err_clear(&err);
    assert_int_equal(mu_job_load("/", NULL, 0, &job, &err), MU_EJOB);
    assert_non_null(strstr(err.msg, "directory"));
    mu_job_destroy(job);
}

static void test_twenty(void **unused) {
    (void)unused;
    char text[4000] = DATA NET TRAIN;
    for (int i = 0; i < 30; i++) snprintf(text + strlen(text), sizeof text - strlen(text), "zzz%d: 1\n", i);
    mu_job *job = parse(text, MU_EJOB);
    assert_int_equal(job->diags.n, MU_DIAGS_MAX);
    assert_int_equal(job->diags.n_errors, 30);
    mu_job_destroy(job);
}

// Every allocation in turn fails: the load must say so, leak nothing and never crash. Many long texts
// make the arena ask for many chunks, so that the failures fall into different stages.
static void test_no_memory(void **unused) {
    (void)unused;
    char *text = calloc(1, 600000);
    strcpy(text, lenet);
    for (int i = 0; i < 400; i++)
        snprintf(text + strlen(text), 600, "bad%d: {a: [1, 2, {b: \"%0400d\"}], epoch: 4}\n", i, i);
    const char *sets[] = {"train.batch=4", "net.conv1.filters=3", "train.bach=3"};
    uint64_t live = mu_alloc_get_stats().n_live;
    int64_t n = 1;
    for (bool done = false; !done; n++) {
        mu_job *job = NULL;
        mu_err err = {0};
        mu_alloc_fail_at(n);
        mu_status s = mu_job_parse("a.yaml", text, strlen(text), sets, MU_COUNT(sets), &job, &err);
        mu_alloc_fail_at(0);
        done = s == MU_EJOB;
        if (!done) {
            assert_int_equal(s, MU_ENOMEM);
            assert_null(job);
            assert_int_equal(err.status, MU_ENOMEM);
        }
        mu_job_destroy(job);
        assert_int_equal(mu_alloc_get_stats().n_live, live);
    }
    if (n < 12) fail_msg("only %lld allocations were made to fail", (long long)n - 2);
    free(text);
}

// An arena asks the heap only once for many requests, so here its chunk is filled up to a varying rest:
// the failure then meets each request of parsing and binding in turn.
static void test_no_memory_anywhere(void **unused) {
    (void)unused;
    static const char text[] =
        "epoch: [3, x]\nbatch: [1, 2, -1]\nreader: some/where\nwhen: 3 epoks\nmode: maxx\n";
    typedef struct opts {
        int64_t epochs;
        mu_ints batch;
        const char *reader;
        mu_interval when;
        int mode;
    } opts;
    const mu_field fields[] = {
        MU_FIELD(opts, epochs, MU_INT, NULL, NULL, "passes"),
        MU_FIELD(opts, batch, MU_INTS, "[1, 2]", "[0,)", "sizes"),
        MU_FIELD(opts, reader, MU_PATH, "a/b", NULL, "path"),
        MU_FIELD(opts, when, MU_INTERVAL, "1 epoch", NULL, "interval"),
        MU_FIELD_ENUM(opts, mode, "max", "max|average", "mode"),
        {0},
    };
    size_t n_failed = 0, chunk = 32 << 10;
    for (size_t rest = 0; rest < 8192; rest += 16) {
        mu_arena arena;
        mu_diags d;
        opts out;
        mu_arena_init(&arena, "test");
        mu_diags_init(&d, &arena);
        assert_non_null(mu_arena_alloc(&arena, chunk - rest));
        mu_binder b = {.arena = &arena, .diags = &d, .folder = "folder"};
        mu_bind_part part = {fields, &out};
        mu_node *root = NULL;
        mu_err err = {0};
        mu_srcpos origin = {.path = "a", .line = 1, .col = 1};
        mu_alloc_fail_at(1);
        mu_status s = mu_yaml_parse(&arena, &d, origin, text, sizeof text - 1, &root, &err);
        mu_bind(&b, root, origin, "a test", &part, 1, NULL, 0);
        mu_alloc_fail_at(0);
        if (s == MU_ENOMEM || d.no_memory) n_failed++;
        else assert_int_equal(s, MU_OK);
        assert_true(d.n_errors > 0);
        mu_arena_fini(&arena);
    }
    if (n_failed < 50) fail_msg("only %zu requests were made to fail", n_failed);
}

static void test_sections(void **unused) {
    (void)unused;
    size_t n;
    const mu_job_section *s = mu_job_sections(&n);
    assert_true(n >= 8);
    for (size_t i = 0; i < n; i++) {
        assert_non_null(s[i].help);
        for (const mu_field *f = s[i].fields; f && f->key; f++) assert_non_null(f->help);
    }
    assert_string_equal(mu_phase_name(MU_VALIDATION), "validation");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_options),
        cmocka_unit_test(test_outline_problems),
        cmocka_unit_test(test_one_mistake_one_message),
        cmocka_unit_test(test_misspelt_sections),
        cmocka_unit_test(test_evaluation_only),
        cmocka_unit_test(test_set),
        cmocka_unit_test(test_set_problems),
        cmocka_unit_test(test_set_alias),
        cmocka_unit_test(test_write),
        cmocka_unit_test(test_hash),
        cmocka_unit_test(test_load),
        cmocka_unit_test(test_twenty),
        cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_no_memory_anywhere),
        cmocka_unit_test(test_sections),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
