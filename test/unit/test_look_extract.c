// SPDX-License-Identifier: Apache-2.0
// test_look_extract.c - every layer's output as arrays: the right rows, logical order, and files that read
// back.
#include "run_help.h"

#include "look/extract.h"
#include "file/safetensors.h"

#include <math.h>

enum { ROWS = 11, BATCH = 4 }; // a short last batch

static const char job_text[] =
    "data: {test: {reader: synthetic, shape: [2, 4, 3], classes: 5, records: 11, scale: 0.01}}\n"
    "net:\n"
    "  - {name: pool, type: pooling, src: data.image, kernel: 2, stride: 2}\n"
    "  - {name: ip, type: inner_product, outputs: 6}\n"
    "  - {name: relu, type: relu}\n"
    "  - {name: parts, type: slice, axis: 1, points: [2]}\n"
    "  - {name: left, type: inner_product, src: parts.0, outputs: 5}\n"
    "  - {name: loss, type: softmax_loss, src: [left, data.label]}\n"
    "train: {batch: 4, steps: 1}\n"
    "updater: {type: sgd, rate: 0.01}\n";

static mu_status open_bench(mu_inspect *in, mu_err *err) { // without a run: the initial parameters do
    *in = (mu_inspect){.phase = MU_TEST, .on = "test"};
    MU_TRY(mu_job_parse("x.yaml", job_text, strlen(job_text), NULL, 0, &in->job, err));
    MU_TRY(
        mu_session_open(in->job, &(mu_session_opts){.phases = MU_TEST, .keep_all = true}, &in->session, err));
    in->at = &in->session->test;
    return MU_OK;
}

static const char *const names[] = {"pool", "ip", "relu", "parts.1", "data.image", "data.label"};

static void test_values_are_those_of_the_net(void **ctx) {
    (void)ctx;
    mu_inspect in;
    mu_extract x;
    assert_ok(open_bench(&in, err));
    assert_ok(mu_extract_run(&in, names, MU_COUNT(names), &x, err));
    assert_int_equal(x.rows, ROWS);
    const mu_tensor *pool = mu_extract_find(&x, "pool"), *ip = mu_extract_find(&x, "ip"),
                    *relu = mu_extract_find(&x, "relu"), *part = mu_extract_find(&x, "parts.1"),
                    *image = mu_extract_find(&x, "data.image"), *label = mu_extract_find(&x, "data.label");
    assert_null(mu_extract_find(&x, "left"));
    assert_int_equal(image->shape.n, 4);
    assert_int_equal(pool->shape.d[0], ROWS);
    assert_int_equal(label->dtype, MU_I32);
    bool negative = false;
    for (int r = 0; r < ROWS; r++) {
        assert_in_range(label->i[r], 0, 4);
        for (int c = 0; c < 2; c++) { // the largest of the first 2 x 2 pixels, planes of 4 x 3
            const float *px = image->f + (r * 2 + c) * 12;
            float want = fmaxf(fmaxf(px[0], px[1]), fmaxf(px[3], px[4]));
            float got = pool->f[(r * 2 + c) * mu_shape_inner(&pool->shape, 2)];
            if (want != got) fail_msg("record %d channel %d: %g, want %g", r, c, (double)got, (double)want);
        }
        for (int k = 0; k < 6; k++) { // kept, though relu could have worked in its place
            float v = ip->f[r * 6 + k];
            negative |= v < 0;
            assert_true(relu->f[r * 6 + k] == (v > 0 ? v : 0));
        }
        for (int k = 0; k < 4; k++) assert_true(part->f[r * 4 + k] == relu->f[r * 6 + 2 + k]);
    }
    assert_true(negative);
    mu_extract_fini(&x);
    mu_inspect_close(&in);
}

static void test_unknown_names(void **ctx) {
    (void)ctx;
    mu_inspect in;
    mu_extract x;
    assert_ok(open_bench(&in, err));
    assert_fails(mu_extract_run(&in, (const char *const[]){"ip", "rellu"}, 2, &x, err), MU_EUSAGE,
                 "no layer `rellu`");
    mu_extract_fini(&x);
    assert_fails(mu_extract_run(&in, (const char *const[]){"loss"}, 1, &x, err), MU_EUSAGE, "`loss`");
    mu_extract_fini(&x);
    mu_inspect_close(&in);
}

// ---- files ----

static char *slurp(const char *dir, const char *name, size_t *n) {
    char path[MU_FS_PATH], *text;
    assert_ok(mu_fs_join(path, dir, name, err));
    assert_ok(mu_fs_read(path, 1 << 20, &text, n, err));
    return text;
}

static void check_npy(const char *dir, const char *name, const mu_tensor *want) {
    size_t n;
    char *file = slurp(dir, name, &n), shape[64];
    assert_memory_equal(file, "\x93NUMPY\x01\x00", 8);
    size_t head = 10 + (size_t)((unsigned char)file[8] | (unsigned char)file[9] << 8);
    assert_int_equal(head % 64, 0);
    assert_int_equal(file[head - 1], '\n');
    assert_non_null(strstr(file + 10, want->dtype == MU_I32 ? "'descr': '<i4'" : "'descr': '<f4'"));
    snprintf(shape, sizeof shape, "'shape': (%lld,", (long long)want->shape.d[0]);
    assert_non_null(strstr(file + 10, shape));
    assert_int_equal(n, head + mu_tensor_count(want) * 4);
    assert_memory_equal(file + head, want->data, mu_tensor_count(want) * 4);
    mu_free(file);
}

static void check_csv(const char *dir, const mu_extract *x) {
    size_t n;
    char *file = slurp(dir, "a.csv", &n), *at = file;
    static const char head[] = "sample,ip.0,ip.1,ip.2,ip.3,ip.4,ip.5,label\n";
    assert_memory_equal(at, head, sizeof head - 1);
    at += sizeof head - 1;
    for (int r = 0; r < ROWS; r++) {
        assert_int_equal(strtol(at, &at, 10), r);
        for (int k = 0; k < 6; k++) assert_true(strtof(at + 1, &at) == x->array[0].f[r * 6 + k]);
        assert_int_equal(strtol(at + 1, &at, 10), x->array[1].i[r]);
        assert_int_equal(*at++, '\n');
    }
    assert_int_equal(at - file, n);
    mu_free(file);
}

static void check_file(const mu_extract *x, const char *path, size_t i, const char *want, size_t n,
                       int64_t columns) {
    mu_extract_file f;
    assert_true(mu_extract_file_at(x, path, MU_EXTRACT_BY_NAME, i, &f));
    assert_string_equal(f.path, want);
    assert_int_equal(f.first, i);
    assert_int_equal(f.n, n);
    assert_int_equal(f.rows, ROWS);
    assert_int_equal(f.columns, columns);
    assert_false(mu_extract_file_at(x, path, MU_EXTRACT_BY_NAME, i + n < x->n ? x->n : i + 1, &f));
}

// What is said of the files is what test_files_read_back finds in them: six values and a label.
static void test_files_are_known(void **ctx) {
    (void)ctx;
    mu_inspect in;
    mu_extract x;
    assert_ok(open_bench(&in, err));
    assert_ok(mu_extract_run(&in, (const char *const[]){"ip", "data.label"}, 2, &x, err));
    check_file(&x, "d/a.npy", 0, "d/a.npy", 1, 6);
    check_file(&x, "d/a.npy", 1, "d/a.label.npy", 1, 1);
    check_file(&x, "a.csv", 0, "a.csv", 2, 8); // the record's number stands first
    check_file(&x, "a.safetensors", 0, "a.safetensors", 2, 7);
    mu_extract_fini(&x);
    mu_inspect_close(&in);
}

// A record file holds what the arrays hold: a layer's channels in the order of readers, labels as classes.
static void test_records_read_back(void **ctx) {
    (void)ctx;
    char dir[64], path[128];
    const char *file = path;
    temp_dir(dir);
    snprintf(path, sizeof path, "%s/a.bin", dir);
    mu_inspect in;
    mu_extract x;
    mu_reader *r = NULL;
    assert_ok(open_bench(&in, err));
    assert_ok(mu_extract_run(&in, (const char *const[]){"pool", "ip", "data.label"}, 3, &x, err));
    assert_ok(mu_extract_save(&x, path, MU_EXTRACT_RECORD, err));
    const mu_reader_class *c = (const mu_reader_class *)(const void *)mu_registry_find(&mu_readers, "record");
    void *state = calloc(1, c->state_size);
    memcpy(state, &file, sizeof file); // its one option
    assert_ok(mu_reader_open(c, state, MU_NOPOS, NULL, &r, err));
    assert_int_equal(r->n_records, ROWS);
    assert_int_equal(r->n_fields, 3);
    assert_string_equal(r->field[0].name, "pool");
    assert_string_equal(r->field[2].name, "label");
    assert_true(r->field[0].is_image && !r->field[1].is_image);
    assert_int_equal(r->field[2].n_classes, x.classes[2].n);
    assert_true(x.classes[2].n > 0 && !x.classes[1].n);
    const mu_shape *s = &r->field[0].shape;
    const int64_t channels = s->d[0], hw = s->d[1] * s->d[2];
    for (int64_t i = 0; i < ROWS; i++) {
        mu_record rec;
        assert_ok(mu_reader_read(r, i, &rec, err));
        assert_memory_equal(rec.field[1], x.array[1].f + i * 6, 6 * sizeof(float));
        assert_int_equal(*(const int32_t *)rec.field[2], x.array[2].i[i]);
        const float *image = rec.field[0], *logical = x.array[0].f + i * channels * hw;
        for (int64_t k = 0; k < channels * hw; k++)
            assert_true(image[k % hw * channels + k / hw] == logical[k]);
    }
    mu_reader_close(r);
    free(state);
    x.n = 2, x.name[0] = "data.label", x.name[1] = "label";
    assert_fails(mu_extract_save(&x, path, MU_EXTRACT_RECORD, err), MU_EUSAGE, "two arrays would be");
    x.n = 3, x.name[0] = "pool", x.name[2] = "data.label";
    x.name[1] = "a_layer_with_a_name_that_is_too_long";
    assert_fails(mu_extract_save(&x, path, MU_EXTRACT_RECORD, err), MU_EUNSUPPORTED, "does not fit");
    mu_extract_fini(&x);
    mu_inspect_close(&in);
    remove_tree(dir);
}

static void test_files_read_back(void **ctx) {
    (void)ctx;
    char dir[64], path[128];
    temp_dir(dir);
    mu_inspect in;
    mu_extract x;
    assert_ok(open_bench(&in, err));
    assert_ok(mu_extract_run(&in, (const char *const[]){"ip", "data.label"}, 2, &x, err));
    static const char *const files[] = {"a.npy", "a.csv", "a.safetensors"};
    for (size_t i = 0; i < MU_COUNT(files); i++) {
        snprintf(path, sizeof path, "%s/%s", dir, files[i]);
        assert_int_not_equal(mu_extract_format_of(MU_EXTRACT_BY_NAME, path), MU_EXTRACT_BY_NAME);
        assert_ok(mu_extract_save(&x, path, MU_EXTRACT_BY_NAME, err));
    }
    check_npy(dir, "a.npy", &x.array[0]);
    check_npy(dir, "a.label.npy", &x.array[1]);
    check_csv(dir, &x);
    mu_st_file *st;
    assert_ok(mu_st_open(path, &st, err));
    assert_int_equal(mu_st_count(st), 2);
    assert_int_equal(mu_st_find(st, "data.label")->dtype, MU_ST_I32);
    assert_memory_equal(mu_st_find(st, "ip")->data, x.array[0].data, ROWS * 6 * 4);
    mu_st_close(st);
    assert_int_equal(mu_extract_format_of(MU_EXTRACT_BY_NAME, "a.txt"), MU_EXTRACT_BY_NAME);
    assert_fails(mu_extract_save(&x, "a.txt", MU_EXTRACT_BY_NAME, err), MU_EUSAGE, "no kind of file");
    assert_fails(mu_extract_save(&x, "not/there/a.npy", MU_EXTRACT_BY_NAME, err), MU_EIO, "not/there");
    mu_extract_fini(&x);
    mu_inspect_close(&in);
    remove_tree(dir);
}

static void test_no_memory(void **ctx) {
    (void)ctx;
    mu_inspect in;
    assert_ok(open_bench(&in, err));
    uint64_t live = mu_alloc_get_stats().n_live;
    mu_status st = MU_ENOMEM;
    for (int n = 1; st != MU_OK; n++) {
        assert_true(n < 200);
        mu_extract x;
        mu_err err = {0};
        mu_alloc_fail_at(n);
        st = mu_extract_run(&in, names, MU_COUNT(names), &x, &err);
        mu_alloc_fail_at(0);
        mu_extract_fini(&x);
        if (st != MU_OK) assert_int_equal(st, MU_ENOMEM);
        assert_int_equal(mu_alloc_get_stats().n_live, live);
    }
    mu_inspect_close(&in);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values_are_those_of_the_net),
        cmocka_unit_test(test_unknown_names),
        cmocka_unit_test(test_records_read_back),
        cmocka_unit_test(test_files_read_back),
        cmocka_unit_test(test_files_are_known),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
