// SPDX-License-Identifier: Apache-2.0
// test_data_inputs.c - what a model knows of its training data: other data is read by it, with the training
// file gone, and a damaged description is refused.
#include "data_help.h"

#include "read/vocab.h"

typedef struct opened {
    block b;
    mu_source *s;
} opened;

static void open_source(opened *o, const char *yaml, mu_phase phase, const mu_inputs *inputs) {
    mu_err err = {0};
    assert_ok(block_bind(&o->b, yaml, &err), &err);
    const mu_source_opts opts = {.batch = 1, .phase = phase, .inputs = inputs};
    assert_ok(mu_source_open_spec(&o->b.spec, &opts, &o->s, &err), &err);
}

static void close_source(opened *o) {
    mu_source_close(o->s);
    block_fini(&o->b);
}

// Opens training data, keeps what a model would, and takes the file away.
static mu_inputs *learn(const char *yaml, const char *path) {
    opened o;
    mu_err err = {0};
    char *text = NULL;
    mu_inputs *in = NULL;
    open_source(&o, yaml, MU_TRAIN, NULL);
    assert_ok(mu_inputs_write(o.s, &text, &err), &err);
    assert_non_null(text);
    close_source(&o);
    if (path) remove(path);
    assert_ok(mu_inputs_read(text, strlen(text), "model", &in, &err), &err);
    mu_free(text);
    return in;
}

static const char *text_file(const char *name, const char *text) {
    return write_file(name, text, strlen(text));
}

static const int32_t *row_of(mu_source *s, int field) {
    const mu_batch *b = NULL;
    mu_err err = {0};
    assert_ok(mu_source_next(s, &b, &err), &err);
    assert_non_null(b);
    return b->field[field].i;
}

// The words of a test file have the numbers of training, though they occur in another order and number.
static void test_sentences(void **ctx) {
    (void)ctx;
    const char *path = text_file("train.tsv", "yes\tone two one\nno\ttwo one\nno\tthree one two four\n");
    mu_inputs *in = learn(yaml_of("{reader: sentences, file: %s}", path), path);
    assert_int_equal(in->n_labels, 2);
    assert_string_equal(in->labels[0], "no");
    opened o;
    const char *test = text_file("test.tsv", "yes\ttwo two five one\nno\tfour\n");
    open_source(&o, yaml_of("{reader: sentences, file: %s}", test), MU_TEST, in);
    const mu_reader *r = mu_source_reader(o.s);
    assert_int_equal(r->field[0].n_classes, 6);
    assert_int_equal(r->field[0].shape.d[0], 4);
    const int32_t want[] = {3, 3, MU_WORD_UNKNOWN, 2};
    assert_memory_equal(row_of(o.s, 0), want, sizeof want);
    assert_int_equal(*row_of(o.s, 1), 0); // of the second line
    close_source(&o);
    // A label that the model does not know is a bad record that says so.
    mu_reader *bad = NULL;
    mu_err err = {0};
    block b;
    const mu_known known = {.learnt = in->learnt, .labels = in->labels, .n_labels = in->n_labels};
    test = text_file("test.tsv", "maybe\ttwo\n");
    assert_ok(block_bind(&b, yaml_of("{reader: sentences, file: %s}", test), &err), &err);
    assert_ok(mu_reader_open(b.spec.reader, b.spec.reader_state, b.spec.pos, &known, &bad, &err), &err);
    read_fails(bad, 0, "label `maybe` does not occur in the model's classes");
    mu_reader_close(bad);
    block_fini(&b);
    mu_inputs_destroy(in);
}

static void test_chars(void **ctx) {
    (void)ctx;
    const char *path = text_file("train.txt", "abcdabcdabcdabcdabcd");
    mu_inputs *in = learn(yaml_of("{reader: chars, file: %s, streams: 2, length: 2}", path), path);
    opened o;
    const char *test = text_file("test.txt", "dcdcdcdcdcdc");
    open_source(&o, yaml_of("{reader: chars, file: %s, streams: 2, length: 2}", test), MU_TEST, in);
    const int32_t want[] = {3, 2};
    assert_int_equal(mu_source_reader(o.s)->field[0].n_classes, 4);
    assert_memory_equal(row_of(o.s, 0), want, sizeof want);
    close_source(&o);
    block b;
    mu_source *s = NULL;
    mu_err err = {0};
    test = text_file("test.txt", "abcxabcxabcx");
    assert_ok(block_bind(&b, yaml_of("{reader: chars, file: %s, streams: 2, length: 2}", test), &err), &err);
    const mu_source_opts opts = {.batch = 1, .phase = MU_TEST, .inputs = in};
    assert_status(mu_source_open_spec(&b.spec, &opts, &s, &err), MU_EDATA, &err);
    assert_says(&err, "0x78, does not occur in the text of the model");
    block_fini(&b);
    mu_inputs_destroy(in);
}

// A label that a file lacks does not move the others.
static void test_csv(void **ctx) {
    (void)ctx;
    const char *path = text_file("train.csv", "1,2,red\n3,4,green\n5,6,blue\n");
    mu_inputs *in = learn(yaml_of("{reader: csv, file: %s}", path), path);
    opened o;
    open_source(&o, yaml_of("{reader: csv, file: %s}", text_file("test.csv", "1,2,red\n7,8,blue\n")), MU_TEST,
                in);
    assert_int_equal(*row_of(o.s, 1), 2);
    assert_int_equal(*row_of(o.s, 1), 0);
    close_source(&o);
    mu_inputs_destroy(in);
}

// The mean of the training data, to the last bit, and its scale where the test block says nothing.
static void test_mean_and_scale(void **ctx) {
    (void)ctx;
    const char *path = text_file("train.csv", "1,0.1,a\n2,0.7,b\n");
    const char *yaml = yaml_of("{reader: csv, file: %s, mean: auto, scale: 0.5}", path);
    char *train_yaml = strdup(yaml);
    mu_inputs *in = learn(train_yaml, path);
    assert_int_equal(in->mean_field, 0);
    assert_int_equal(in->n_mean, 2);
    assert_true(in->mean[1] == (0.1f + 0.7f) / 2.0f || in->mean[1] == (float)((0.1f + (double)0.7f) / 2));
    block b;
    mu_node *like = NULL;
    mu_source *s = NULL;
    mu_err err = {0};
    const char *test = text_file("test.csv", "5,0.4,a\n");
    assert_ok(block_bind(&b, yaml_of("{reader: csv, file: %s}", test), &err), &err);
    const mu_srcpos origin = {.path = "test.yaml", .line = 1, .col = 1};
    assert_ok(mu_yaml_parse(&b.arena, &b.diags, origin, train_yaml, strlen(train_yaml), &like, &err), &err);
    const mu_source_opts opts = {.batch = 1, .phase = MU_TEST, .inputs = in, .like = like};
    assert_ok(mu_source_open(&b.binder, b.node, &opts, &s, &err), &err);
    const mu_batch *batch = NULL;
    assert_ok(mu_source_next(s, &batch, &err), &err);
    assert_true(batch->field[0].f[0] == (5.0f - in->mean[0]) * 0.5f);
    assert_true(batch->field[0].f[1] == (0.4f - in->mean[1]) * 0.5f);
    mu_source_close(s);
    // What the block says itself counts.
    s = NULL;
    block own;
    assert_ok(block_bind(&own, yaml_of("{reader: csv, file: %s, scale: 2, mean: 1}", test), &err), &err);
    assert_ok(mu_source_open(&own.binder, own.node, &opts, &s, &err), &err);
    assert_ok(mu_source_next(s, &batch, &err), &err);
    assert_true(batch->field[0].f[0] == 8.0f);
    mu_source_close(s);
    block_fini(&own);
    block_fini(&b);
    mu_inputs_destroy(in);
    free(train_yaml);
}

static void refused(const char *text, const char *says) {
    mu_inputs *in = NULL;
    mu_err err = {0};
    assert_status(mu_inputs_read(text, strlen(text), "m.safetensors", &in, &err), MU_EMODEL, &err);
    assert_says(&err, says);
}

#define HEAD "{\"format\": 1, \"reader\": \"csv\", \"fields\": ["
#define FIELD "{\"name\": \"x\", \"shape\": [2], \"store\": \"f32\", \"classes\": 0}"

static void test_damage(void **ctx) {
    (void)ctx;
    refused("[]", "JSON object");
    refused("{}", "it has no format");
    refused("{\"format\": 2}", "in format 2, known is 1");
    refused("{\"format\": 1}", "it names no reader");
    refused("{\"format\": 1, \"reader\": \"csv\"}", "its fields");
    refused(HEAD "{}]}", "a field lacks");
    refused(HEAD "{\"name\": \"x\", \"shape\": [0], \"store\": \"f32\", \"classes\": 0}]}", "no size");
    refused(HEAD "{\"name\": \"x\", \"shape\": [2], \"store\": \"f64\", \"classes\": 0}]}", "unknown way");
    refused(HEAD "{\"name\": \"x\", \"shape\": [2], \"store\": \"f32\", \"classes\": 0, \"image\": true}]}",
            "three dimensions");
    refused(HEAD
            "{\"name\": \"x\", \"shape\": [9000000000, 9000000000, 9], \"store\": \"f32\", \"classes\": 0}]}",
            "too large");
    refused(HEAD FIELD "], \"labels\": 3}", "a list of texts is missing");
    refused(HEAD FIELD "], \"labels\": [3]}", "is no text");
    refused(HEAD FIELD "], \"mean\": {\"field\": 1, \"values\": [1]}}", "a mean lacks");
    refused(HEAD FIELD "], \"mean\": {\"field\": 0, \"values\": []}}", "a mean lacks");
    refused(HEAD FIELD "], \"mean\": {\"field\": 0, \"values\": [1e300]}}", "not finite");
}

// Every allocation of writing and reading fails once, and nothing is left behind.
static void test_no_memory(void **ctx) {
    (void)ctx;
    opened o;
    const char *path = text_file("train.tsv", "yes\tone two one\nno\ttwo one\n");
    open_source(&o, yaml_of("{reader: sentences, file: %s}", path), MU_TRAIN, NULL);
    const uint64_t live = mu_alloc_get_stats().n_live;
    bool done = false;
    for (int64_t n = 1; !done; n++) {
        char *text = NULL;
        mu_inputs *in = NULL;
        mu_err err = {0};
        mu_alloc_fail_at(n);
        mu_status st = mu_inputs_write(o.s, &text, &err);
        if (st == MU_OK) st = mu_inputs_read(text, strlen(text), "model", &in, &err);
        done = st == MU_OK;
        mu_alloc_fail_at(0);
        if (st != MU_OK && st != MU_ENOMEM) fail_msg("%s: %s", mu_status_name(st), err.msg);
        mu_free(text);
        mu_inputs_destroy(in);
        assert_int_equal(mu_alloc_get_stats().n_live, live);
    }
    close_source(&o);
}

int main(void) {
    make_test_dir();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sentences),
        cmocka_unit_test(test_chars),
        cmocka_unit_test(test_csv),
        cmocka_unit_test(test_damage),
        cmocka_unit_test(test_mean_and_scale),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
