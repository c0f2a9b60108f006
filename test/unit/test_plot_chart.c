// SPDX-License-Identifier: Apache-2.0
// Charts: ticks are round and inside, any text and any number gives well-formed XML, what cannot be drawn is
// left out, labels keep apart.
#include "unit/markup_help.h"

#include "base/rng.h"
#include "plot/chart.h"

#include <math.h>

static mu_chart_series marks(const mu_chart_point *p, size_t n) {
    return (mu_chart_series){.name = "s", .marks = true, .point = p, .n = n};
}

static mu_chart chart_of(const mu_chart_series *s, size_t n) {
    return (mu_chart){.title = "t", .x_name = "x", .y_name = "y", .series = s, .n = n};
}

static mu_text drawn(const mu_chart *c) {
    mu_text t = {0};
    assert_ok(mu_chart_write(c, &t, err));
    assert_well_formed(&t);
    return t;
}

// ---- ticks ----

static void assert_ticks(double lo, double hi, bool log, int wanted) {
    double v[MU_CHART_TICKS];
    int n = mu_chart_ticks(lo, hi, log, wanted, v);
    if (n < 2 || n > MU_CHART_TICKS) fail_msg("%d ticks in [%.17g, %.17g], log %d", n, lo, hi, log);
    double slack = 1e-6 * (hi - lo);
    for (int i = 0; i < n; i++) {
        if (v[i] < lo - slack || v[i] > hi + slack)
            fail_msg("tick %.17g is outside [%.17g, %.17g]", v[i], lo, hi);
        if (i && v[i] <= v[i - 1]) fail_msg("ticks %.17g, %.17g do not ascend", v[i - 1], v[i]);
    }
}

static void test_ticks_known(void **state) {
    (void)state;
    double v[MU_CHART_TICKS];
    assert_int_equal(mu_chart_ticks(0, 10, false, 5, v), 6);
    assert_near(v[1], 2, 1e-12);
    assert_int_equal(mu_chart_ticks(0.03, 0.21, false, 4, v), 4);
    assert_near(v[0], 0.05, 1e-12);
    assert_near(v[3], 0.2, 1e-12);
    assert_int_equal(mu_chart_ticks(1, 1000, true, 4, v), 4);
    assert_near(v[3], 1000, 1e-9);
    assert_int_equal(mu_chart_ticks(1, 100, true, 6, v), 7); // 1 2 5 10 20 50 100
    assert_near(v[2], 5, 1e-12);
}

static void test_ticks_random(void **state) {
    (void)state;
    uint64_t seed = (uint64_t)time(NULL);
    print_message("seed %llu\n", (unsigned long long)seed);
    mu_rng_key key = mu_rng_key_make(seed, "ticks");
    for (uint64_t i = 0; i < 20000; i++) {
        float r[3];
        mu_rng_fill_uniform(key, i, 0, r, MU_COUNT(r));
        double scale = pow(10, 40.0 * (double)r[2] - 20), lo = scale * ((double)r[0] - 0.5),
               hi = lo + scale * (1e-4 + (double)r[1]);
        assert_ticks(lo, hi, false, 2 + (int)(i % 9));
        lo = scale, hi = scale * (1.001 + pow(10, 12.0 * (double)r[1]));
        assert_ticks(lo, hi, true, 2 + (int)(i % 9));
    }
}

// ---- drawing ----

static void test_escapes(void **state) {
    (void)state;
    mu_chart_point p = {1, 1, "<b>&\"\x01\xff\xc3(1, 2)", "tip </title>"};
    mu_chart_series s = {.name = "a<b", .marks = true, .point = &p, .n = 1};
    mu_chart c = {.title = "</svg>", .note = "\"&\"", .x_name = "<x", .y_name = "y&", .series = &s, .n = 1};
    mu_text t = drawn(&c);
    assert_non_null(strstr(t.s, "&lt;b&gt;&amp;&quot;\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd(1, 2)"));
    assert_int_equal(count(t.s, "</svg>"), 1);
    mu_text_fini(&t);
}

static void test_leaves_out(void **state) {
    (void)state;
    const mu_chart_point p[] = {{1, 1, NULL, NULL},        {2, NAN, NULL, NULL},  {3, 3, NULL, NULL},
                                {INFINITY, 1, NULL, NULL}, {-4, 1, NULL, NULL},   {0, 1, NULL, NULL},
                                {5, 2, NULL, NULL},        {1e301, 2, NULL, NULL}};
    mu_chart_series s = {.line = MU_LINE_SOLID, .marks = true, .point = p, .n = MU_COUNT(p)};
    mu_chart c = chart_of(&s, 1);
    c.x_log = true;
    mu_text t = drawn(&c);
    assert_int_equal(count(t.s, "<circle"), 3); // 1, 3 and 5
    const char *line = strstr(t.s, "stroke-width=\"1.8\" d=\"");
    assert_non_null(line);
    line = strstr(line, "d=\"") + 3;
    size_t moves = 0;
    for (; *line != '"'; line++) moves += *line == 'M';
    assert_int_equal(moves, 3); // a broken line begins anew
    mu_text_fini(&t);
}

static void test_empty_and_flat(void **state) {
    (void)state;
    mu_chart c = chart_of(NULL, 0);
    mu_text t = drawn(&c);
    assert_non_null(strstr(t.s, "no data"));
    mu_text_fini(&t);
    const double values[] = {0, 5, -7, 1e-12, 1e250};
    for (size_t i = 0; i < MU_COUNT(values); i++) { // one point: no range to divide by
        mu_chart_point p = {values[i], values[i], "one", NULL};
        mu_chart_series s = marks(&p, 1);
        c = chart_of(&s, 1);
        t = drawn(&c);
        assert_int_equal(count(t.s, "<circle"), 2); // the mark and the legend's
        mu_text_fini(&t);
    }
    c = chart_of(NULL, 0);
    c.width = 290;
    assert_fails(mu_chart_write(&c, &t, err), MU_EUSAGE, "no room");
    mu_text_fini(&t);
}

static void test_labels_keep_apart(void **state) {
    (void)state;
    mu_chart_point p[6];
    for (int i = 0; i < 6; i++)
        p[i] = (mu_chart_point){100 + 0.2 * i, 1, "(16, 4)", NULL}; // all but on one spot
    p[5].x = 0;
    mu_chart_series s = marks(p, 6);
    mu_chart c = chart_of(&s, 1);
    mu_text t = drawn(&c);
    double x[8], y[8];
    int n = 0;
    for (const char *at = t.s; (at = strstr(at, "<text x=\"")); at++) {
        const char *end = strchr(at, '\n');
        if (n < 8 && !strncmp(end - 14, "(16, 4)</text>", 14)) {
            assert_int_equal(sscanf(at, "<text x=\"%lf\" y=\"%lf\"", &x[n], &y[n]), 2);
            n++;
        }
    }
    assert_int_equal(n, 6);
    for (int i = 0; i < n; i++)
        for (int j = 0; j < i; j++)
            if (fabs(x[i] - x[j]) < 40 && fabs(y[i] - y[j]) < 9.5)
                fail_msg("labels at (%g, %g) and (%g, %g) overlap", x[i], y[i], x[j], y[j]);
    mu_text_fini(&t);
}

static void test_looks_and_sameness(void **state) {
    (void)state;
    mu_chart_point p = {1, 2, "label", "tip"};
    mu_chart_series s[45];
    for (int i = 0; i < 45; i++)
        s[i] = (mu_chart_series){.name = "s", .look = i, .marks = true, .point = &p, .n = 1};
    mu_chart c = chart_of(s, 45);
    c.height = 1200;
    mu_text a = drawn(&c), b = drawn(&c);
    assert_string_equal(a.s, b.s);
    mu_text_fini(&a);
    mu_text_fini(&b);
}

// A line of many points keeps every peak, in about four points for each column of pixels.
static void test_long_lines(void **state) {
    (void)state;
    enum { N = 200000 };
    mu_chart_point *p = calloc(N, sizeof *p);
    assert_non_null(p);
    for (int i = 0; i < N; i++) p[i] = (mu_chart_point){.x = i, .y = sin(i * 1e-3)};
    p[123456].y = 5; // one spike
    p[77777].y = -7;
    p[150000].y = NAN;
    mu_chart_series s = {.line = MU_LINE_SOLID, .point = p, .n = N};
    mu_chart c = chart_of(&s, 1);
    mu_text t = drawn(&c);
    if (t.n > 100000) fail_msg("%zu bytes for a line", t.n);
    const char *line = strstr(t.s, "stroke-width=\"1.8\" d=\"");
    assert_non_null(line);
    line = strstr(line, "d=\"") + 3;
    double low = INFINITY, high = -INFINITY, last = -INFINITY;
    int moves = 0;
    for (const char *at = line; *at != '"';) {
        double x, y;
        int used;
        moves += *at == 'M';
        assert_int_equal(sscanf(at + 1, "%lf %lf%n", &x, &y, &used), 2);
        if (x < last) fail_msg("the line goes back from %g to %g", last, x);
        low = fmin(low, y), high = fmax(high, y), last = x;
        at += 1 + used;
    }
    assert_int_equal(moves, 2);
    // margins of 6 % above and below a range of 12, on 416 pixels from 64 to 480
    assert_near(high, 480 - 416 * 0.72 / 13.44, 0.11);
    assert_near(low, 64 + 416 * 0.72 / 13.44, 0.11);
    mu_text_fini(&t);
    free(p);
}

static void test_dots_and_names(void **state) {
    (void)state;
    const mu_chart_point p[] = {{1, 1, NULL, NULL}, {2, NAN, NULL, NULL}, {3, 3, NULL, NULL}};
    const mu_chart_point name = {2, 2, "class <a>", NULL};
    const mu_chart_series s[] = {{.name = "dots", .look = 8, .dots = true, .point = p, .n = 3},
                                 {.point = &name, .n = 1}};
    mu_chart c = chart_of(s, 2);
    mu_text t = drawn(&c);
    assert_int_equal(count(t.s, "h0"), 3); // two points and the legend's
    assert_int_equal(count(t.s, "#999933"), 2);
    assert_non_null(strstr(t.s, ">class &lt;a&gt;</text>"));
    mu_text_fini(&t);
}

// The end of a long name says how runs differ; rows that find no room are counted.
static void test_long_legend(void **state) {
    (void)state;
    mu_chart_point p = {1, 1, NULL, NULL};
    mu_chart_series s[60];
    for (int i = 0; i < 60; i++)
        s[i] = (mu_chart_series){.name = "a-name-that-is-\xc3\xa4-lot-too-long-for-the-legend-of-a-chart-END",
                                 .marks = true,
                                 .point = &p,
                                 .n = 1};
    mu_chart c = chart_of(s, 60);
    mu_text t = drawn(&c);
    assert_non_null(strstr(t.s, "\xe2\x80\xa6"));
    assert_non_null(strstr(t.s, "END</text>"));
    assert_null(strstr(t.s, "too-long-for-the"));
    size_t rows = count(t.s, "END</text>"), more = 0;
    const char *at = strstr(t.s, ">and ");
    assert_non_null(at);
    assert_int_equal(sscanf(at, ">and %zu more<", &more), 1);
    assert_int_equal(rows + more, 60);
    mu_text_fini(&t);
}

static void test_no_memory(void **state) {
    (void)state;
    mu_chart_point p = {1, 2, "label", NULL};
    mu_chart_series s = marks(&p, 1);
    mu_chart c = chart_of(&s, 1);
    for (int64_t n = 1;; n++) {
        mu_text t = {0};
        mu_err err = {0};
        uint64_t live = mu_alloc_get_stats().n_live;
        mu_alloc_fail_at(n);
        mu_status st = mu_chart_write(&c, &t, &err);
        mu_alloc_fail_at(0);
        mu_text_fini(&t);
        assert_int_equal(mu_alloc_get_stats().n_live, live);
        if (st == MU_OK) {
            assert_true(n > 3);
            break;
        }
        assert_int_equal(st, MU_ENOMEM);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ticks_known),
        cmocka_unit_test(test_ticks_random),
        cmocka_unit_test(test_escapes),
        cmocka_unit_test(test_leaves_out),
        cmocka_unit_test(test_empty_and_flat),
        cmocka_unit_test(test_labels_keep_apart),
        cmocka_unit_test(test_looks_and_sameness),
        cmocka_unit_test(test_long_lines),
        cmocka_unit_test(test_dots_and_names),
        cmocka_unit_test(test_long_legend),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
