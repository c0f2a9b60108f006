// SPDX-License-Identifier: Apache-2.0
// test_data_source.c - the stream of batches: order, shards, transformation, bad records, resuming.
#include "data_help.h"

#include "base/rng.h"
#include "data/transform.h"

typedef struct stream { block b; mu_source *s; } stream;

static mu_source_opts opts(int64_t batch, mu_phase phase) {
    return (mu_source_opts){.batch = batch, .seed = 42, .phase = phase, .shuffle = true};
}

static void stream_open(stream *t, const char *yaml, mu_source_opts o) {
    mu_err err = {0};
    assert_ok(block_bind(&t->b, yaml, &err), &err);
    assert_ok(mu_source_open_spec(&t->b.spec, &o, &t->s, &err), &err);
}

static void stream_close(stream *t) {
    mu_source_close(t->s);
    block_fini(&t->b);
}

static const mu_batch *next(stream *t) {
    mu_err err = {0};
    const mu_batch *b = NULL;
    assert_ok(mu_source_next(t->s, &b, &err), &err);
    return b;
}

static void seek(stream *t, int64_t sample) {
    mu_err err = {0};
    assert_ok(mu_source_seek(t->s, sample, &err), &err);
}

static void start(stream *t) {
    mu_err err = {0};
    assert_ok(mu_source_start(t->s, &err), &err);
}

// CSV whose one feature is the record number; easy to see who came when.
static const char *numbers(int n, const char *options) {
    static char text[65536];
    size_t at = 0;
    for (int i = 0; i < n; i++) at += (size_t)snprintf(text + at, sizeof text - at, "%d,%d\n", i, i % 3);
    return yaml_of("{reader: csv, file: %s%s}", write_file("n.csv", text, at), options);
}

// ---- order ----

static void test_each_record_once_per_epoch(void **ctx) {
    (void)ctx;
    enum { N = 103, BATCH = 8, EPOCHS = 5 };
    stream t;
    stream_open(&t, numbers(N, ""), opts(BATCH, MU_TRAIN));
    int seen[EPOCHS][N] = {{0}}, first[EPOCHS] = {0};
    int64_t g = 0;
    while (g < N * EPOCHS) {
        const mu_batch *b = next(&t);
        assert_int_equal(b->first, g);
        assert_int_equal(b->n, BATCH);
        for (int64_t i = 0; i < b->n && g < N * EPOCHS; i++, g++) {
            int v = (int)b->field[0].f[i];
            seen[g / N][v]++;
            if (g % N == 0) first[g / N] = v;
            assert_int_equal(b->field[1].i[i], v % 3);
        }
    }
    for (int e = 0; e < EPOCHS; e++)
        for (int i = 0; i < N; i++)
            if (seen[e][i] != 1) fail_msg("epoch %d: record %d came %d times", e, i, seen[e][i]);
    assert_false(first[0] == first[1] && first[1] == first[2] && first[2] == first[3]);
    stream_close(&t);
}

static void test_shards_are_disjoint_and_complete(void **ctx) {
    (void)ctx;
    enum { N = 50, BATCH = 12, PARTS = 3, STEPS = 20 };
    stream whole, part[PARTS];
    const char *yaml = numbers(N, "");
    stream_open(&whole, yaml, opts(BATCH, MU_TRAIN));
    for (int p = 0; p < PARTS; p++) {
        mu_source_opts o = opts(BATCH, MU_TRAIN);
        o.first_row = p * (BATCH / PARTS), o.n_rows = BATCH / PARTS;
        stream_open(&part[p], yaml, o);
    }
    for (int s = 0; s < STEPS; s++) {
        const mu_batch *all = next(&whole);
        for (int p = 0; p < PARTS; p++) {
            const mu_batch *mine = next(&part[p]);
            assert_int_equal(mine->n, BATCH / PARTS);
            assert_int_equal(mine->first, s * BATCH + p * (BATCH / PARTS));
            assert_memory_equal(mine->field[0].f, all->field[0].f + p * (BATCH / PARTS), (BATCH / PARTS) * 4);
        }
    }
    for (int p = 0; p < PARTS; p++) stream_close(&part[p]);
    stream_close(&whole);
}

static void test_evaluation_is_in_order_and_ends(void **ctx) {
    (void)ctx;
    stream t;
    for (int prefetch = 0; prefetch < 2; prefetch++) {
        stream_open(&t, numbers(10, ", limit: 9"), opts(4, MU_TEST));
        assert_int_equal(mu_source_n_records(t.s), 9);
        for (int pass = 0; pass < 2; pass++) {
            if (prefetch) start(&t);
            int64_t n = 0, want[] = {4, 4, 1};
            for (const mu_batch *b; (b = next(&t)); n += b->n) {
                assert_int_equal(b->n, want[n / 4]);
                for (int64_t i = 0; i < b->n; i++) assert_int_equal((int)b->field[0].f[i], n + i);
            }
            assert_int_equal(n, 9);
            assert_null(next(&t));
            mu_source_stop(t.s);
            seek(&t, 0);
        }
        stream_close(&t);
    }
}

// ---- prefetch and resuming: bit for bit the same stream ----

static const char *augmented(void) {
    sample_cifar();
    return yaml_of("{reader: cifar, files: [%s, %s], mean: auto, crop: 24, mirror: true, scale: 0.5}",
                   test_path("a.bin"), test_path("b.bin"));
}

static void same_batch(const mu_batch *a, const mu_batch *b) {
    assert_int_equal(a->first, b->first);
    assert_int_equal(a->n, b->n);
    for (int f = 0; f < 2; f++)
        assert_memory_equal(a->field[f].data, b->field[f].data, mu_tensor_count(&a->field[f]) * 4);
}

static void test_prefetch_equals_inline(void **ctx) {
    (void)ctx;
    for (int64_t batch = 1; batch <= 64; batch *= 8) {
        stream inl, pre;
        stream_open(&inl, augmented(), opts(batch, MU_TRAIN));
        stream_open(&pre, augmented(), opts(batch, MU_TRAIN));
        start(&pre);
        for (int i = 0; i < 200; i++) same_batch(next(&inl), next(&pre));
        mu_source_stop(pre.s);                          // what waited in the ring is dropped ...
        for (int i = 0; i < 20; i++) same_batch(next(&inl), next(&pre));        // ... and made again
        start(&pre);
        for (int i = 0; i < 20; i++) same_batch(next(&inl), next(&pre));
        stream_close(&inl);
        stream_close(&pre);
    }
}

static void test_seek_resumes_exactly(void **ctx) {
    (void)ctx;
    stream whole, resumed;
    stream_open(&whole, augmented(), opts(5, MU_TRAIN));
    for (int i = 0; i < 37; i++) next(&whole);
    for (int prefetch = 0; prefetch < 2; prefetch++) {
        stream_open(&resumed, augmented(), opts(5, MU_TRAIN));
        mu_err err = {0};
        seek(&resumed, 37 * 5);
        if (prefetch) {
            start(&resumed);
            assert_status(mu_source_seek(resumed.s, 0, &err), MU_EUSAGE, &err);
        }
        seek(&whole, 37 * 5);
        for (int i = 0; i < 30; i++) same_batch(next(&whole), next(&resumed));
        stream_close(&resumed);
    }
    stream_close(&whole);
}

// ---- transformation ----

static float cifar_pixel(int record, int y, int x, int c) {
    return (float)pixel_of(record, c * 1024 + y * 32 + x);
}

static void test_centre_crop_mean_and_scale(void **ctx) {
    (void)ctx;
    sample_cifar();
    stream t;
    stream_open(
        &t,
        yaml_of(
            "{reader: cifar, files: [%s, %s], mean: [1, 2, 3], crop: [30, 28], mirror: true, scale: 0.25}",
            test_path("a.bin"), test_path("b.bin")),
        opts(SAMPLES, MU_TEST));
    const mu_data_field *d = mu_source_field(t.s, 0);
    assert_int_equal(d->shape.d[1], 30);
    assert_int_equal(d->shape.d[2], 28);
    const mu_batch *b = next(&t);
    assert_int_equal(b->field[0].shape.n, 4);
    const float *v = b->field[0].f;
    for (int i = 0; i < SAMPLES; i++)
        for (int y = 0; y < 30; y++)
            for (int x = 0; x < 28; x++)
                for (int c = 0; c < 3; c++, v++) {
                    float want = (cifar_pixel(i, y + 1, x + 2, c) - (float)(c + 1)) * 0.25f;
                    if (*v != want)
                        fail_msg("record %d (%d, %d, %d): %g, want %g", i, y, x, c, (double)*v, (double)want);
                }
    stream_close(&t);
}

// A window of one column: no row of it may touch the row before.
static void test_crop_of_one_column(void **ctx) {
    (void)ctx;
    const uint8_t px[] = {1, 2, 3, 4, 5, 6, 7, 8, 9};
    const char *p = write_idx("one.idx", 8, 3, (uint32_t[]){1, 3, 3}, px, sizeof px);
    stream t;
    stream_open(&t, yaml_of("{reader: idx, images: %s, crop: [3, 1]}", p), opts(1, MU_TEST));
    const float *v = next(&t)->field[0].f, want[] = {2, 5, 8};
    for (int y = 0; y < 3; y++)
        if (v[y] != want[y]) fail_msg("row %d: %g, want %g", y, (double)v[y], (double)want[y]);
    stream_close(&t);
}

// A record that a program brings as floats: numbers of characters become whole ones, each the nearest.
static void test_transform_of_numbers(void **ctx) {
    (void)ctx;
    stream t;
    stream_open(&t, sample_chars(), opts(1, MU_TEST));
    const float record[5] = {3, 0, 6.75f, 1.25f, 9};
    const int32_t want[6] = {3, 0, 7, 1, 9, -1};
    int32_t got[6] = {-1, -1, -1, -1, -1, -1};
    mu_source_transform(t.s, 0, record, got);
    assert_memory_equal(got, want, sizeof want);
    stream_close(&t);
}

// `mean` is read as every other number of a job is.
static void test_mean_suffix(void **ctx) {
    (void)ctx;
    const char *p = write_idx("one.idx", 8, 3, (uint32_t[]){1, 1, 2}, (uint8_t[]){5, 9}, 2);
    stream t;
    stream_open(&t, yaml_of("{reader: idx, images: %s, mean: 1k}", p), opts(1, MU_TEST));
    const float *v = next(&t)->field[0].f;
    if (v[0] != -995.0f || v[1] != -991.0f) fail_msg("%g, %g, want -995, -991", (double)v[0], (double)v[1]);
    stream_close(&t);
}

// In training every image must be one of the possible windows, mirrored or not; all must occur.
static void test_random_crop_and_mirror(void **ctx) {
    (void)ctx;
    uint8_t px[5 * 4];
    for (int i = 0; i < 20; i++) px[i] = (uint8_t)(i * i);
    const char *p = write_idx("one.idx", 8, 3, (uint32_t[]){1, 5, 4}, px, sizeof px);
    stream t;
    stream_open(&t, yaml_of("{reader: idx, images: %s, crop: 3, mirror: true, mean: 1}", p),
                opts(1, MU_TRAIN));
    int seen[3][2][2] = {{{0}}};
    for (int s = 0; s < 600; s++) {
        const float *v = next(&t)->field[0].f;
        int hits = 0;
        for (int y0 = 0; y0 < 3; y0++)
            for (int x0 = 0; x0 < 2; x0++)
                for (int flip = 0; flip < 2; flip++) {
                    bool same = true;
                    for (int k = 0; k < 9; k++) {
                        int x = flip ? 2 - k % 3 : k % 3;
                        same &= v[k] == (float)px[(y0 + k / 3) * 4 + x0 + x] - 1.0f;
                    }
                    if (same) seen[y0][x0][flip]++, hits++;
                }
        if (hits != 1) fail_msg("sample %d matches %d windows", s, hits);
    }
    for (int i = 0; i < 12; i++)
        if ((&seen[0][0][0])[i] < 25) fail_msg("window %d came %d times of 600", i, (&seen[0][0][0])[i]);
    stream_close(&t);
}

static int between(int v, int last) { return v < 0 ? 0 : v > last ? last : v; }

// A shifted window repeats the edge, rows and columns; all places occur. In tests nothing moves.
static void test_random_shift(void **ctx) {
    (void)ctx;
    uint8_t px[5 * 4];
    for (int i = 0; i < 20; i++) px[i] = (uint8_t)(i * i / 2);
    const char *p = write_idx("one.idx", 8, 3, (uint32_t[]){1, 5, 4}, px, sizeof px);
    const char *yaml = yaml_of("{reader: idx, images: %s, crop: 3, shift: [1, 2], mean: 1}", p);
    stream t;
    stream_open(&t, yaml, opts(1, MU_TRAIN));
    int seen[5][6] = {{0}};
    for (int s = 0; s < 1800; s++) {
        const float *v = next(&t)->field[0].f;
        int hits = 0;
        for (int y0 = -1; y0 <= 3; y0++)
            for (int x0 = -2; x0 <= 3; x0++) {
                bool same = true;
                for (int k = 0; k < 9; k++)
                    same &= v[k] == (float)px[between(y0 + k / 3, 4) * 4 + between(x0 + k % 3, 3)] - 1.0f;
                if (same) seen[y0 + 1][x0 + 2]++, hits++;
            }
        if (hits != 1) fail_msg("sample %d matches %d windows", s, hits);
    }
    for (int i = 0; i < 30; i++)
        if ((&seen[0][0])[i] < 25) fail_msg("window %d came %d times of 1800", i, (&seen[0][0])[i]);
    stream_close(&t);
    stream_open(&t, yaml, opts(1, MU_TEST));
    assert_true(next(&t)->field[0].f[0] == (float)px[1 * 4 + 0] - 1.0f);
    stream_close(&t);
}

static void test_auto_mean(void **ctx) {
    (void)ctx;
    stream train, test;
    sample_cifar();
    const char *yaml =
        yaml_of("{reader: cifar, files: [%s, %s], mean: auto}", test_path("a.bin"), test_path("b.bin"));
    stream_open(&train, yaml, opts(SAMPLES, MU_TRAIN));
    size_t n;
    const float *mean = mu_source_mean(train.s, 0, &n);
    assert_int_equal(n, 3072);
    for (int e = 0; e < 3072; e += 97) {
        double sum = 0;
        for (int i = 0; i < SAMPLES; i++) sum += (double)cifar_pixel(i, e / 3 / 32, e / 3 % 32, e % 3);
        assert_true(mean[e] == (float)(sum * (1.0 / SAMPLES)));
    }
    // the test data is one record only; it must get the training mean, not its own
    mu_source_opts o = opts(1, MU_TEST);
    o.mean_of = train.s;
    stream_open(&test, yaml_of("{reader: cifar, files: %s, mean: auto, limit: 1}", test_path("a.bin")), o);
    const float *v = next(&test)->field[0].f;
    for (int e = 0; e < 3072; e++)
        assert_true(v[e] == cifar_pixel(0, e / 3 / 32, e / 3 % 32, e % 3) - mean[e]);
    stream_close(&test);
    // through a file
    write_file("mean.f32", mean, n * sizeof *mean);
    stream_open(
        &test,
        yaml_of("{reader: cifar, files: %s, mean_file: %s}", test_path("a.bin"), test_path("mean.f32")),
        opts(1, MU_TEST));
    v = next(&test)->field[0].f;
    for (int e = 0; e < 3072; e++)
        assert_true(v[e] == cifar_pixel(0, e / 3 / 32, e / 3 % 32, e % 3) - mean[e]);
    stream_close(&test);
    stream_close(&train);
}

// ---- bad records ----

// Rows at these places are broken.
static const char *with_bad(int n, int n_bad, const char *options) {
    static char text[65536];
    size_t at = 0;
    for (int i = 0; i < n; i++)
        at += (size_t)snprintf(text + at, sizeof text - at,
                               i % 7 == 3 && i / 7 < n_bad ? "oops,%d\n" : "%d,1\n", i);
    return yaml_of("{reader: csv, header: 'no', file: %s%s}", write_file("bad.csv", text, at), options);
}

static void test_bad_records_are_counted_and_replaced(void **ctx) {
    (void)ctx;
    enum { N = 70, BAD = 5 };
    for (int prefetch = 0; prefetch < 2; prefetch++) {
        stream t;
        stream_open(&t, with_bad(N, BAD, ""), opts(10, MU_TRAIN));
        if (prefetch) start(&t);
        mu_rng_key key = mu_rng_key_make(42, "shuffle");
        for (int g = 0; g < 3 * N; g += 10) {
            const mu_batch *b = next(&t);
            for (int i = 0; i < 10; i++) {
                uint64_t epoch = (uint64_t)(g + i) / N, pos = (uint64_t)(g + i) % N, want;
                for (;; pos++) {        // next good record of the permutation
                    want = mu_rng_permute(key, epoch, N, pos % N);
                    if (!(want % 7 == 3 && want / 7 < BAD)) break;
                }
                assert_int_equal((int)b->field[0].f[i], want);
            }
        }
        mu_source_stop(t.s);
        assert_int_equal(mu_source_get_stats(t.s).n_bad, BAD);  // each once, not once per epoch
        stream_close(&t);
    }
}

static void test_too_many_bad_records_stop(void **ctx) {
    (void)ctx;
    for (int prefetch = 0; prefetch < 2; prefetch++) {
        stream t;
        mu_err err = {0};
        const mu_batch *b;
        stream_open(&t, with_bad(70, 4, ", max_bad: 3"), opts(10, MU_TEST));
        if (prefetch) start(&t);
        mu_status st = MU_OK;
        int64_t n = 0;
        while (st == MU_OK && n < 100) {
            st = mu_source_next(t.s, &b, &err);
            if (st == MU_OK) n += b->n;
        }
        assert_int_equal(st, MU_EDATA);
        assert_int_equal(n, 17);        // rows 3, 10 and 17 left out; the batch with row 24 fails
        assert_says(&err, "line 25");
        assert_non_null(strstr(err.note, "max_bad allows 3"));
        assert_string_equal(err.pos.path, "test.yaml");
        mu_err again = {0};
        assert_int_equal(mu_source_next(t.s, &b, &again), MU_EDATA);
        stream_close(&t);
    }
    stream t;
    mu_err err = {0};
    const mu_batch *b;
    stream_open(&t, with_bad(4, 4, ", limit: 4, max_bad: 100"), opts(2, MU_TRAIN));
    for (int i = 0; i < 10; i++) next(&t);
    stream_close(&t);
    const char *none = "x,1\ny,2\n";
    stream_open(&t,
                yaml_of("{reader: csv, header: 'no', file: %s}", write_file("none.csv", none, strlen(none))),
                opts(1, MU_TRAIN));
    assert_status(mu_source_next(t.s, &b, &err), MU_EDATA, &err);
    assert_says(&err, "none of the 2 records is good");
    stream_close(&t);
}

// ---- the block ----

static void bind_fails(const char *yaml, const char *says, int line, int col) {
    block b;
    mu_err err = {0};
    assert_status(block_bind(&b, yaml, &err), MU_EJOB, &err);
    assert_true(b.diags.n_errors >= 1);
    if (!strstr(b.diags.list[0].msg, says)) fail_msg("`%s` lacks `%s`", b.diags.list[0].msg, says);
    assert_int_equal(b.diags.list[0].pos.line, line);
    assert_int_equal(b.diags.list[0].pos.col, col);
    block_fini(&b);
}

static void test_bad_blocks(void **ctx) {
    (void)ctx;
    bind_fails("{reader: idxx}", "unknown reader `idxx`", 1, 10);
    bind_fails("{images: x}", "missing key `reader`", 1, 1);
    bind_fails("{reader: synthetic,\n claases: 4}", "unknown key `claases`", 2, 2);
    bind_fails("{reader: synthetic, miror: true}", "unknown key `miror`", 1, 21);
    bind_fails("{reader: synthetic, mean: [1, x]}", "`x` is neither a number nor `auto`", 1, 31);
    bind_fails("{reader: synthetic, mean: 0x10}", "`0x10` is neither a number nor `auto`", 1, 27);
    bind_fails("{reader: synthetic, mean: 1e39}", "`1e39` is too large", 1, 27);
    bind_fails("{reader: synthetic, mean: [1, auto]}", "`auto` stands alone", 1, 31);
    bind_fails("{reader: synthetic, crop: [0, 24]}", "`crop` is 0 x 24", 1, 27);
    bind_fails("{reader: synthetic, crop: [24, 0]}", "`crop` is 24 x 0", 1, 27);
    bind_fails("{reader: synthetic, max_bad: -2}", "max_bad", 1, 30);
    bind_fails("{reader: synthetic, mean: 1, mean_file: x}", "exclude each other", 1, 27);
    bind_fails("{reader: idx}", "missing key `images`", 1, 1);
}

static void open_fails(const char *yaml, mu_status want, const char *says, int col) {
    block b;
    mu_err err = {0};
    mu_source *s;
    mu_source_opts o = opts(4, MU_TRAIN);
    assert_ok(block_bind(&b, yaml, &err), &err);
    assert_status(mu_source_open_spec(&b.spec, &o, &s, &err), want, &err);
    assert_says(&err, says);
    if (col && err.pos.col != col) fail_msg("`%s` at column %d, want %d", err.msg, err.pos.col, col);
    block_fini(&b);
}

static void test_bad_values_found_at_open(void **ctx) {
    (void)ctx;
    open_fails("{reader: synthetic, shape: [1, 8, 8], crop: 9}", MU_EJOB, "larger than the images", 45);
    open_fails("{reader: synthetic, mean: [1, 2]}", MU_EJOB, "2 numbers for 3 channels", 27);
    open_fails("{reader: synthetic, shape: 5, crop: 2}", MU_EJOB, "`crop` needs images", 37);
    open_fails("{reader: synthetic, shape: 5, shift: 2}", MU_EJOB, "`shift` needs images", 38);
    open_fails("{reader: synthetic, mean_file: /not/there}", MU_EIO, "/not/there", 0);
    open_fails("{reader: idx, images: /not/there}", MU_EIO, "/not/there", 1);
}

static void test_allocation_failures(void **ctx) {
    (void)ctx;
    const char *yaml = augmented();
    uint64_t live = mu_alloc_get_stats().n_live;
    for (int64_t n = 1;; n++) {
        assert_true(n < 1000);
        block b;
        mu_err err = {0};
        mu_source *s = NULL;
        const mu_batch *batch;
        mu_source_opts o = opts(4, MU_TRAIN);
        mu_alloc_fail_at(n);
        mu_status st = block_bind(&b, yaml, &err);
        if (st == MU_OK) st = mu_source_open_spec(&b.spec, &o, &s, &err);
        if (st == MU_OK) st = mu_source_start(s, &err);
        if (st == MU_OK) st = mu_source_next(s, &batch, &err);
        mu_source_close(s);
        mu_alloc_fail_at(0);
        block_fini(&b);
        if (mu_alloc_get_stats().n_live != live) fail_msg("leak when allocation %d fails", (int)n);
        if (st == MU_OK) break;
    }
}

static void test_stream_allocates_nothing(void **ctx) {
    (void)ctx;
    stream t;
    stream_open(&t, augmented(), opts(4, MU_TRAIN));
    uint64_t calls = mu_alloc_get_stats().n_calls;
    start(&t);
    for (int i = 0; i < 500; i++) next(&t);
    mu_source_stop(t.s);
    assert_int_equal(mu_alloc_get_stats().n_calls, calls);
    stream_close(&t);
}

// ---- some rows of a batch ----

// Rows [from, to) of every batch are those of who reads all, to the bit, and only they are read.
static void read_rows(const char *yaml, int64_t batch, int64_t from, int64_t to, bool prefetch) {
    enum { BATCHES = 20 };
    stream whole, some;
    stream_open(&whole, yaml, opts(batch, MU_TRAIN));
    stream_open(&some, yaml, opts(batch, MU_TRAIN));
    mu_source_set_rows(some.s, from, to);
    const int64_t before = mu_source_get_stats(some.s).n_read;
    if (prefetch) start(&some);
    for (int i = 0; i < BATCHES; i++) {
        const mu_batch *a = next(&whole), *b = next(&some);
        assert_int_equal(a->begin, 0);
        assert_int_equal(a->end, batch);
        assert_int_equal(b->first, a->first);
        assert_int_equal(b->n, batch);
        assert_int_equal(b->begin, from);
        assert_int_equal(b->end, to);
        for (int f = 0; f < mu_source_n_fields(whole.s); f++) {
            const size_t row = mu_tensor_count(&a->field[f]) / (size_t)batch;
            const size_t at = (size_t)from * row, n = (size_t)(to - from) * row;
            if (memcmp(a->field[f].f + at, b->field[f].f + at, n * sizeof(float)))
                fail_msg("batch %d, field %d of rows %d to %d differs: %s", i, f, (int)from, (int)to, yaml);
        }
    }
    mu_source_stop(some.s);
    const int64_t n_read = mu_source_get_stats(some.s).n_read - before;
    if (prefetch) assert_true(n_read >= BATCHES * (to - from));
    else assert_int_equal(n_read, BATCHES * (to - from));
    stream_close(&whole);
    stream_close(&some);
}

static void test_rows_that_are_read(void **ctx) {
    (void)ctx;
    for (int prefetch = 0; prefetch < 2; prefetch++) {
        read_rows(augmented(), 8, 0, 3, prefetch);
        read_rows(augmented(), 8, 3, 8, prefetch);
        read_rows(augmented(), 8, 8, 8, prefetch);
        read_rows("{reader: synthetic, shape: [4], vocab: 9, streams: 6, records: 48}", 6, 2, 5, prefetch);
    }
}

// A bad record is replaced by the same one, whoever reads it, and is read once.
static void test_rows_around_bad_records(void **ctx) {
    (void)ctx;
    enum { N = 70, BAD = 5 };
    stream whole, some;
    stream_open(&whole, with_bad(N, BAD, ""), opts(10, MU_TRAIN));
    stream_open(&some, with_bad(N, BAD, ""), opts(10, MU_TRAIN));
    mu_source_set_rows(some.s, 4, 9);
    for (int g = 0; g < 3 * N; g += 10) {
        const mu_batch *a = next(&whole), *b = next(&some);
        for (int64_t i = 4; i < 9; i++) assert_int_equal((int)a->field[0].f[i], (int)b->field[0].f[i]);
    }
    assert_in_range(mu_source_get_stats(some.s).n_bad, 1, BAD);
    assert_in_range(mu_source_get_stats(some.s).n_read, 3 * N / 2, 3 * N / 2 + BAD);
    stream_close(&whole);
    stream_close(&some);
}

int main(void) {
    make_test_dir();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_record_once_per_epoch),
        cmocka_unit_test(test_shards_are_disjoint_and_complete),
        cmocka_unit_test(test_evaluation_is_in_order_and_ends),
        cmocka_unit_test(test_prefetch_equals_inline),
        cmocka_unit_test(test_seek_resumes_exactly),
        cmocka_unit_test(test_centre_crop_mean_and_scale),
        cmocka_unit_test(test_crop_of_one_column),
        cmocka_unit_test(test_transform_of_numbers),
        cmocka_unit_test(test_mean_suffix),
        cmocka_unit_test(test_random_crop_and_mirror),
        cmocka_unit_test(test_random_shift),
        cmocka_unit_test(test_auto_mean),
        cmocka_unit_test(test_bad_records_are_counted_and_replaced),
        cmocka_unit_test(test_too_many_bad_records_stop),
        cmocka_unit_test(test_bad_blocks),
        cmocka_unit_test(test_bad_values_found_at_open),
        cmocka_unit_test(test_allocation_failures),
        cmocka_unit_test(test_stream_allocates_nothing),
        cmocka_unit_test(test_rows_that_are_read),
        cmocka_unit_test(test_rows_around_bad_records),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
