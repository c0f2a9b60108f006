// SPDX-License-Identifier: Apache-2.0
// test_read_sentences.c - the readers of text: right numbers from good files, the right complaint about bad
// lines.
#include "data_help.h"

static mu_reader *open_ok(block *b, const char *yaml) {
    mu_reader *r = NULL;
    mu_err err = {0};
    assert_ok(reader_open(b, yaml, &r, &err), &err);
    return r;
}

static void close_all(mu_reader *r, block *b) {
    mu_reader_close(r);
    block_fini(b);
}

static const char *text_file(const char *name, const char *text) {
    return write_file(name, text, strlen(text));
}

static void words_are(mu_reader *r, int64_t i, const int32_t *want, int64_t n) {
    assert_int_equal(r->field[0].shape.d[0], n);
    const int32_t *got = read_ok(r, i).field[0];
    for (int64_t k = 0; k < n; k++)
        if (got[k] != want[k]) fail_msg("record %d word %d is %d, not %d", (int)i, (int)k, got[k], want[k]);
}
#define assert_words(r, i, ...)                                                                              \
    words_are(r, i, (const int32_t[]){__VA_ARGS__}, sizeof((const int32_t[]){__VA_ARGS__}) / sizeof(int32_t))

// ---- sentences ----

static const char train[] = "pos\tA good, good film.\nneg\ta bad film\npos\tgood\n"; // good 3, a film 2, ...

static void test_numbers(void **ctx) {
    (void)ctx;
    block b;
    mu_reader *r = open_ok(&b, yaml_of("{reader: sentences, file: %s}", text_file("train.tsv", train)));
    // good = 2, a = 3, film = 4, "," = 5, . = 6, bad = 7
    assert_int_equal(r->n_records, 3);
    assert_int_equal(r->field[0].n_classes, 8);
    assert_string_equal(r->field[0].names[7], "bad");
    assert_int_equal(r->field[1].n_classes, 2);
    assert_string_equal(r->label_names[0], "neg");
    assert_words(r, 0, 3, 2, 5, 2, 4, 6);
    assert_words(r, 1, 3, 7, 4, 0, 0, 0);
    assert_words(r, 2, 2, 0, 0, 0, 0, 0);
    assert_int_equal(*(const int32_t *)read_ok(r, 0).field[1], 1);
    assert_int_equal(*(const int32_t *)read_ok(r, 1).field[1], 0);
    close_all(r, &b);
}

static void test_length_pad_and_limits(void **ctx) {
    (void)ctx;
    block b;
    const char *p = text_file("train.tsv", train);
    mu_reader *r = open_ok(&b, yaml_of("{reader: sentences, file: %s, length: 2, pad: 1}", p));
    assert_words(r, 0, 0, 3, 2, 0);
    assert_words(r, 2, 0, 2, 0, 0);
    close_all(r, &b);
    r = open_ok(&b, yaml_of("{reader: sentences, file: %s, min_count: 2, punctuation: none}", p));
    assert_int_equal(r->field[0].n_classes, 5);
    assert_words(r, 1, 3, 1, 4, 0);
    close_all(r, &b);
    r = open_ok(&b, yaml_of("{reader: sentences, file: %s, max_words: 1, lower: false, length: 3}", p));
    assert_words(r, 1, 1, 1, 1);
    assert_words(r, 0, 1, 2, 1);
    close_all(r, &b);
    r = open_ok(&b,
                yaml_of("{reader: sentences, file: %s, vocab: %s}", p, text_file("v.txt", "film\nbad\n")));
    assert_int_equal(r->field[0].n_classes, 4);
    assert_words(r, 1, 1, 3, 2, 0, 0, 0);
    close_all(r, &b);
}

static void test_test_data(void **ctx) {
    (void)ctx;
    block b;
    const char *p = text_file("train.tsv", train);
    const char *q =
        text_file("test.tsv", "neg\tbad bad, really bad film of the worst kind\nmeh\tfilm\npos\tgood\n");
    mu_reader *r = open_ok(&b, yaml_of("{reader: sentences, file: %s, vocab_of: %s}", q, p));
    assert_words(r, 0, 7, 7, 5, 1, 7, 4);
    assert_int_equal(*(const int32_t *)read_ok(r, 0).field[1], 0);
    read_fails(r, 1, "test.tsv` line 2: label `meh` does not occur in `");
    assert_int_equal(*(const int32_t *)read_ok(r, 2).field[1], 1);
    close_all(r, &b);
    // prediction: texts only, the labels' names are known all the same
    q = text_file("plain.tsv", "good film\nbad\n");
    r = open_ok(&b, yaml_of("{reader: sentences, file: %s, vocab_of: %s, labels: false}", q, p));
    assert_int_equal(r->n_fields, 1);
    assert_int_equal(r->n_labels, 2);
    assert_string_equal(r->label_names[1], "pos");
    assert_words(r, 0, 2, 4, 0, 0, 0, 0);
    close_all(r, &b);
}

// Answers are matched with lines by their number: no line of a file without labels may vanish.
static void test_every_line_to_predict_counts(void **ctx) {
    (void)ctx;
    block b;
    const char *p = text_file("train.tsv", train);
    const char *q = text_file("plain.tsv", "good film\n\n  \nbad\r\n\r\n");
    mu_reader *r = open_ok(&b, yaml_of("{reader: sentences, file: %s, vocab_of: %s, labels: false}", q, p));
    assert_int_equal(r->n_records, 5);
    assert_words(r, 0, 2, 4, 0, 0, 0, 0);
    assert_words(r, 1, 0, 0, 0, 0, 0, 0);
    assert_words(r, 2, 0, 0, 0, 0, 0, 0);
    assert_words(r, 3, 7, 0, 0, 0, 0, 0);
    assert_words(r, 4, 0, 0, 0, 0, 0, 0);
    char name[200];
    mu_reader_describe(r, 3, name, sizeof name);
    assert_non_null(strstr(name, "line 4"));
    close_all(r, &b);
    q = text_file("plain.csv", "1,good\n\n2,bad\n");
    r = open_ok(&b, yaml_of("{reader: sentences, file: %s, labels: false, separator: \",\", "
                            "text_columns: [2]}", q));
    assert_int_equal(r->n_records, 3);
    assert_words(r, 1, 0);
    assert_words(r, 2, 3);
    close_all(r, &b);
}

static void test_vocabulary_of_a_file(void **ctx) {
    (void)ctx;
    block b;
    const char *p = text_file("train.tsv", train), *v = text_file("words.txt", "film\ngood\nbad\n");
    mu_reader *r = open_ok(&b, yaml_of("{reader: sentences, file: %s, vocab: %s}", p, v));
    assert_int_equal(r->field[0].n_classes, 5);
    assert_words(r, 1, 1, 4, 2, 0, 0, 0);
    close_all(r, &b);
    r = open_ok(&b, yaml_of("{reader: sentences, file: %s, vocab: %s, max_words: 1}", p, v));
    assert_int_equal(r->field[0].n_classes, 3);
    assert_words(r, 1, 1, 1, 2, 0, 0, 0);
    close_all(r, &b);
    reader_fails(yaml_of("{reader: sentences, file: %s, vocab: %s, min_count: 2}", p, v), MU_EJOB,
                 "`min_count`");
}

static void test_columns_and_csv(void **ctx) {
    (void)ctx;
    block b;
    const char *p = text_file("t.csv", "id,title,body,kind\n1,\"Red, big\",a \"\"car,x\n2,Blue,,\"y, z\"\n");
    mu_reader *r = open_ok(&b, yaml_of("{reader: sentences, file: %s, separator: \",\", header: true, "
                                       "label_column: 4, text_columns: [2, 3]}", p));
    assert_int_equal(r->n_records, 2);
    assert_string_equal(r->label_names[1], "y, z");
    assert_words(r, 0, 3, 4, 5, 6, 2, 2, 7); // red , big a " " car
    assert_words(r, 1, 8, 0, 0, 0, 0, 0, 0);
    char name[200];
    mu_reader_describe(r, 1, name, sizeof name);
    assert_non_null(strstr(name, "line 3"));
    close_all(r, &b);
    p = text_file(
        "n.tsv",
        "2\tone two\n0\tthree\n\n2\tfour\n"); // numbers are classes, with gaps; empty lines do not count
    r = open_ok(&b, yaml_of("{reader: sentences, file: %s}", p));
    assert_int_equal(r->n_records, 3);
    assert_int_equal(r->field[1].n_classes, 3);
    assert_null(r->label_names);
    assert_int_equal(*(const int32_t *)read_ok(r, 2).field[1], 2);
    close_all(r, &b);
}

static void test_damaged_lines(void **ctx) {
    (void)ctx;
    static char text[MU_CACHE_LINE * 2048];
    size_t n = 0;
#define PUT(s) memcpy(text + n, s, sizeof(s) - 1), n += sizeof(s) - 1
    PUT("a\tgood one\n");
    PUT("no tab here\n");
    PUT("a\tbad \xc3\x28 bytes\n");
    PUT("b\tnul \0 inside\n");
    PUT("\tno label\n");
    PUT("a\t   \n");
    PUT("a\t");
    memset(text + n, 'x', 70000);
    n += 70000;
    PUT("\nb\tlast one");
    block b;
    mu_reader *r = open_ok(&b, yaml_of("{reader: sentences, file: %s}", write_file("d.tsv", text, n)));
    assert_int_equal(r->n_records, 8);
    assert_int_equal(r->field[1].n_classes, 2);
    assert_int_equal(r->field[0].n_classes, 5);         // good one last
    assert_words(r, 0, 3, 2);
    read_fails(r, 1, "line 2 has too few columns");
    read_fails(r, 2, "line 3 is not valid UTF-8");
    read_fails(r, 3, "line 4 holds a NUL byte");
    read_fails(r, 4, "line 5 has an empty label");
    read_fails(r, 5, "line 6 has a text without words");
    read_fails(r, 6, "line 7 is longer than 65536 bytes");
    assert_words(r, 7, 4, 2);
    close_all(r, &b);
    reader_fails(yaml_of("{reader: sentences, file: %s}", text_file("x", "only text\nmore\n")), MU_EDATA,
                 "line 1 has too few columns");
    reader_fails(yaml_of("{reader: sentences, file: %s}", text_file("x", "\n\n")), MU_EDATA,
                 "holds no sentences");
    reader_fails(yaml_of("{reader: sentences, file: %s, vocab_of: %s}", text_file("x", ""),
                         text_file("train.tsv", train)), MU_EDATA, "x` holds no sentences");
    reader_fails(yaml_of("{reader: sentences, file: %s, separator: tabs}", test_path("train.tsv")), MU_EJOB,
                 "must be one character");
    reader_fails(yaml_of("{reader: sentences, file: %s, text_columns: 1}", test_path("train.tsv")), MU_EJOB,
                 "both the label and text");
}

// ---- chars ----

static void test_chars(void **ctx) {
    (void)ctx;
    block b;
    mu_reader *r = open_ok(&b, sample_chars());         // 61 characters: 3 streams of 20
    static const char text[] = "the quick brown fox jumps over the lazy dog, and then it sleeps";
    assert_int_equal(r->n_records, 12);
    for (int f = 0; f < 3; f++) assert_int_equal(r->field[f].streams, 3);
    assert_int_equal(r->field[0].n_classes, r->field[1].n_classes);
    for (int i = 0; i < 12; i++) {
        mu_record rec = read_ok(r, i);
        const int32_t *now = rec.field[0], *next = rec.field[1];
        int at = i % 3 * 20 + i / 3 * 5;
        for (int k = 0; k < 5; k++) {
            assert_int_equal(r->field[0].names[now[k]][0], text[at + k]);
            assert_int_equal(r->field[1].names[next[k]][0], text[at + k + 1]);
        }
        assert_int_equal(*(const int32_t *)rec.field[2], i < 3);
    }
    close_all(r, &b);
}

// The first and the last character count too when they occur nowhere else.
static void test_chars_at_the_ends(void **ctx) {
    (void)ctx;
    block b;
    const char *p = text_file("ends.txt", "Xababababababababababababababababababababz");
    mu_reader *r = open_ok(&b, yaml_of("{reader: chars, file: %s, streams: 1, length: 41}", p));
    assert_int_equal(r->field[0].n_classes, 4);
    mu_record rec = read_ok(r, 0);
    assert_string_equal(r->field[0].names[((const int32_t *)rec.field[0])[0]], "X");
    assert_string_equal(r->field[1].names[((const int32_t *)rec.field[1])[40]], "z");
    close_all(r, &b);
}

// Parts of one file have one vocabulary and no character in common, except that the last one is predicted.
static void test_parts(void **ctx) {
    (void)ctx;
    block a, b;
    const char *p = text_file("c.txt", "abababababababababababababababababababab" "xyz\xc3\xa9xyzxyz");
    mu_reader *first = open_ok(&a, yaml_of("{reader: chars, file: %s, streams: 2, length: 3, to: 0.8}", p));
    mu_reader *last = open_ok(&b, yaml_of("{reader: chars, file: %s, streams: 2, length: 3, from: 0.8}", p));
    assert_int_equal(first->field[0].n_classes, 7);     // a b x y z and the two bytes of e acute
    assert_int_equal(last->field[0].n_classes, 7);
    assert_int_equal(last->n_records, 2);
    for (int64_t i = 0; i < first->n_records; i++)
        for (int k = 0; k < 3; k++)
            assert_in_range(first->field[0].names[((const int32_t *)read_ok(first, i).field[0])[k]][0], 'a',
                            'b');
    close_all(first, &a);
    close_all(last, &b);
    reader_fails(yaml_of("{reader: chars, file: %s, streams: 20}", p), MU_EDATA,
                 "is too short: 51 characters");
    reader_fails(yaml_of("{reader: chars, file: %s, from: 0.5, to: 0.5}", p), MU_EJOB, "is not before");
    reader_fails(yaml_of("{reader: chars, file: %s, streams: 1, length: 1}", write_file("x", "a\0b", 3)),
                 MU_EDATA, "byte 1 is a NUL");
}

// Sources keep the order and give whole rounds of the streams.
static void test_chars_source(void **ctx) {
    (void)ctx;
    block b;
    mu_err err = {0};
    mu_source *s;
    assert_ok(block_bind(&b, sample_chars(), &err), &err);
    b.spec.limit = 11;
    mu_source_opts o = {.batch = 3, .seed = 3, .phase = MU_TRAIN, .shuffle = true};
    assert_ok(mu_source_open_spec(&b.spec, &o, &s, &err), &err);
    assert_int_equal(mu_source_n_records(s), 9);
    for (int i = 0; i < 7; i++) {
        const mu_batch *batch;
        assert_ok(mu_source_next(s, &batch, &err), &err);
        for (int k = 0; k < 3; k++) assert_int_equal(batch->field[2].i[k], i % 3 == 0);
    }
    mu_source_close(s);
    block_fini(&b);
}

// Another file is numbered as the first one is, and the part of it that is used may hold nothing else.
static void test_chars_vocab_of(void **ctx) {
    (void)ctx;
    block a, b;
    const char *known = text_file("train.txt", "abcdeabcdeabcdeabcde");
    const char *test = text_file("test.txt", "edbedbedb");
    const char *strange = text_file("strange.txt", "edbedbedbedbx");
    mu_reader *first = open_ok(&a, yaml_of("{reader: chars, file: %s, streams: 2, length: 2}", known));
    mu_reader *other = open_ok(&b, yaml_of("{reader: chars, file: %s, vocab_of: %s, streams: 2, length: 2}",
                                           test, known));
    assert_int_equal(other->field[0].n_classes, first->field[0].n_classes);
    for (int k = 0; k < 5; k++) assert_string_equal(other->field[0].names[k], first->field[0].names[k]);
    assert_int_equal(((const int32_t *)read_ok(other, 0).field[0])[0], 4);
    close_all(first, &a);
    close_all(other, &b);
    reader_fails(yaml_of("{reader: chars, file: %s, vocab_of: %s, streams: 2, length: 2}", strange, known),
                 MU_EDATA, "byte 12, 0x78, does not occur in");
    first = open_ok(&a, yaml_of("{reader: chars, file: %s, vocab_of: %s, streams: 2, length: 2, to: 0.9}",
                                strange, known));
    close_all(first, &a);
}

// Records that continue each other cannot be left out: streams would be mixed up.
static void test_streams_have_no_bad_records(void **ctx) {
    (void)ctx;
    for (int k = 0; k < 2; k++) {
        block b;
        mu_err err = {0};
        mu_source *s;
        const mu_batch *batch;
        const mu_source_opts o = {.batch = 3, .seed = 3, .phase = k ? MU_TEST : MU_TRAIN};
        assert_ok(block_bind(&b, sample_chars(), &err), &err);
        assert_ok(mu_source_open_spec(&b.spec, &o, &s, &err), &err);
        char text[61];
        memset(text, '?', sizeof text);
        write_file("c.txt", text, sizeof text); // while it is in use
        assert_int_equal(mu_source_next(s, &batch, &err), MU_EDATA);
        if (!strstr(err.msg, "has changed") || !strstr(err.note, "continue each other"))
            fail_msg("`%s` (%s)", err.msg, err.note);
        mu_source_close(s);
        block_fini(&b);
    }
    block b;
    mu_err err = {0};
    mu_source *s;
    assert_ok(block_bind(&b, sample_chars(), &err), &err);
    b.spec.max_bad = 3;
    const mu_source_opts o = {.batch = 3, .phase = MU_TRAIN};
    assert_int_equal(mu_source_open_spec(&b.spec, &o, &s, &err), MU_EJOB);
    assert_non_null(strstr(err.msg, "`max_bad` must be 0"));
    block_fini(&b);
}

int main(void) {
    make_test_dir();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers),         cmocka_unit_test(test_length_pad_and_limits),
        cmocka_unit_test(test_test_data),       cmocka_unit_test(test_columns_and_csv),
        cmocka_unit_test(test_damaged_lines),   cmocka_unit_test(test_chars),
        cmocka_unit_test(test_every_line_to_predict_counts),
        cmocka_unit_test(test_vocabulary_of_a_file),
        cmocka_unit_test(test_parts),           cmocka_unit_test(test_chars_source),
        cmocka_unit_test(test_chars_vocab_of),  cmocka_unit_test(test_chars_at_the_ends),
         cmocka_unit_test(test_streams_have_no_bad_records),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
