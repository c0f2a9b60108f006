// SPDX-License-Identifier: Apache-2.0
// test_read_readers.c - each format: right values from good files, the right complaint about bad ones.
#include "data_help.h"

#include <zlib.h>

static const char *gzip_file(const char *name, const void *bytes, size_t n) {
    const char *p = test_path(name);
    gzFile f = gzopen(p, "wb");
    assert_int_equal(gzwrite(f, bytes, (unsigned)n), (int)n);
    gzclose(f);
    return p;
}

// ---- idx ----

static void test_idx_values(void **ctx) {
    (void)ctx;
    block b;
    mu_reader *r;
    mu_err err = {0};
    assert_ok(reader_open(&b, sample_idx(), &r, &err), &err);
    assert_string_equal(r->field[0].name, "image");
    assert_true(r->field[0].is_image);
    assert_int_equal(r->field[0].shape.d[0], 1);
    assert_int_equal(r->field[0].shape.d[1], 6);
    assert_int_equal(r->field[0].shape.d[2], 5);
    assert_int_equal(r->field[1].n_classes, 4);
    for (int i = 0; i < SAMPLES; i++) {
        mu_record rec = read_ok(r, i);
        for (int k = 0; k < 30; k++) assert_int_equal(((const uint8_t *)rec.field[0])[k], pixel_of(i, k));
        assert_int_equal(*(const int32_t *)rec.field[1], i % 4);
    }
    mu_reader_close(r);
    block_fini(&b);
}

static void test_idx_element_types_and_orders(void **ctx) {
    (void)ctx;
    block b;
    mu_reader *r;
    mu_err err = {0};
    // two float features a record, big-endian: 1.5, -2, 0, 1
    const uint8_t floats[] = {0x3f, 0xc0, 0, 0, 0xc0, 0, 0, 0, 0, 0, 0, 0, 0x3f, 0x80, 0, 0};
    const char *p = write_idx("f.idx", 0x0d, 2, (uint32_t[]){2, 2}, floats, sizeof floats);
    assert_ok(reader_open(&b, yaml_of("{reader: idx, images: %s}", p), &r, &err), &err);
    assert_int_equal(r->n_fields, 1);
    const float *v = read_ok(r, 0).field[0];
    assert_true(v[0] == 1.5f && v[1] == -2.0f);
    v = read_ok(r, 1).field[0];
    assert_true(v[0] == 0.0f && v[1] == 1.0f);
    mu_reader_close(r);
    block_fini(&b);
    // int32: 7 and -1
    const uint8_t ints[] = {0, 0, 0, 7, 0xff, 0xff, 0xff, 0xff};
    p = write_idx("i.idx", 0x0c, 1, (uint32_t[]){2}, ints, sizeof ints);
    assert_ok(reader_open(&b, yaml_of("{reader: idx, images: %s}", p), &r, &err), &err);
    assert_true(*(const float *)read_ok(r, 0).field[0] == 7.0f);
    assert_true(*(const float *)read_ok(r, 1).field[0] == -1.0f);
    mu_reader_close(r);
    block_fini(&b);
    // 2 channels of 1 x 3, plane after plane
    const uint8_t planes[] = {1, 2, 3, 11, 12, 13};
    p = write_idx("c.idx", 8, 4, (uint32_t[]){1, 2, 1, 3}, planes, sizeof planes);
    assert_ok(reader_open(&b, yaml_of("{reader: idx, images: %s, order: chw}", p), &r, &err), &err);
    assert_int_equal(r->field[0].shape.d[0], 2);
    assert_int_equal(r->field[0].shape.d[2], 3);
    assert_memory_equal(read_ok(r, 0).field[0], ((const uint8_t[]){1, 11, 2, 12, 3, 13}), 6);
    mu_reader_close(r);
    block_fini(&b);
}

static void test_idx_damage(void **ctx) {
    (void)ctx;
    uint8_t buf[1024];
    sample_idx();
    size_t n = load_bytes(test_path("im.idx"), buf, sizeof buf);
    reader_fails(yaml_of("{reader: idx, images: %s}", write_file("x", buf, n - 1)), MU_EDATA,
                 "ends in record 11");
    reader_fails(yaml_of("{reader: idx, images: %s}", write_file("x", buf, 7)), MU_EDATA, "too short");
    reader_fails(yaml_of("{reader: idx, images: %s}", write_file("x", buf, n + 1)), MU_EDATA,
                 "behind its last record");
    buf[0] = 1;
    reader_fails(yaml_of("{reader: idx, images: %s}", write_file("x", buf, n)), MU_EDATA, "is no idx file");
    buf[0] = 0, buf[2] = 0x0b;
    reader_fails(yaml_of("{reader: idx, images: %s}", write_file("x", buf, n)), MU_EUNSUPPORTED,
                 "element type 0b");
    buf[2] = 8, buf[3] = 9;
    reader_fails(yaml_of("{reader: idx, images: %s}", write_file("x", buf, n)), MU_EDATA, "is no idx file");
    buf[3] = 3;
    for (int i = 4; i < 16; i++) buf[i] = 0xff;         // 2^96 bytes
    uint64_t calls = mu_alloc_get_stats().peak_bytes;
    reader_fails(yaml_of("{reader: idx, images: %s}", write_file("x", buf, n)), MU_EDATA,
                 "declares 4294967295 records");
    assert_true(mu_alloc_get_stats().peak_bytes < calls + (1 << 20));
    for (int i = 4; i < 16; i++) buf[i] = i % 4 ? 0 : 0x80;     // sizes whose product wraps to 0
    reader_fails(yaml_of("{reader: idx, images: %s}", write_file("x", buf, n)), MU_EDATA,
                 "declares 2147483648 records");
    for (int i = 4; i < 8; i++) buf[i] = 0;
    reader_fails(yaml_of("{reader: idx, images: %s}", write_file("x", buf, n)), MU_EDATA, "is empty");
    reader_fails(yaml_of("{reader: idx, images: %s, labels: %s}", test_path("im.idx"), test_path("im.idx")),
                 MU_EDATA, "holds no labels");
    const char *few = write_idx("few", 8, 1, (uint32_t[]){3}, "abc", 3);
    reader_fails(yaml_of("{reader: idx, images: %s, labels: %s}", test_path("im.idx"), few), MU_EDATA,
                 "3 labels for 12 records");
}

static void test_idx_label_range(void **ctx) {
    (void)ctx;
    block b;
    mu_reader *r;
    mu_err err = {0};
    sample_idx();
    assert_ok(reader_open(&b,
                          yaml_of("{reader: idx, images: %s, labels: %s, classes: 3}", test_path("im.idx"),
                                  test_path("la.idx")),
                          &r, &err),
              &err);
    read_ok(r, 2);
    read_fails(r, 3, "record 3: label 3 is outside 0..2");
    mu_reader_close(r);
    block_fini(&b);
    // Without `classes` the data say which record has the largest label: a net with fewer scores names it.
    assert_ok(reader_open(&b, yaml_of("{reader: idx, images: %s, labels: %s}", test_path("im.idx"),
                                      test_path("la.idx")), &r, &err), &err);
    assert_non_null(strstr(r->field[1].top_from, "la.idx` record 3"));
    mu_reader_close(r);
    block_fini(&b);
}

static void test_gzip(void **ctx) {
    (void)ctx;
    uint8_t buf[4096];
    sample_idx();
    size_t n = load_bytes(test_path("im.idx"), buf, sizeof buf);
    const char *gz = gzip_file("im.gz", buf, n);
    block b;
    mu_reader *r;
    mu_err err = {0};
    assert_ok(reader_open(&b, yaml_of("{reader: idx, images: %s}", gz), &r, &err), &err);
    for (int i = 0; i < SAMPLES; i++)
        assert_int_equal(((const uint8_t *)read_ok(r, i).field[0])[29], pixel_of(i, 29));
    mu_reader_close(r);
    block_fini(&b);
    size_t m = load_bytes(gz, buf, sizeof buf);
    for (size_t cut = 3; cut < m; cut += 5)
        reader_fails(yaml_of("{reader: idx, images: %s}", write_file("x", buf, cut)), MU_EDATA, "gzip");
    buf[m - 6] ^= 1;    // in the checksum
    reader_fails(yaml_of("{reader: idx, images: %s}", write_file("x", buf, m)), MU_EDATA, "damaged gzip");
}

// Tapes and block devices fill the last block with zeros; gzip(1) takes such files.
static void test_gzip_padding(void **ctx) {
    (void)ctx;
    static uint8_t buf[200000];
    sample_idx();
    size_t n = load_bytes(test_path("im.idx"), buf, 4096);
    size_t m = load_bytes(gzip_file("im.gz", buf, n), buf, 4096);
    memset(buf + m, 0, sizeof buf - m);
    for (size_t pad = 1; pad < sizeof buf - m; pad = pad * 7 + 1) {
        block b;
        mu_reader *r;
        mu_err err = {0};
        const char *yaml = yaml_of("{reader: idx, images: %s}", write_file("x", buf, m + pad));
        assert_ok(reader_open(&b, yaml, &r, &err), &err);
        assert_int_equal(r->n_records, SAMPLES);
        mu_reader_close(r);
        block_fini(&b);
        buf[m + pad - 1] = 7;
        reader_fails(yaml_of("{reader: idx, images: %s}", write_file("x", buf, m + pad)), MU_EDATA, "gzip");
        buf[m + pad - 1] = 0;
    }
}

static void test_gzip_bomb(void **ctx) {
    (void)ctx;
    const char *p = test_path("bomb.gz");
    gzFile f = gzopen(p, "wb9");
    uint8_t *zeros = calloc(1, 1 << 20);
    for (int i = 0; i < 200; i++) gzwrite(f, zeros, 1 << 20);
    free(zeros);
    gzclose(f);
    reader_fails(yaml_of("{reader: idx, images: %s}", p), MU_EDATA, "inflates to more than");
}

// ---- CIFAR ----

static void test_cifar(void **ctx) {
    (void)ctx;
    block b;
    mu_reader *r;
    mu_err err = {0};
    assert_ok(reader_open(&b, sample_cifar(), &r, &err), &err);
    assert_int_equal(r->field[1].n_classes, 10);
    for (int i = 0; i < SAMPLES; i++) {
        mu_record rec = read_ok(r, i);
        const uint8_t *px = rec.field[0];
        for (int k = 0; k < 1024; k++)
            for (int c = 0; c < 3; c++) assert_int_equal(px[3 * k + c], pixel_of(i, c * 1024 + k));
        assert_int_equal(*(const int32_t *)rec.field[1], i % 10);
    }
    char name[200];
    mu_reader_describe(r, 6, name, sizeof name);
    assert_non_null(strstr(name, "b.bin"));
    assert_non_null(strstr(name, "record 1"));
    mu_reader_close(r);
    block_fini(&b);
    static uint8_t buf[3073 * 3];
    reader_fails(yaml_of("{reader: cifar, files: %s}", write_file("x", buf, 3073 * 2 + 5)), MU_EDATA,
                 "breaks off in record 2");
    reader_fails(yaml_of("{reader: cifar, files: %s}", write_file("x", buf, 0)), MU_EDATA,
                 "holds no records");
    buf[3073] = 10;
    assert_ok(
        reader_open(&b, yaml_of("{reader: cifar, files: %s}", write_file("x", buf, sizeof buf)), &r, &err),
        &err);
    read_fails(r, 1, "record 1: label 10 is outside 0..9");
    mu_reader_close(r);
    block_fini(&b);
}

static void test_cifar100(void **ctx) {
    (void)ctx;
    static uint8_t buf[3074 * 2];
    buf[3074] = 19, buf[3075] = 99;
    const char *p = write_file("c100", buf, sizeof buf);
    block b;
    mu_reader *r;
    mu_err err = {0};
    assert_ok(reader_open(&b, yaml_of("{reader: cifar, files: %s, label_bytes: 2}", p), &r, &err), &err);
    assert_int_equal(r->field[1].n_classes, 100);
    assert_int_equal(*(const int32_t *)read_ok(r, 1).field[1], 99);
    mu_reader_close(r);
    block_fini(&b);
    assert_ok(
        reader_open(&b, yaml_of("{reader: cifar, files: %s, label_bytes: 2, coarse: true}", p), &r, &err),
        &err);
    assert_int_equal(r->field[1].n_classes, 20);
    assert_int_equal(*(const int32_t *)read_ok(r, 1).field[1], 19);
    mu_reader_close(r);
    block_fini(&b);
}

// ---- names of classes ----

static void expect_names(const char *yaml, const mu_known *known, int64_t n, const char *last) {
    block b;
    mu_reader *r;
    mu_err err = {0};
    assert_ok(block_bind(&b, yaml, &err), &err);
    assert_ok(mu_reader_open(b.spec.reader, b.spec.reader_state, b.spec.pos, known, &r, &err), &err);
    assert_int_equal(r->n_labels, n);
    assert_int_equal(r->field[1].n_classes, n);
    assert_string_equal(r->label_names[n - 1], last);
    mu_reader_close(r);
    block_fini(&b);
}

static const char *named_idx(const char *text, size_t n) {
    const char *names = write_file("names.txt", text, n);
    sample_idx();
    return yaml_of("{reader: idx, images: %s, labels: %s, class_names: %s}", test_path("im.idx"),
                   test_path("la.idx"), names);
}

static void test_idx_class_names(void **ctx) {
    (void)ctx;
    block b;
    mu_reader *r;
    mu_err err = {0};
    expect_names(named_idx("T-shirt\r\n\xc3\xa9t\xc3\xa9\nc\nd \n\n", 21), NULL, 4, "d");
    expect_names(named_idx("a\nb\nc\nd\nseldom seen", 19), NULL, 5, "seldom seen");
    assert_ok(reader_open(&b, named_idx("a\nb\nc", 5), &r, &err), &err);
    assert_int_equal(r->field[1].n_classes, 3);
    read_ok(r, 2);
    read_fails(r, 3, "record 3: label 3 is outside 0..2, the classes that have names");
    mu_reader_close(r);
    block_fini(&b);
    reader_fails(named_idx("a\nb\na\n", 6), MU_EDATA, "line 3 repeats the name");
    reader_fails(named_idx("a\n\nb\n", 5), MU_EDATA, "line 2 is empty, but names follow");
    reader_fails(named_idx("a\nb\xff\n", 5), MU_EDATA, "line 2 is not valid UTF-8");
    reader_fails(named_idx("\n\n", 2), MU_EDATA, "names no classes");
    reader_fails(yaml_of("{reader: idx, images: %s, labels: %s, class_names: %s, classes: 4}",
                         test_path("im.idx"), test_path("la.idx"), write_file("names.txt", "a\nb", 3)),
                 MU_EJOB, "`classes` is 4, but the file of `class_names` names 2");
}

// The model's names count when it reads, also when the file is gone.
static void test_class_names_of_a_model(void **ctx) {
    (void)ctx;
    const char *const labels[] = {"w", "x", "y", "z"};
    const mu_known known = {.labels = labels, .n_labels = 4};
    const char *yaml = named_idx("a\nb\nc\nd\n", 8);
    unlink(test_path("names.txt"));
    expect_names(yaml, &known, 4, "z");
    reader_fails(yaml, MU_EIO, "names.txt");
#ifdef MU_HAVE_PNG
    // Folders of a part of its classes, in another order.
    const char *const insects[] = {"bee", "cricket", "ant", "wasp"};
    const mu_known more = {.labels = insects, .n_labels = 4};
    expect_names(sample_image_folder(), &more, 4, "wasp");
#endif
}

static void test_cifar_class_names(void **ctx) {
    (void)ctx;
    const char ten[] = "airplane\nautomobile\nbird\ncat\ndeer\ndog\nfrog\nhorse\nship\ntruck\n\n";
    block b;
    mu_reader *r;
    mu_err err = {0};
    write_file("batches.meta.txt", ten, sizeof ten - 1);
    const char *plain = sample_cifar();
    expect_names(plain, NULL, 10, "truck");
    const char *data = test_path("a.bin");
    const char *own = write_file("own.txt", "0\n1\n2\n3\n4\n5\n6", 13);
    expect_names(yaml_of("{reader: cifar, files: %s, class_names: %s}", data, own), NULL, 7, "6");
    assert_ok(reader_open(&b, yaml_of("{reader: cifar, files: %s, classes: 12}", data), &r, &err), &err);
    assert_null(r->label_names);        // the file beside the data is of other classes
    mu_reader_close(r);
    block_fini(&b);
    unlink(test_path("batches.meta.txt"));
    assert_ok(reader_open(&b, plain, &r, &err), &err);
    assert_null(r->label_names);
    assert_int_equal(r->field[1].n_classes, 10);
    mu_reader_close(r);
    block_fini(&b);
}

// ---- CSV ----

static const char *csv_of(const char *text, const char *options) {
    return yaml_of("{reader: csv, file: %s%s}", write_file("t.csv", text, strlen(text)), options);
}

static void test_csv_values(void **ctx) {
    (void)ctx;
    block b;
    mu_reader *r;
    mu_err err = {0};
    assert_ok(reader_open(&b, sample_csv(), &r, &err), &err);
    assert_int_equal(r->field[0].shape.d[0], 3);
    assert_int_equal(r->field[1].n_classes, 2);
    for (int i = 0; i < SAMPLES; i++) {
        mu_record rec = read_ok(r, i);
        const float *v = rec.field[0];
        assert_true(v[0] == (float)i + 0.5f && v[1] == (float)(i * i) && v[2] == -1e-2f);
        assert_int_equal(*(const int32_t *)rec.field[1], i % 3 ? 1 : 0); // `cat, big` sorts before `dog`
    }
    mu_reader_close(r);
    block_fini(&b);
}

static void test_csv_options(void **ctx) {
    (void)ctx;
    block b;
    mu_reader *r;
    mu_err err = {0};
    // numbers as labels stay what they are; label in column 0; no newline at the end; CRLF
    assert_ok(reader_open(&b, csv_of("7;1;2\r\n3;4;5", ", label: '0', separator: ;"), &r, &err), &err);
    assert_int_equal(r->n_records, 2);
    assert_int_equal(r->field[1].n_classes, 8);
    assert_int_equal(*(const int32_t *)read_ok(r, 1).field[1], 3);
    assert_true(((const float *)read_ok(r, 1).field[0])[1] == 5.0f);
    mu_reader_close(r);
    block_fini(&b);
    // fixed words: another order, and a word that is not among them
    assert_ok(reader_open(&b, csv_of("1,no\n2,yes\n3,maybe\n", ", classes: ['yes', 'no']"), &r, &err), &err);
    assert_int_equal(*(const int32_t *)read_ok(r, 0).field[1], 1);
    assert_int_equal(*(const int32_t *)read_ok(r, 1).field[1], 0);
    read_fails(r, 2, "line 3: column 1 is no known label");
    mu_reader_close(r);
    block_fini(&b);
    // an image in planes becomes HWC
    assert_ok(reader_open(&b, csv_of("1,2,11,12,0\n", ", shape: [2, 1, 2]"), &r, &err), &err);
    const float *v = read_ok(r, 0).field[0];
    assert_true(v[0] == 1 && v[1] == 11 && v[2] == 2 && v[3] == 12);
    mu_reader_close(r);
    block_fini(&b);
    assert_ok(reader_open(&b, csv_of("a,b\n1,2\n", ", label: none"), &r, &err), &err);
    assert_int_equal(r->n_fields, 1);
    assert_int_equal(r->n_records, 1);
    mu_reader_close(r);
    block_fini(&b);
}

// The first label decides whether labels are numbers or words; a number that is no class is a bad record.
static void test_csv_labels(void **ctx) {
    (void)ctx;
    block b;
    mu_reader *r;
    mu_err err = {0};
    assert_ok(reader_open(&b, csv_of("1,0\n1,2\n1,-1\n1,3.5\n1,cat\n1,1\n", ""), &r, &err), &err);
    assert_int_equal(r->n_records, 6);
    assert_int_equal(r->field[1].n_classes, 3);
    assert_int_equal(*(const int32_t *)read_ok(r, 1).field[1], 2);
    for (int i = 2; i < 5; i++) read_fails(r, i, "column 1 is no label: a whole number from 0");
    assert_int_equal(*(const int32_t *)read_ok(r, 5).field[1], 1);
    assert_non_null(strstr(r->field[1].top_from, "line 2"));
    mu_reader_close(r);
    block_fini(&b);
    assert_ok(reader_open(&b, csv_of("1,cat\n1,3\n1,ant\n", ""), &r, &err), &err); // words: all count
    assert_int_equal(r->field[1].n_classes, 3);
    assert_int_equal(*(const int32_t *)read_ok(r, 1).field[1], 0);
    mu_reader_close(r);
    block_fini(&b);
    assert_ok(reader_open(&b, csv_of("1,-1\n1,1\n", ", classes: ['-1', '1']"), &r, &err), &err);
    assert_int_equal(*(const int32_t *)read_ok(r, 1).field[1], 1);
    mu_reader_close(r);
    block_fini(&b);
    reader_fails(csv_of("1,3.5\n1,2.5\n", ""), MU_EDATA, "whole number from 0; the first is `3.5`");
    reader_fails(csv_of("1,-1\n1,+1\n", ""), MU_EDATA, "whole number from 0; the first is `-1`");
}

static void test_csv_damage(void **ctx) {
    (void)ctx;
    block b;
    mu_reader *r;
    mu_err err = {0};
    assert_ok(reader_open(&b, csv_of("1,2,a\n1,x,a\n1,2\n\n1,nan,b\n5,6,b\n,6,b\n", ""), &r, &err), &err);
    assert_int_equal(r->n_records, 6);
    read_fails(r, 1, "line 2: column 1 is no finite number");
    read_fails(r, 2, "line 3 has another number of columns");
    read_fails(r, 3, "line 5: column 1 is no finite number");
    assert_true(((const float *)read_ok(r, 4).field[0])[0] == 5.0f);
    read_fails(r, 5, "line 7: column 0 is no finite number");
    mu_reader_close(r);
    block_fini(&b);
    reader_fails(csv_of("", ""), MU_EDATA, "holds no rows");
    reader_fails(csv_of("a,b\n", ", header: 'yes'"), MU_EDATA, "holds no rows");
    reader_fails(csv_of("1,2\n", ", label: '2'"), MU_EDATA, "no label column `2`");
    reader_fails(csv_of("a,b\n1,2\n", ", label: c"), MU_EDATA, "no label column `c`");
    reader_fails(csv_of("a\nb\n", ""), MU_EDATA, "no feature columns");
    reader_fails(csv_of("1,2\n", ", separator: '::'"), MU_EJOB, "`separator`");
    reader_fails(csv_of("1,2,3\n", ", shape: [1, 3, 1]"), MU_EJOB, "`shape`");
    reader_fails(csv_of("1,2,0\n1,\"2,0\n1,2,1\n1,3,1\n", ""), MU_EDATA, "line 2: the row never ends");
    reader_fails(csv_of("\"1,2,0\n1,2,1\n", ""), MU_EDATA, "line 1: the row never ends");
    reader_fails(csv_of("1,2,0\n\n\"1,2,0\n1,2,1\n", ""), MU_EDATA, "line 3: the row never ends");
    static char text[200000] = "1,2,0\n3,\"";
    memset(text + strlen(text), 'x', 150000);
    reader_fails(csv_of(text, ""), MU_EDATA, "a field is longer than");
    // a bad row makes no class, a byte-order mark is no text
    assert_ok(reader_open(&b,
                          csv_of("\xef\xbb\xbf"
                                 "0,1,2\n1,1,2\nbroken,row,x\n2,1,2\n",
                                 ", label: '0'"),
                          &r, &err),
              &err);
    assert_int_equal(r->n_records, 4);
    assert_int_equal(r->field[1].n_classes, 3);
    read_fails(r, 2, "line 3");
    mu_reader_close(r);
    block_fini(&b);
}

// Spreadsheets write a byte-order mark in front of the first column's name.
static void test_csv_byte_order_mark(void **ctx) {
    (void)ctx;
    block b;
    mu_reader *r;
    mu_err err = {0};
    assert_ok(reader_open(&b, csv_of("\xef\xbb\xbf" "kind,x\na,1\nb,2\n", ", label: kind"), &r, &err), &err);
    assert_int_equal(r->n_records, 2);
    assert_true(*(const float *)read_ok(r, 1).field[0] == 2);
    mu_reader_close(r);
    block_fini(&b);
}

// Lines end by LF, CR LF or CR, also mixed; a message names the line an editor shows.
static void test_csv_line_ends(void **ctx) {
    (void)ctx;
    const char *texts[] = {"1,2,0\n3,4,1\n\n5,x,0\n7,8,1", "1,2,0\r3,4,1\r\r5,x,0\r7,8,1",
                           "1,2,0\r\n3,4,1\r\n\r\n5,x,0\r\n7,8,1\r\n", "1,2,0\n3,4,1\r\n\r5,x,0\r7,8,1\r"};
    for (size_t i = 0; i < MU_COUNT(texts); i++) {
        block b;
        mu_reader *r;
        mu_err err = {0};
        char name[80];
        assert_ok(reader_open(&b, csv_of(texts[i], ""), &r, &err), &err);
        assert_int_equal(r->n_records, 4);
        read_fails(r, 2, "line 4: column 1");
        mu_reader_describe(r, 3, name, sizeof name);
        if (!strstr(name, "line 5")) fail_msg("text %zu: the last record is %s, not line 5", i, name);
        mu_reader_close(r);
        block_fini(&b);
    }
    reader_fails(csv_of("1,2,0\r1,\"2,0\r1,2,1\r", ""), MU_EDATA, "line 2: the row never ends");
}

// ---- real files, where they are ----

static void test_fashion_mnist(void **ctx) {
    (void)ctx;
    const char *dir = "/usr/share/datasets/fashion-mnist";
    if (access(dir, R_OK)) {
        print_message("skipped: %s is not there (Debian: dataset-fashion-mnist)\n", dir);
        skip();
    }
    block b;
    mu_reader *r;
    mu_err err = {0};
    assert_ok(reader_open(&b, yaml_of("{reader: idx, images: %s/t10k-images-idx3-ubyte.gz, labels: "
                                      "%s/t10k-labels-idx1-ubyte.gz}", dir, dir), &r, &err), &err);
    assert_int_equal(r->n_records, 10000);
    assert_int_equal(r->field[1].n_classes, 10);
    int count[10] = {0};
    for (int i = 0; i < 10000; i++) count[*(const int32_t *)read_ok(r, i).field[1]]++;
    for (int i = 0; i < 10; i++) assert_int_equal(count[i], 1000);
    mu_reader_close(r);
    block_fini(&b);
}

// ---- synthetic texts ----

static void test_synthetic_texts_continue(void **ctx) {
    (void)ctx;
    enum { STREAMS = 3, WORDS = 5 };
    block b;
    mu_reader *r;
    mu_err err = {0};
    const char *yaml = "{reader: synthetic, vocab: 9, shape: [5], streams: 3, records: 30, noise: 0}";
    assert_ok(reader_open(&b, yaml, &r, &err), &err);
    assert_string_equal(r->field[0].name, "words");
    assert_int_equal(r->field[0].n_classes, 9);
    assert_int_equal(r->field[0].streams, STREAMS);
    assert_int_equal(r->field[2].streams, STREAMS);
    for (int i = 0; i < 30; i++) {
        int32_t words[WORDS], next[WORDS];
        mu_record rec = read_ok(r, i);
        memcpy(words, rec.field[0], sizeof words);
        memcpy(next, rec.field[1], sizeof next);
        assert_int_equal(*(const int32_t *)rec.field[2], i < STREAMS);
        for (int k = 0; k < WORDS; k++) assert_in_range(words[k], 0, 8);
        for (int k = 0; k + 1 < WORDS; k++) assert_int_equal(next[k], words[k + 1]);
        if (i + STREAMS < 30) // the record after it in its stream
            assert_int_equal(next[WORDS - 1], *(const int32_t *)read_ok(r, i + STREAMS).field[0]);
    }
    mu_reader_close(r);
    block_fini(&b);
}

int main(void) {
    make_test_dir();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_idx_values),
        cmocka_unit_test(test_idx_element_types_and_orders),
        cmocka_unit_test(test_idx_damage),
        cmocka_unit_test(test_idx_label_range),
        cmocka_unit_test(test_csv_labels),
        cmocka_unit_test(test_gzip),
        cmocka_unit_test(test_gzip_padding),
        cmocka_unit_test(test_gzip_bomb),
        cmocka_unit_test(test_cifar),
        cmocka_unit_test(test_cifar100),
        cmocka_unit_test(test_idx_class_names),
        cmocka_unit_test(test_class_names_of_a_model),
        cmocka_unit_test(test_cifar_class_names),
        cmocka_unit_test(test_csv_values),
        cmocka_unit_test(test_csv_options),
        cmocka_unit_test(test_csv_damage),
        cmocka_unit_test(test_csv_line_ends),
        cmocka_unit_test(test_csv_byte_order_mark),
        cmocka_unit_test(test_fashion_mnist),
        cmocka_unit_test(test_synthetic_texts_continue),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
