// SPDX-License-Identifier: Apache-2.0
// test_data_streams.c - where streams begin anew in training, and what evaluations read before they count.
#include "data_help.h"

#include <math.h>

enum { STREAMS = 50 };

static mu_streams streams_of(mu_reset reset, int64_t every, uint64_t seed) {
    return (mu_streams){.n = STREAMS, .reset = reset, .every = every, .key = mu_rng_key_make(seed, "reset")};
}

// ---- the function ----

static void check_share(int64_t found, double of, double want, double sd) {
    const double share = (double)found / of, tolerance = 5 * sd / sqrt(of) + 1e-12;
    if (!(fabs(share - want) <= tolerance)) fail_msg("share %g, not %g +- %g", share, want, tolerance);
}

// As many as promised, in all and in each stream, within five standard deviations.
static void test_random_share(void **ctx) {
    (void)ctx;
    static const int64_t every[] = {1, 2, 20, 300};
    enum { ROUNDS = 40000 };
    for (size_t e = 0; e < MU_COUNT(every); e++) {
        const mu_streams s = streams_of(MU_RESET_RANDOM, every[e], 7);
        int64_t all = 0, of[STREAMS] = {0};
        for (int64_t g = 0; g < (int64_t)STREAMS * ROUNDS; g++) {
            const bool yes = mu_streams_reset(&s, g);
            all += yes, of[g % STREAMS] += yes;
        }
        const double p = 1.0 / (double)every[e], sd = sqrt(p * (1 - p));
        check_share(all, STREAMS * (double)ROUNDS, p, sd);
        for (int k = 0; k < STREAMS; k++) check_share(of[k], ROUNDS, p, sd);
    }
}

// One half is not below one half: the sample whose draw is the word 2^31 goes on.
static void test_random_edge(void **ctx) {
    (void)ctx;
    enum { G = 157855436 };
    const mu_streams s = streams_of(MU_RESET_RANDOM, 2, 7);
    uint32_t u[4];
    mu_rng_block(s.key, 0, G, u);
    assert_int_equal(u[0], UINT32_C(1) << 31);
    assert_false(mu_streams_reset(&s, G));
}

// 2.5 of 50 streams a round on average: never many at once, and other ones with another seed.
static void test_random_is_staggered(void **ctx) {
    (void)ctx;
    const mu_streams s = streams_of(MU_RESET_RANDOM, 20, 7), other = streams_of(MU_RESET_RANDOM, 20, 8);
    int most = 0, both = 0, all = 0;
    for (int64_t round = 0; round < 4000; round++) {
        int n = 0;
        for (int64_t g = round * STREAMS; g < (round + 1) * STREAMS; g++) {
            n += mu_streams_reset(&s, g);
            both += mu_streams_reset(&s, g) && mu_streams_reset(&other, g);
        }
        most = n > most ? n : most;
        all += n;
    }
    assert_in_range(most, 5, 15);
    if (both > all / 10) fail_msg("%d of %d are those of another seed", both, all);
}

// Each stream after exactly so many records, and in each round as many streams as in any other.
static void test_counted(void **ctx) {
    (void)ctx;
    static const int64_t every[] = {1, 7, 20, 50, 333, 1000000};
    for (size_t e = 0; e < MU_COUNT(every); e++) {
        const mu_streams s = streams_of(MU_RESET_COUNTED, every[e], 7);
        const int64_t rounds = every[e] > 1000 ? 100 : 3 * every[e];
        int64_t last[STREAMS], fewest = STREAMS, most = 0;
        for (int k = 0; k < STREAMS; k++) last[k] = -1;
        for (int64_t round = 0; round < rounds; round++) {
            int64_t n = 0;
            for (int64_t k = 0; k < STREAMS; k++) {
                if (!mu_streams_reset(&s, round * STREAMS + k)) continue;
                if (last[k] >= 0) assert_int_equal(round - last[k], every[e]);
                last[k] = round;
                n++;
            }
            fewest = n < fewest ? n : fewest;
            most = n > most ? n : most;
        }
        for (int k = 0; rounds >= every[e] && k < STREAMS; k++) assert_true(last[k] >= 0);
        if (most - fewest > 1) fail_msg("every %d: %d to %d at once", (int)every[e], (int)fewest, (int)most);
    }
}

static void test_never(void **ctx) {
    (void)ctx;
    const mu_streams never = streams_of(MU_RESET_NEVER, 1, 7), none = {.reset = MU_RESET_COUNTED, .every = 1};
    for (int64_t g = 0; g < 1000; g++) {
        assert_false(mu_streams_reset(&never, g));
        assert_false(mu_streams_reset(&none, g)); // records that do not continue each other
    }
}

// Three streams 0 3 6 9, 1 4 7 10, 2 5 8 11: before 1 stand 6 and 9, before 0 the end of the last.
static void test_records_before(void **ctx) {
    (void)ctx;
    const mu_streams s = {.n = 3, .per_stream = 4, .warmup = 4}, one = {.n = 1, .per_stream = 4, .warmup = 2};
    static const int64_t want[12] = {2, 0, 1, 5, 3, 4, 8, 6, 7, 11, 9, 10};
    for (int i = 0; i < 12; i++) assert_int_equal(mu_streams_record_before(&s, i - 12), want[i]);
    assert_int_equal(mu_streams_record_before(&one, -2), 2);
    assert_int_equal(mu_streams_record_before(&one, -1), 3);
}

// ---- in the stream of batches ----

enum { LENGTH = 3, S = 6, PER_STREAM = 11, N = S * PER_STREAM };

// 11 records of 3 characters for each of 6 streams; no two records are the same. What is left over is not
// enough for another record of each stream, and lies at the end: the streams join.
static const char *text_yaml(const char *keys) {
    char text[S * PER_STREAM * LENGTH + 1 + 10];
    for (int i = 0; i < N; i++) {
        text[LENGTH * i] = (char)('a' + i % 10);
        text[LENGTH * i + 1] = (char)('A' + i / 10);
        text[LENGTH * i + 2] = '.';
    }
    memset(text + N * LENGTH, '.', sizeof text - N * LENGTH);
    const char *path = write_file("t", text, sizeof text);
    return yaml_of("{reader: chars, file: %s, streams: 6, length: 3%s}", path, keys);
}

typedef struct stream { block b; mu_source *s; } stream;

static void stream_open(stream *t, const char *keys, mu_source_opts o) {
    mu_err err = {0};
    assert_ok(block_bind(&t->b, text_yaml(keys), &err), &err);
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

static mu_source_opts opts(int64_t batch, mu_phase phase) {
    return (mu_source_opts){.batch = batch, .seed = 42, .phase = phase, .shuffle = true};
}

// Notes `begin` of each sample, and checks that the sample is the record it has to be.
static void note(const mu_batch *b, int8_t *begin, int64_t n) {
    for (int64_t i = 0; i < b->n; i++) {
        const int64_t g = b->first + i, record = g % N, at = record % S * PER_STREAM + record / S;
        if (g >= n) continue;
        const int32_t *c = b->field[0].i + i * LENGTH;
        assert_int_equal(c[0], 1 + 7 + at % 10); // numbers: '.', A..G, a..j
        assert_int_equal(c[1], 1 + at / 10);
        begin[g] = (int8_t)b->field[2].i[i];
    }
}

// Three epochs: records come as without resets, each once an epoch, and `begin` is the reader's or a reset,
// whether one learner reads all rows, two read halves, or a run goes on somewhere.
static void test_training(void **ctx) {
    (void)ctx;
    enum { ALL = 3 * N };
    static const char *const keys[] = {", reset_every: 4", ", reset: counted, reset_every: 4",
                                       ", reset: never"};
    for (size_t k = 0; k < MU_COUNT(keys); k++) {
        int8_t whole[ALL], halves[ALL], resumed[ALL];
        memset(halves, -1, sizeof halves);
        stream t;
        stream_open(&t, keys[k], opts(S, MU_TRAIN));
        for (int64_t g = 0; g < ALL; g += S) note(next(&t), whole, ALL);
        stream_close(&t);
        for (int64_t half = 0; half < 2; half++) {
            mu_source_opts o = opts(S, MU_TRAIN);
            o.first_row = half * S / 2, o.n_rows = S / 2;
            stream_open(&t, keys[k], o);
            for (int64_t g = 0; g < ALL; g += S) note(next(&t), halves, ALL);
            stream_close(&t);
        }
        memcpy(resumed, whole, sizeof resumed);
        memset(resumed + 4 * S, -1, sizeof resumed - 4 * S);
        stream_open(&t, keys[k], opts(S, MU_TRAIN));
        mu_err err = {0};
        assert_ok(mu_source_seek(t.s, 4 * S, &err), &err);
        assert_ok(mu_source_start(t.s, &err), &err); // the prefetch thread fills
        for (int64_t g = 4 * S; g < ALL; g += S) note(next(&t), resumed, ALL);
        stream_close(&t);
        assert_memory_equal(whole, halves, sizeof whole);
        assert_memory_equal(whole, resumed, sizeof whole);
        int resets = 0;
        const mu_streams s = {.n = S, .reset = (mu_reset)t.b.spec.reset, .every = 4,
                              .key = mu_rng_key_make(42, "reset")};
        for (int64_t g = 0; g < ALL; g++) {
            const bool begins = g % N < S, reset = mu_streams_reset(&s, g);
            assert_int_equal(whole[g], begins || reset);
            resets += reset && !begins;
        }
        if (k == 2) assert_int_equal(resets, 0);
        else assert_in_range(resets, ALL / 8, ALL / 3);
    }
}

// Resets are on unless a job says otherwise.
static void test_default(void **ctx) {
    (void)ctx;
    stream t;
    stream_open(&t, "", opts(S, MU_TRAIN));
    assert_int_equal(t.b.spec.reset, MU_RESET_RANDOM);
    assert_int_equal(t.b.spec.reset_every, 20);
    assert_int_equal(t.b.spec.warmup, 4);
    stream_close(&t);
}

// All of an evaluation: first what stands before each stream, begun anew once; then each record once, going
// on. Where it is asked to begin at record 0 it begins there, with new sequences.
static void test_evaluation(void **ctx) {
    (void)ctx;
    mu_err err = {0};
    const mu_streams s = {.n = S, .per_stream = PER_STREAM};
    for (int64_t batch = 1; batch <= S; batch++)
        for (int64_t warmup = 0; warmup <= 20; warmup += 5) {
            char keys[64];
            stream t;
            snprintf(keys, sizeof keys, ", reset_every: 2, warmup: %d", (int)warmup);
            stream_open(&t, keys, opts(batch, batch % 2 ? MU_VALIDATION : MU_PREDICT));
            const int64_t used = warmup < PER_STREAM ? warmup : PER_STREAM; // no more than there are
            for (int pass = 0; pass < 3; pass++) {
                const int64_t before = pass == 1 ? 0 : used * S;
                if (pass == 1) assert_ok(mu_source_seek(t.s, 0, &err), &err);
                else assert_ok(mu_source_seek_warmup(t.s, &err), &err);
                if (pass == 2) {
                    assert_ok(mu_source_start(t.s, &err), &err);
                    assert_status(mu_source_seek_warmup(t.s, &err), MU_EUSAGE, &err);
                }
                int64_t g = -before;
                for (const mu_batch *b = next(&t); b; b = next(&t)) {
                    assert_int_equal(b->first, g);
                    for (int64_t i = 0; i < b->n; i++, g++) {
                        const int64_t record = g < 0 ? mu_streams_record_before(&s, g) : g;
                        const int64_t at = record % S * PER_STREAM + record / S;
                        assert_int_equal(b->field[0].i[i * LENGTH], 1 + 7 + at % 10);
                        assert_int_equal(b->field[0].i[i * LENGTH + 1], 1 + at / 10);
                        assert_int_equal(b->field[2].i[i], g < S - before);
                        assert_true(g >= 0 || b->first + b->n <= 0); // nothing that counts in a warm-up
                    }
                }
                assert_int_equal(g, N);
                mu_source_stop(t.s);
            }
            stream_close(&t);
        }
}

// Texts of their own (not parts of one) begin where they begin.
static void test_other_texts_have_no_warmup(void **ctx) {
    (void)ctx;
    block b;
    mu_err err = {0};
    mu_source *s;
    const mu_batch *batch = NULL;
    const mu_source_opts o = opts(4, MU_TEST);
    const char *yaml = "{reader: synthetic, vocab: 5, shape: [3], streams: 4, records: 16}";
    assert_ok(block_bind(&b, yaml, &err), &err);
    assert_ok(mu_source_open_spec(&b.spec, &o, &s, &err), &err);
    assert_ok(mu_source_seek_warmup(s, &err), &err);
    assert_ok(mu_source_next(s, &batch, &err), &err);
    assert_int_equal(batch->first, 0);
    assert_int_equal(batch->field[2].i[0], 1);
    mu_source_close(s);
    block_fini(&b);
}

// A packed text is read as the text is.
static void test_packed(void **ctx) {
    (void)ctx;
    for (int k = 0; k < 2; k++) {
        block b;
        mu_err err = {0};
        mu_reader *r;
        const char *texts = "{reader: synthetic, vocab: 5, shape: [3], streams: 4, records: 16}";
        assert_ok(reader_open(&b, k ? texts : text_yaml(""), &r, &err), &err);
        mu_record_progress p = {0};
        const char *path = test_path("packed");
        assert_ok(mu_record_write(r, path, &p, &err), &err);
        mu_reader_close(r);
        block_fini(&b);
        assert_ok(reader_open(&b, yaml_of("{reader: record, file: %s}", path), &r, &err), &err);
        for (int f = 0; f < r->n_fields; f++) {
            const bool begin = !strcmp(r->field[f].name, "begin");
            assert_int_equal(r->field[f].is_begin, begin);
            assert_int_equal(r->field[f].one_text, begin && !k);
            assert_false(r->field[f].is_image);
        }
        mu_reader_close(r);
        block_fini(&b);
    }
}

// Where records continue each other a job may say that none is left out, but not that some are.
static void test_max_bad(void **ctx) {
    (void)ctx;
    stream t;
    stream_open(&t, ", max_bad: 0", opts(S, MU_TRAIN));
    stream_close(&t);
    block b;
    mu_err err = {0};
    mu_source *s;
    const mu_source_opts o = opts(S, MU_TRAIN);
    assert_ok(block_bind(&b, text_yaml(", max_bad: 1"), &err), &err);
    assert_status(mu_source_open_spec(&b.spec, &o, &s, &err), MU_EJOB, &err);
    assert_says(&err, "`max_bad` must be 0 here");
    assert_true(err.pos.line > 0);
    block_fini(&b);
}

static void test_wrong_keys(void **ctx) {
    (void)ctx;
    static const struct {
        const char *keys, *says;
    } rows[] = {
        {"reset: counted", "`reset` needs records that continue each other"},
        {"reset_every: 5", "`reset_every` needs records that continue each other"},
        {"warmup: 5", "`warmup` needs records that continue each other"},
    };
    for (size_t i = 0; i < MU_COUNT(rows); i++) {
        block b;
        mu_err err = {0};
        mu_source *s;
        const mu_source_opts o = opts(4, MU_TRAIN);
        const char *yaml = yaml_of("{reader: synthetic, shape: [3], records: 16, %s}", rows[i].keys);
        assert_ok(block_bind(&b, yaml, &err), &err);
        assert_status(mu_source_open_spec(&b.spec, &o, &s, &err), MU_EJOB, &err);
        assert_says(&err, rows[i].says);
        assert_true(err.pos.line > 0);
        block_fini(&b);
    }
    static const char *const bad[] = {", reset: sometimes", ", reset_every: 0", ", warmup: 1025",
                                      ", warmup: -1"};
    for (size_t i = 0; i < MU_COUNT(bad); i++) {
        block b;
        mu_err err = {0};
        assert_status(block_bind(&b, text_yaml(bad[i]), &err), MU_EJOB, &err);
        block_fini(&b);
    }
}

// 209 characters in 6 streams of 34, of each the first or the second half: 5 records of 3.
static void test_part_of_each_stream(void **ctx) {
    (void)ctx;
    char text[300];
    for (int half = 0; half < 2; half++) {
        block b;
        mu_reader *r;
        mu_err err = {0};
        const char *keys = half ? ", of: stream, from: 0.5" : ", of: stream, to: 0.5";
        assert_ok(reader_open(&b, text_yaml(keys), &r, &err), &err);
        const size_t n = load_bytes(test_path("t"), (uint8_t *)text, sizeof text);
        assert_int_equal(n, 209);
        assert_int_equal(r->n_records, 6 * 5);
        for (int64_t i = 0; i < r->n_records; i++) {
            const mu_record rec = read_ok(r, i);
            for (int64_t k = 0; k < LENGTH; k++) {
                const char want = text[17 * half + i % S * 34 + i / S * LENGTH + k + 1];
                assert_int_equal(r->field[1].names[((const int32_t *)rec.field[1])[k]][0], want);
            }
        }
        mu_reader_close(r);
        block_fini(&b);
    }
    reader_fails(text_yaml(", of: stream, from: 0.95"), MU_EDATA,
                 "is too short: 12 characters from 0.95 to 1 of all streams");
}

int main(void) {
    make_test_dir();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_share), cmocka_unit_test(test_random_edge),
        cmocka_unit_test(test_random_is_staggered),
        cmocka_unit_test(test_counted),      cmocka_unit_test(test_never),
        cmocka_unit_test(test_records_before), cmocka_unit_test(test_training),
        cmocka_unit_test(test_default),      cmocka_unit_test(test_evaluation),
        cmocka_unit_test(test_other_texts_have_no_warmup),
        cmocka_unit_test(test_packed),       cmocka_unit_test(test_max_bad),
        cmocka_unit_test(test_wrong_keys),
        cmocka_unit_test(test_part_of_each_stream),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
