// SPDX-License-Identifier: Apache-2.0
// test_read_series.c - dates, gaps, windows, answers and units of series, and what a model keeps of them.
#include "data_help.h"

#include "file/dates.h"
#include "read/series.h"

#include <math.h>

static const char *series_of(const char *text, const char *keys) {
    return yaml_of("{reader: series, file: %s%s}", write_file("s.csv", text, strlen(text)), keys);
}

typedef struct opened {
    block b;
    mu_reader *r;
} opened;

static opened open_ok(const char *yaml) {
    opened o;
    mu_err err = {0};
    assert_ok(reader_open(&o.b, yaml, &o.r, &err), &err);
    return o;
}

static void shut(opened *o) {
    mu_reader_close(o->r);
    block_fini(&o->b);
}

static void assert_field(mu_reader *r, int64_t i, int field, const double *want, int64_t n) {
    const float *f = read_ok(r, i).field[field];
    assert_int_equal(mu_shape_count(&r->field[field].shape), n);
    for (int64_t k = 0; k < n; k++)
        if (fabs((double)f[k] - want[k]) > 1e-5)
            fail_msg("record %d field %d value %d: %g, want %g", (int)i, field, (int)k, (double)f[k],
                     want[k]);
}

static void test_dates(void **ctx) {
    (void)ctx;
    // in the order of time
    static const char *const dates[] = {
        "Jan 1949",   "1949-02",   "1949-03-01",       "1949/4/1",
        "2.4.1949",   "4/25/1949", "1949-05-01 13:45", "1949-05-01T13:45:30.5+01:00",
        "2-May-1949", "1949 Q2",   "1949-Q3",          "October 1, 1949"};
    static const char *const others[] = {"",           "1949",       "3.14", "1949-13",   "12:30",
                                         "Janet 1949", "1-2",        "-5",   "32.1.1949", "1949-05-01 25:00",
                                         "a",          "1949-05-01x"};
    double before = -1, now;
    for (size_t i = 0; i < MU_COUNT(dates); i++) {
        if (!mu_date_parse(dates[i], &now)) fail_msg("`%s` is no date", dates[i]);
        if (now <= before) fail_msg("`%s` is not after the one before", dates[i]);
        before = now;
    }
    for (size_t i = 0; i < MU_COUNT(others); i++)
        if (mu_date_parse(others[i], &now)) fail_msg("`%s` is a date", others[i]);
}

// value: mean 3, deviation 2 (1 1 5 5 of the training rows); its steps 0 4 0: deviation sqrt(16 / 4) = 2.
static const char small[] =
    "day,other,value\n2020-01-01,0,1\n2020-01-02,1,1\n2020-01-03,0,5\n2020-01-04,1,5\n"
    "2020-01-05,0,7\n2020-01-06,1,9\n2020-01-07,2,3\n2020-01-08,4,1\n";

static void test_windows(void **ctx) {
    (void)ctx;
    opened o = open_ok(series_of(small, ", window: 2, to: 0.5"));
    assert_int_equal(o.r->n_records, 2);
    assert_int_equal(o.r->n_fields, 4);
    assert_int_equal(o.r->field[0].shape.d[0], 2);
    assert_int_equal(o.r->field[0].shape.d[1], 2);
    // other: mean 0.5, deviation 0.5; its steps 1 -1 1: deviation sqrt(3 / 4)
    assert_field(o.r, 0, 0, (double[]){-1, -1, 1, -1}, 4);
    assert_field(o.r, 0, 1, (double[]){1 / sqrt(0.75), 0}, 2);
    assert_field(o.r, 0, 2, (double[]){-1}, 1);
    assert_field(o.r, 0, 3, (double[]){1}, 1);
    assert_field(o.r, 1, 0, (double[]){1, -1, -1, 1}, 4);
    assert_field(o.r, 1, 1, (double[]){-1 / sqrt(0.75), 2}, 2);
    assert_field(o.r, 1, 2, (double[]){1}, 1);
    assert_float_equal(o.r->target_unit.mean, 3, 1e-6);
    assert_float_equal(o.r->target_unit.deviation, 2, 1e-6);
    shut(&o);
}

// A part has an answer for each of its rows; its first windows reach back. `other` is the target.
static void test_parts_and_seasons(void **ctx) {
    (void)ctx;
    opened o = open_ok(series_of(small, ", window: 3, from: 0.5, target: value, ignore: [other]"));
    assert_int_equal(o.r->n_records, 4);
    const double m = 5, d = sqrt(10); // of 7 9 3 1
    assert_field(o.r, 0, 0, (double[]){(1 - m) / d, (5 - m) / d, (5 - m) / d}, 3);
    assert_field(o.r, 0, 3, (double[]){(7 - m) / d}, 1);
    assert_field(o.r, 3, 3, (double[]){(1 - m) / d}, 1);
    shut(&o);
    o = open_ok(series_of(small, ", window: 4, target: other, ahead: 3, season: 2"));
    assert_int_equal(o.r->n_records, 2); // answers in rows 6 and 7
    const double mean = 9 / 8.0, dev = sqrt((0 + 1 + 0 + 1 + 0 + 1 + 4 + 16) / 8.0 - mean * mean);
    assert_field(o.r, 0, 3, (double[]){(2 - mean) / dev}, 1);
    assert_field(o.r, 0, 2, (double[]){(0 - mean) / dev}, 1); // row 2: two seasons before row 6
    assert_field(o.r, 1, 2, (double[]){(1 - mean) / dev}, 1);
    shut(&o);
    o = open_ok(series_of(small, ", window: 4, target: none"));
    assert_int_equal(o.r->n_records, 5); // the last window has its answer behind the end
    assert_int_equal(o.r->n_fields, 3);
    char name[200];
    mu_reader_describe(o.r, 4, name, sizeof name);
    assert_non_null(strstr(name, "1 after line 9"));
    shut(&o);
}

static void load(mu_series *s, mu_arena *a, const char *text) {
    mu_err err = {0};
    mu_arena_init(a, "test");
    assert_ok(mu_series_load(s, a, write_file("l.csv", text, strlen(text)), (mu_strings){0}, &err), &err);
}

static void unload(mu_series *s, mu_arena *a) {
    mu_series_fini(s);
    mu_arena_fini(a);
}

static void test_columns(void **ctx) {
    (void)ctx;
    mu_series s;
    mu_arena a;
    // gaps, a text, an empty column; newest first
    load(&s, &a, "date;x;note;none;y\n5.1.2020;;a;;5\n4.1.2020;4;b;;4\n3.1.2020;NA;;;3\n2.1.2020;2;c;;2\n");
    assert_true(s.header && s.turned && !s.disorder);
    static const mu_series_kind kinds[] = {MU_SERIES_TIME, MU_SERIES_NUMBER, MU_SERIES_TEXT, MU_SERIES_EMPTY,
                                           MU_SERIES_NUMBER};
    static const double x[] = {2, 2, 4, 4};
    for (size_t i = 0; i < 5; i++) assert_int_equal(s.column[i].kind, kinds[i]);
    for (size_t i = 0; i < 4; i++) assert_float_equal(mu_series_at(&s, i, 1), x[i], 0);
    assert_int_equal(s.column[1].n_gaps, 2);
    assert_int_equal(s.line[0], 5);
    assert_int_equal(mu_series_find(&s, "last"), 4);
    assert_int_equal(mu_series_find(&s, "1"), 1);
    assert_int_equal(mu_series_find(&s, "z"), -1);
    unload(&s, &a);
    // no header; the first column counts, evenly but for rounding; a first gap has the value after it
    load(&s, &a, "1949,\n1949.083,3\n1949.167,4\n1949.25,4\n1949.333,5\n");
    assert_false(s.header);
    assert_int_equal(s.column[0].kind, MU_SERIES_TIME);
    assert_int_equal(s.n_rows, 5);
    assert_float_equal(mu_series_at(&s, 0, 1), 3, 0);
    unload(&s, &a);
    load(&s, &a, "t,x\n1,5\n2,6\n4,7\n5,8\n"); // not evenly: a column like others
    assert_int_equal(s.column[0].kind, MU_SERIES_NUMBER);
    unload(&s, &a);
    load(&s, &a, "d,x\n2020-01-02,5\n2020-01-03,6\n2020-01-03,7\n");
    assert_int_equal(s.disorder, 4);
    unload(&s, &a);
}

static void test_refuses(void **ctx) {
    (void)ctx;
    reader_fails(series_of("", ""), MU_EDATA, "holds no rows");
    reader_fails(series_of("a,b\n", ""), MU_EDATA, "holds no rows");
    reader_fails(series_of("a,b\n1,2\n3\n", ""), MU_EDATA, "line 3 has 1 columns, the first row 2");
    reader_fails(series_of("a,b\nx,y\nu,v\n", ""), MU_EDATA, "has no column of numbers");
    reader_fails(series_of(small, ", target: values"), MU_EDATA, "has no column `values` for `target`");
    reader_fails(series_of(small, ", target: day"), MU_EDATA, "column `day`");
    reader_fails(series_of(small, ", window: 8"), MU_EDATA, "a window of 8 with the answer 1 ahead needs 9");
    reader_fails(series_of(small, ", window: 3, season: 5"), MU_EJOB, "`season` 5 is longer");
    reader_fails(series_of(small, ", window: 2, from: 0.6, to: 0.5"), MU_EJOB, "is not before");
    reader_fails(series_of("a,a\n1,2\n3,4\n9,1\n", ", window: 2"), MU_EDATA, "two columns of");
    reader_fails(series_of(small, ", ignore: [x]"), MU_EDATA, "has no column `x` for `ignore`");
    reader_fails(series_of("a,b\n1,oops\n2,3\n", ", target: b"), MU_EDATA, "line 2: `oops` in column `b`");
    reader_fails(series_of("a\n1e300\n-1e300\n1e300\n", ", window: 2"), MU_EDATA, "too large");
}

static mu_status open_known(opened *o, const json_t *learnt, const char *yaml, mu_err *err) {
    const mu_known known = {.learnt = learnt};
    assert_ok(block_bind(&o->b, yaml, err), err);
    return mu_reader_open(o->b.spec.reader, o->b.spec.reader_state, o->b.spec.pos, &known, &o->r, err);
}

static void test_known(void **ctx) {
    (void)ctx;
    mu_err err = {0};
    json_t *learnt = json_object();
    opened o = open_ok(series_of(small, ", window: 2, to: 0.5"));
    assert_ok(o.r->class->tell(o.r, learnt, &err), &err);
    shut(&o);
    // another order of columns and one more; statistics stay those of training
    assert_ok(
        open_known(&o, learnt, series_of("value,more,other\n13,1,2\n3,1,0\n5,2,3\n", ", window: 2"), &err),
        &err);
    assert_int_equal(o.r->n_records, 1);
    assert_field(o.r, 0, 0, (double[]){3, 5, -1, 0}, 4);
    assert_field(o.r, 0, 3, (double[]){1}, 1);
    assert_float_equal(o.r->target_unit.deviation, 2, 1e-6);
    shut(&o);
    assert_ok(
        open_known(&o, learnt, series_of("value,other\n13,2\n3,0\n", ", window: 2, target: none"), &err),
        &err);
    assert_int_equal(o.r->n_records, 1);
    assert_float_equal(o.r->target_unit.mean, 3, 1e-6);
    shut(&o);
    assert_status(open_known(&o, learnt, series_of("value\n13\n3\n5\n", ", window: 2"), &err), MU_EDATA,
                  &err);
    assert_says(&err, "has no column `other`, which the model reads");
    block_fini(&o.b);
    json_decref(learnt);
}

static void test_damaged_models(void **ctx) {
    (void)ctx;
    static const char *const damaged[] = {"{}",
                                          "{\"columns\": [], \"target\": 0}",
                                          "{\"columns\": [{\"name\": \"value\"}], \"target\": 0}",
                                          "{\"columns\": [{\"name\": \"value\", \"place\": 0, \"mean\": 1, "
                                          "\"deviation\": 0, \"step\": 1}], \"target\": 0}",
                                          "{\"columns\": [{\"name\": \"value\", \"place\": 0, \"mean\": 1, "
                                          "\"deviation\": 1, \"step\": -1}], \"target\": 0}",
                                          "{\"columns\": [{\"name\": \"value\", \"place\": 0, \"mean\": 1, "
                                          "\"deviation\": 1, \"step\": 1}], \"target\": 1}"};
    for (size_t i = 0; i < MU_COUNT(damaged); i++) {
        json_t *learnt = json_loads(damaged[i], 0, NULL);
        assert_non_null(learnt);
        opened o;
        mu_err err = {0};
        assert_status(open_known(&o, learnt, series_of("value\n1\n2\n3\n", ", window: 2"), &err), MU_EMODEL,
                      &err);
        block_fini(&o.b);
        json_decref(learnt);
    }
}

int main(void) {
    make_test_dir();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dates),
        cmocka_unit_test(test_windows),
        cmocka_unit_test(test_parts_and_seasons),
        cmocka_unit_test(test_columns),
        cmocka_unit_test(test_refuses),
        cmocka_unit_test(test_known),
        cmocka_unit_test(test_damaged_models),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
