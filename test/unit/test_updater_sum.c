// SPDX-License-Identifier: Apache-2.0
// test_updater_sum.c - sums of gradients: right whatever the forms, the same bits however they are cut; and
// several updates in one call, with the bits of a call for each.
#include "base/attr.h"
#include "unit/updater_help.h"
#include "updater/pieces.h"

#include <time.h>

enum { MAX_GRADS = 5, SERIES = 4 };

typedef struct problem { // some gradients of one matrix
    mu_param p;
    int n;
    mu_grad grad[MAX_GRADS];
    const mu_grad *list[MAX_GRADS];
    float weight[MAX_GRADS];
    float *w, *h[MU_MAX_SLOTS];
    void *mine[3 * MAX_GRADS];
    int n_mine;
} problem;

static void *keep(problem *q, void *p) {
    q->mine[q->n_mine++] = p;
    return p;
}

static void add_grad(problem *q, mu_grad_form form, int64_t size, uint64_t seed) {
    const int64_t rows = q->p.shape.d[0], cols = (int64_t)q->p.count / rows;
    mu_grad *g = &q->grad[q->n];
    *g = (mu_grad){.form = form};
    if (form == MU_GRAD_DENSE) {
        g->dense = keep(q, floats(q->p.count));
        fill(g->dense, q->p.count, seed, 1);
    } else if (form == MU_GRAD_FACTORS) {
        float *x = keep(q, floats((size_t)(size * cols))), *dy = keep(q, floats((size_t)(size * rows)));
        fill(x, (size_t)(size * cols), seed, 1), fill(dy, (size_t)(size * rows), seed + 1, 1);
        g->batch = size, g->x = x, g->dy = dy;
    } else if (form == MU_GRAD_GATHERED) {
        const int64_t n_x = 2 * size + 1;
        float *x = keep(q, floats((size_t)(n_x * cols))), *dy = keep(q, floats((size_t)(size * rows)));
        int32_t *at = keep(q, calloc((size_t)(size * rows) + 1, sizeof *at));
        assert_non_null(at);
        fill(x, (size_t)(n_x * cols), seed, 1), fill(dy, (size_t)(size * rows), seed + 1, 1);
        for (int64_t k = 0; k < size * rows; k++) // a few of them have none
            at[k] = (int32_t)(noise(seed + 2, (size_t)k) * 0.6f * (float)n_x + 0.5f * (float)n_x);
        if (size > 2) at[rows] = INT32_MIN, at[2 * rows] = INT32_MAX;
        g->batch = size, g->x = x, g->dy = dy, g->n_x = n_x, g->src_row = at;
    } else if (form == MU_GRAD_ROWS) {
        float *v = keep(q, floats((size_t)(size * cols)));
        int32_t *id = keep(q, calloc((size_t)size + 1, sizeof *id));
        assert_non_null(id);
        fill(v, (size_t)(size * cols), seed, 1);
        for (int64_t k = 0; k < size; k++) // repeats, and a few outside of the matrix
            id[k] = (int32_t)(noise(seed + 2, (size_t)k) * 0.55f * (float)rows + 0.5f * (float)rows);
        g->n_rows = size, g->row = id, g->row_value = v;
    }
    q->weight[q->n] = q->n % 2 ? 0.37f : 1.0f;
    q->list[q->n++] = g;
}

static void problem_init(problem *q, int64_t rows, int64_t cols, uint64_t seed) {
    memset(q, 0, sizeof *q);
    q->p = (mu_param){.name = "w",
                      .shape = MU_SHAPE(rows, cols),
                      .count = (size_t)(rows * cols),
                      .lr_mult = 1,
                      .decay_mult = 1};
    q->w = floats(q->p.count);
    fill(q->w, q->p.count, seed, 0.5f);
    for (int k = 0; k < MU_MAX_SLOTS; k++) q->h[k] = floats(q->p.count);
}
static void problem_fini(problem *q) {
    for (int i = 0; i < q->n_mine; i++) free(q->mine[i]);
    free(q->w);
    for (int k = 0; k < MU_MAX_SLOTS; k++) free(q->h[k]);
}

// The forms by letters: d dense, f factors, p gathered, r rows, n none.
static void add_grads(problem *q, const char *forms, int64_t batch, int64_t rows, uint64_t seed) {
    for (; *forms; forms++, seed += 10) {
        if (*forms == 'd') add_grad(q, MU_GRAD_DENSE, 0, seed);
        if (*forms == 'f') add_grad(q, MU_GRAD_FACTORS, batch, seed);
        if (*forms == 'p') add_grad(q, MU_GRAD_GATHERED, batch, seed);
        if (*forms == 'r') add_grad(q, MU_GRAD_ROWS, rows, seed);
        if (*forms == 'n') add_grad(q, MU_GRAD_NONE, 0, seed);
    }
}

static const char *const mixes[] = {"d",  "dd",  "ddd", "f",   "ff",  "fnf", "r",
                                    "rr", "rnr", "dfr", "rfd", "fdf", "nnn", "p",
                                    "dr", "rd",
                                    "pp", "pnp", "fpd", "prp", "dpf", "fff", "fp", "pfp"};
static const struct {
    int64_t rows, cols, batch, named;
} sizes[] = {
    {1, 1, 1, 1},    {8, 32, 3, 4},     {10, 250, 4, 7},    {23, 33, 5, 40}, {17, 784, 130, 9},
    {3, 2500, 7, 3}, {41, 17, 300, 90}, {9, 1057, 2, 2500}, {40, 1, 33, 50}, {64, 47, 66, 0},
    {19, 333, 1, 5},
};

static void apply(const mu_updater *u, problem *q, size_t begin, size_t end, int64_t step) {
    const mu_target t = target(u, &q->p, q->w, q->h);
    const mu_update a = {q->n, q->list, q->weight, 0.01, {.update = step}};
    mu_updater_apply_range(&t, &a, begin, end, NULL);
}

// Applies in random cuts: whole rows, or a row in several parts.
static void apply_cut(const mu_updater *u, problem *q, int64_t step, uint64_t *seed) {
    const size_t rows = (size_t)q->p.shape.d[0], cols = q->p.count / rows;
    for (size_t r = 0; r < rows;) {
        *seed = *seed * 6364136223846793005u + 1442695040888963407u;
        const size_t dice = (size_t)(*seed >> 33);
        if (dice % 3 == 0) {
            for (size_t c = 0, n; c < cols; c += n) {
                *seed = *seed * 6364136223846793005u + 1442695040888963407u;
                n = 1 + (size_t)(*seed >> 33) % cols;
                if (n > cols - c) n = cols - c;
                apply(u, q, r * cols + c, r * cols + c + n, step);
            }
            r++;
        } else {
            size_t n = 1 + dice / 3 % 19;
            if (n > rows - r) n = rows - r;
            apply(u, q, r * cols, (r + n) * cols, step);
            r += n;
        }
    }
}

static void assert_same_bits(const problem *a, const problem *b, const char *what) {
    for (int k = -1; k < MU_MAX_SLOTS; k++) {
        const float *x = k < 0 ? a->w : a->h[k], *y = k < 0 ? b->w : b->h[k];
        for (size_t i = 0; i < a->p.count; i++)
            if (memcmp(&x[i], &y[i], sizeof(float)))
                fail_msg("%s: element %zu of %s %d: %.9g and %.9g", what, i, k < 0 ? "values" : "history", k,
                         (double)x[i], (double)y[i]);
    }
}

static void test_any_cut_gives_the_same_bits(void **unused) {
    (void)unused;
    static const char *const more[] = {"", ", decay: 0.01, l1: 0.001, clip_value: 0.7", ", decay: 0.01"};
    uint64_t seed = (uint64_t)time(NULL);
    print_message("seed %llu\n", (unsigned long long)seed);
    for (size_t r = 0; r < mu_updaters.n; r++)
        for (size_t m = 0; m < MU_COUNT(mixes); m++)
            for (size_t z = 0; z < MU_COUNT(sizes); z++) {
                char text[160], what[256];
                snprintf(text, sizeof text, "{type: %s, rate: 0.01%s}", mu_updaters.list[r]->name,
                         more[(m + z) % MU_COUNT(more)]);
                snprintf(what, sizeof what, "%s, %s, %d x %d", text, mixes[m], (int)sizes[z].rows,
                         (int)sizes[z].cols);
                bound b;
                mu_updater *u = bound_get(&b, text);
                problem whole, parts;
                problem_init(&whole, sizes[z].rows, sizes[z].cols, 1);
                problem_init(&parts, sizes[z].rows, sizes[z].cols, 1);
                add_grads(&whole, mixes[m], sizes[z].batch, sizes[z].named, 5);
                add_grads(&parts, mixes[m], sizes[z].batch, sizes[z].named, 5);
                for (int64_t step = 0; step < 2; step++) {
                    apply(u, &whole, 0, whole.p.count, step);
                    apply_cut(u, &parts, step, &seed);
                }
                assert_same_bits(&whole, &parts, what);
                problem_fini(&whole), problem_fini(&parts);
                bound_fini(&b);
            }
}

// g += weight * grad[j] in double precision; notes which rows have a gradient at all.
static void oracle(const problem *q, double *g, bool *touched) {
    const int64_t rows = q->p.shape.d[0], cols = (int64_t)q->p.count / rows;
    for (int j = 0; j < q->n; j++) {
        const mu_grad *f = &q->grad[j];
        const double w = (double)q->weight[j];
        for (int64_t r = 0; r < rows && f->form != MU_GRAD_NONE && f->form != MU_GRAD_ROWS; r++) {
            touched[r] = true;
            for (int64_t c = 0; c < cols; c++)
                if (f->form == MU_GRAD_DENSE) g[r * cols + c] += w * (double)f->dense[r * cols + c];
                else
                    for (int64_t b = 0; b < f->batch; b++) {
                        const int64_t at = f->form == MU_GRAD_GATHERED ? f->src_row[b * rows + r] : b;
                        if (f->form == MU_GRAD_GATHERED && (at < 0 || at >= f->n_x)) continue;
                        g[r * cols + c] += w * (double)f->dy[b * rows + r] * (double)f->x[at * cols + c];
                    }
        }
        for (int64_t k = 0; k < f->n_rows && f->form == MU_GRAD_ROWS; k++) {
            if (f->row[k] < 0 || f->row[k] >= rows) continue;
            touched[f->row[k]] = true;
            for (int64_t c = 0; c < cols; c++)
                g[f->row[k] * cols + c] += w * (double)f->row_value[k * cols + c];
        }
    }
}

// Against w -= rate * (sum + decay * w) in double precision; rows without a gradient keep their bits.
static void test_sums_are_right(void **unused) {
    (void)unused;
    bound b;
    mu_updater *u = bound_get(&b, "{type: sgd, rate: 1, decay: 0.1}");
    for (size_t m = 0; m < MU_COUNT(mixes); m++)
        for (size_t z = 0; z < MU_COUNT(sizes); z++) {
            problem q;
            problem_init(&q, sizes[z].rows, sizes[z].cols, 2);
            add_grads(&q, mixes[m], sizes[z].batch, sizes[z].named, 7);
            double *g = calloc(q.p.count, sizeof *g);
            bool *touched = calloc((size_t)sizes[z].rows, 1);
            float *before = floats(q.p.count);
            assert_non_null(g), assert_non_null(touched);
            memcpy(before, q.w, q.p.count * sizeof(float));
            oracle(&q, g, touched);
            apply(u, &q, 0, q.p.count, 0);
            const double most = (double)(sizes[z].batch + sizes[z].named + 4);
            for (size_t i = 0; i < q.p.count; i++) {
                bool hit = touched[i / (size_t)sizes[z].cols];
                double want = (double)before[i] - (hit ? 0.01 * (g[i] + 0.1 * (double)before[i]) : 0);
                if (!(fabs((double)q.w[i] - want) <= (hit ? 1e-7 + 1e-8 * most : 0)))
                    fail_msg("%s, %d x %d: element %zu is %.9g, want %.9g", mixes[m], (int)sizes[z].rows,
                             (int)sizes[z].cols, i, (double)q.w[i], want);
            }
            free(g), free(touched), free(before);
            problem_fini(&q);
        }
    bound_fini(&b);
}

// A whole parameter is its whole range; a gradient without others around it is the same.
static void test_one_gradient(void **unused) {
    (void)unused;
    static const char *const forms[] = {"d", "f", "p", "r"};
    for (size_t f = 0; f < MU_COUNT(forms); f++)
        for (int scaled = 0; scaled < 2; scaled++) {
            bound b;
            mu_updater *u = bound_get(&b, "{type: adam, rate: 1, decay: 0.01}");
            problem one, sum;
            problem_init(&one, 19, 77, 3), problem_init(&sum, 19, 77, 3);
            add_grads(&one, forms[f], 6, 11, 1), add_grads(&sum, forms[f], 6, 11, 1);
            sum.weight[0] = scaled ? 0.3f : 1.0f;
            apply_one(u, &one.p, one.w, one.h, &one.grad[0], sum.weight[0], 0.01, 0);
            apply(u, &sum, 0, sum.p.count, 0);
            assert_same_bits(&one, &sum, forms[f]);
            problem_fini(&one), problem_fini(&sum);
            bound_fini(&b);
        }
}

static void apply_series(const mu_updater *u, problem *q, int n, const mu_update *update, const size_t *cut,
                         size_t n_cuts) {
    const mu_target t = target(u, &q->p, q->w, q->h);
    for (size_t c = 0; c + 1 < n_cuts; c++) mu_updater_apply_series(&t, n, update, cut[c], cut[c + 1]);
}

// Updates one after the other in one call, whole and cut, against a call for each.
static void check_series(const char *rule, const char *const *mix, int n, int64_t batch, float max_norm) {
    enum { ROWS = 19, COLS = 333, SIZE = ROWS * COLS };
    static const size_t whole[] = {0, SIZE}, cuts[] = {0, 7 * COLS, 7 * COLS + 100, 8 * COLS, SIZE};
    bound b;
    mu_updater *u = bound_get(&b, rule);
    problem q[SERIES], together, cut;
    mu_update update[SERIES];
    problem_init(&together, ROWS, COLS, 3), problem_init(&cut, ROWS, COLS, 3);
    for (int i = 0; i < n; i++) {
        problem_init(&q[i], ROWS, COLS, 3);
        add_grads(&q[i], mix[i], batch, 5, 100 * (uint64_t)i);
        // The second is no longer young; of four the last two look ahead.
        const mu_rule_step step = {.update = i, .young = i < 1,
                                   .stale = {.lowers = i > 1, .keep = 0.95f, .ahead = 2}};
        update[i] = (mu_update){q[i].n, q[i].list, q[i].weight, 0.01 * (i + 1), step};
    }
    together.p.max_norm = q[0].p.max_norm = max_norm;
    const mu_target t = target(u, &q[0].p, q[0].w, q[0].h);
    for (int i = 0; i < n; i++) mu_updater_apply(&t, &update[i]);
    char what[200];
    snprintf(what, sizeof what, "%s, %s %s ..., %d updates, batch %d", rule, mix[0], mix[1], n, (int)batch);
    apply_series(u, &together, n, update, whole, MU_COUNT(whole));
    assert_same_bits(&q[0], &together, what);
    apply_series(u, &cut, n, update, cuts, MU_COUNT(cuts));
    if (max_norm <= 0) assert_same_bits(&q[0], &cut, what); // it needs whole rows
    for (int i = 0; i < n; i++) problem_fini(&q[i]);
    problem_fini(&together), problem_fini(&cut);
    bound_fini(&b);
}

static void test_series(void **unused) {
    (void)unused;
    static const char *const rules[] = {
        "{type: sgd, rate: 1, momentum: 0.9, decay: 0.01}",
        "{type: sgd, rate: 1, momentum: 0.9, early_momentum: 0, early: 1 steps, decay: 0.01}",
        "{type: sgd, rate: 1, momentum: 0.9, early_momentum: 0.3, early: 1 steps}",
        "{type: sgd, rate: 1, decay: 0.01}",
        "{type: sgd, rate: 1, momentum: 0.9, l1: 0.01, clip_value: 0.5}",
        "{type: nesterov, rate: 1, momentum: 0.9}",
        "{type: adam, rate: 1}",
    };
    static const char *const series[][SERIES] = {
        {"ff", "ff", "ff", "ff"}, {"ff", "fnf", "fff", "fff"}, {"fff", "fff", "d", "ff"},
        {"f", "f", "f", "f"},     {"nnn", "ff", "ff", "f"},    {"pp", "ff", "ff", "fp"},
        {"r", "rr", "dfr", "ff"}, {"ff", "d", "ff", "nn"},     {"pp", "pp", "p", "p"},
    };
    for (size_t r = 0; r < MU_COUNT(rules); r++)
        for (size_t s = 0; s < MU_COUNT(series); s++)
            for (int n = 1; n <= SERIES; n++)
                for (int64_t batch = 1; batch <= 3; batch++)
                    for (int limited = 0; limited < 2; limited++)
                        check_series(rules[r], series[s], n, batch, limited ? 1.5f : 0);
}

// Right after a series of two, whose second update still lies on the stack, a series of one makes no pair.
static void test_series_ends_with_its_last(void **unused) {
    (void)unused;
    bound b;
    mu_updater *u = bound_get(&b, "{type: sgd, rate: 1, momentum: 0.9}");
    problem q[2], want, got;
    mu_update update[2];
    problem_init(&want, 19, 333, 3), problem_init(&got, 19, 333, 3);
    for (int i = 0; i < 2; i++) {
        problem_init(&q[i], 19, 333, 3);
        add_grads(&q[i], "ff", 1, 5, 100 * (uint64_t)i);
        update[i] = (mu_update){q[i].n, q[i].list, q[i].weight, 0.01, {.update = i}};
    }
    const mu_target other = target(u, &q[0].p, q[0].w, q[0].h), t = target(u, &got.p, got.w, got.h);
    const mu_target one = target(u, &want.p, want.w, want.h);
    mu_updater_apply(&one, &update[0]);
    mu_updater_apply_series(&other, 2, update, 0, got.p.count);
    mu_updater_apply_series(&t, 1, update, 0, got.p.count);
    assert_same_bits(&want, &got, "one of two");
    problem_fini(&q[0]), problem_fini(&q[1]), problem_fini(&want), problem_fini(&got);
    bound_fini(&b);
}

static void count_pair(void *ctx, const mu_piece *p) {
    assert_int_equal(p[0].offset, p[1].offset);
    assert_int_equal(p[0].n_terms, p[1].n_terms);
    ++*(int *)ctx;
}

// Which updates are made two at a time; elsewhere it would not be noticed if none were.
static void test_pairs(void **unused) {
    (void)unused;
    static const struct { const char *first, *second; int64_t batch; bool paired; } rows[] = {
        {"ff", "ff", 1, true},  {"f", "f", 2, true},   {"f", "f", 4, true},   {"fff", "fnff", 1, true},
        {"f", "f", 1, true},    {"ff", "f", 1, false}, {"ff", "ff", 3, false}, {"ff", "pp", 1, false},
        {"ff", "fd", 1, false}, {"r", "r", 1, false},
    };
    for (size_t i = 0; i < MU_COUNT(rows); i++) {
        problem q[2];
        mu_grad_sum s[2];
        int n = 0;
        for (int k = 0; k < 2; k++) {
            problem_init(&q[k], 19, 333, 3);
            add_grads(&q[k], k ? rows[i].second : rows[i].first, rows[i].batch, 5, 100 * (uint64_t)k);
            s[k] = (mu_grad_sum){q[k].n, q[k].list, q[k].weight, 0, q[k].p.count, true};
        }
        assert_int_equal(mu_grad_sum_pairs(&q[0].p, s, count_pair, &n), rows[i].paired);
        assert_int_equal(n, rows[i].paired ? 19 : 0);
        s[1].outer = false;
        assert_false(mu_grad_sum_pairs(&q[0].p, s, count_pair, &n));
        problem_fini(&q[0]), problem_fini(&q[1]);
    }
}

typedef struct watcher { // lets the pieces [from, to) be written
    size_t end[4096];
    int n, from, to;
} watcher;
static bool watch_before(void *ctx, size_t offset, size_t n, mu_undo_log *undo) {
    watcher *l = ctx;
    if (undo) *undo = (mu_undo_log){0};
    assert_true(n <= 100 && l->n < 4096);
    l->end[l->n] = offset + n;
    const int i = l->n++;
    return i >= l->from && i < l->to;
}
static void watch_after(void *ctx, size_t offset, size_t n) {
    const watcher *l = ctx;
    assert_int_equal(l->end[l->n - 1], offset + n);
}

// A guard sees the same pieces every time; what was left out can be done later.
static void test_guard(void **unused) {
    (void)unused;
    for (size_t k = 0; k < 2 * MU_COUNT(mixes); k++) {
        const size_t m = k / 2;
        const bool few = k % 2; // samples, which go to the rule as they are
        const int64_t cols = few ? 277 : 77, batch = few ? 1 : 6;
        bound b;
        mu_updater *u =
            bound_get(&b, few ? "{type: sgd, momentum: 0.9, rate: 1}" : "{type: adagrad, rate: 1}");
        problem whole, halves;
        problem_init(&whole, 33, cols, 3), problem_init(&halves, 33, cols, 3);
        add_grads(&whole, mixes[m], batch, 25, 1), add_grads(&halves, mixes[m], batch, 25, 1);
        apply(u, &whole, 0, whole.p.count, 0);
        static watcher seen[2];
        seen[0] = (watcher){.from = 0, .to = 7}, seen[1] = (watcher){.from = 7, .to = INT32_MAX};
        for (int i = 0; i < 2; i++) {
            const mu_update_guard guard = {100, watch_before, watch_after, &seen[i]};
            const mu_target t = target(u, &halves.p, halves.w, halves.h);
            const mu_update a = {halves.n, halves.list, halves.weight, 0.01, {0}};
            mu_updater_apply_range(&t, &a, 0, halves.p.count, &guard);
            if (!i && seen[0].n) assert_true(memcmp(whole.w, halves.w, whole.p.count * sizeof(float)) != 0);
        }
        assert_same_bits(&whole, &halves, mixes[m]);
        assert_int_equal(seen[0].n, seen[1].n);
        assert_memory_equal(seen[0].end, seen[1].end, sizeof(size_t) * (size_t)seen[0].n);
        problem_fini(&whole), problem_fini(&halves);
        bound_fini(&b);
    }
}

static void test_no_allocation(void **unused) {
    (void)unused;
    bound b;
    mu_updater *u = bound_get(&b, "{type: adam, rate: 1, decay: 0.1}");
    problem q;
    problem_init(&q, 33, 77, 3);
    add_grads(&q, "dfprd", 6, 25, 1);
    uint64_t before = mu_alloc_get_stats().n_calls;
    apply(u, &q, 0, q.p.count, 0);
    assert_int_equal(mu_alloc_get_stats().n_calls, before);
    problem_fini(&q);
    bound_fini(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sums_are_right),
        cmocka_unit_test(test_one_gradient),
        cmocka_unit_test(test_series_ends_with_its_last),
        cmocka_unit_test(test_series),
        cmocka_unit_test(test_pairs),
        cmocka_unit_test(test_guard),
        cmocka_unit_test(test_no_allocation),
        cmocka_unit_test(test_any_cut_gives_the_same_bits), // by far the longest
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
