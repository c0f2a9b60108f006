// SPDX-License-Identifier: Apache-2.0
// test_data_shard.c - data dealt to shards, one a rank: together they are the file; each record comes once an
// epoch, whatever sample a run begins at; shards of others, and what needs all records, are refused.
#include "data_help.h"

#include "data/shard.h"

enum { MOST = 256 };

// N records, whose only number is their own, in `n` files shard-0.rec and so on.
static void make_shards(int n_records, int n, const char *folder) {
    static char text[16384];
    char paths[8][200];
    const char *list[8];
    size_t at = 0;
    block b;
    mu_reader *r;
    mu_err err = {0};
    mu_record_progress p = {0};
    for (int i = 0; i < n_records; i++)
        at += (size_t)snprintf(text + at, sizeof text - at, "%d,%d\n", i, i % 3);
    for (int k = 0; k < n; k++) {
        snprintf(paths[k], sizeof paths[k], "%s-%d.rec", test_path(folder), k);
        list[k] = paths[k];
    }
    assert_ok(reader_open(&b,
                          yaml_of("{reader: csv, header: 'no', label: 1, file: %s}",
                                  write_file("whole.csv", text, at)),
                          &r, &err),
              &err);
    assert_ok(mu_record_write_shards(r, list, n, &p, &err), &err);
    assert_int_equal(p.n_written, n_records);
    mu_reader_close(r);
    block_fini(&b);
}

static const char *shard_yaml(const char *folder, int k, const char *more) {
    return yaml_of("{reader: record, file: %s-%d.rec%s}", test_path(folder), k, more);
}

// ---- files ----

static void test_union(void **ctx) {
    (void)ctx;
    for (int n = 2; n <= 5; n++) {
        make_shards(47, n, "union");
        uint64_t whole = 0;
        int64_t all = 0;
        for (int k = 0; k < n; k++) {
            block b;
            mu_reader *r;
            mu_err err = {0};
            assert_ok(reader_open(&b, shard_yaml("union", k, ""), &r, &err), &err);
            assert_int_equal(r->shard.index, k);
            assert_int_equal(r->shard.of, n);
            assert_int_equal(r->shard.records, 47);
            assert_true(k == 0 || r->shard.whole == whole);
            whole = r->shard.whole;
            all += r->n_records;
            for (int64_t j = 0; j < r->n_records; j++) {
                float v;
                memcpy(&v, read_ok(r, j).field[0], sizeof v);
                assert_int_equal((int)v, j * n + k);
            }
            mu_reader_close(r);
            block_fini(&b);
        }
        assert_int_equal(all, 47);
    }
    block b;
    mu_reader *r;
    mu_err err = {0};
    make_shards(47, 2, "one");
    assert_ok(reader_open(&b, shard_yaml("one", 0, ""), &r, &err), &err);
    const uint64_t one = r->shard.whole;
    mu_record_progress p = {0};
    const char *two[] = {test_path("x.rec"), test_path("y.rec")};
    assert_status(mu_record_write_shards(r, two, 2, &p, &err), MU_EUSAGE, &err); // a shard of a shard
    mu_err_clear(&err);
    assert_ok(mu_record_write(r, two[0], &p, &err), &err); // what it has is the whole of another file
    mu_reader_close(r);
    block_fini(&b);
    assert_ok(reader_open(&b, yaml_of("{reader: record, file: %s}", two[0]), &r, &err), &err);
    assert_int_equal(r->shard.of, 0);
    assert_int_equal(r->n_records, 24);
    mu_reader_close(r);
    block_fini(&b);
    make_shards(48, 2, "other");
    assert_ok(reader_open(&b, shard_yaml("other", 0, ""), &r, &err), &err);
    assert_true(r->shard.whole != one);
    mu_reader_close(r);
    block_fini(&b);
}

static void test_cannot_be_dealt(void **ctx) {
    (void)ctx;
    block b;
    mu_reader *r;
    mu_err err = {0};
    mu_record_progress p = {0};
    static char paths[MU_RECORD_SHARDS + 1][64];
    static const char *list[MU_RECORD_SHARDS + 1];
    for (int k = 0; k <= MU_RECORD_SHARDS; k++) {
        snprintf(paths[k], sizeof paths[k], "%s-%d", test_path("no"), k);
        list[k] = paths[k];
    }
    assert_ok(reader_open(&b, sample_csv(), &r, &err), &err);
    assert_status(mu_record_write_shards(r, list, 1, &p, &err), MU_EUSAGE, &err);
    mu_err_clear(&err);
    assert_status(mu_record_write_shards(r, list, MU_RECORD_SHARDS + 1, &p, &err), MU_EUSAGE, &err);
    mu_err_clear(&err);
    assert_status(mu_record_write_shards(r, list, SAMPLES + 1, &p, &err), MU_EDATA, &err);
    assert_says(&err, "12 good records cannot fill 13 shards");
    assert_int_not_equal(access(list[0], F_OK), 0); // nothing is left of it
    mu_reader_close(r);
    block_fini(&b);
    assert_ok(reader_open(&b, sample_chars(), &r, &err), &err);
    mu_err_clear(&err);
    assert_status(mu_record_write_shards(r, list, 2, &p, &err), MU_EUNSUPPORTED, &err);
    mu_reader_close(r);
    block_fini(&b);
}

static void test_no_memory(void **ctx) {
    (void)ctx;
    block b;
    mu_reader *r;
    mu_err err = {0};
    char a[200], c[200];
    snprintf(a, sizeof a, "%s", test_path("mem-0.rec"));
    snprintf(c, sizeof c, "%s", test_path("mem-1.rec"));
    const char *list[] = {a, c};
    assert_ok(reader_open(&b, sample_csv(), &r, &err), &err);
    mu_status st = MU_ENOMEM;
    for (int n = 1; st == MU_ENOMEM; n++) {
        mu_record_progress p = {0};
        mu_err_clear(&err);
        mu_alloc_fail_at(n);
        st = mu_record_write_shards(r, list, 2, &p, &err);
        mu_alloc_fail_at(0);
        if (st != MU_OK) assert_int_not_equal(access(c, F_OK), 0);
    }
    assert_ok(st, &err);
    mu_reader_close(r);
    block_fini(&b);
}

// ---- a training ----

typedef struct rank {
    block b;
    mu_source *s;
    int64_t ask, rows; // what its lease gives next
} rank;

static bool lease(void *ctx, int64_t *first, int64_t *rows) {
    rank *r = ctx;
    *first = r->ask, *rows = r->rows;
    return true;
}

static mu_source_opts opts_of(int k, int n, int64_t width, bool shuffle) {
    return (mu_source_opts){
        .batch = width, .seed = 5, .phase = MU_TRAIN, .shuffle = shuffle, .node = k, .nodes = n};
}

static void rank_open(rank *r, const char *folder, int k, int n, int64_t width, bool shuffle) {
    mu_err err = {0};
    const mu_source_opts o = opts_of(k, n, width, shuffle);
    assert_ok(block_bind(&r->b, shard_yaml(folder, k, ""), &err), &err);
    assert_ok(mu_source_open_spec(&r->b.spec, &o, &r->s, &err), &err);
    mu_source_set_step(r->s, width * n);
    mu_source_set_lease(r->s, lease, r);
}

// The record that a sample is.
static int record_of(rank *r, int64_t sample) {
    mu_err err = {0};
    const mu_batch *b;
    r->ask = sample, r->rows = 1;
    assert_ok(mu_source_next(r->s, &b, &err), &err);
    assert_int_equal(b->n, 1);
    return (int)b->field[0].f[0];
}

// Sample by sample as they are dealt. Of each shard, each record comes once before any comes again.
static void train(int n_records, int n, int64_t width, bool shuffle) {
    rank r[5];
    int used[MOST] = {0}, order = 0;
    make_shards(n_records, n, "train");
    for (int k = 0; k < n; k++) rank_open(&r[k], "train", k, n, width, shuffle);
    for (int k = 0; k < n; k++) assert_int_equal(mu_source_n_records(r[k].s), n_records);
    int64_t took[5] = {0};
    for (int64_t g = 0; g < 3 * n_records; g++) {
        const int k = (int)(g / width % n), own = (n_records - k + n - 1) / n;
        const int record = record_of(&r[k], g);
        assert_int_equal(record % n, k);
        assert_int_equal(used[record], took[k] / own);
        used[record]++;
        order += k == 0 && took[k] < own && record == took[k] * n;
        took[k]++;
        if (n_records % (n * width) == 0 && (g + 1) % n_records == 0) // an epoch of whole steps
            for (int i = 0; i < n_records; i++) assert_int_equal(used[i], (g + 1) / n_records);
    }
    assert_true(shuffle ? order < n_records / n / 2 : order == (n_records + n - 1) / n);
    // It goes by the number alone: a run that begins later goes on as this one did.
    rank again;
    rank_open(&again, "train", 1, n, width, shuffle);
    for (int64_t g = 2 * width * n; g < n_records; g++)
        if (g / width % n == 1) assert_int_equal(record_of(&again, g), record_of(&r[1], g));
    for (int k = 0; k < n; k++) mu_source_close(r[k].s), block_fini(&r[k].b);
    mu_source_close(again.s), block_fini(&again.b);
}

static void test_epochs(void **ctx) {
    (void)ctx;
    for (int shuffle = 0; shuffle < 2; shuffle++) {
        train(90, 3, 6, shuffle);
        train(96, 2, 8, shuffle);
        train(91, 3, 5, shuffle); // shards of 31, 30 and 30, steps across the end of an epoch
        train(103, 5, 7, shuffle);
    }
}

static void test_begin(void **ctx) {
    (void)ctx;
    rank r;
    mu_err err = {0};
    const mu_batch *b;
    make_shards(90, 3, "begin");
    rank_open(&r, "begin", 2, 3, 6, true);
    assert_true(mu_source_in_order(r.s));
    assert_int_equal(mu_source_begin(r.s, 36), 36);
    assert_int_equal(mu_source_begin(r.s, 53), 36);
    r.ask = 6, r.rows = 1; // a sample of rank 1
    assert_status(mu_source_next(r.s, &b, &err), MU_EBACKEND, &err);
    assert_says(&err, "sample 6 is not one of shard 2 of 3");
    mu_source_close(r.s);
    block_fini(&r.b);
}

// ---- refused ----

static void refused(const char *yaml, mu_source_opts o, const char *says) {
    block b;
    mu_source *s;
    mu_err err = {0};
    assert_ok(block_bind(&b, yaml, &err), &err);
    assert_status(mu_source_open_spec(&b.spec, &o, &s, &err), MU_EJOB, &err);
    assert_says(&err, says);
    assert_true(err.hint[0] && err.pos.path);
    block_fini(&b);
}

static void test_refused(void **ctx) {
    (void)ctx;
    make_shards(30, 3, "refused");
    char plain[300];
    snprintf(plain, sizeof plain, "%s", shard_yaml("refused", 1, ""));
    refused(plain, opts_of(0, 1, 3, true), "refused-1.rec` is shard 1 of 3, and one process trains");
    refused(plain, opts_of(1, 2, 3, true), "is shard 1 of 3, and there are other ranks");
    refused(plain, opts_of(2, 3, 3, true), "is shard 1 of 3, and this is rank 2");
    mu_source_opts o = opts_of(1, 3, 3, false);
    o.phase = MU_TEST;
    refused(plain, o, "only training reads shards");
    o = opts_of(1, 3, 3, false);
    refused(shard_yaml("refused", 1, ", limit: 5"), o, "`limit` needs all records");
    refused(shard_yaml("refused", 1, ", part: rest"), o, "`part` needs all records");
    refused(shard_yaml("refused", 1, ", mean: auto"), o, "`mean` needs all records");
    refused(yaml_of("{reader: zip, parts: [{reader: record, file: %s-1.rec}]}", test_path("refused")), o,
            "is shard 1 of 3");
    block b;
    mu_source *s;
    mu_err err = {0};
    o.nodes = 0; // `muster check`, by one process
    assert_ok(block_bind(&b, plain, &err), &err);
    assert_ok(mu_source_open_spec(&b.spec, &o, &s, &err), &err);
    mu_source_close(s);
    block_fini(&b);
}

// Notes that lie: each is refused, and nothing is read by them.
static void test_lying_notes(void **ctx) {
    (void)ctx;
    static const char *const bad[] = {
        "{\"index\":3,\"of\":3,\"records\":30,\"whole\":\"0123456789abcdef\"}",
        "{\"index\":-1,\"of\":3,\"records\":30,\"whole\":\"0123456789abcdef\"}",
        "{\"index\":1,\"of\":1,\"records\":30,\"whole\":\"0123456789abcdef\"}",
        "{\"index\":1,\"of\":257,\"records\":2570,\"whole\":\"0123456789abcdef\"}",
        "{\"index\":1,\"of\":3,\"records\":33,\"whole\":\"0123456789abcdef\"}",
        "{\"index\":1,\"of\":3,\"records\":2,\"whole\":\"0123456789abcdef\"}",
        "{\"index\":1,\"of\":3,\"records\":30,\"whole\":\"0123456789abcde\"}",
        "{\"index\":1,\"of\":3,\"records\":30,\"whole\":\"0123456789abcdeg\"}",
        "{\"index\":1,\"of\":3,\"records\":30}",
        "7",
    };
    make_shards(30, 3, "lying");
    block b;
    mu_reader *r;
    mu_err err = {0};
    assert_ok(reader_open(&b, shard_yaml("lying", 1, ""), &r, &err), &err);
    for (size_t i = 0; i < MU_COUNT(bad); i++) {
        json_t *root = NULL;
        mu_err own = {0};
        const char *text = yaml_of("{\"format\":1,\"shard\":%s}", bad[i]);
        assert_status(mu_record_notes_take(r, text, strlen(text), "f.rec", &root, &own), MU_EDATA, &own);
        assert_says(&own, "`f.rec` is damaged: its notes have a shard that is none");
        json_decref(root);
        assert_int_equal(r->shard.of, 3);
    }
    mu_reader_close(r);
    block_fini(&b);
}

int main(void) {
    make_test_dir();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_union),       cmocka_unit_test(test_cannot_be_dealt),
        cmocka_unit_test(test_epochs),      cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_begin),       cmocka_unit_test(test_refused),
        cmocka_unit_test(test_lying_notes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
