// SPDX-License-Identifier: Apache-2.0
// test_read_table.c - kinds of columns, standardisation, gaps and categories, and what a model keeps of them.
#include "data_help.h"

#include "read/table.h"

#include <math.h>

static const char *table_of(const char *name, const char *text, const char *options) {
    return yaml_of("{reader: table, file: %s%s}", write_file(name, text, strlen(text)), options);
}

typedef struct opened {
    block b;
    mu_reader *r;
} opened;

static opened open_ok(const char *yaml) {
    opened o;
    mu_err err = {0};
    assert_ok(reader_open(&o.b, yaml, &o.r, &err), &err);
    return o;
}

static void shut(opened *o) {
    mu_reader_close(o->r);
    block_fini(&o->b);
}

static void assert_features(mu_reader *r, int64_t i, const float *want, int64_t n) {
    const float *f = read_ok(r, i).field[0];
    assert_int_equal(r->field[0].shape.d[0], n);
    for (int64_t k = 0; k < n; k++)
        if (fabsf(f[k] - want[k]) > 1e-5f)
            fail_msg("record %d feature %d: %g, want %g", (int)i, (int)k, (double)f[k], (double)want[k]);
}

static int32_t label_of(mu_reader *r, int64_t i) { return *(const int32_t *)read_ok(r, i).field[1]; }

// size: 1, 2, gap, 6 has mean 3 and deviation sqrt(14/3); weight 10, 20, 20, 10 has mean 15 and deviation 5.
static const char small[] = "size,colour,note,weight,same,kind\n"
                            "1,red,some text,10,7,yes\n"
                            "2,blue,other words,20,7,no\n"
                            "NA,red,a third,20,7,no\n"
                            "6,,a fourth,10,7,yes\n";

static void test_values(void **ctx) {
    (void)ctx;
    opened o = open_ok(table_of("small.csv", small, ""));
    const float d = sqrtf(14.0f / 3);
    assert_int_equal(o.r->n_records, 4);
    assert_int_equal(o.r->n_fields, 2);
    // size and its gap, blue, red and gap of colour, weight, same
    assert_features(o.r, 0, (float[]){-2 / d, 0, 0, 1, 0, -1, 0}, 7);
    assert_features(o.r, 1, (float[]){-1 / d, 0, 1, 0, 0, 1, 0}, 7);
    assert_features(o.r, 2, (float[]){0, 1, 0, 1, 0, 1, 0}, 7);
    assert_features(o.r, 3, (float[]){3 / d, 0, 0, 0, 1, -1, 0}, 7);
    assert_string_equal(o.r->field[1].name, "label");
    assert_int_equal(o.r->n_labels, 2);
    assert_string_equal(o.r->label_names[0], "no");
    assert_int_equal(label_of(o.r, 0), 1);
    assert_int_equal(label_of(o.r, 1), 0);
    shut(&o);
}

static void test_separators_and_headers(void **ctx) {
    (void)ctx;
    static const char *const texts[] = {"a;b;k\n1;2,x;u\n3;4,y;v\n",
                                        "a\tb\tk\n1\t2\tu\n3\t4\tv\n",
                                        "a|b|k\n1|2|u\n3|4|v\n",
                                        "1,2,u\n3,4,v\n",
                                        "\"\",b,k\r\n1,2,u\r\n3,4,v\r\n",
                                        ("\xef\xbb\xbf"
                                         "a,b,k\n1,2,u\n3,4,v")};
    for (size_t i = 0; i < MU_COUNT(texts); i++) {
        opened o = open_ok(table_of("s.csv", texts[i], ", categorical: ['1']"));
        if (o.r->n_records != 2 || o.r->n_labels != 2 || strcmp(o.r->label_names[1], "v"))
            fail_msg("text %zu: %d records, %d labels", i, (int)o.r->n_records, (int)o.r->n_labels);
        assert_features(o.r, 0, (float[]){-1, 1, 0}, 3);
        shut(&o);
    }
    // words everywhere: the first row is a header only if its words do not come again
    opened o = open_ok(table_of("w.csv", "x,y\nx,y\nz,q\nz,q\n", ""));
    assert_int_equal(o.r->n_records, 4);
    shut(&o);
    o = open_ok(table_of("w.csv", "colour,kind\nred,y\nred,y\nblue,q\nblue,q\n", ""));
    assert_int_equal(o.r->n_records, 4);
    assert_features(o.r, 0, (float[]){0, 1}, 2);
    shut(&o);
    reader_fails(table_of("n.csv", "a,b,k\n1,2,u\n3,4,v\n", ", header: 'no', categorical: [a]"), MU_EDATA,
                 "no column `a` for `categorical`");
}

static void test_labels(void **ctx) {
    (void)ctx;
    // whole numbers by value, also when written with .0
    opened o = open_ok(table_of("l.csv", "q,x\n10,1\n9.0,2\n9,3\n", ", label: q"));
    assert_int_equal(o.r->n_labels, 2);
    assert_string_equal(o.r->label_names[0], "9");
    assert_int_equal(label_of(o.r, 0), 1);
    assert_int_equal(label_of(o.r, 1), 0);
    assert_int_equal(label_of(o.r, 2), 0);
    shut(&o);
    // numbers are a target: 10, 20, 60 minus 30 over sqrt(1400 / 3)
    o = open_ok(table_of("l.csv", "x,y\n1,10\n2,20\n3,NA\n4,60\n", ", target: number"));
    assert_int_equal(o.r->n_records, 3); // a row without a label trains nothing
    assert_string_equal(o.r->field[1].name, "target");
    const float d = sqrtf(1400.0f / 3), *t = read_ok(o.r, 2).field[1];
    assert_true(fabsf(*t - 30 / d) < 1e-5f);
    assert_true(fabsf(o.r->target_unit.mean - 30) < 1e-5f && fabsf(o.r->target_unit.deviation - d) < 1e-4f);
    shut(&o);
    o = open_ok(table_of("l.csv", "x,y\n1,1.5\n2,2\n", ""));
    assert_string_equal(o.r->field[1].name, "target");
    shut(&o);
    o = open_ok(table_of("l.csv", "x,y\n1,1.5\n2,2\n", ", label: none"));
    assert_int_equal(o.r->n_fields, 1);
    assert_int_equal(o.r->field[0].shape.d[0], 2);
    shut(&o);
    reader_fails(table_of("l.csv", "x,y\n1,1.5\n2,two\n", ", target: number"), MU_EDATA,
                 "line 3: `two` in column `y`");
}

static void test_options(void **ctx) {
    (void)ctx;
    opened o = open_ok(
        table_of("small.csv", small, ", label: colour, ignore: [note, '4', kind], missing: ['6', NA]"));
    // size without NA and 6: mean 1.5, deviation .5; the row without colour is left out
    assert_int_equal(o.r->n_records, 3);
    assert_features(o.r, 0, (float[]){-1, 0, -1}, 3);
    assert_features(o.r, 2, (float[]){0, 1, 1}, 3);
    shut(&o);
    reader_fails(table_of("small.csv", small, ", label: kinds"), MU_EDATA, "no column `kinds` for `label`");
    reader_fails(table_of("small.csv", small, ", ignore: [sice]"), MU_EDATA, "no column `sice` for `ignore`");
    reader_fails(table_of("small.csv", small, ", ignore: [kind]"), MU_EDATA, "both the label and ignored");
    reader_fails(table_of("small.csv", small, ", separator: xy"), MU_EJOB, "`separator`");
}

static void test_damage(void **ctx) {
    (void)ctx;
    opened o = open_ok(table_of("d.csv", "a,b,k\n1,2,u\n1,2\n3,4,v,w\n5,6,v\n", ""));
    assert_int_equal(o.r->n_records, 4);
    read_fails(o.r, 1, "line 3 has another number of columns");
    read_fails(o.r, 2, "line 4 has another number of columns");
    assert_features(o.r, 3, (float[]){1, 1}, 2); // bad rows count in no statistics
    shut(&o);
    reader_fails(table_of("d.csv", "", ""), MU_EDATA, "holds no rows");
    reader_fails(table_of("d.csv", "a,b\n", ", header: 'yes'"), MU_EDATA, "holds no rows");
    reader_fails(table_of("d.csv", "a,a,k\n1,2,u\n3,4,v\n", ""), MU_EDATA, "two columns of");
    reader_fails(table_of("d.csv", "a,k\n,u\n,v\n", ""), MU_EDATA, "no columns of numbers or categories");
    reader_fails(table_of("d.csv", "a,k\n1,\n2,\n", ""), MU_EDATA, "label column `k`");
    reader_fails(table_of("d.csv", "a,k\n1e300,u\n-1e300,v\n", ""), MU_EDATA, "too large numbers");
    reader_fails(table_of("d.csv", "a,k\n1,\"u\n2,v\n", ""), MU_EDATA, "the row never ends");
    o = open_ok(table_of("d.csv", "a,b,k\n1,M\xfcller,u\n2,M\xc3\xbcller,u\n3,x,v\n4,x,v\n",
                         "")); // Latin-1 and UTF-8
    assert_int_equal(o.r->field[0].shape.d[0], 3);
    shut(&o);
}

// ---- what a model keeps ----

typedef struct model {
    mu_inputs *in;
    mu_known known;
} model;

static model keep(const char *yaml) {
    block b;
    mu_err err = {0};
    mu_source *s;
    char *text;
    model m;
    assert_ok(block_bind(&b, yaml, &err), &err);
    assert_ok(mu_source_open_spec(&b.spec, &(mu_source_opts){.batch = 2, .phase = MU_TRAIN}, &s, &err), &err);
    assert_ok(mu_inputs_write(s, &text, &err), &err);
    mu_source_close(s);
    block_fini(&b);
    assert_ok(mu_inputs_read(text, strlen(text), "test", &m.in, &err), &err);
    mu_free(text);
    m.known = (mu_known){.learnt = m.in->learnt, .labels = m.in->labels, .n_labels = m.in->n_labels};
    return m;
}

static mu_status open_known(opened *o, const model *m, const char *yaml, mu_err *err) {
    assert_ok(block_bind(&o->b, yaml, err), err);
    return mu_reader_open(o->b.spec.reader, o->b.spec.reader_state, o->b.spec.pos, &m->known, &o->r, err);
}

static void known_fails(const model *m, const char *yaml, const char *says) {
    opened o;
    mu_err err = {0};
    assert_status(open_known(&o, m, yaml, &err), MU_EDATA, &err);
    assert_says(&err, says);
    block_fini(&o.b);
}

static void test_model_by_name(void **ctx) {
    (void)ctx;
    mu_err err = {0};
    opened o;
    model m = keep(table_of("small.csv", small, ""));
    const float d = sqrtf(14.0f / 3);
    // another order, another separator, a column more, an unknown word, gaps, a label that is no class
    assert_ok(
        open_known(&o, &m,
                   table_of("t.csv",
                            "kind;same;extra;weight;colour;size\n"
                            "no;7;x;20;blue;6\nyes;8;x;;green;x\nmaybe;7;x;10;red;\nyes;7;x;25;green;-\n",
                            ""),
                   &err),
        &err);
    assert_int_equal(o.r->n_records, 4);
    assert_features(o.r, 0, (float[]){3 / d, 0, 1, 0, 0, 1, 0}, 7);
    assert_int_equal(label_of(o.r, 0), 0);
    read_fails(o.r, 1, "line 3: column `size` is no finite number");
    read_fails(o.r, 2, "line 4: column `kind` is no known label");
    assert_features(o.r, 3, (float[]){0, 1, 0, 0, 1, 2, 0}, 7);
    shut(&o);
    assert_ok(open_known(&o, &m, table_of("t.csv", "weight,same,colour,size\n20,7,blue,6\n", ", label: none"),
                         &err),
              &err);
    assert_int_equal(o.r->n_fields, 1);
    assert_string_equal(o.r->label_names[1], "yes");
    assert_features(o.r, 0, (float[]){3 / d, 0, 1, 0, 0, 1, 0}, 7);
    shut(&o);
    known_fails(&m, table_of("t.csv", "weight,same,colour,size\n20,7,blue,6\n", ""), "has no column `kind`");
    known_fails(&m, table_of("t.csv", "same,colour,size,kind\n7,blue,6,no\n", ""), "has no column `weight`");
    known_fails(&m, table_of("t.csv", "size,size,same,weight,colour,kind\n7,blue,6,1,2,no\n", ""),
                "two columns of");
    known_fails(&m, table_of("t.csv", "1,2,3\n", ""), "has 3 columns, the model's table 6");
    // without a header the places count, with and without the label
    assert_ok(open_known(&o, &m, table_of("t.csv", "6,blue,x,20,7,no\n", ""), &err), &err);
    assert_features(o.r, 0, (float[]){3 / d, 0, 1, 0, 0, 1, 0}, 7);
    shut(&o);
    assert_ok(open_known(&o, &m, table_of("t.csv", "6,blue,x,20,7\n", ", label: none"), &err), &err);
    assert_features(o.r, 0, (float[]){3 / d, 0, 1, 0, 0, 1, 0}, 7);
    shut(&o);
    mu_inputs_destroy(m.in);
}

static void test_model_by_place(void **ctx) {
    (void)ctx;
    mu_err err = {0};
    opened o;
    model m = keep(table_of("p.csv", "1.5,10,0\n2.5,20,2\n2.5,20,2\n", ", label: '0', categorical: ['2']"));
    assert_ok(open_known(&o, &m, table_of("t.csv", "10,2\n30,5\n", ", label: none"), &err), &err);
    // 10, 20, 20: mean 50/3, deviation sqrt(200/9); an unknown word where training had no gaps is the mean
    // of the training rows
    const float d = sqrtf(200.0f / 9), mean = 50.0f / 3;
    assert_features(o.r, 0, (float[]){(10 - mean) / d, 0, 1}, 3);
    assert_features(o.r, 1, (float[]){(30 - mean) / d, 1.0f / 3, 2.0f / 3}, 3);
    assert_true(fabsf(o.r->target_unit.mean - 6.5f / 3) < 1e-6f);
    shut(&o);
    mu_inputs_destroy(m.in);
}

// size 1, 2, 3, 4, 10 and a gap has mean 4; two pieces: 1 to 3 and 3 to 10. flag has two values: no pieces.
static void test_pieces(void **ctx) {
    (void)ctx;
    mu_err err = {0};
    const char *text = "size,flag,k\n1,0,u\n10,1,v\n3,0,u\n,1,u\n2,0,v\n4,1,v\n";
    opened o = open_ok(table_of("pieces.csv", text, ", pieces: 2"));
    const float d = sqrtf(10);
    assert_features(o.r, 0, (float[]){-3 / d, -.5f, -.5f, 0, -1}, 5);
    assert_features(o.r, 1, (float[]){6 / d, .5f, .5f, 0, 1}, 5);
    assert_features(o.r, 2, (float[]){-1 / d, .5f, -.5f, 0, -1}, 5);
    assert_features(o.r, 3, (float[]){0, 0, 0, 1, 1}, 5);
    assert_features(o.r, 4, (float[]){-2 / d, 0, -.5f, 0, -1}, 5);
    assert_features(o.r, 5, (float[]){0, .5f, 1.0f / 7 - .5f, 0, 1}, 5);
    shut(&o);
    model m = keep(table_of("pieces.csv", text, ", pieces: 2"));
    assert_ok(open_known(&o, &m, table_of("t.csv", "flag,size\n0,100\n1,2\n", ", label: none"), &err), &err);
    assert_features(o.r, 0, (float[]){96 / d, .5f, .5f, 0, -1}, 5);
    assert_features(o.r, 1, (float[]){-2 / d, 0, -.5f, 0, 1}, 5);
    shut(&o);
    mu_inputs_destroy(m.in);
}

// ---- embedded columns and texts ----

// Two embedded columns, with gaps and rare words, with neither; a text, which is two columns.
static const char wordy[] = "city,code,title,size,note,kind\n"
                            "Rome,a,Old stones,1,\"the sea, too\",yes\n"
                            "Oslo,b,Old ships,2,,no\n"
                            "Rome,a,,3,the hills,no\n"
                            ",b,Ships,4,NA,yes\n"
                            "Oslo,a,stones,5,x,yes\n"
                            "Nice,a,stones,6,x,yes\n"
                            "Rome,a,stones,7,x,yes\n";
static const char asked_words[] = ", embed: [city, code], text: [title, note]";

static void assert_codes(mu_reader *r, int64_t i, int field, const int32_t *want, int64_t n) {
    const int32_t *v = read_ok(r, i).field[field];
    assert_int_equal(r->field[field].shape.d[0], n);
    for (int64_t k = 0; k < n; k++)
        if (v[k] != want[k]) fail_msg("record %d number %d: %d, want %d", (int)i, (int)k, v[k], want[k]);
}

// city: gap 0, seen once 1, Rome 2, Oslo 3; code, behind it: 4, 5, a 6, b 7.
// Words of the texts: stones 4x, x 3x, old, ships and the twice, then by appearance sea , too hills.
static void test_words(void **ctx) {
    (void)ctx;
    opened o = open_ok(table_of("words.csv", wordy, asked_words));
    assert_int_equal(o.r->n_fields, 4);
    assert_string_equal(o.r->field[1].name, "categories");
    assert_string_equal(o.r->field[2].name, "words");
    assert_string_equal(o.r->field[3].name, "label");
    assert_int_equal(o.r->field[0].shape.d[0], 1);
    assert_int_equal(o.r->field[1].n_classes, 8);
    assert_codes(o.r, 0, 1, (int32_t[]){2, 6}, 2);
    assert_codes(o.r, 1, 1, (int32_t[]){3, 7}, 2);
    assert_codes(o.r, 3, 1, (int32_t[]){0, 7}, 2);
    assert_codes(o.r, 5, 1, (int32_t[]){1, 6}, 2); // Nice stands once
    const char *const *word = o.r->field[2].names;
    assert_string_equal(word[2], "stones");
    assert_string_equal(word[3], "x");
    assert_string_equal(word[4], "old");
    assert_codes(o.r, 0, 2, (int32_t[]){4, 2, 5, 7, 8, 9}, 6); // old stones the sea , too
    assert_codes(o.r, 2, 2, (int32_t[]){5, 10, 0, 0, 0, 0}, 6);
    assert_codes(o.r, 3, 2, (int32_t[]){6, 0, 0, 0, 0, 0}, 6);
    assert_int_equal(*(const int32_t *)read_ok(o.r, 0).field[3], 1);
    shut(&o);
    o = open_ok(table_of("words.csv", wordy,
                         ", ignore: [city, code, size], text: [note], text_length: 2, text_words: 2"));
    assert_string_equal(o.r->field[0].name, "words"); // and there are no features
    assert_int_equal(o.r->field[0].n_classes, 4);
    assert_codes(o.r, 0, 0, (int32_t[]){3, 1}, 2); // the, and an unknown one
    shut(&o);
    reader_fails(table_of("words.csv", wordy, ", embed: [town]"), MU_EDATA, "no column `town` for `embed`");
    reader_fails(table_of("words.csv", wordy, ", text: [kind]"), MU_EDATA, "both the label and sentences");
    reader_fails(table_of("words.csv", wordy, ", text: [city], embed: [city]"), MU_EDATA,
                 "both embedded and sentences");
    reader_fails(table_of("words.csv", wordy, ", embed: [size]"), MU_EDATA, "no word of column `size`");
}

static void test_model_words(void **ctx) {
    (void)ctx;
    mu_err err = {0};
    opened o;
    model m = keep(table_of("words.csv", wordy, asked_words));
    assert_ok(open_known(&o, &m,
                         table_of("t.csv", "note,size,code,city,title\nthe old,4,z,Paris,New Ships\n"
                                           "x,4,,Oslo,\n",
                                  ", label: none"),
                         &err),
              &err);
    // an unknown city is a rare one; code had neither gaps nor rare words: its most frequent word
    assert_codes(o.r, 0, 1, (int32_t[]){1, 6}, 2);
    assert_codes(o.r, 1, 1, (int32_t[]){3, 6}, 2);
    assert_codes(o.r, 0, 2, (int32_t[]){1, 6, 5, 4, 0, 0}, 6); // in the training file's order of columns
    shut(&o);
    known_fails(&m, table_of("t.csv", "size,code,city,title\n4,z,Paris,x\n", ", label: none"),
                "no column `note`");
    mu_inputs_destroy(m.in);
}

// Each member of the description is taken away or spoilt; reading says so and does not crash.
static void test_damaged_model(void **ctx) {
    (void)ctx;
    static const char *const wrong[] = {
        "{}",
        "{\"columns\": [], \"n_columns\": 3, \"target\": \"class\", \"missing\": []}",
        "{\"columns\": [1], \"n_columns\": 3, \"target\": \"class\", \"missing\": []}",
        "{\"columns\": [1], \"n_columns\": 999999999, \"target\": \"class\", \"missing\": []}",
        "{\"columns\": [1], \"n_columns\": 3, \"target\": \"class\"}",
        "{\"columns\": [{\"name\": \"a\", \"place\": 3, \"kind\": \"number\", \"mean\": 0, \"deviation\": "
        "1}],"
        " \"n_columns\": 3, \"target\": \"class\", \"missing\": []}",
        "{\"columns\": [{\"name\": \"a\", \"place\": 0, \"kind\": \"number\", \"mean\": 0, \"deviation\": "
        "-1}],"
        " \"n_columns\": 3, \"target\": \"class\", \"missing\": []}",
        "{\"columns\": [{\"name\": \"a\", \"place\": 0, \"kind\": \"text\"}],"
        " \"n_columns\": 3, \"target\": \"class\", \"missing\": []}",
        "{\"columns\": [{\"name\": \"a\", \"place\": 0, \"kind\": \"category\", \"words\": [\"x\", \"x\"]}],"
        " \"n_columns\": 3, \"target\": \"class\", \"missing\": []}",
        "{\"columns\": [{\"name\": \"a\", \"place\": 0, \"kind\": \"category\", \"words\": [\"x\", \"y\"], "
        "\"shares\": [1]}], \"n_columns\": 3, \"target\": \"class\", \"missing\": []}",
        "{\"columns\": [{\"name\": \"a\", \"place\": 0, \"kind\": \"category\", \"words\": [\"x\", \"y\"], "
        "\"shares\": [2, 0]}], \"n_columns\": 3, \"target\": \"class\", \"missing\": []}",
        "{\"columns\": [{\"name\": \"a\", \"place\": 0, \"kind\": \"number\", \"mean\": 0, \"deviation\": 1, "
        "\"cuts\": [0, 1]}], \"n_columns\": 3, \"target\": \"class\", \"missing\": []}",
        "{\"columns\": [{\"name\": \"a\", \"place\": 0, \"kind\": \"number\", \"mean\": 0, \"deviation\": 1, "
        "\"cuts\": [0, 1, 1]}], \"n_columns\": 3, \"target\": \"class\", \"missing\": []}",
        "{\"columns\": [{\"name\": \"a\", \"place\": 0, \"kind\": \"embedded\", \"words\": []}],"
        " \"n_columns\": 3, \"target\": \"class\", \"missing\": []}",
        "{\"columns\": [{\"name\": \"a\", \"place\": 0, \"kind\": \"embedded\", \"words\": [\"x\", \"x\"]}],"
        " \"n_columns\": 3, \"target\": \"class\", \"missing\": []}",
        "{\"columns\": [{\"name\": \"a\", \"place\": 0, \"kind\": \"sentences\"}],"
        " \"n_columns\": 3, \"target\": \"class\", \"missing\": []}",
        "{\"columns\": [{\"name\": \"a\", \"place\": 0, \"kind\": \"sentences\"}], \"text\": [\"x\"],"
        " \"text_length\": 0, \"n_columns\": 3, \"target\": \"class\", \"missing\": []}",
        "{\"columns\": [{\"name\": \"a\", \"place\": 0, \"kind\": \"label\", \"words\": [\"x\"]}],"
        " \"n_columns\": 2, \"target\": \"class\", \"missing\": []}"};
    mu_json_init();
    for (size_t i = 0; i < MU_COUNT(wrong); i++) {
        uint64_t live = mu_alloc_get_stats().n_live;
        json_t *learnt = json_loads(wrong[i], 0, NULL);
        assert_non_null(learnt);
        model m = {.known = {.learnt = learnt}};
        opened o;
        mu_err err = {0};
        assert_status(open_known(&o, &m, table_of("t.csv", "1,2\n", ""), &err), MU_EMODEL, &err);
        block_fini(&o.b);
        json_decref(learnt);
        assert_int_equal(mu_alloc_get_stats().n_live, live);
    }
}

int main(void) {
    make_test_dir();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),         cmocka_unit_test(test_separators_and_headers),
        cmocka_unit_test(test_labels),         cmocka_unit_test(test_options),
        cmocka_unit_test(test_damage),         cmocka_unit_test(test_model_by_name),
        cmocka_unit_test(test_model_by_place), cmocka_unit_test(test_damaged_model),
        cmocka_unit_test(test_pieces),
        cmocka_unit_test(test_words),          cmocka_unit_test(test_model_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
