// SPDX-License-Identifier: Apache-2.0
// Charts: ticks are round and inside, any text and any number gives well-formed XML, what cannot be drawn is
// left out, labels keep apart.
#include "unit/run_help.h"

#include "base/rng.h"
#include "run/chart.h"

#include <math.h>

static mu_chart_series marks(const mu_chart_point *p, size_t n) {
    return (mu_chart_series){.name = "s", .marks = true, .point = p, .n = n};
}

static mu_chart chart_of(const mu_chart_series *s, size_t n) {
    return (mu_chart){.title = "t", .x_name = "x", .y_name = "y", .series = s, .n = n};
}

static size_t count(const char *text, const char *what) {
    size_t n = 0;
    for (const char *p = text; (p = strstr(p, what)); p += strlen(what)) n++;
    return n;
}

// ---- a strict look at the XML ----

// Elements nest, attributes are quoted, no bare & or < in text, all of it UTF-8. Fails with the place.
static void assert_well_formed(const mu_text *t) {
    const char *stack[32];
    size_t length[32], depth = 0;
    if (!mu_json_utf8_valid(t->s, t->n)) fail_msg("not UTF-8");
    for (const char *p = t->s; *p;) {
        if (*p == '&') {
            size_t n = strcspn(p, ";");
            if (n > 6 || !p[n]) fail_msg("bare & at `%.40s`", p);
        }
        if (*p++ != '<') continue;
        bool closing = *p == '/';
        const char *name = p + closing, *end = name + strcspn(name, " />\n");
        const char *q = end;
        while (*q && *q != '>') {
            if (*q == '<') fail_msg("< inside a tag at `%.40s`", q);
            if (*q++ != '"') continue;
            q += strcspn(q, "\"<");
            if (*q++ != '"') fail_msg("open quote at `%.40s`", name);
        }
        if (*q != '>') fail_msg("open tag at `%.40s`", name);
        if (closing) {
            if (!depth || length[depth - 1] != (size_t)(end - name) ||
                strncmp(stack[depth - 1], name, length[depth - 1]))
                fail_msg("closes what is not open: `%.40s`", name);
            depth--;
        } else if (q[-1] != '/') {
            if (depth == MU_COUNT(stack)) fail_msg("nested too deep at `%.40s`", name);
            stack[depth] = name, length[depth++] = (size_t)(end - name);
        }
        p = q + 1;
    }
    assert_int_equal(depth, 0);
    if (strstr(t->s, "nan") || strstr(t->s, "inf")) fail_msg("a number that is none");
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
    assert_float_equal(v[1], 2, 1e-12);
    assert_int_equal(mu_chart_ticks(0.03, 0.21, false, 4, v), 4);
    assert_float_equal(v[0], 0.05, 1e-12);
    assert_float_equal(v[3], 0.2, 1e-12);
    assert_int_equal(mu_chart_ticks(1, 1000, true, 4, v), 4);
    assert_float_equal(v[3], 1000, 1e-9);
    assert_int_equal(mu_chart_ticks(1, 100, true, 6, v), 7); // 1 2 5 10 20 50 100
    assert_float_equal(v[2], 5, 1e-12);
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
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
