// SPDX-License-Identifier: Apache-2.0
// test_ops_inner.c - every fully connected implementation against plain sums in double: forward, data and
// bias gradient, and the weight gradient in its five forms (written, added, handed over in blocks of rows
// or as (x, dy) of one sample that are applied at once, left out).
#include "base/alloc.h"
#include "base/rng.h"
#include "ops/op.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const uint64_t seed = 77;

static const struct { int64_t i, o; } sizes[] = {
    {784, 100}, {250, 10}, {10, 250}, {500, 33}, {1, 1}, {3, 7}, {17, 65}, {129, 64}, {64, 129}, {2000, 9},
};
static const int64_t batches[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 16, 17, 31, 32, 33, 64, 100};

typedef struct problem {
    mu_inner_desc d;
    float *x, *w, *b, *y, *dy, *dx, *dw, *db;   // w is changed by the receiver of rows
    float *w0;                                  // its first value
    double *want_y, *want_dx, *want_dw, *want_db;
    int *seen;                                  // times each row was handed over
    int64_t next_row;
} problem;

static void *take(size_t n, size_t size) {
    void *p = mu_alloc_array(n, size, "test");
    assert_non_null(p);
    return p;
}

static float *draw(int64_t n, const char *purpose) {
    float *p = take((size_t)n, sizeof *p);
    mu_rng_fill_gaussian(mu_rng_key_make(seed, purpose), 0, 0, p, (size_t)n);
    return p;
}

static void problem_init(problem *p, int64_t n, int64_t i, int64_t o, bool transposed) {
    *p = (problem){.d = {n, i, o, true, true, transposed},
                   .x = draw(n * i, "x"),
                   .w = draw(o * i, "w"),
                   .b = draw(o, "b"),
                   .y = draw(n * o, "y"),
                   .dy = draw(n * o, "dy"),
                   .dx = draw(n * i, "dx"),
                   .dw = draw(o * i, "dw"),
                   .db = draw(o, "db"),
                   .w0 = draw(o * i, "w"),
                   .want_y = take((size_t)(n * o), sizeof(double)),
                   .want_dx = take((size_t)(n * i), sizeof(double)),
                   .want_dw = take((size_t)(o * i), sizeof(double)),
                   .want_db = take((size_t)o, sizeof(double)),
                   .seen = take((size_t)(transposed ? i : o), sizeof(int))};
    for (int64_t r = 0; r < n; r++)
        for (int64_t k = 0; k < o; k++) {
            double dy = (double)p->dy[r * o + k], sum = (double)p->b[k];
            for (int64_t j = 0; j < i; j++) {
                int64_t at = transposed ? j * o + k : k * i + j;
                sum += (double)p->x[r * i + j] * (double)p->w[at];
                p->want_dx[r * i + j] += dy * (double)p->w[at];
                p->want_dw[at] += dy * (double)p->x[r * i + j];
            }
            p->want_y[r * o + k] = sum;
            p->want_db[k] += dy;
        }
}

static void problem_fini(problem *p) {
    void *all[] = {p->x, p->w, p->b, p->y, p->dy, p->dx, p->dw, p->db, p->w0,
                   p->want_y, p->want_dx, p->want_dw, p->want_db, p->seen};
    for (size_t k = 0; k < MU_COUNT(all); k++) mu_free(all[k]);
}

static void compare(const problem *p, const char *who, const char *what, const float *got, const double *want,
                    double times, int64_t n, int64_t terms) {
    for (int64_t k = 0; k < n; k++) {
        double tolerance = 1e-5 * times * (1 + sqrt((double)terms)), w = times * want[k];
        if (!(fabs((double)got[k] - w) <= tolerance))
            fail_msg("%s n=%ld i=%ld o=%ld: %s[%ld] = %.9g, want %.9g +- %.2g (seed %llu)", who, (long)p->d.n,
                     (long)p->d.i, (long)p->d.o, what, (long)k, (double)got[k], w, tolerance,
                     (unsigned long long)seed);
    }
}

static int64_t rows_of(const problem *p) { return p->d.transposed ? p->d.i : p->d.o; }

// Stores the block and destroys those rows of the weights: dx must not need them any more.
static void receive(void *ctx, int64_t row0, int64_t n_rows, const float *grad) {
    problem *p = ctx;
    int64_t width = p->d.o * p->d.i / rows_of(p);
    assert_int_equal(row0, p->next_row);
    assert_true(n_rows > 0 && row0 + n_rows <= rows_of(p));
    for (int64_t r = row0; r < row0 + n_rows; r++) p->seen[r]++;
    memcpy(p->dw + row0 * width, grad, (size_t)(n_rows * width) * sizeof(float));
    for (int64_t k = row0 * width; k < (row0 + n_rows) * width; k++) p->w[k] = NAN;
    p->next_row = row0 + n_rows;
}

// The same for one sample: what the op leaves to the receiver is done here.
static void receive_outer(void *ctx, int64_t row0, int64_t n_rows, const float *dy, const float *x,
                          float *dx) {
    problem *p = ctx;
    const int64_t width = p->d.i;
    assert_int_equal(p->d.n, 1);
    for (int64_t r = 0; r < n_rows; r++) {
        float *w = p->w + (row0 + r) * width, row[4096];
        assert_true(width <= (int64_t)MU_COUNT(row));
        for (int64_t k = 0; k < width; k++) row[k] = dy[r] * x[k];
        for (int64_t k = 0; k < width && dx; k++) dx[k] += dy[r] * w[k];
        receive(ctx, row0 + r, 1, row);
    }
}

static void fill_nan(float *v, int64_t n) {
    for (int64_t k = 0; k < n; k++) v[k] = NAN;
}

static void run(mu_op *op, const mu_op_args *a, bool back) {
    mu_err err;
    mu_err_clear(&err);
    fill_nan(a->scratch, (int64_t)(op->scratch_bytes / sizeof(float)));
    mu_status s = back ? mu_op_backward(op, a, &err) : mu_op_forward(op, a, &err);
    if (s != MU_OK) fail_msg("%s: %s", op->class->name, err.msg);
}

// The weight gradient goes to a receiver that changes the weights at once.
static void check_handed_over(mu_op *op, problem *p, const mu_op_args *a, const char *how) {
    const mu_inner_desc *d = &p->d;
    char who[80];
    snprintf(who, sizeof who, "%s handing over %s,", op->class->name, how);
    memcpy(p->w, p->w0, (size_t)(d->o * d->i) * sizeof(float));
    memset(p->seen, 0, (size_t)rows_of(p) * sizeof(int));
    p->next_row = 0;
    fill_nan(p->dw, d->o * d->i);
    fill_nan(p->dx, d->n * d->i);
    fill_nan(p->db, d->o);
    run(op, a, true);
    compare(p, who, "dsrc", p->dx, p->want_dx, 1, d->n * d->i, d->o);
    compare(p, who, "dweight", p->dw, p->want_dw, 1, d->o * d->i, d->n);
    compare(p, who, "dbias", p->db, p->want_db, 1, d->o, d->n);
    assert_int_equal(p->next_row, rows_of(p));
    for (int64_t r = 0; r < rows_of(p); r++) assert_int_equal(p->seen[r], 1);
}

static void check_backward(mu_op *op, problem *p, mu_op_args a) {
    const mu_inner_desc *d = &p->d;
    const char *who = op->class->name;
    for (int twice = 0; twice < 2; twice++) {
        a.accumulate = twice;
        fill_nan(p->dx, d->n * d->i);
        if (!twice) fill_nan(p->dw, d->o * d->i), fill_nan(p->db, d->o);
        run(op, &a, true);
        compare(p, who, "dsrc", p->dx, p->want_dx, 1, d->n * d->i, d->o);
        compare(p, who, twice ? "added dweight" : "dweight", p->dw, p->want_dw, 1 + twice, d->o * d->i, d->n);
        compare(p, who, "dbias", p->db, p->want_db, 1 + twice, d->o, d->n);
    }
    a.accumulate = false;
    fill_nan(p->dx, d->n * d->i);
    fill_nan(p->db, d->o);
    mu_op_args skip = a;
    skip.skip_dweight = true;
    skip.dweight = skip.dbias = NULL;
    run(op, &skip, true);
    compare(p, who, "dsrc alone", p->dx, p->want_dx, 1, d->n * d->i, d->o);

    a.rows_ready = receive;
    a.rows_ctx = p;
    a.dweight = NULL;
    check_handed_over(op, p, &a, "rows");
    if (d->n != 1) return;
    a.outer_ready = receive_outer;
    check_handed_over(op, p, &a, "one sample");
}

static void run_class(const mu_op_class *class, problem *p) {
    const mu_inner_desc *d = &p->d;
    mu_op_desc desc = {.prim = MU_PRIM_INNER, .inner = *d};
    mu_err err;
    mu_err_clear(&err);
    mu_op *op;
    if (class->accepts && !class->accepts(&desc)) return;
    if (mu_op_create_class(class, &desc, &op, &err) != MU_OK) fail_msg("%s: %s", class->name, err.msg);
    mu_op_args a = {.src = p->x,
                    .dst = p->y,
                    .ddst = p->dy,
                    .dsrc = p->dx,
                    .weight = p->w,
                    .bias = p->b,
                    .dweight = p->dw,
                    .dbias = p->db,
                    .scratch = take(op->scratch_bytes, 1),
                    .keep = take(op->keep_bytes, 1)};
    memcpy(p->w, p->w0, (size_t)(d->o * d->i) * sizeof(float));
    fill_nan(p->y, d->n * d->o);
    uint64_t before = mu_alloc_get_stats().n_calls;
    run(op, &a, false);
    compare(p, class->name, "dst", p->y, p->want_y, 1, d->n * d->o, d->i);
    check_backward(op, p, a);
    assert_int_equal(mu_alloc_get_stats().n_calls, before);
    mu_free(a.scratch);
    mu_free(a.keep);
    mu_op_destroy(op);
}

static void all_sizes(bool transposed) {
    for (size_t s = 0; s < MU_COUNT(sizes); s++)
        for (size_t b = 0; b < MU_COUNT(batches); b++) {
            problem p;
            problem_init(&p, batches[b], sizes[s].i, sizes[s].o, transposed);
            for (size_t j = 0; j < mu_ops.n; j++) {
                const mu_op_class *class = mu_op_at(j);
                if (class->prim == MU_PRIM_INNER) run_class(class, &p);
            }
            problem_fini(&p);
        }
}

static void agrees_with_sums(void **state) {
    (void)state;
    all_sizes(false);
}

static void transposed_agrees_with_sums(void **state) {
    (void)state;
    all_sizes(true);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(agrees_with_sums),
                                       cmocka_unit_test(transposed_agrees_with_sums)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
