// SPDX-License-Identifier: Apache-2.0
// data_help.h - shared by the tests of src/read and src/data: temporary files, and readers opened from
// key=value pairs.
#ifndef TEST_UNIT_DATA_HELP_H
#define TEST_UNIT_DATA_HELP_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "read/record.h"
#include "data/source.h"
#include "job/yaml.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#ifdef MU_HAVE_PNG
#include <png.h>
#endif

// A folder of its own for one test program, removed at exit.
static char test_dir[64];
static inline void remove_test_dir(void) {
    char cmd[96];
    snprintf(cmd, sizeof cmd, "rm -rf '%s'", test_dir);
    if (system(cmd) != 0) fprintf(stderr, "cannot remove %s\n", test_dir);
}
static inline void make_test_dir(void) {
    strcpy(test_dir, "/tmp/muster-test-XXXXXX");
    if (!mkdtemp(test_dir)) abort();
    atexit(remove_test_dir);
}
static inline const char *test_path(const char *name) { // one of 8 rotating buffers
    static char buf[8][128];
    static int i;
    char *p = buf[i++ % 8];
    snprintf(p, sizeof buf[0], "%s/%s", test_dir, name);
    return p;
}
static inline const char *write_file(const char *name, const void *bytes, size_t n) {
    const char *p = test_path(name);
    FILE *f = fopen(p, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    fclose(f);
    return p;
}

static inline size_t load_bytes(const char *path, uint8_t *buf, size_t size) {
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    size_t n = fread(buf, 1, size, f);
    fclose(f);
    return n;
}

#define assert_ok(call, err)                                                                       \
    do {                                                                                           \
        mu_status st_ = (call);                                                                    \
        if (st_ != MU_OK) fail_msg("%s: %s: %s", #call, mu_status_name(st_), (err)->msg);          \
    } while (0)
#define assert_status(call, want, err)                                                                       \
    do {                                                                                                     \
        mu_status st_ = (call);                                                                              \
        if (st_ != (want))                                                                                   \
            fail_msg("%s: got %s (%s), want %s", #call, mu_status_name(st_), (err)->msg,                     \
                     mu_status_name(want));                                                                  \
    } while (0)
#define assert_says(err, text)                                                                     \
    do {                                                                                           \
        if (!strstr((err)->msg, (text))) fail_msg("message `%s` lacks `%s`", (err)->msg, (text));  \
    } while (0)

// Big-endian idx file: type, dims, then bytes.
static inline const char *write_idx(const char *name, int type, int n_dims, const uint32_t *dim,
                                    const void *data, size_t n) {
    uint8_t *b = malloc(4 + 4 * (size_t)n_dims + n);
    b[0] = b[1] = 0, b[2] = (uint8_t)type, b[3] = (uint8_t)n_dims;
    for (int i = 0; i < n_dims; i++)
        for (int k = 0; k < 4; k++) b[4 + 4 * i + k] = (uint8_t)(dim[i] >> (24 - 8 * k));
    memcpy(b + 4 + 4 * n_dims, data, n);
    const char *p = write_file(name, b, 4 + 4 * (size_t)n_dims + n);
    free(b);
    return p;
}

// ---- blocks of `data:` from YAML text ----

typedef struct block {
    mu_arena       arena;
    mu_diags       diags;
    mu_binder      binder;
    mu_node       *node;
    mu_source_spec spec;
} block;

static inline void block_fini(block *b) { mu_arena_fini(&b->arena); }

// Parses and binds; MU_EJOB leaves the findings in b->diags. block_fini is due in any case.
static inline mu_status block_bind(block *b, const char *yaml, mu_err *err) {
    memset(b, 0, sizeof *b);
    mu_arena_init(&b->arena, "test/block");
    mu_diags_init(&b->diags, &b->arena);
    static const mu_registry *const registries[] = {&mu_readers, NULL};
    b->binder =
        (mu_binder){.arena = &b->arena, .diags = &b->diags, .folder = ".", .registries = registries};
    mu_srcpos origin = {.path = "test.yaml", .line = 1, .col = 1};
    mu_status st = mu_yaml_parse(&b->arena, &b->diags, origin, yaml, strlen(yaml), &b->node, err);
    return st != MU_OK ? st : mu_source_bind(&b->binder, b->node, &b->spec, err);
}

// A bare reader from YAML.
static inline mu_status reader_open(block *b, const char *yaml, mu_reader **out, mu_err *err) {
    mu_status st = block_bind(b, yaml, err);
    return st != MU_OK ? st
                       : mu_reader_open(b->spec.reader, b->spec.reader_state, b->spec.pos, NULL, out, err);
}

static inline const char *yaml_of(const char *fmt, ...) MU_PRINTF(1, 2);
static inline const char *yaml_of(const char *fmt, ...) { // one of 4 rotating buffers
    static char buf[4][1024];
    static int i;
    char *p = buf[i++ % 4];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(p, sizeof buf[0], fmt, ap);
    va_end(ap);
    return p;
}

// ---- what a reader must say ----

static inline mu_record read_ok(mu_reader *r, int64_t i) {
    mu_record rec = {{0}};
    mu_err err = {0};
    assert_ok(mu_reader_read(r, i, &rec, &err), &err);
    return rec;
}

static inline void reader_fails(const char *yaml, mu_status want, const char *says) {
    block b;
    mu_reader *r;
    mu_err err = {0};
    assert_status(reader_open(&b, yaml, &r, &err), want, &err);
    assert_says(&err, says);
    block_fini(&b);
}

static inline void read_fails(mu_reader *r, int64_t i, const char *says) {
    mu_record rec;
    mu_err err = {0};
    assert_status(mu_reader_read(r, i, &rec, &err), MU_EDATA, &err);
    assert_says(&err, says);
}

// ---- a small good data set for each reader: SAMPLES records, except where the format says otherwise ----

enum { SAMPLES = 12 };

static inline uint8_t pixel_of(int record, int element) { return (uint8_t)(record * 31 + element * 7 + 3); }

static inline const char *sample_idx(void) {
    uint8_t px[SAMPLES * 6 * 5], lb[SAMPLES];
    for (int i = 0; i < SAMPLES; i++) {
        for (int k = 0; k < 30; k++) px[i * 30 + k] = pixel_of(i, k);
        lb[i] = (uint8_t)(i % 4);
    }
    const char *im = write_idx("im.idx", 8, 3, (uint32_t[]){SAMPLES, 6, 5}, px, sizeof px);
    const char *la = write_idx("la.idx", 8, 1, (uint32_t[]){SAMPLES}, lb, sizeof lb);
    return yaml_of("{reader: idx, images: %s, labels: %s}", im, la);
}

static inline const char *sample_cifar(void) {
    static uint8_t rec[SAMPLES][3073];
    for (int i = 0; i < SAMPLES; i++) {
        rec[i][0] = (uint8_t)(i % 10);
        for (int k = 0; k < 3072; k++) rec[i][1 + k] = pixel_of(i, k);
    }
    const char *a = write_file("a.bin", rec, 5 * 3073);
    const char *b = write_file("b.bin", rec[5], (SAMPLES - 5) * 3073);
    return yaml_of("{reader: cifar, files: [%s, %s]}", a, b);
}

static inline const char *sample_csv(void) {
    char text[2048] = "x,y,z,kind\n";
    for (int i = 0; i < SAMPLES; i++)
        snprintf(text + strlen(text), 64, "%d.5,%d,-1e-2,%s\n", i, i * i, i % 3 ? "dog" : "\"cat, big\"");
    return yaml_of("{reader: csv, file: %s, label: kind}", write_file("t.csv", text, strlen(text)));
}

static inline const char *sample_table(void) {
    char text[2048] = "id,size,colour,kind\n";
    for (int i = 0; i < SAMPLES; i++)
        snprintf(text + strlen(text), 64, "n%d,%.*s%d,%s,%s\n", i, i == 5 ? 0 : 2, "1.", i,
                 i % 2 ? "red" : i ? "blue" : "", i % 3 ? "dog" : "\"cat, big\"");
    return yaml_of("{reader: table, file: %s}", write_file("table.csv", text, strlen(text)));
}

static inline const char *sample_sentences(void) {
    char text[2048] = "";
    for (int i = 0; i < SAMPLES; i++)
        snprintf(text + strlen(text), 80, "%s\tSentence %d, isn't it?%s\n", i % 3 ? "ask" : "tell", i,
                 i % 2 ? " \xc3\xa9t\xc3\xa9" : "");
    return yaml_of("{reader: sentences, file: %s, pad: 2}", write_file("s.tsv", text, strlen(text)));
}

// SAMPLES windows of 3 rows, and what follows them.
static inline const char *sample_series(void) {
    char text[2048] = "day,x,y\n";
    for (int i = 0; i < SAMPLES + 3; i++)
        snprintf(text + strlen(text), 64, "2020-01-%02d,%d,%s%d\n", i + 1, i * i, i == 5 ? "" : "1.", i);
    return yaml_of("{reader: series, file: %s, window: 3}", write_file("series.csv", text, strlen(text)));
}

// SAMPLES records: 3 streams of 4 records of 5 characters.
static inline const char *sample_chars(void) {
    const char *text = "the quick brown fox jumps over the lazy dog, and then it sleeps";
    return yaml_of("{reader: chars, file: %s, length: 5, streams: 3}", write_file("c.txt", text, 61));
}

#ifdef MU_HAVE_PNG
static inline const char *write_png(const char *name, int w, int h, int channels, const uint8_t *px) {
    const char *p = test_path(name);
    png_image im = {.version = PNG_IMAGE_VERSION, .width = (png_uint_32)w, .height = (png_uint_32)h,
                    .format = channels == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB};
    assert_true(png_image_write_to_file(&im, p, 0, px, 0, NULL));
    return p;
}
static inline const char *sample_image_folder(void) {
    uint8_t px[4 * 5 * 3];
    char name[64];
    mkdir(test_path("images"), 0777);
    mkdir(test_path("images/ant"), 0777);
    mkdir(test_path("images/bee"), 0777);
    for (int i = 0; i < SAMPLES; i++) {
        for (int k = 0; k < 60; k++) px[k] = pixel_of(i, k);
        snprintf(name, sizeof name, "images/%s/%02d.png", i < 7 ? "ant" : "bee", i);
        write_png(name, 5, 4, 3, px);
    }
    return yaml_of("{reader: image_folder, root: %s}", test_path("images"));
}
#endif

static inline const char *sample_raw(void) {
    uint8_t px[SAMPLES * 24];
    for (int i = 0; i < SAMPLES; i++)
        for (int k = 0; k < 24; k++) px[i * 24 + k] = pixel_of(i, k);
    return yaml_of("{reader: raw, file: %s, shape: [2, 3, 4], planes: true}",
                   write_file("raw.bin", px, sizeof px));
}

// NULL for a reader this file knows no sample of.
static inline const char *sample_of(const char *reader) {
    if (!strcmp(reader, "idx")) return sample_idx();
    if (!strcmp(reader, "cifar")) return sample_cifar();
    if (!strcmp(reader, "csv")) return sample_csv();
    if (!strcmp(reader, "table")) return sample_table();
    if (!strcmp(reader, "series")) return sample_series();
    if (!strcmp(reader, "sentences")) return sample_sentences();
    if (!strcmp(reader, "chars")) return sample_chars();
    if (!strcmp(reader, "raw")) return sample_raw();
    if (!strcmp(reader, "zip")) {
        const char *a = sample_raw(), *b = sample_csv();
        return yaml_of("{reader: zip, parts: [%s, %s]}", a, b);
    }
    if (!strcmp(reader, "synthetic"))
        return yaml_of("{reader: synthetic, shape: [2, 5, 4], records: %d}", SAMPLES);
#ifdef MU_HAVE_PNG
    if (!strcmp(reader, "image_folder")) return sample_image_folder();
#endif
    if (!strcmp(reader, "record")) {
        block b;
        mu_reader *r;
        mu_err err = {0};
        mu_record_progress p = {0};
        const char *path = test_path("s.rec");
        assert_ok(reader_open(&b, sample_csv(), &r, &err), &err);
        assert_ok(mu_record_write(r, path, &p, &err), &err);
        mu_reader_close(r);
        block_fini(&b);
        return yaml_of("{reader: record, file: %s}", path);
    }
    return NULL;
}

#endif
