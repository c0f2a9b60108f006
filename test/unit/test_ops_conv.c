// SPDX-License-Identifier: Apache-2.0
// test_ops_conv.c - every convolution implementation against a naive loop, on the shapes of LeNet,
// cifar10_full and AlexNet and on strided, dilated, grouped and uneven ones; and proof that running one
// takes no memory.
#include "base/alloc.h"
#include "base/rng.h"
#include "ops/op.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

typedef struct shape_case { const char *name; mu_conv_desc d; } shape_case;

//              n   c   h   w   o  oh  ow  kh kw sh sw ph pw dh dw g  bias  dsrc
static const shape_case cases[] = {
    {"lenet conv1",   {3, 1, 28, 28, 20, 24, 24, 5, 5, 1, 1, 0, 0, 1, 1, 1, true, false}},
    {"lenet conv2",   {3, 20, 12, 12, 50, 8, 8, 5, 5, 1, 1, 0, 0, 1, 1, 1, true, true}},
    {"cifar conv1",   {2, 3, 32, 32, 32, 32, 32, 5, 5, 1, 1, 2, 2, 1, 1, 1, true, false}},
    {"cifar conv2",   {2, 32, 16, 16, 32, 16, 16, 5, 5, 1, 1, 2, 2, 1, 1, 1, true, true}},
    {"cifar conv3",   {2, 32, 8, 8, 64, 8, 8, 5, 5, 1, 1, 2, 2, 1, 1, 1, true, true}},
    {"alexnet conv1", {1, 3, 224, 224, 64, 55, 55, 11, 11, 4, 4, 2, 2, 1, 1, 1, true, false}},
    {"alexnet conv3", {1, 192, 13, 13, 384, 13, 13, 3, 3, 1, 1, 1, 1, 1, 1, 1, true, true}},
    {"groups",        {2, 32, 9, 9, 48, 9, 9, 3, 3, 1, 1, 1, 1, 1, 1, 2, true, true}},
    {"odd groups",    {2, 6, 9, 9, 9, 9, 9, 3, 3, 1, 1, 1, 1, 1, 1, 3, true, true}},
    {"dilated",       {2, 16, 17, 15, 24, 13, 11, 3, 3, 1, 1, 0, 0, 2, 2, 1, true, true}},
    {"strided",       {2, 7, 13, 11, 10, 6, 4, 3, 5, 2, 3, 0, 1, 1, 1, 1, false, true}},
    {"no bias 1x1",   {2, 24, 6, 6, 40, 6, 6, 1, 1, 1, 1, 0, 0, 1, 1, 1, false, true}},
    {"wide filter",   {2, 5, 4, 21, 6, 2, 15, 3, 7, 1, 1, 0, 0, 1, 1, 1, true, true}},
    {"24 to 40",      {2, 24, 9, 9, 40, 9, 9, 3, 3, 1, 1, 1, 1, 1, 1, 1, true, true}},
    {"tall dilation", {2, 3, 14, 9, 7, 10, 7, 3, 3, 1, 1, 0, 0, 2, 1, 1, true, true}},
    {"uncovered edge", {3, 5, 10, 11, 9, 4, 4, 3, 3, 2, 3, 0, 1, 1, 1, 1, true, true}},
    {"strided 3x3",   {2, 16, 15, 15, 32, 8, 8, 3, 3, 2, 2, 1, 1, 1, 1, 1, true, true}},
    {"one filter, one pixel", {32, 3, 4, 4, 1, 1, 1, 4, 4, 1, 1, 0, 0, 1, 1, 1, true, true}},
    {"three filters, one pixel", {33, 2, 3, 3, 3, 1, 1, 3, 3, 1, 1, 0, 0, 1, 1, 1, true, true}},
    {"seven filters", {5, 3, 4, 5, 7, 2, 2, 3, 4, 1, 1, 0, 0, 1, 1, 1, true, true}},
    {"many tiny images", {257, 3, 2, 1, 3, 1, 1, 1, 1, 16, 2, 1, 0, 1, 1, 1, true, true}},
    {"padding out of reach", {2, 3, 4, 4, 5, 4, 1, 1, 3, 1, 16, 0, 4, 1, 1, 1, true, true}},
};

enum { SRC, WEIGHT, BIAS, DST, DDST, N_IN, DSRC = N_IN, DWEIGHT, DBIAS, N_TENSORS };

typedef struct tensors {                // of one convolution
    float *v[N_TENSORS];
    double *want[N_TENSORS], *size[N_TENSORS];  // naive result, and the sum of its terms' magnitudes
    size_t n[N_TENSORS];
} tensors;

static const uint64_t seed = 20240611;
enum { GUARD = 64 };                    // floats behind each tensor that nobody may write
#define GUARD_VALUE 12345.0f

static void tensors_init(tensors *t, const mu_conv_desc *c) {
    static const char *const names[] = {"src", "weight", "bias", "dst", "ddst", "dsrc", "dweight", "dbias"};
    size_t src = (size_t)(c->n * c->c * c->h * c->w), dst = (size_t)(c->n * c->o * c->oh * c->ow);
    size_t weight = (size_t)(c->o * (c->c / c->groups) * c->kh * c->kw), bias = (size_t)c->o;
    size_t n[N_TENSORS] = {src, weight, bias, dst, dst, src, weight, bias};
    for (int i = 0; i < N_TENSORS; i++) {
        t->n[i] = n[i];
        t->v[i] = mu_alloc_array(n[i] + GUARD, sizeof(float), "test");
        t->want[i] = mu_alloc_array(n[i], sizeof(double), "test");
        t->size[i] = mu_alloc_array(n[i], sizeof(double), "test");
        assert_true(t->v[i] && t->want[i] && t->size[i]);
        mu_rng_fill_gaussian(mu_rng_key_make(seed, names[i]), 0, 0, t->v[i], n[i]);
        for (size_t k = 0; k < GUARD; k++) t->v[i][n[i] + k] = GUARD_VALUE;
    }
}

static void check_guards(const tensors *t, const char *who, const char *name) {
    for (int i = 0; i < N_TENSORS; i++)
        for (size_t k = 0; k < GUARD; k++)
            if (!(t->v[i][t->n[i] + k] == GUARD_VALUE))
                fail_msg("%s: %s: tensor %d written %zu behind its end", who, name, i, k);
}

static void tensors_fini(tensors *t) {
    for (int i = 0; i < N_TENSORS; i++) {
        mu_free(t->v[i]);
        mu_free(t->want[i]);
        mu_free(t->size[i]);
    }
}

static void add_term(tensors *t, int what, int64_t at, double term) {
    t->want[what][at] += term;
    t->size[what][at] += fabs(term);
}

// All terms of one output element: forward and the three gradients at once.
static void naive_at(tensors *t, const mu_conv_desc *c, int64_t n, int64_t o, int64_t y, int64_t x) {
    int64_t cg = c->c / c->groups, g = o / (c->o / c->groups), out = ((n * c->oh + y) * c->ow + x) * c->o + o;
    double dy = (double)t->v[DDST][out];
    if (c->bias) add_term(t, DST, out, (double)t->v[BIAS][o]);
    add_term(t, DBIAS, o, dy);
    for (int64_t i = 0; i < c->kh; i++)
        for (int64_t j = 0; j < c->kw; j++) {
            int64_t h = y * c->stride_h - c->pad_h + i * c->dil_h,
                    w = x * c->stride_w - c->pad_w + j * c->dil_w;
            if (h < 0 || h >= c->h || w < 0 || w >= c->w) continue;
            for (int64_t k = 0; k < cg; k++) {
                int64_t in = ((n * c->h + h) * c->w + w) * c->c + g * cg + k,
                        wt = ((o * cg + k) * c->kh + i) * c->kw + j;
                add_term(t, DST, out, (double)t->v[SRC][in] * (double)t->v[WEIGHT][wt]);
                add_term(t, DSRC, in, dy * (double)t->v[WEIGHT][wt]);
                add_term(t, DWEIGHT, wt, dy * (double)t->v[SRC][in]);
            }
        }
}

static void naive(tensors *t, const mu_conv_desc *c) {
    for (int64_t n = 0; n < c->n; n++)
        for (int64_t y = 0; y < c->oh; y++)
            for (int64_t x = 0; x < c->ow; x++)
                for (int64_t o = 0; o < c->o; o++) naive_at(t, c, n, o, y, x);
}

static void check(const tensors *t, int what, double times, const char *who, const char *name,
                  const char *tensor) {
    for (size_t i = 0; i < t->n[what]; i++) {
        double want = times * t->want[what][i], got = (double)t->v[what][i];
        double tolerance = 2e-6 * times * t->size[what][i] + 1e-6;
        if (!(fabs(got - want) <= tolerance))
            fail_msg("%s, %s: %s[%zu] = %.9g, want %.9g +- %.2g (seed %llu)", who, name, tensor, i, got, want,
                     tolerance, (unsigned long long)seed);
    }
}

static void fill(float *p, size_t n, float value) {
    for (size_t i = 0; i < n; i++) p[i] = value;
}

// Scratch is filled with NaN before each call: an op that reads what it did not write shows at once.
static void call(mu_op *op, const mu_op_args *a, bool back) {
    mu_err err;
    mu_err_clear(&err);
    fill(a->scratch, op->scratch_bytes / sizeof(float), NAN);
    mu_status s = back ? mu_op_backward(op, a, &err) : mu_op_forward(op, a, &err);
    if (s != MU_OK) fail_msg("%s: %s", op->class->name, err.msg);
}

static void run_case(const mu_op_class *class, const shape_case *k, tensors *t) {
    mu_op_desc d = {.prim = MU_PRIM_CONV, .conv = k->d};
    mu_op *op = NULL;
    mu_err err;
    mu_err_clear(&err);
    if (class->accepts && !class->accepts(&d)) return;
    mu_status s = mu_op_create_class(class, &d, &op, &err);
    if (s == MU_EUNSUPPORTED) return;
    if (s != MU_OK) fail_msg("%s: %s: %s", class->name, k->name, err.msg);
    mu_op_args a = {.src = t->v[SRC],
                    .dst = t->v[DST],
                    .ddst = t->v[DDST],
                    .weight = t->v[WEIGHT],
                    .bias = k->d.bias ? t->v[BIAS] : NULL,
                    .dsrc = k->d.need_dsrc ? t->v[DSRC] : NULL,
                    .dweight = t->v[DWEIGHT],
                    .dbias = k->d.bias ? t->v[DBIAS] : NULL,
                    .keep = mu_alloc(op->keep_bytes + 64, "test"),
                    .scratch = mu_alloc(op->scratch_bytes + 64, "test")};
    assert_true(a.keep && a.scratch);
    for (int i = N_IN; i < N_TENSORS; i++) fill(t->v[i], t->n[i], NAN);
    fill(t->v[DST], t->n[DST], NAN);
    uint64_t before = mu_alloc_get_stats().n_calls;
    call(op, &a, false);
    check(t, DST, 1, class->name, k->name, "dst");
    for (int twice = 0; twice < 2; twice++) {
        a.accumulate = twice;
        call(op, &a, true);
        check(t, DWEIGHT, 1 + twice, class->name, k->name, "dweight");
        if (k->d.bias) check(t, DBIAS, 1 + twice, class->name, k->name, "dbias");
        if (k->d.need_dsrc) check(t, DSRC, 1, class->name, k->name, "dsrc");
    }
    assert_int_equal(mu_alloc_get_stats().n_calls, before);
    check_guards(t, class->name, k->name);
    mu_free(a.keep);
    mu_free(a.scratch);
    mu_op_destroy(op);
}

static void agrees_with_naive_loops(void **state) {
    (void)state;
    for (size_t i = 0; i < MU_COUNT(cases); i++) {
        tensors t;
        tensors_init(&t, &cases[i].d);
        naive(&t, &cases[i].d);
        for (size_t j = 0; j < mu_ops.n; j++) {
            const mu_op_class *class = mu_op_at(j);
            if (class->prim == MU_PRIM_CONV) run_case(class, &cases[i], &t);
        }
        tensors_fini(&t);
    }
}

// A bias gradient is a sum over all pixels of the batch. With terms of one sign every rounding shows: a plain
// float sum of half a million is off by 1e-4.
static void bias_gradient_of_many_pixels(void **state) {
    (void)state;
    mu_op_desc d = {.prim = MU_PRIM_CONV,
                    .conv = {32, 1, 128, 128, 3, 128, 128, 1, 1, 1, 1, 0, 0, 1, 1, 1, true, false}};
    tensors t;
    tensors_init(&t, &d.conv);
    double want[3] = {0};
    for (size_t i = 0; i < t.n[DDST]; i++) {
        t.v[DDST][i] = 0.1f + 0.01f * fabsf(t.v[DDST][i]);
        want[i % 3] += (double)t.v[DDST][i];
    }
    for (size_t j = 0; j < mu_ops.n; j++) {
        const mu_op_class *class = mu_op_at(j);
        mu_op *op = NULL;
        mu_err err;
        mu_err_clear(&err);
        if (class->prim != MU_PRIM_CONV || (class->accepts && !class->accepts(&d))) continue;
        if (mu_op_create_class(class, &d, &op, &err) != MU_OK) fail_msg("%s: %s", class->name, err.msg);
        mu_op_args a = {.src = t.v[SRC], .dst = t.v[DST], .ddst = t.v[DDST], .weight = t.v[WEIGHT],
                        .bias = t.v[BIAS], .dweight = t.v[DWEIGHT], .dbias = t.v[DBIAS],
                        .keep = mu_alloc(op->keep_bytes + 64, "test"),
                        .scratch = mu_alloc(op->scratch_bytes + 64, "test")};
        assert_true(a.keep && a.scratch);
        call(op, &a, false);
        call(op, &a, true);
        for (int o = 0; o < 3; o++) {
            double off = fabs((double)t.v[DBIAS][o] / want[o] - 1);
            print_message("%s: dbias[%d] is off by %.2g\n", class->name, o, off);
            if (!strcmp(class->name, "conv_onednn")) continue;  // the library's own sum, not ours to mend
            if (!(off <= 2e-6)) fail_msg("%s: dbias[%d] is off by %.2g, at most 2e-6", class->name, o, off);
        }
        mu_free(a.keep);
        mu_free(a.scratch);
        mu_op_destroy(op);
    }
    tensors_fini(&t);
}

// A failing allocation at any point of create leaves nothing behind.
static void create_survives_lack_of_memory(void **state) {
    (void)state;
    for (size_t j = 0; j < mu_ops.n; j++) {
        const mu_op_class *class = mu_op_at(j);
        mu_op_desc d = {.prim = MU_PRIM_CONV, .conv = cases[1].d};
        if (class->prim != MU_PRIM_CONV || (class->accepts && !class->accepts(&d))) continue;
        for (int64_t n = 1; n < 50; n++) {
            uint64_t live = mu_alloc_get_stats().n_live;
            mu_op *op = NULL;
            mu_err err;
            mu_err_clear(&err);
            mu_alloc_fail_at(n);
            mu_status s = mu_op_create_class(class, &d, &op, &err);
            mu_alloc_fail_at(0);
            if (s == MU_OK) mu_op_destroy(op);
            assert_int_equal(mu_alloc_get_stats().n_live, live);
            if (s == MU_OK || s == MU_EUNSUPPORTED) break;
            assert_int_equal(s, MU_ENOMEM);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(agrees_with_naive_loops),
        cmocka_unit_test(bias_gradient_of_many_pixels),
        cmocka_unit_test(create_survives_lack_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
