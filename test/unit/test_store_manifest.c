// SPDX-License-Identifier: Apache-2.0
// Tests of store/manifest: exact round trip, every bit protected, foreign and newer files refused.
#include "run_help.h"

#include <math.h>

static uint64_t chunks[] = {UINT64_MAX, 1};
static const mu_ckpt_number numbers[] = {{"best", 0.1},
                                         {"inf", INFINITY},
                                         {"-inf", -INFINITY},
                                         {"nan", NAN},
                                         {"zero", -0.0},
                                         {"tiny", 5e-324},
                                         {"large", 1.7976931348623157e308},
                                         {"whole", 12345678901234567.0},
                                         {"q\"\\\n", -3}};
static mu_manifest_file files[] = {
    {.name = "model.safetensors",
     .digest = {.size_bytes = MU_DIGEST_CHUNK + 1, .xxh3 = {1, UINT64_MAX}, .chunks = chunks, .n_chunks = 2}},
    {.name = "updater.safetensors", .digest = {.size_bytes = 0, .xxh3 = {0, 2}}}};

static const mu_range finished[] = {{7000, 7010}, {7011, (int64_t)1 << 53}};

static mu_manifest sample(void) {
    return (mu_manifest){.meta = {.step = 500,
                                  .version = 1500,
                                  .finished = finished,
                                  .n_finished = 2,
                                  .epoch = 3,
                                  .sample = 1234,
                                  .seed = INT64_MIN,
                                  .job_hash = UINT64_MAX - 1,
                                  .job_name = "l\xC3\xA9net \"x\"",
                                  .wall_s = 12.25,
                                  .numbers = numbers,
                                  .n_numbers = MU_COUNT(numbers)},
                         .serial = 9,
                         .saved_at = "2026-01-05T10:11:12Z",
                         .files = files,
                         .n_files = 2};
}

static void test_round_trip(void **state) {
    (void)state;
    mu_manifest m = sample(), *r;
    char *text;
    size_t size;
    assert_ok(mu_manifest_format(&m, &text, &size, err));
    assert_ok(mu_manifest_parse(text, size, "m", &r, err));
    assert_int_equal(r->meta.step, 500);
    assert_int_equal(r->meta.epoch, 3);
    assert_int_equal(r->meta.sample, 1234);
    assert_int_equal(r->meta.version, 1500);
    assert_int_equal(r->meta.n_finished, 2);
    assert_memory_equal(r->meta.finished, finished, sizeof finished);
    assert_true(r->meta.seed == INT64_MIN && r->meta.job_hash == UINT64_MAX - 1);
    assert_string_equal(r->meta.job_name, m.meta.job_name);
    assert_string_equal(r->saved_at, m.saved_at);
    assert_int_equal(r->serial, 9);
    assert_true(r->meta.wall_s == 12.25);
    assert_int_equal(r->meta.n_numbers, MU_COUNT(numbers));
    for (size_t i = 0; i < MU_COUNT(numbers); i++) {
        double v = mu_ckpt_meta_number(&r->meta, numbers[i].key, 77);
        bool same = isnan(v) ? isnan(numbers[i].value) : !memcmp(&v, &numbers[i].value, sizeof v);
        if (!same) fail_msg("%s: %a became %a", numbers[i].key, numbers[i].value, v);
    }
    assert_true(mu_ckpt_meta_number(&r->meta, "absent", 77) == 77);
    const mu_manifest_file *f = mu_manifest_find(r, "model.safetensors");
    assert_int_equal(f->digest.size_bytes, MU_DIGEST_CHUNK + 1);
    assert_memory_equal(f->digest.xxh3, files[0].digest.xxh3, 16);
    assert_memory_equal(f->digest.chunks, chunks, sizeof chunks);
    assert_null(mu_manifest_find(r, "other"));
    mu_manifest_destroy(r);
    mu_free(text);
}

static void test_every_bit_counts(void **state) {
    (void)state;
    mu_manifest m = sample(), *r = NULL;
    char *text;
    size_t size;
    assert_ok(mu_manifest_format(&m, &text, &size, err));
    for (size_t bit = 0; bit < 8 * size; bit++) {
        text[bit / 8] = (char)(text[bit / 8] ^ 1 << bit % 8);
        mu_err e = {0};
        mu_status s = mu_manifest_parse(text, size, "m", &r, &e);
        if (s != MU_EMODEL) fail_msg("bit %zu: %s: %s", bit, mu_status_name(s), e.msg);
        text[bit / 8] = (char)(text[bit / 8] ^ 1 << bit % 8);
    }
    for (size_t n = 0; n < size; n++) assert_int_equal(mu_manifest_parse(text, n, "m", &r, NULL), MU_EMODEL);
    mu_free(text);
}

// Texts with a right checksum but wrong content: what a careless or hostile writer could make.
static mu_status parse_signed(const char *body, mu_err *err) {
    char text[1024];
    int n = snprintf(text, sizeof text, "%s\"checksum\": \"00000000000000000000000000000000\"\n}\n", body);
    uint64_t sum[2];
    char hex[33];
    mu_digest_bytes(text, (size_t)n, sum);
    mu_digest_hex(sum, hex);
    memcpy(text + n - 4 - 32, hex, 32);
    mu_manifest *r = NULL;
    mu_status s = mu_manifest_parse(text, (size_t)n, "m", &r, err);
    mu_manifest_destroy(r);
    return s;
}

#define HEAD "{\"format\": 1, \"serial\": 1, \"step\": 1, \"epoch\": 0, \"sample\": 0, \"seed\": 1, "
#define JOB "\"job\": {\"name\": \"a\", \"hash\": \"0123456789abcdef\"}, \"wall_s\": 1, \"saved_at\": \"x\", "
#define SUM "\"xxh3_128\": \"00000000000000000000000000000000\""

static void test_refuses(void **state) {
    (void)state;
    assert_ok(parse_signed(HEAD JOB "\"numbers\": {}, \"files\": {}, ", err));
    static const struct {
        const char *body, *text;
    } table[] = {
        {"{\"format\": 2, ", "has format 2, this version reads up to 1"},
        {"{\"format\": \"1\", ", "`format` is missing or wrong"},
        {HEAD "", "`name` is missing or wrong"},
        {"{\"format\": 1, \"serial\": 1, \"step\": -1, ", "`step` is missing or wrong"},
        {HEAD "\"version\": -1, " JOB, "`version` is missing or wrong"},
        {HEAD "\"finished\": 5, " JOB "\"numbers\": {}, \"files\": {}, ", "`finished` is missing or wrong"},
        {HEAD "\"finished\": [5], " JOB "\"numbers\": {}, \"files\": {}, ", "`finished` is missing or wrong"},
        {HEAD "\"finished\": [5, 5], " JOB "\"numbers\": {}, \"files\": {}, ", "`finished` is missing"},
        {HEAD "\"finished\": [-2, 5], " JOB "\"numbers\": {}, \"files\": {}, ", "`finished` is missing"},
        {HEAD "\"finished\": [3, 5, 5, 6], " JOB "\"numbers\": {}, \"files\": {}, ", "`finished` is missing"},
        {HEAD "\"finished\": [3, 9007199254740993], " JOB "\"numbers\": {}, \"files\": {}, ",
         "`finished` is"},
        {HEAD "\"finished\": [3, \"5\"], " JOB "\"numbers\": {}, \"files\": {}, ", "`finished` is missing"},
        {HEAD JOB "\"numbers\": {\"a\": \"b\"}, \"files\": {}, ", "`a` is missing or wrong"},
        {HEAD JOB "\"numbers\": {}, \"files\": {\"../../etc/passwd\": {}}, ", "`files` is missing or wrong"},
        {HEAD JOB "\"numbers\": {}, \"files\": {\".hidden\": {}}, ", "`files` is missing or wrong"},
        {HEAD JOB "\"numbers\": {}, \"files\": {\"a\": {\"bytes\": 1, \"xxh64_4mib\": \"\", " SUM "}}, ",
         "`xxh64_4mib`"},
        {HEAD JOB
         "\"numbers\": {}, \"files\": {\"a\": {\"bytes\": 9223372036854775807, \"xxh64_4mib\": \"\"}}, ",
         "`xxh64_4mib`"},
        {HEAD JOB
         "\"numbers\": {}, \"files\": {\"a\": {\"bytes\": 0, \"xxh64_4mib\": \"\", \"xxh3_128\": \"0\"}}, ",
         "`xxh3_128`"},
        {HEAD JOB
         "\"numbers\": {}, \"files\": {\"a\": {\"bytes\": 1, \"xxh64_4mib\": \"0123456789ABCDEF\", " SUM
         "}}, ",
         "`xxh64_4mib`"},
        {HEAD JOB "\"numbers\": {\"a\": 1, \"a\": 1}, \"files\": {}, ", "duplicate"},
    };
    for (size_t i = 0; i < MU_COUNT(table); i++) {
        mu_err e = {0};
        mu_status s = parse_signed(table[i].body, &e);
        if (s != MU_EMODEL || !strstr(e.msg, table[i].text))
            fail_msg("%s: got %s `%s`, expected `%s`", table[i].body, mu_status_name(s), e.msg,
                     table[i].text);
    }
    mu_manifest m = sample();
    char *text;
    size_t size;
    m.meta.job_name = "\xFF";
    assert_fails(mu_manifest_format(&m, &text, &size, err), MU_EUSAGE, "not UTF-8");
}

static void test_allocation_failures(void **state) {
    (void)state;
    mu_manifest m = sample();
    int n_failed = 0;
    for (int64_t n = 1;; n++, n_failed++) {
        uint64_t live = mu_alloc_get_stats().n_live;
        mu_manifest *r = NULL;
        char *text = NULL;
        size_t size = 0;
        mu_err e = {0};
        mu_alloc_fail_at(n);
        mu_status s = mu_manifest_format(&m, &text, &size, &e);
        if (s == MU_OK) s = mu_manifest_parse(text, size, "m", &r, &e);
        mu_alloc_fail_at(0);
        mu_manifest_destroy(r);
        mu_free(text);
        assert_int_equal(mu_alloc_get_stats().n_live, live);
        if (s == MU_OK) break;
        if (s != MU_ENOMEM) fail_msg("allocation %lld: %s: %s", (long long)n, mu_status_name(s), e.msg);
    }
    assert_in_range(n_failed, 30, 1000);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_every_bit_counts),
        cmocka_unit_test(test_refuses),
        cmocka_unit_test(test_allocation_failures),
    };
    return cmocka_run_group_tests_name("store/manifest", tests, NULL, NULL);
}
