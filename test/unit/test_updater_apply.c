// SPDX-License-Identifier: Apache-2.0
// test_updater_apply.c - the forms of a gradient give one result: factors and rows as their dense
// product and sum, parts as the whole; norms of every form; what must stay untouched stays.
#include "base/attr.h"
#include "unit/updater_help.h"

typedef struct set {
    float *w, *h[MU_MAX_SLOTS];
    size_t n;
} set; // a parameter and its history

static set set_make(size_t n, uint64_t seed) {
    set s = {.w = floats(n), .n = n};
    fill(s.w, n, seed, 0.5f);
    for (int k = 0; k < MU_MAX_SLOTS; k++) s.h[k] = floats(n);
    return s;
}
static void set_free(set *s) {
    free(s->w);
    for (int k = 0; k < MU_MAX_SLOTS; k++) free(s->h[k]);
}
static void assert_same_bits(const set *a, const set *b, const char *what) {
    for (int k = -1; k < MU_MAX_SLOTS; k++) {
        const float *x = k < 0 ? a->w : a->h[k], *y = k < 0 ? b->w : b->h[k];
        for (size_t i = 0; i < a->n; i++)
            if (memcmp(&x[i], &y[i], sizeof(float)))
                fail_msg("%s: element %zu of %s %d: %.9g and %.9g", what, i, k < 0 ? "values" : "history", k,
                         (double)x[i], (double)y[i]);
    }
}
static void assert_close(const set *a, const set *b, double tolerance, const char *what) {
    for (size_t i = 0; i < a->n; i++)
        if (!(fabs((double)a->w[i] - (double)b->w[i]) <= tolerance))
            fail_msg("%s: element %zu: %.9g and %.9g, tolerance %g", what, i, (double)a->w[i],
                     (double)b->w[i], tolerance);
}

static mu_param matrix(int64_t rows, int64_t cols) {
    return (mu_param){.name = "w",
                      .shape = MU_SHAPE(rows, cols),
                      .count = (size_t)(rows * cols),
                      .lr_mult = 1,
                      .decay_mult = 1};
}
static void block_text(char out[256], const mu_plugin *rule, const char *more) {
    snprintf(out, 256, "{type: %s, rate: 0.01%s}", rule->name, more);
}

// Every cut of a parameter gives the bits of the whole, for each rule, with and without the buffer.
static void test_parts_are_the_whole(void **unused) {
    (void)unused;
    enum { ROWS = 37, COLS = 61, STEPS = 4 };
    static const char *const more[] = {"", ", decay: 0.01, l1: 0.001, clip_value: 0.7", ", decay: 0.01"};
    for (size_t r = 0; r < mu_updaters.n; r++)
        for (size_t m = 0; m < MU_COUNT(more); m++) {
            char text[256];
            block_text(text, mu_updaters.list[r], more[m]);
            bound b;
            mu_updater *u = bound_get(&b, text);
            mu_param p = matrix(ROWS, COLS);
            set whole = set_make(p.count, 1), parts = set_make(p.count, 1);
            float *g = floats(p.count);
            for (int64_t step = 0; step < STEPS; step++) {
                fill(g, p.count, 10 + (uint64_t)step, 1);
                mu_grad grad = {.form = MU_GRAD_DENSE, .dense = g};
                apply_one(u, &p, whole.w, whole.h, &grad, 1, 0.01, step);
                for (int64_t at = 0, n = 1; at < ROWS; at += n, n = 1 + (at * 7 + step) % 5) {
                    if (n > ROWS - at) n = ROWS - at;
                    apply_rows(u, &p, parts.w, parts.h, at, n, g + at * COLS, 0.01, step);
                }
            }
            assert_same_bits(&whole, &parts, text);
            set_free(&whole), set_free(&parts), free(g);
            bound_fini(&b);
        }
}

// A parameter that descends: w -= rate * gradient, whatever the rule, in every form; no history is touched.
static void test_descent(void **unused) {
    (void)unused;
    enum { ROWS = 9, COLS = 140, GIVEN = 4 };
    static const int32_t row[GIVEN] = {3, 0, 3, 8};
    for (size_t r = 0; r < mu_updaters.n; r++) {
        char text[256];
        block_text(text, mu_updaters.list[r], ", decay: 0.1");
        bound b;
        mu_updater *u = bound_get(&b, text);
        mu_param p = matrix(ROWS, COLS);
        p.descends = true;
        p.lr_mult = 3;
        set got = set_make(p.count, 1), want = set_make(p.count, 1);
        float *g = floats(p.count), *some = floats(GIVEN * COLS);
        fill(g, p.count, 5, 1), fill(some, GIVEN * COLS, 6, 1);
        mu_grad dense = {.form = MU_GRAD_DENSE, .dense = g};
        mu_grad rows = {.form = MU_GRAD_ROWS, .n_rows = GIVEN, .row = row, .row_value = some};
        apply_one(u, &p, got.w, got.h, &dense, 0.5f, 0.01, 0);
        for (size_t i = 0; i < p.count; i++) want.w[i] -= 0.03f * (0.5f * g[i] + 0.1f * want.w[i]);
        assert_close(&got, &want, 1e-6, text);
        p.decay_mult = 0;
        apply_one(u, &p, got.w, got.h, &rows, 1, 0.01, 1);
        for (int k = 0; k < GIVEN; k++)
            for (int i = 0; i < COLS; i++) want.w[row[k] * COLS + i] -= 0.03f * some[k * COLS + i];
        assert_close(&got, &want, 1e-6, text);
        assert_false(mu_updater_takes_outer(u, &p));
        for (int k = 0; k < MU_MAX_SLOTS; k++)
            assert_memory_equal(got.h[k], want.h[k], p.count * sizeof(float));
        set_free(&got), set_free(&want), free(g), free(some);
        bound_fini(&b);
    }
}

// One sample as it is, against its rows, and who does not take it so.
static void test_outer(void **unused) {
    (void)unused;
    enum { ROWS = 23, COLS = 133, STEPS = 4 };
    static const char *const settings[] = {"", ", decay: 0.01", ", momentum: 0.9",
                                           ", momentum: 0.9, decay: 0.01"};
    for (size_t t = 0; t < MU_COUNT(settings); t++)
        for (int back = 0; back < 2; back++) {
            char text[160];
            snprintf(text, sizeof text, "{type: sgd, rate: 0.01%s}", settings[t]);
            bound b;
            mu_updater *u = bound_get(&b, text);
            mu_param p = matrix(ROWS, COLS);
            set rows = set_make(p.count, 1), outer = set_make(p.count, 1);
            float x[COLS], dy[ROWS], dx[COLS], *g = floats(p.count);
            double want[COLS];
            assert_true(mu_updater_takes_outer(u, &p));
            for (int64_t step = 0; step < STEPS; step++) {
                fill(x, COLS, 10 + (uint64_t)step, 1), fill(dy, ROWS, 20 + (uint64_t)step, 1);
                fill(dx, COLS, 30 + (uint64_t)step, 1);
                for (int i = 0; i < COLS; i++) want[i] = (double)dx[i];
                for (int o = 0; o < ROWS; o++)
                    for (int i = 0; i < COLS; i++) {
                        g[o * COLS + i] = dy[o] * x[i];
                        want[i] += (double)dy[o] * (double)outer.w[o * COLS + i];
                    }
                const mu_target to = target(u, &p, outer.w, outer.h);
                const mu_update a = {.rate = 0.01, .step = {.update = step}};
                apply_rows(u, &p, rows.w, rows.h, 0, ROWS, g, 0.01, step);
                mu_updater_apply_outer(&to, &a, 0, 9, dy, x, back ? dx : NULL);
                mu_updater_apply_outer(&to, &a, 9, ROWS - 9, dy + 9, x, back ? dx : NULL);
                for (int i = 0; i < COLS && back; i++) assert_near(dx[i], want[i], 1e-5);
            }
            assert_close(&rows, &outer, 2e-6, text);
            set_free(&rows), set_free(&outer), free(g);
            bound_fini(&b);
        }
    static const char *const others[] = {"{type: adam, rate: 1}", "{type: sgd, rate: 1, l1: 0.1}",
                                         "{type: sgd, rate: 1, clip_value: 1}", "{type: sgd, rate: 1}"};
    for (size_t t = 0; t < MU_COUNT(others); t++) {
        bound b;
        mu_updater *u = bound_get(&b, others[t]);
        mu_param p = matrix(ROWS, COLS), frozen = p, limited = p, narrow = matrix(ROWS, 5);
        frozen.lr_mult = 0, limited.max_norm = 1;
        assert_int_equal(mu_updater_takes_outer(u, &p), t == 3);
        assert_false(mu_updater_takes_outer(u, &frozen));
        assert_false(mu_updater_takes_outer(u, &limited));
        assert_false(mu_updater_takes_outer(u, &narrow));
        bound_fini(&b);
    }
}

static void multiply_out(const mu_grad *f, int64_t rows, int64_t cols, float *dense) {
    for (int64_t o = 0; o < rows; o++)
        for (int64_t i = 0; i < cols; i++) {
            double sum = 0;
            for (int64_t b = 0; b < f->batch; b++) {
                const int64_t at = f->form == MU_GRAD_GATHERED ? f->src_row[b * rows + o] : b;
                if (at >= 0) sum += (double)f->dy[b * rows + o] * (double)f->x[at * cols + i];
            }
            dense[o * cols + i] = (float)sum;
        }
}

static void compare_with_product(mu_grad_form form) {
    static const struct {
        int64_t rows, cols, batch;
    } cases[] = {
        {1, 1, 1},     {8, 32, 1},   {10, 250, 4},  {23, 33, 3},   {16, 784, 2},
        {17, 1024, 5}, {9, 1025, 1}, {25, 2500, 7}, {3, 1500, 64}, {40, 31, 9},
    };
    static const char *const blocks[] = {"{type: sgd, momentum: 0.9, rate: 1}",
                                         "{type: adagrad, rate: 1, decay: 0.01, clip_value: 1}"};
    for (size_t c = 0; c < MU_COUNT(cases); c++)
        for (size_t k = 0; k < MU_COUNT(blocks); k++) {
            const int64_t rows = cases[c].rows, cols = cases[c].cols, batch = cases[c].batch;
            bound b;
            mu_updater *u = bound_get(&b, blocks[k]);
            mu_param p = matrix(rows, cols);
            set one = set_make(p.count, 3), two = set_make(p.count, 3);
            float *x = floats((size_t)(batch * cols)), *dy = floats((size_t)(batch * rows)),
                  *g = floats(p.count);
            fill(x, (size_t)(batch * cols), 4, 1), fill(dy, (size_t)(batch * rows), 5, 1);
            mu_grad f = {.form = form, .batch = batch, .x = x, .dy = dy, .n_x = batch};
            int32_t *at = calloc((size_t)(batch * rows), sizeof *at);
            assert_non_null(at);
            for (int64_t i = 0; i < batch * rows; i++) at[i] = (int32_t)(i * 7 % (batch + 1)) - 1;
            f.src_row = at;
            multiply_out(&f, rows, cols, g);
            mu_grad d = {.form = MU_GRAD_DENSE, .dense = g};
            for (int64_t step = 0; step < 3; step++) {
                apply_one(u, &p, one.w, one.h, &f, 0.5f, 0.1, step);
                apply_one(u, &p, two.w, two.h, &d, 0.5f, 0.1, step);
            }
            char what[96];
            snprintf(what, sizeof what, "%d x %d, batch %d, %s", (int)rows, (int)cols, (int)batch, blocks[k]);
            assert_close(&one, &two, 2e-6 * (double)batch, what);
            double want = mu_grad_sum_squares(&p, &d), got = mu_grad_sum_squares(&p, &f);
            assert_near(got, want, 1e-6 * want);
            set_free(&one), set_free(&two), free(x), free(dy), free(g), free(at);
            bound_fini(&b);
        }
}

static void test_factors(void **unused) {
    (void)unused;
    compare_with_product(MU_GRAD_FACTORS);
    compare_with_product(MU_GRAD_GATHERED);
}

// Row form against a dense gradient that is applied to the named rows only.
static void compare_rows(const char *block, int64_t rows, int64_t cols, int64_t n, uint64_t seed,
                         int64_t hot) {
    bound b;
    mu_updater *u = bound_get(&b, block);
    mu_param p = matrix(rows, cols);
    set one = set_make(p.count, seed), two = set_make(p.count, seed);
    float *v = floats((size_t)(n * cols)), *sum = floats(p.count);
    int32_t *id = calloc((size_t)n + 1, sizeof *id);
    assert_non_null(id);
    double want_squares = 0;
    for (int64_t step = 0; step < 3; step++) {
        memset(sum, 0, p.count * sizeof *sum);
        fill(v, (size_t)(n * cols), seed + 7 + (uint64_t)step, 1);
        bool *named = calloc((size_t)rows, 1);
        assert_non_null(named);
        for (int64_t k = 0; k < n; k++) {
            int64_t r = (int64_t)(fabsf(noise(seed + 99 + (uint64_t)step, (size_t)k)) * (float)rows) % rows;
            id[k] = (int32_t)(k % 3 && hot >= 0 ? hot : r);
            named[id[k]] = true;
            for (int64_t c = 0; c < cols; c++) sum[id[k] * cols + c] += v[k * cols + c];
        }
        mu_grad g = {.form = MU_GRAD_ROWS, .n_rows = n, .row = id, .row_value = v};
        mu_grad d = {.form = MU_GRAD_DENSE, .dense = sum};
        want_squares = mu_grad_sum_squares(&p, &d);
        assert_near(mu_grad_sum_squares(&p, &g), want_squares, 1e-9 * want_squares);
        apply_one(u, &p, one.w, one.h, &g, 0.5f, 0.1, step);
        for (int64_t r = 0; r < rows; r++)
            if (named[r]) {
                for (int64_t c = 0; c < cols; c++) sum[r * cols + c] *= 0.5f; // exact
                apply_rows(u, &p, two.w, two.h, r, 1, sum + r * cols, 0.1, step);
            }
        free(named);
    }
    assert_same_bits(&one, &two, block);
    set_free(&one), set_free(&two), free(v), free(sum), free(id);
    bound_fini(&b);
}

static void test_rows(void **unused) {
    (void)unused;
    static const char *const blocks[] = {
        "{type: sgd, momentum: 0.9, rate: 1}",
        "{type: adagrad, rate: 1, decay: 0.01}",
        "{type: adam, rate: 1, clip_value: 1.5}",
        "{type: adadelta, rate: 1}",
    };
    for (size_t i = 0; i < MU_COUNT(blocks); i++) {
        compare_rows(blocks[i], 500, 30, 1, 1, -1);
        compare_rows(blocks[i], 50, 17, 200, 2, -1);    // nearly all repeat
        compare_rows(blocks[i], 70000, 3, 900, 3, -1);  // ids of three bytes
        compare_rows(blocks[i], 3, 2500, 40, 4, -1);    // rows longer than a piece
        compare_rows(blocks[i], 1000, 2, 9000, 5, -1);  // more entries than are sorted at once
        compare_rows(blocks[i], 1000, 2, 9000, 6, 613); // one id alone is more than that
        compare_rows(blocks[i], 1, 4, 5000, 7, -1);
    }
}

// A row that a step does not name keeps its bits, and an id outside the matrix harms nothing.
static void test_rows_are_lazy(void **unused) {
    (void)unused;
    bound b;
    mu_updater *u = bound_get(&b, "{type: sgd, momentum: 0.9, rate: 1, decay: 0.1}");
    mu_param p = matrix(4, 2);
    set s = set_make(8, 1);
    for (int i = 0; i < 8; i++) s.h[0][i] = 1;
    set before = set_make(8, 1);
    const int32_t id[] = {2, -1, 4, 2, INT32_MAX};
    float v[10];
    fill(v, 10, 5, 1);
    mu_grad g = {.form = MU_GRAD_ROWS, .n_rows = 5, .row = id, .row_value = v};
    apply_one(u, &p, s.w, s.h, &g, 1, 0.1, 0);
    for (size_t i = 0; i < 8; i++) {
        if (i / 2 == 2) assert_true(s.w[i] != before.w[i]);
        else assert_near(s.w[i], (double)before.w[i], 0);
        if (i / 2 != 2) assert_near(s.h[0][i], 1, 0);
    }
    set_free(&s), set_free(&before);
    bound_fini(&b);
}

static void test_untouched(void **unused) {
    (void)unused;
    bound b;
    mu_updater *u = bound_get(&b, "{type: adam, rate: 1, decay: 0.1}");
    float g[6] = {1, 2, 3, 4, 5, 6};
    static const struct {
        float lr_mult;
        bool is_stat;
        mu_grad_form form;
    } cases[] = {{0, false, MU_GRAD_DENSE}, {1, true, MU_GRAD_DENSE}, {1, false, MU_GRAD_NONE}};
    for (size_t i = 0; i < MU_COUNT(cases); i++) {
        mu_param p = matrix(2, 3);
        p.lr_mult = cases[i].lr_mult, p.is_stat = cases[i].is_stat;
        mu_grad grad = {.form = cases[i].form, .dense = g};
        set s = set_make(6, 1), before = set_make(6, 1);
        apply_one(u, &p, s.w, s.h, &grad, 1, 0.1, 0);
        if (grad.form == MU_GRAD_DENSE) apply_rows(u, &p, s.w, s.h, 0, 2, g, 0.1, 0);
        assert_same_bits(&s, &before, "nothing to do");
        set_free(&s), set_free(&before);
    }
    bound_fini(&b);
}

// Neither clipping nor a maximum may hide a value that is not a number, in any rule.
static void test_not_a_number_stays_visible(void **unused) {
    (void)unused;
    for (size_t r = 0; r < mu_updaters.n; r++) {
        char text[256];
        block_text(text, mu_updaters.list[r], ", clip_value: 1");
        bound b;
        mu_updater *u = bound_get(&b, text);
        mu_param p = matrix(1, 40);
        set s = set_make(40, 1);
        float g[40] = {0};
        g[33] = NAN;
        mu_grad grad = {.form = MU_GRAD_DENSE, .dense = g};
        apply_one(u, &p, s.w, s.h, &grad, 1, 0.1, 0);
        for (size_t i = 0; i < 40; i++)
            if (isnan(s.w[i]) != (i == 33)) fail_msg("%s: weight %zu is %g", text, i, (double)s.w[i]);
        set_free(&s);
        bound_fini(&b);
    }
}

static void test_sum_squares(void **unused) {
    (void)unused;
    enum { N = 1003 };
    mu_param p = matrix(17, 59);
    float g[N];
    double want = 0;
    fill(g, N, 8, 1e3f);
    for (int i = 0; i < N; i++) want += (double)g[i] * (double)g[i];
    mu_grad grad = {.form = MU_GRAD_DENSE, .dense = g};
    assert_near(mu_grad_sum_squares(&p, &grad), want, 1e-12 * want);
    static const int places[] = {0, 15, 16, 1000, 1002};
    for (size_t i = 0; i < MU_COUNT(places); i++) {
        float keep = g[places[i]];
        g[places[i]] = i % 2 ? NAN : INFINITY;
        assert_true(!isfinite(mu_grad_sum_squares(&p, &grad)));
        g[places[i]] = keep;
    }
    g[5] = 1e30f; // its square is no float
    assert_near(mu_grad_sum_squares(&p, &grad) * 1e-60, 1, 1e-6);
    // A product that no float can hold counts as not finite although both factors are.
    float x[59] = {1e30f}, dy[17] = {1e30f};
    mu_grad f = {.form = MU_GRAD_FACTORS, .batch = 1, .x = x, .dy = dy};
    assert_true(!isfinite(mu_grad_sum_squares(&p, &f)));
    x[0] = NAN;
    assert_true(!isfinite(mu_grad_sum_squares(&p, &f)));
    assert_near(mu_grad_sum_squares(&p, &(mu_grad){.form = MU_GRAD_NONE}), 0, 0);
}

// Every form, with a bad value in each of its arrays in turn.
static void test_finite_or_not(void **unused) {
    (void)unused;
    mu_param p = matrix(5, 7);
    float x[35], dy[35];
    int32_t at[35] = {0};
    fill(x, 35, 1, 1), fill(dy, 35, 2, 1);
    const mu_grad grads[] = {{.form = MU_GRAD_DENSE, .dense = x},
                             {.form = MU_GRAD_ROWS, .n_rows = 5, .row = at, .row_value = x},
                             {.form = MU_GRAD_FACTORS, .batch = 5, .x = x, .dy = dy},
                             {.form = MU_GRAD_GATHERED, .batch = 3, .x = x, .dy = dy, .n_x = 5,
                              .src_row = at}};
    for (size_t g = 0; g < MU_COUNT(grads); g++) {
        assert_true(mu_grad_is_finite(&p, &grads[g]));
        const int n_dy = grads[g].dy ? (int)grads[g].batch * 5 : 0;
        for (int i = 0; i < 35 + n_dy; i++) {
            float *v = i < 35 ? x + i : dy + (i - 35), was = *v;
            *v = i % 2 ? NAN : -INFINITY;
            assert_false(mu_grad_is_finite(&p, &grads[g]));
            *v = was;
        }
    }
    assert_true(mu_grad_is_finite(&p, &(mu_grad){.form = MU_GRAD_NONE}));
}

static double length(const float *row, int64_t n) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += (double)row[i] * (double)row[i];
    return sqrt(sum);
}

// max_norm against the plain update followed by scaling, for every form; rows by rows, and the whole.
static void compare_max_norm(mu_updater *u, int64_t rows, int64_t cols, mu_grad_form form, uint64_t seed) {
    enum { BATCH = 3, NAMED = 9 };
    const float most = (float)sqrt((double)cols / 12) * 0.98f; // about half of the rows begin longer
    mu_param p = matrix(rows, cols), free_p = p;
    set one = set_make(p.count, seed), want = set_make(p.count, seed), parts = set_make(p.count, seed);
    float *g = floats(p.count + (size_t)(BATCH * (rows + cols) + NAMED * cols));
    int32_t id[NAMED], *at = calloc((size_t)(BATCH * rows), sizeof *at);
    assert_non_null(at);
    for (int64_t i = 0; i < BATCH * rows; i++) at[i] = (int32_t)(i % (BATCH + 1));
    p.max_norm = most;
    int scaled = 0;
    for (int64_t step = 0; step < 3; step++) {
        fill(g, p.count, seed + 20 + (uint64_t)step, 1);
        for (int k = 0; k < NAMED; k++) id[k] = (int32_t)((k * k + step) % rows);
        mu_grad d = {.form = form,
                     .dense = g,
                     .n_rows = NAMED,
                     .row = id,
                     .row_value = g,
                     .batch = BATCH,
                     .x = g,
                     .dy = g + BATCH * cols,
                     .n_x = BATCH,
                     .src_row = at};
        apply_one(u, &p, one.w, one.h, &d, 1, 0.1, step);
        apply_one(u, &free_p, want.w, want.h, &d, 1, 0.1, step);
        for (int64_t r = 0; r < rows; r++) {
            float *w = want.w + r * cols;
            bool changed = form != MU_GRAD_ROWS;
            for (int k = 0; k < NAMED; k++) changed |= id[k] == r;
            const double is = length(w, cols);
            if (!changed || is <= (double)most) continue;
            scaled++;
            for (int64_t i = 0; i < cols; i++) w[i] = (float)((double)w[i] * (double)most / is);
        }
        for (int64_t r = 0; r < rows && form == MU_GRAD_DENSE; r += 2)
            apply_rows(u, &p, parts.w, parts.h, r, r + 2 < rows ? 2 : rows - r, g + r * cols, 0.1, step);
    }
    assert_close(&one, &want, 2e-6, "max_norm against scaling");
    if (form == MU_GRAD_DENSE) assert_same_bits(&one, &parts, "max_norm, rows by rows");
    assert_true(scaled > 0);
    set_free(&one), set_free(&want), set_free(&parts), free(g), free(at);
}

static void test_max_norm(void **unused) {
    (void)unused;
    bound b;
    mu_updater *u = bound_get(&b, "{type: sgd, momentum: 0.9, rate: 1, decay: 0.01}");
    static const mu_grad_form forms[] = {MU_GRAD_DENSE, MU_GRAD_ROWS, MU_GRAD_FACTORS, MU_GRAD_GATHERED};
    for (size_t f = 0; f < MU_COUNT(forms); f++) {
        compare_max_norm(u, 20, 300, forms[f], 31);
        compare_max_norm(u, 7, 1500, forms[f], 32); // rows in pieces
        compare_max_norm(u, 33, 5, forms[f], 33);
    }
    // Scaling a row that has just been scaled changes no bit.
    mu_param p = matrix(50, 77);
    p.max_norm = 1.5f;
    set one = set_make(p.count, 5), two = set_make(p.count, 5);
    float *zero = floats(p.count);
    mu_grad g = {.form = MU_GRAD_DENSE, .dense = zero};
    bound b2;
    mu_updater *plain = bound_get(&b2, "{type: sgd, rate: 1}");
    apply_one(plain, &p, one.w, one.h, &g, 1, 0.1, 0);
    for (int i = 0; i < 3; i++) apply_one(plain, &p, two.w, two.h, &g, 1, 0.1, 0);
    assert_same_bits(&one, &two, "scaled once and thrice");
    set_free(&one), set_free(&two), free(zero);
    bound_fini(&b), bound_fini(&b2);
}

static void test_no_allocation(void **unused) {
    (void)unused;
    bound b;
    mu_updater *u = bound_get(&b, "{type: adam, rate: 1, decay: 0.1}");
    mu_param p = matrix(100, 20);
    set s = set_make(p.count, 1);
    float x[40], dy[200];
    int32_t id[2] = {7, 7};
    fill(x, 40, 1, 1), fill(dy, 200, 2, 1);
    mu_grad f = {.form = MU_GRAD_FACTORS, .batch = 2, .x = x, .dy = dy};
    mu_grad r = {.form = MU_GRAD_ROWS, .n_rows = 2, .row = id, .row_value = x};
    int32_t at[200] = {0};
    mu_grad k = {.form = MU_GRAD_GATHERED, .batch = 2, .x = x, .dy = dy, .n_x = 2, .src_row = at};
    uint64_t before = mu_alloc_get_stats().n_calls;
    apply_one(u, &p, s.w, s.h, &f, 1, 0.1, 0);
    apply_one(u, &p, s.w, s.h, &r, 1, 0.1, 0);
    apply_one(u, &p, s.w, s.h, &k, 1, 0.1, 0);
    assert_int_equal(mu_alloc_get_stats().n_calls, before);
    set_free(&s);
    bound_fini(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parts_are_the_whole),
        cmocka_unit_test(test_descent),
        cmocka_unit_test(test_outer),
        cmocka_unit_test(test_factors),
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_rows_are_lazy),
        cmocka_unit_test(test_untouched),
        cmocka_unit_test(test_not_a_number_stays_visible),
        cmocka_unit_test(test_sum_squares),
        cmocka_unit_test(test_finite_or_not),
        cmocka_unit_test(test_max_norm),
        cmocka_unit_test(test_no_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
