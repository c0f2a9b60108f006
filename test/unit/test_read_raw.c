// SPDX-License-Identifier: Apache-2.0
// test_read_raw.c - headerless records, alone and side by side with other readers.
#include "data_help.h"

#include <math.h>

// ---- raw ----

static void test_planes_become_pixels(void **ctx) {
    (void)ctx;
    block b;
    mu_reader *r;
    mu_err err = {0};
    assert_ok(reader_open(&b, sample_raw(), &r, &err), &err);
    assert_int_equal(r->n_records, SAMPLES);
    assert_string_equal(r->field[0].name, "image");
    assert_true(r->field[0].is_image);
    for (int i = 0; i < SAMPLES; i++) {
        const uint8_t *px = read_ok(r, i).field[0];
        for (int c = 0; c < 2; c++)
            for (int k = 0; k < 12; k++) assert_int_equal(px[2 * k + c], pixel_of(i, 12 * c + k));
    }
    mu_reader_close(r);
    block_fini(&b);
}

static void test_without_planes_bytes_stay(void **ctx) {
    (void)ctx;
    block b;
    mu_reader *r;
    mu_err err = {0};
    uint8_t px[24];
    for (int k = 0; k < 24; k++) px[k] = (uint8_t)(200 - k);
    const char *p = write_file("hwc.bin", px, sizeof px);
    assert_ok(
        reader_open(&b, yaml_of("{reader: raw, file: %s, shape: [2, 3, 2], field: photo}", p), &r, &err),
        &err);
    assert_int_equal(r->n_records, 2);
    assert_string_equal(r->field[0].name, "photo");
    assert_memory_equal(read_ok(r, 1).field[0], px + 12, 12);
    mu_reader_close(r);
    block_fini(&b);
}

static void test_numbers_are_little_endian(void **ctx) {
    (void)ctx;
    block b;
    mu_reader *r;
    mu_err err = {0};
    const uint8_t floats[] = {0, 0, 0xc0, 0x3f, 0, 0, 0, 0xc0}; // 1.5, -2
    const char *p = write_file("f.bin", floats, sizeof floats);
    assert_ok(reader_open(&b, yaml_of("{reader: raw, file: %s, shape: [2], store: f32}", p), &r, &err), &err);
    assert_int_equal(r->n_records, 1);
    assert_string_equal(r->field[0].name, "features");
    const float *v = read_ok(r, 0).field[0];
    assert_true(v[0] == 1.5f && v[1] == -2.0f);
    mu_reader_close(r);
    block_fini(&b);
    const uint8_t ints[] = {2, 1, 0, 0, 0xff, 0xff, 0xff, 0xff};
    p = write_file("i.bin", ints, sizeof ints);
    assert_ok(reader_open(&b, yaml_of("{reader: raw, file: %s, store: i32}", p), &r, &err), &err);
    assert_string_equal(r->field[0].name, "label");
    assert_int_equal(r->field[0].shape.n, 0);
    assert_int_equal(*(const int32_t *)read_ok(r, 0).field[0], 258);
    assert_int_equal(*(const int32_t *)read_ok(r, 1).field[0], -1);
    mu_reader_close(r);
    block_fini(&b);
}

static void test_raw_damage(void **ctx) {
    (void)ctx;
    uint8_t px[24] = {0};
    const char *p = write_file("x.bin", px, 23);
    reader_fails(yaml_of("{reader: raw, file: %s, shape: [12]}", p), MU_EDATA, "breaks off in record 1");
    reader_fails(yaml_of("{reader: raw, file: %s}", write_file("none.bin", px, 0)), MU_EDATA,
                 "holds no records");
    reader_fails(yaml_of("{reader: raw, file: %s, shape: [2, 2, 2, 3]}", p), MU_EJOB, "4 numbers");
    reader_fails(yaml_of("{reader: raw, file: %s, shape: [16777216, 16777216]}", p), MU_EJOB, "bytes");
    reader_fails(yaml_of("{reader: raw, file: %s, shape: [23], planes: true}", p), MU_EJOB, "`planes`");
    reader_fails(yaml_of("{reader: raw, file: %s, shape: [23], classes: 3}", p), MU_EJOB, "`classes`");
    reader_fails(yaml_of("{reader: raw, file: %s}", test_path("not-there")), MU_EIO, "not-there");
}

static void test_raw_bad_values(void **ctx) {
    (void)ctx;
    block b;
    mu_reader *r;
    mu_err err = {0};
    const float nan_at_3[4] = {1, 2, 3, NAN};
    const char *p = write_file("nan.bin", nan_at_3, sizeof nan_at_3);
    assert_ok(reader_open(&b, yaml_of("{reader: raw, file: %s, shape: [2], store: f32}", p), &r, &err), &err);
    read_ok(r, 0);
    read_fails(r, 1, "record 1: number 1 is not finite");
    mu_reader_close(r);
    block_fini(&b);
    const int32_t label[3] = {2, 3, -1};
    p = write_file("classes.bin", label, sizeof label);
    assert_ok(reader_open(&b, yaml_of("{reader: raw, file: %s, store: i32, classes: 3}", p), &r, &err), &err);
    assert_int_equal(r->field[0].n_classes, 3);
    read_ok(r, 0);
    read_fails(r, 1, "record 1: number 0 is 3, outside 0..2");
    read_fails(r, 2, "is -1");
    mu_reader_close(r);
    block_fini(&b);
}

// ---- zip ----

static void test_zip_puts_fields_side_by_side(void **ctx) {
    (void)ctx;
    block b;
    mu_reader *r;
    mu_err err = {0};
    assert_ok(reader_open(&b, sample_of("zip"), &r, &err), &err);
    assert_int_equal(r->n_fields, 3);
    assert_string_equal(r->field[0].name, "image");
    assert_string_equal(r->field[1].name, "features");
    assert_string_equal(r->field[2].name, "label");
    assert_int_equal(r->field[2].n_classes, 2);
    for (int i = SAMPLES; i-- > 0;) {
        mu_record rec = read_ok(r, i);
        assert_int_equal(((const uint8_t *)rec.field[0])[0], pixel_of(i, 0));
        assert_true(((const float *)rec.field[1])[1] == (float)(i * i));
        assert_int_equal(*(const int32_t *)rec.field[2], i % 3 ? 1 : 0);
    }
    char name[80];
    mu_reader_describe(r, 3, name, sizeof name);
    if (!strstr(name, "raw.bin")) fail_msg("%s, not as its first part calls it", name);
    mu_reader_close(r);
    block_fini(&b);
}

static void test_zip_names(void **ctx) {
    (void)ctx;
    block b;
    mu_reader *r;
    mu_err err = {0};
    const char *raw = sample_raw();
    const char *yaml = yaml_of("{reader: zip, parts: [%s, %s], names: [left, right]}", raw, raw);
    assert_ok(reader_open(&b, yaml, &r, &err), &err);
    assert_int_equal(r->n_fields, 2);
    assert_string_equal(r->field[1].name, "right");
    mu_record rec = read_ok(r, 3);
    assert_memory_equal(rec.field[0], rec.field[1], 24);
    mu_reader_close(r);
    block_fini(&b);
    yaml = yaml_of("{reader: zip, parts: [%s, %s], names: [_, right]}", raw, raw);
    assert_ok(reader_open(&b, yaml, &r, &err), &err);
    assert_int_equal(r->n_fields, 1);
    assert_int_equal(((const uint8_t *)read_ok(r, 5).field[0])[0], pixel_of(5, 0));
    mu_reader_close(r);
    block_fini(&b);
}

// Names of classes come with the label that is kept, or with data that has no label to keep.
static void test_zip_label_names(void **ctx) {
    (void)ctx;
    static const char cats[] = "cat\tmeow\ndog\twoof\n", reds[] = "blue\tsea\nred\trose\n";
    char one[200], two[200], plain[400];
    snprintf(one, sizeof one, "%s", yaml_of("{reader: sentences, file: %s}",
                                            write_file("cats.tsv", cats, sizeof cats - 1)));
    snprintf(two, sizeof two, "%s", yaml_of("{reader: sentences, file: %s}",
                                            write_file("reds.tsv", reds, sizeof reds - 1)));
    const char *texts = write_file("plain.txt", "sea\n\n", 5);
    snprintf(plain, sizeof plain, "%s",
             yaml_of("{reader: sentences, file: %s, labels: false, vocab_of: %s}", texts,
                     write_file("reds.tsv", reds, sizeof reds - 1)));
    struct {
        const char *parts[2], *names, *want;
    } cases[] = {
        {{one, two}, "[a, label, b, _]", "cat"}, {{one, two}, "[a, _, b, colour]", "blue"},
        {{one, two}, "[a, _, b, _]", NULL},      {{one, two}, "[a, x, b, y]", "cat"},
        {{one, plain}, "[a, _, b]", "blue"},     {{plain, one}, "[a, b, label]", "cat"},
    };
    for (size_t i = 0; i < MU_COUNT(cases); i++) {
        block b;
        mu_reader *r;
        mu_err err = {0};
        const char *yaml = yaml_of("{reader: zip, parts: [%s, %s], names: %s}", cases[i].parts[0],
                                   cases[i].parts[1], cases[i].names);
        assert_ok(reader_open(&b, yaml, &r, &err), &err);
        const char *got = r->label_names ? r->label_names[0] : "none", *want = cases[i].want;
        if (strcmp(got, want ? want : "none")) fail_msg("case %zu: `%s`, want `%s`", i, got, want);
        assert_int_equal(r->n_labels, want ? 2 : 0);
        mu_reader_close(r);
        block_fini(&b);
    }
}

static void test_zip_refuses(void **ctx) {
    (void)ctx;
    char raw[256]; // outlives the rotating buffers
    snprintf(raw, sizeof raw, "%s", sample_raw());
    reader_fails(yaml_of("{reader: zip, parts: [%s, %s]}", raw, raw), MU_EJOB,
                 "two fields are called `image`");
    reader_fails(yaml_of("{reader: zip, parts: [%s, %s], names: [a, a]}", raw, raw), MU_EJOB,
                 "two fields are called `a`");
    reader_fails(yaml_of("{reader: zip, parts: [%s], names: [a, b]}", raw), MU_EJOB,
                 "2 names for the 1 fields");
    reader_fails(yaml_of("{reader: zip, parts: [%s], names: [_]}", raw), MU_EJOB, "no field");
    reader_fails("{reader: zip, parts: []}", MU_EJOB, "`parts` is empty");
    const char *few = write_file("few.bin", "abcde", 5);
    reader_fails(yaml_of("{reader: zip, parts: [%s, {reader: raw, file: %s, field: x}]}", raw, few), MU_EDATA,
                 "has 5 records, part 1, `raw`, 12");
    reader_fails(
        yaml_of("{reader: zip, parts: [%s, {reader: raw, file: %s, field: x}]}", raw, test_path("gone")),
        MU_EIO, "gone");
}

// Problems inside a part are reported at their own place, all of them.
static void test_zip_diagnoses_parts(void **ctx) {
    (void)ctx;
    block b;
    mu_err err = {0};
    const char *yaml =
        "reader: zip\nparts:\n  - {reader: raw, file: a, shap: [3]}\n  - {reader: rew, file: b}\n"
        "  - [x]\n  - {file: c}\n";
    assert_status(block_bind(&b, yaml, &err), MU_EJOB, &err);
    assert_int_equal(b.diags.n_errors, 4);
    const struct {
        int line, col;
        const char *says;
    } want[] = {
        {3, 28, "unknown key `shap` in `parts` in data"},
        {4, 14, "unknown reader `rew` in `parts` in data"},
        {5, 5, "must be a word or a block"},
        {6, 5, "missing key `reader`"},
    };
    for (size_t i = 0; i < MU_COUNT(want); i++) {
        const mu_diag *d = &b.diags.list[i];
        if (d->pos.line != want[i].line || d->pos.col != want[i].col || !strstr(d->msg, want[i].says))
            fail_msg("%d:%d: %s; want %d:%d: %s", d->pos.line, d->pos.col, d->msg, want[i].line, want[i].col,
                     want[i].says);
    }
    block_fini(&b);
}

// A part keeps its place: what goes wrong when it is opened points at it.
static void test_zip_places(void **ctx) {
    (void)ctx;
    block b;
    mu_reader *r;
    mu_err err = {0};
    const char *raw = sample_raw();
    const char *yaml = yaml_of("reader: zip\nparts:\n  - %s\n  - {reader: array, shape: [1, 2]}\n", raw);
    assert_status(reader_open(&b, yaml, &r, &err), MU_EJOB, &err);
    assert_int_equal(err.pos.line, 4);
    block_fini(&b);
}

int main(void) {
    make_test_dir();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_planes_become_pixels),
        cmocka_unit_test(test_without_planes_bytes_stay),
        cmocka_unit_test(test_numbers_are_little_endian),
        cmocka_unit_test(test_raw_damage),
        cmocka_unit_test(test_raw_bad_values),
        cmocka_unit_test(test_zip_puts_fields_side_by_side),
        cmocka_unit_test(test_zip_names),
        cmocka_unit_test(test_zip_label_names),
        cmocka_unit_test(test_zip_refuses),
        cmocka_unit_test(test_zip_diagnoses_parts),
        cmocka_unit_test(test_zip_places),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
