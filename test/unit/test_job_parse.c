// SPDX-License-Identifier: Apache-2.0
// test_job_parse.c - scalars and ranges.
#include "base/attr.h"
#include "job/bind.h"
#include "job/parse.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

static void test_int(void **unused) {
    (void)unused;
    static const struct { const char *text; int64_t want; } good[] = {
        {"0", 0},          {"42", 42},      {"-7", -7},   {"+3", 3},
        {"10k", 10000},    {"2M", 2000000}, {"1e4", 10000}, {"1.5k", 1500},
        {"1G", 1000000000}, {"9223372036854775807", INT64_MAX}, {"-9223372036854775808", INT64_MIN},
    };
    for (size_t i = 0; i < MU_COUNT(good); i++) {
        int64_t v = -99;
        if (!mu_parse_int(good[i].text, &v) || v != good[i].want)
            fail_msg("`%s`: got %lld, want %lld", good[i].text, (long long)v, (long long)good[i].want);
    }
    static const char *const bad[] = {
        "",    "k", "ten", "1.5", "0x10", "1 2", "1kk", "9223372036854775808", "1e300", "inf",
        "nan", "-", "--1", "1e",  "10 k", ".",   "e5"};
    for (size_t i = 0; i < MU_COUNT(bad); i++) {
        int64_t v;
        if (mu_parse_int(bad[i], &v)) fail_msg("`%s` was taken as %lld", bad[i], (long long)v);
    }
}

static void test_double(void **unused) {
    (void)unused;
    static const struct { const char *text; double want;
    } good[] = {
        {"0", 0},       {"0.5", 0.5},      {".5", 0.5},  {"5.", 5},
        {"1e-4", 1e-4}, {"-2.5E3", -2500}, {"10k", 1e4}, {"0.5M", 5e5},
    };
    for (size_t i = 0; i < MU_COUNT(good); i++) {
        double v = -99;
        if (!mu_parse_double(good[i].text, &v) || v != good[i].want)
            fail_msg("`%s`: got %g, want %g", good[i].text, v, good[i].want);
    }
    static const char *const bad[] = {"",    "inf",   "-inf", "nan", "1e999", "0x1p3",
                                      "1,5", "1.2.3", "half", "1 ",  "1m"};
    for (size_t i = 0; i < MU_COUNT(bad); i++) {
        double v;
        if (mu_parse_double(bad[i], &v)) fail_msg("`%s` was taken as %g", bad[i], v);
    }
}

static void test_duration(void **unused) {
    (void)unused;
    static const struct { const char *text; double want; } good[] = {
        {"90", 90}, {"90s", 90}, {"15m", 900}, {"2h", 7200}, {"1d", 86400}, {"1.5 h", 5400}, {"0", 0},
        {"20 minutes", 1200}, {"250ms", 0.25},
    };
    for (size_t i = 0; i < MU_COUNT(good); i++) {
        double v = -99;
        if (!mu_parse_duration(good[i].text, &v) || v != good[i].want)
            fail_msg("`%s`: got %g, want %g", good[i].text, v, good[i].want);
    }
    static const char *const bad[] = {"", "-1s", "1x", "soon", "1 h 2", "10k", "1e308d"};
    for (size_t i = 0; i < MU_COUNT(bad); i++) {
        double v;
        if (mu_parse_duration(bad[i], &v)) fail_msg("`%s` was taken as %g", bad[i], v);
    }
}

static void test_interval(void **unused) {
    (void)unused;
    static const struct { const char *text; mu_interval want;
    } good[] = {
        {"1 epoch", {MU_EVERY_EPOCH, 1}},    {"0.5 epochs", {MU_EVERY_EPOCH, 0.5}},
        {"500 steps", {MU_EVERY_STEP, 500}}, {"500", {MU_EVERY_STEP, 500}},
        {"10k", {MU_EVERY_STEP, 10000}},     {"2k steps", {MU_EVERY_STEP, 2000}},
        {"10m", {MU_EVERY_SECOND, 600}},     {"30 s", {MU_EVERY_SECOND, 30}},
        {"never", {MU_EVERY_NEVER, 0}},      {"epoch", {MU_EVERY_EPOCH, 1}},
    };
    for (size_t i = 0; i < MU_COUNT(good); i++) {
        mu_interval v = {MU_EVERY_NEVER, -99};
        if (!mu_parse_interval(good[i].text, &v) || v.unit != good[i].want.unit || v.n != good[i].want.n)
            fail_msg("`%s`: got unit %d n %g, want unit %d n %g", good[i].text, (int)v.unit, v.n,
                     (int)good[i].want.unit, good[i].want.n);
    }
    static const char *const bad[] = {"",        "0",     "-1 epoch",  "1.5 steps", "2.5",
                                      "5 epoks", "often", "1 epoch 2", "inf"};
    for (size_t i = 0; i < MU_COUNT(bad); i++) {
        mu_interval v;
        if (mu_parse_interval(bad[i], &v))
            fail_msg("`%s` was taken as unit %d n %g", bad[i], (int)v.unit, v.n);
    }
}

static void test_range(void **unused) {
    (void)unused;
    static const struct { const char *range; double v; bool in; } rows[] = {
        {"[0,1)", 0, true}, {"[0,1)", 0.999, true}, {"[0,1)", 1, false},    {"[0,1)", -1e-9, false},
        {"(0,)", 0, false}, {"(0,)", 1e300, true},  {"[1,1k]", 1000, true}, {"[1,1k]", 1001, false},
        {"(,0]", 0, true},  {"(,0]", 0.1, false},   {"", 5, true},          {NULL, -5, true},
        {"[ 1 , 2 ]", 2, true},
    };
    for (size_t i = 0; i < MU_COUNT(rows); i++) {
        mu_range r;
        assert_true(mu_range_parse(rows[i].range, &r));
        if (mu_range_has(&r, rows[i].v) != rows[i].in)
            fail_msg("%g in %s: want %d", rows[i].v, rows[i].range ? rows[i].range : "NULL", rows[i].in);
    }
    static const char *const bad[] = {"0,1", "[0,1", "[0;1]", "[a,1]", "[]", "[0]"};
    for (size_t i = 0; i < MU_COUNT(bad); i++) {
        mu_range r;
        if (mu_range_parse(bad[i], &r)) fail_msg("range `%s` was taken", bad[i]);
    }
    mu_range r;
    char text[100];
    assert_true(mu_range_parse("[0,1)", &r));
    mu_range_describe(&r, text, sizeof text);
    assert_string_equal(text, "at least 0 and below 1");
    assert_true(mu_range_parse("(0,)", &r));
    mu_range_describe(&r, text, sizeof text);
    assert_string_equal(text, "above 0");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_int),      cmocka_unit_test(test_double), cmocka_unit_test(test_duration),
        cmocka_unit_test(test_interval), cmocka_unit_test(test_range),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
