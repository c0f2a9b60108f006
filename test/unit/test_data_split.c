// SPDX-License-Identifier: Apache-2.0
// Validation data that is split off the training data: which records, and what the job says afterwards.
#include "data/split.h"

#include "data/source.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static char path[] = "/tmp/split-XXXXXX";
static const mu_registry *const registries[] = {&mu_readers, NULL};

// 3 classes of 100, 40 and 7 rows, one of a single row, mixed; the feature is the number of the row.
enum { ROWS = 148, CLASSES = 4 };
static int class_of_row(int i) { return i == 77 ? 3 : i % 21 == 5 ? 2 : i % 7 < 2 ? 1 : 0; }
static int count_of[CLASSES];

static int write_file(void **state) {
    (void)state;
    int fd = mkstemp(path);
    FILE *f = fdopen(fd, "w");
    fprintf(f, "x,label\n");
    for (int i = 0; i < ROWS; i++) {
        fprintf(f, "%d,%d\n", i, class_of_row(i));
        count_of[class_of_row(i)]++;
    }
    return fclose(f);
}

static int remove_file(void **state) {
    (void)state;
    return unlink(path);
}

static mu_job *job_of(const char *data, mu_status want) {
    char text[2048];
    mu_err err = {0};
    mu_job *job = NULL;
    snprintf(text, sizeof text, "data:\n%s\nnet: [{name: a, type: relu, src: data.x}]\n"
             "updater: {type: sgd, rate: 1}\ntrain: {batch: 1, steps: 1}\n", data);
    assert_int_equal(mu_job_parse("t.yaml", text, strlen(text), NULL, 0, &job, &err), MU_OK);
    assert_int_equal(mu_split_write_out(job, &err), want);
    return job;
}

static mu_source *open_block(mu_job *job, const char *name) {
    mu_binder b = {&job->arena, &job->diags, ".", registries, 0};
    mu_source_opts o = {.batch = 1, .phase = MU_VALIDATION, .seed = 1};
    mu_source *s = NULL;
    mu_err err = {0};
    if (mu_source_open(&b, mu_node_find(job->data, name), &o, &s, &err) != MU_OK)
        fail_msg("data.%s: %s %s", name, err.msg, job->diags.n ? job->diags.list[0].msg : "");
    return s;
}

// Which rows the block has, each once; returns how many.
static int mark_rows(mu_job *job, const char *name, bool seen[ROWS], int by_class[CLASSES]) {
    mu_source *s = open_block(job, name);
    int n = 0;
    for (;; n++) {
        const mu_batch *batch;
        mu_err err = {0};
        assert_int_equal(mu_source_next(s, &batch, &err), MU_OK);
        if (!batch) break;
        const int row = (int)lrintf(batch->field[0].f[0]);
        assert_in_range(row, 0, ROWS - 1);
        assert_false(seen[row]);
        assert_int_equal(batch->field[1].i[0], class_of_row(row));
        assert_int_equal(mu_source_record(s, n), row);
        seen[row] = true;
        by_class[class_of_row(row)]++;
    }
    assert_int_equal(n, mu_source_n_records(s));
    mu_source_close(s);
    return n;
}

static mu_job *csv_job(const char *validation) {
    char data[512];
    snprintf(data, sizeof data, "  train: {reader: csv, file: %s, label: label}\n  validation: %s", path,
             validation);
    return job_of(data, MU_OK);
}

static void test_parts_are_disjoint_and_stratified(void **state) {
    (void)state;
    static const double fractions[] = {0.1, 0.25, 0.5, 0.9};
    for (size_t k = 0; k < MU_COUNT(fractions); k++) {
        char block[64];
        bool seen[ROWS] = {0};
        int held[CLASSES] = {0}, rest[CLASSES] = {0};
        snprintf(block, sizeof block, "{fraction: %g, seed: 3}", fractions[k]);
        mu_job *job = csv_job(block);
        const int n_held = mark_rows(job, "validation", seen, held);
        const int n = n_held + mark_rows(job, "train", seen, rest);
        assert_int_equal(n, ROWS);      // every row is in one of them
        assert_true(fabs(n_held - fractions[k] * (ROWS - 1)) <= 1);
        for (int c = 0; c < 3; c++)
            if (fabs(held[c] - fractions[k] * count_of[c]) > 1)
                fail_msg("class %d: %d held back", c, held[c]);
        assert_int_equal(held[3], 0);   // the only one of its class
        mu_job_destroy(job);
    }
}

static void test_seed_chooses(void **state) {
    (void)state;
    bool a[ROWS] = {0}, b[ROWS] = {0}, c[ROWS] = {0};
    int unused[CLASSES] = {0};
    mu_job *one = csv_job("{fraction: 0.2}"), *same = csv_job("{fraction: 0.2, seed: 1}"),
           *other = csv_job("{fraction: 0.2, seed: 2}");
    mark_rows(one, "validation", a, unused);
    mark_rows(same, "validation", b, unused);
    mark_rows(other, "validation", c, unused);
    assert_memory_equal(a, b, sizeof a);
    assert_int_not_equal(memcmp(a, c, sizeof a), 0);
    mu_job_destroy(one), mu_job_destroy(same), mu_job_destroy(other);
}

static void test_written_out_once(void **state) {
    (void)state;
    mu_err err = {0};
    mu_job *job = csv_job("{fraction: 0.2, max_bad: 5}");
    const mu_node *train = mu_node_find(job->data, "train"), *held = mu_node_find(job->data, "validation");
    const size_t n = held->n;
    assert_string_equal(mu_node_text(mu_node_find(train, "part")), "rest");
    assert_string_equal(mu_node_text(mu_node_find(held, "part")), "held");
    assert_string_equal(mu_node_text(mu_node_find(held, "reader")), "csv");
    assert_string_equal(mu_node_text(mu_node_find(held, "max_bad")), "5"); // its own key
    assert_null(mu_node_find(train, "max_bad"));
    assert_int_equal(mu_split_write_out(job, &err), MU_OK);
    assert_int_equal(held->n, n);
    mu_job_destroy(job);
}

static void test_texts_are_cut_in_order(void **state) {
    (void)state;
    mu_job *job = job_of("  train: {reader: chars, file: x, from: 0.2, to: 0.7}\n"
                         "  validation: {fraction: 0.1}",
                         MU_OK);
    const mu_node *train = mu_node_find(job->data, "train"), *held = mu_node_find(job->data, "validation");
    assert_string_equal(mu_node_text(mu_node_find(train, "from")), "0.2");
    assert_string_equal(mu_node_text(mu_node_find(train, "to")), "0.65");
    assert_string_equal(mu_node_text(mu_node_find(held, "from")), "0.65");
    assert_string_equal(mu_node_text(mu_node_find(held, "to")), "0.7");
    assert_null(mu_node_find(held, "part"));
    mu_job_destroy(job);
}

static void test_bad_fractions(void **state) {
    (void)state;
    static const char *const bad[] = {"{fraction: 0}", "{fraction: 1}", "{fraction: -1}", "{fraction: x}",
                                      "{fraction: 0.1x}", "{fraction: {a: 0.1}}"};
    for (size_t i = 0; i < MU_COUNT(bad); i++) {
        mu_job *job = csv_job(bad[i]);
        assert_int_equal(job->diags.n_errors, 1);
        assert_true(job->diags.list[0].pos.line > 0);
        mu_job_destroy(job);
    }
    mu_job *job = csv_job("{fraction: 0.001}");         // no record
    mu_binder b = {&job->arena, &job->diags, ".", registries, 0};
    mu_source_opts o = {.batch = 1, .phase = MU_VALIDATION};
    mu_source *s = NULL;
    mu_err err = {0};
    assert_int_equal(mu_source_open(&b, mu_node_find(job->data, "validation"), &o, &s, &err), MU_EJOB);
    assert_non_null(strstr(err.msg, "holds back none"));
    mu_job_destroy(job);
}

// ---- what counts as the class of a record ----

static int32_t pair[2];         // of the record read last: field 0 and field 1

static mu_status read_pair(mu_reader *r, int64_t i, mu_record *out, mu_err *err) {
    (void)err;
    pair[0] = (int32_t)i;       // all different
    pair[1] = (int32_t)(i % 2);
    for (int f = 0; f < r->n_fields; f++) out->field[f] = &pair[f];
    return MU_OK;
}

static const mu_reader_class pair_class = {.read = read_pair};

// A class of a single record is never held back, so with field 0 as the class nothing would be.
static int n_held_of(mu_data_field first, mu_data_field second) {
    mu_reader r = {.class = &pair_class, .n_fields = 2, .field = {first, second}};
    mu_arena arena;
    int64_t *record, n;
    mu_err err = {0};
    mu_arena_init(&arena, "test");
    assert_int_equal(mu_split_choose(&r, 100, MU_PART_HELD, 0.5, 1, &arena, &record, &n, &err), MU_OK);
    mu_arena_fini(&arena);
    return (int)n;
}

static void test_class_is_the_scalar_label(void **state) {
    (void)state;
    const mu_data_field label = mu_label_field(2), other = {.name = "word", .store = MU_STORE_I32};
    const mu_data_field numbers = {.name = "label", .store = MU_STORE_F32};
    const mu_data_field row = {.name = "label", .store = MU_STORE_I32, .shape = {.n = 1, .d = {1}}};
    assert_int_equal(n_held_of(other, label), 50);
    assert_int_equal(n_held_of(numbers, label), 50);
    assert_int_equal(n_held_of(row, label), 50);
    assert_int_equal(n_held_of(row, other), 50);        // no class at all
    assert_int_equal(n_held_of(numbers, other), 50);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parts_are_disjoint_and_stratified), cmocka_unit_test(test_seed_chooses),
        cmocka_unit_test(test_written_out_once), cmocka_unit_test(test_texts_are_cut_in_order),
        cmocka_unit_test(test_bad_fractions), cmocka_unit_test(test_class_is_the_scalar_label)};
    return cmocka_run_group_tests(tests, write_file, remove_file);
}
