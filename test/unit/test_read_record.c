// SPDX-License-Identifier: Apache-2.0
// test_read_record.c - packed record files: round trip from each reader, and every kind of damage seen.
#include "data_help.h"

#include "base/rng.h"
#include "file/infile.h"

#include <dirent.h>
#include <xxhash.h>
#include <zlib.h>

static size_t load(const char *path, uint8_t **out) {
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    fseek(f, 0, SEEK_END);
    size_t n = (size_t)ftell(f);
    rewind(f);
    *out = malloc(n);
    assert_int_equal(fread(*out, 1, n, f), n);
    fclose(f);
    return n;
}

static void same_field(const mu_data_field *a, const mu_data_field *b) {
    assert_string_equal(a->name, b->name);
    assert_true(mu_shape_equal(&a->shape, &b->shape));
    assert_int_equal(a->store, b->store);
    assert_int_equal(a->is_image, b->is_image);
    assert_int_equal(a->n_classes, b->n_classes);
    assert_int_equal(a->streams, b->streams);
}

static void test_round_trip(void **ctx) {
    (void)ctx;
    for (size_t c = 0; c < mu_readers.n; c++) {
        const char *yaml = sample_of(mu_readers.list[c]->name);
        if (!yaml) continue;
        block b, b2;
        mu_reader *r, *copy;
        mu_err err = {0};
        mu_record_progress p = {0};
        assert_ok(reader_open(&b, yaml, &r, &err), &err);
        assert_ok(mu_record_write(r, test_path("copy.rec"), &p, &err), &err);
        assert_int_equal(p.n_written, SAMPLES);
        assert_ok(reader_open(&b2, yaml_of("{reader: record, file: %s}", test_path("copy.rec")), &copy, &err),
                  &err);
        assert_int_equal(copy->n_records, SAMPLES);
        assert_int_equal(copy->n_fields, r->n_fields);
        for (int f = 0; f < r->n_fields; f++) same_field(&copy->field[f], &r->field[f]);
        for (int i = 0; i < SAMPLES; i++) {
            mu_record x, y;
            assert_ok(mu_reader_read(r, i, &x, &err), &err);
            assert_ok(mu_reader_read(copy, i, &y, &err), &err);
            for (int f = 0; f < r->n_fields; f++)
                assert_memory_equal(x.field[f], y.field[f], mu_data_field_bytes(&r->field[f]));
        }
        mu_reader_close(copy);
        mu_reader_close(r);
        block_fini(&b2);
        block_fini(&b);
    }
}

// More than the writer's buffer takes at once, and than any slack of a block hides.
static void test_many_records(void **ctx) {
    (void)ctx;
    enum { MANY = 20000 };
    static uint8_t bytes[MANY];
    for (int i = 0; i < MANY; i++) bytes[i] = pixel_of(i, i / 256);
    block b, b2;
    mu_reader *r, *copy;
    mu_err err = {0};
    mu_record_progress p = {0};
    const char *raw = write_file("many.bin", bytes, sizeof bytes);
    assert_ok(reader_open(&b, yaml_of("{reader: raw, file: %s, shape: [1]}", raw), &r, &err), &err);
    assert_ok(mu_record_write(r, test_path("many.rec"), &p, &err), &err);
    uint8_t *packed;
    size_t n = load(test_path("many.rec"), &packed);
    gzFile gz = gzopen(test_path("many.rec.gz"), "wb1"); // lies in memory as a whole
    assert_int_equal(gzwrite(gz, packed, (unsigned)n), n);
    assert_int_equal(gzclose(gz), Z_OK);
    free(packed);
    static const char *const names[] = {"many.rec", "many.rec.gz"};
    for (int k = 0; k < 2; k++) {
        const char *yaml = yaml_of("{reader: record, file: %s}", test_path(names[k]));
        assert_ok(reader_open(&b2, yaml, &copy, &err), &err);
        assert_int_equal(copy->n_records, MANY);
        for (int i = 0; i < MANY; i++)
            assert_int_equal(*(const uint8_t *)read_ok(copy, i).field[0], bytes[i]);
        mu_reader_close(copy);
        block_fini(&b2);
    }
    mu_reader_close(r);
    block_fini(&b);
}

// True when the file opens and all its records read.
static bool accepted(const char *path, int64_t *n_bad) {
    block b;
    mu_reader *r;
    mu_err err = {0};
    *n_bad = 0;
    if (reader_open(&b, yaml_of("{reader: record, file: %s}", path), &r, &err) != MU_OK) {
        assert_int_equal(err.status, MU_EDATA);
        assert_says(&err, path);
        block_fini(&b);
        return false;
    }
    for (int64_t i = 0; i < r->n_records; i++) {
        mu_record rec;
        mu_err_clear(&err);
        *n_bad += mu_reader_read(r, i, &rec, &err) != MU_OK;
    }
    mu_reader_close(r);
    block_fini(&b);
    return true;
}

static void test_every_flipped_bit_is_seen(void **ctx) {
    (void)ctx;
    sample_of("record");
    uint8_t *bytes;
    size_t n = load(test_path("s.rec"), &bytes);
    int64_t n_bad;
    for (size_t i = 0; i < n; i++) {
        bytes[i] ^= (uint8_t)(1u << (i % 8));
        const char *p = write_file("flip.rec", bytes, n);
        if (accepted(p, &n_bad) && n_bad != 1) fail_msg("byte %zu flipped: %d bad records", i, (int)n_bad);
        bytes[i] ^= (uint8_t)(1u << (i % 8));
    }
    for (size_t cut = 0; cut < n; cut += 3)
        if (accepted(write_file("cut.rec", bytes, cut), &n_bad))
            fail_msg("accepted after %zu of %zu bytes", cut, n);
    assert_true(accepted(write_file("cut.rec", bytes, n), &n_bad));
    free(bytes);
}

static void test_swapped_records_are_seen(void **ctx) {
    (void)ctx;
    sample_of("record");
    uint8_t *bytes, tmp[64];
    size_t n = load(test_path("s.rec"), &bytes), head = 16 + 2 * 80 + 8, rec = 16 + 8 + 8;
    memcpy(tmp, bytes + head, rec);
    memmove(bytes + head, bytes + head + rec, rec);
    memcpy(bytes + head + rec, tmp, rec);
    int64_t n_bad;
    assert_true(accepted(write_file("swap.rec", bytes, n), &n_bad));
    assert_int_equal(n_bad, 2);
    free(bytes);
}

// A header that is right by its checksum but lies: sizes that wrap, an index that points outside.
static void test_lying_header(void **ctx) {
    (void)ctx;
    sample_of("record");
    uint8_t *bytes;
    size_t n = load(test_path("s.rec"), &bytes), head = 16 + 2 * 80;
    int64_t n_bad;
    mu_put_le32(bytes + 16 + 32, 2);                            // two dimensions whose product wraps
    mu_put_le64(bytes + 16 + 40, (uint64_t)1 << 33);
    mu_put_le64(bytes + 16 + 48, ((uint64_t)1 << 31) + 1);
    mu_put_le64(bytes + head, XXH3_64bits(bytes, head));
    uint64_t peak = mu_alloc_get_stats().peak_bytes;
    assert_false(accepted(write_file("lie.rec", bytes, n), &n_bad));
    assert_true(mu_alloc_get_stats().peak_bytes < peak + (1 << 20));
    free(bytes);
    n = load(test_path("s.rec"), &bytes);
    uint8_t *foot = bytes + n - 40, *index = bytes + mu_le64(foot + 8);
    mu_put_le64(index, 8);                                      // into the header
    mu_put_le64(foot + 16, XXH3_64bits(index, 8 * SAMPLES));
    mu_put_le64(foot + 24, XXH3_64bits_withSeed(foot, 24, mu_le64(bytes + head)));
    assert_false(accepted(write_file("lie.rec", bytes, n), &n_bad));
    free(bytes);
}

static void test_write_skips_bad_records(void **ctx) {
    (void)ctx;
    const char *text = "1,a\nx,a\n2,b\n,b\n3,a\n";
    block b;
    mu_reader *r;
    mu_err err = {0};
    mu_record_progress p = {.max_bad = 2};
    assert_ok(reader_open(
                  &b,
                  yaml_of("{reader: csv, header: 'no', file: %s}", write_file("bad.csv", text, strlen(text))),
                  &r, &err),
              &err);
    assert_ok(mu_record_write(r, test_path("some.rec"), &p, &err), &err);
    assert_int_equal(p.n_written, 3);
    assert_int_equal(p.n_bad, 2);
    p.max_bad = 1;
    assert_status(mu_record_write(r, test_path("never.rec"), &p, &err), MU_EDATA, &err);
    assert_says(&err, "line 4");
    assert_int_not_equal(access(test_path("never.rec"), F_OK), 0);
    mu_err_clear(&err);
    assert_status(mu_record_write(r, test_path("no/folder.rec"), &p, &err), MU_EIO, &err);
    mu_reader_close(r);
    block_fini(&b);
}

static mu_status stop_at_7(void *ctx) { return ++*(int *)ctx < 7 ? MU_OK : MU_ETERMINATED; }

static int files_in(const char *path) {
    int n = 0;
    DIR *dir = opendir(path);
    assert_non_null(dir);
    for (struct dirent *e; (e = readdir(dir));) n += e->d_name[0] != '.';
    closedir(dir);
    return n;
}

static void test_write_stops_and_leaves_nothing(void **ctx) {
    (void)ctx;
    block b;
    mu_reader *r;
    mu_err err = {0};
    int asked = 0;
    mu_record_progress p = {.stop = stop_at_7, .ctx = &asked};
    assert_ok(reader_open(&b, sample_csv(), &r, &err), &err);
    mkdir(test_path("stopped"), 0777);
    assert_status(mu_record_write(r, test_path("stopped/a.rec"), &p, &err), MU_ETERMINATED, &err);
    assert_int_equal(p.n_written, 6);
    assert_int_equal(files_in(test_path("stopped")), 0);
    mu_reader_close(r);
    block_fini(&b);
}

static void test_write_allocation_failures(void **ctx) {
    (void)ctx;
    block b;
    mu_reader *r;
    mu_err err = {0};
    assert_ok(reader_open(&b, sample_idx(), &r, &err), &err);
    uint64_t live = mu_alloc_get_stats().n_live;
    for (int64_t n = 1;; n++) {
        assert_true(n < 100);
        mu_record_progress p = {0};
        mu_err_clear(&err);
        mu_alloc_fail_at(n);
        mu_status st = mu_record_write(r, test_path("alloc.rec"), &p, &err);
        mu_alloc_fail_at(0);
        assert_int_equal(mu_alloc_get_stats().n_live, live);
        if (st == MU_OK) break;
        assert_int_equal(st, MU_ENOMEM);
        assert_int_not_equal(access(test_path("alloc.rec"), F_OK), 0);
    }
    mu_reader_close(r);
    block_fini(&b);
}

int main(void) {
    make_test_dir();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_many_records),
        cmocka_unit_test(test_every_flipped_bit_is_seen),
        cmocka_unit_test(test_swapped_records_are_seen),
        cmocka_unit_test(test_lying_header),
        cmocka_unit_test(test_write_skips_bad_records),
        cmocka_unit_test(test_write_stops_and_leaves_nothing),
        cmocka_unit_test(test_write_allocation_failures),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
