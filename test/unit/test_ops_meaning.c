// SPDX-License-Identifier: Apache-2.0
// test_ops_meaning.c - what the ops promise beyond agreeing with each other: values worked out by hand,
// gradients of the references by central differences, NaN, ties, masks that do not depend on batching.
// Every test runs on each implementation of its primitive that the registry holds.
#include "base/alloc.h"
#include "ops/op.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <math.h>
#include <string.h>

#define SEED 7u

static mu_op *make(const mu_op_class *c, const mu_op_desc *d, mu_op_args *a) {
    mu_op *op = NULL;
    mu_err err;
    mu_err_clear(&err);
    if (mu_op_create_class(c, d, &op, &err) != MU_OK) fail_msg("%s: %s", c->name, err.msg);
    a->keep = mu_alloc(op->keep_bytes + 64, "test");
    a->scratch = mu_alloc(op->scratch_bytes + 64, "test");
    assert_true(a->keep && a->scratch);
    return op;
}

static void drop(mu_op *op, mu_op_args *a) {
    mu_free(a->keep);
    mu_free(a->scratch);
    mu_op_destroy(op);
}

static void go(mu_op *op, mu_op_args *a, bool back) {
    mu_err err;
    mu_err_clear(&err);
    assert_int_equal(mu_op_forward(op, a, &err), MU_OK);
    if (back) assert_int_equal(mu_op_backward(op, a, &err), MU_OK);
}

typedef void (*check)(const mu_op_class *c, const mu_op_desc *d);

static void on_each(const mu_op_desc *d, check f) {
    for (size_t i = 0; i < mu_ops.n; i++) {
        const mu_op_class *c = mu_op_at(i);
        if (c->prim == d->prim && (!c->accepts || c->accepts(d))) f(c, d);
    }
}

static void expect(const char *who, const char *what, const float *got, const float *want, int n,
                   float tolerance) {
    for (int i = 0; i < n; i++)
        if (!(fabsf(got[i] - want[i]) <= tolerance))
            fail_msg("%s: %s[%d] is %.9g, expected %.9g, tolerance %g", who, what, i, (double)got[i],
                     (double)want[i], (double)tolerance);
}

// ---- pooling: 3x3 image, 2x2/2 windows hanging over the lower and right edge ----

static void max_by_hand(const mu_op_class *c, const mu_op_desc *d) {
    const float src[9] = {5, 5, 1, 5, 2, 1, 0, -3, -4}, ddst[4] = {1, 2, 4, 8};
    float dst[4], dsrc[9];
    mu_op_args a = { .src = src, .dst = dst, .ddst = ddst, .dsrc = dsrc };
    mu_op *op = make(c, d, &a);
    go(op, &a, true);
    expect(c->name, "dst", dst, (const float[]){5, 1, 0, -4}, 4, 0);
    expect(c->name, "dsrc", dsrc, (const float[]){1, 0, 2, 0, 0, 0, 4, 0, 8}, 9, 0); // the first of equals
    drop(op, &a);
}

static void nan_wins_max(const mu_op_class *c, const mu_op_desc *d) {
    float src[9] = {5, 5, 1, 5, NAN, 1, 0, -INFINITY, INFINITY}, dst[4], dsrc[9];
    const float ddst[4] = {1, 2, 4, 8};
    mu_op_args a = { .src = src, .dst = dst, .ddst = ddst, .dsrc = dsrc };
    mu_op *op = make(c, d, &a);
    go(op, &a, true);
    assert_true(isnan(dst[0]));
    expect(c->name, "dst", dst + 1, (const float[]){1, 0}, 2, 0);
    assert_true(dst[3] == INFINITY);
    expect(c->name, "dsrc", dsrc, (const float[]){0, 0, 2, 0, 1, 0, 4, 0, 8}, 9, 0);
    drop(op, &a);
}

static void average_by_hand(const mu_op_class *c, const mu_op_desc *d) {
    const float src[9] = {1, 2, 3, 4, 5, 6, 7, 8, 9}, ddst[4] = {4, 4, 4, 4};
    float dst[4], dsrc[9];
    mu_op_args a = { .src = src, .dst = dst, .ddst = ddst, .dsrc = dsrc };
    mu_op *op = make(c, d, &a);
    go(op, &a, true);
    // pad 1: the windows start at -1 and 1. Caffe counts the padding above and left, so all divide by 4.
    const float caffe[4] = {1.f / 4, 5.f / 4, 11.f / 4, 28.f / 4}, image[4] = {1, 2.5f, 5.5f, 7};
    expect(c->name, "dst", dst, d->pool.count_pad ? caffe : image, 4, 1e-6f);
    const float dcaffe[9] = {1, 1, 1, 1, 1, 1, 1, 1, 1}, dimage[9] = {4, 2, 2, 2, 1, 1, 2, 1, 1};
    expect(c->name, "dsrc", dsrc, d->pool.count_pad ? dcaffe : dimage, 9, 1e-6f);
    drop(op, &a);
}

static void pooling(void **state) {
    (void)state;
    mu_op_desc d = { .prim = MU_PRIM_POOL,
                     .pool = { .n = 1, .c = 1, .h = 3, .w = 3, .oh = 2, .ow = 2, .kh = 2, .kw = 2,
                               .stride_h = 2, .stride_w = 2 } };
    on_each(&d, max_by_hand);
    on_each(&d, nan_wins_max);
    d.pool.kind = MU_POOL_AVG;
    d.pool.pad_h = d.pool.pad_w = 1;
    on_each(&d, average_by_hand);
    d.pool.count_pad = true;
    on_each(&d, average_by_hand);
}

// 3x3 windows over many channels with a NaN in one lane: the other lanes must not notice.
static void nan_stays_in_its_lane(const mu_op_class *c, const mu_op_desc *d) {
    enum { C = 40 };
    float src[9 * C], dst[C];
    for (int i = 0; i < 9 * C; i++) src[i] = (float)(i / C == 4 ? 2 : 1);
    src[3 * C + 17] = NAN;
    mu_op_args a = { .src = src, .dst = dst };
    mu_op *op = make(c, d, &a);
    go(op, &a, false);
    for (int i = 0; i < C; i++) assert_true(i == 17 ? isnan(dst[i]) : dst[i] == 2);
    drop(op, &a);
}

static void pooling_lanes(void **state) {
    (void)state;
    mu_op_desc d = { .prim = MU_PRIM_POOL,
                     .pool = { .n = 1, .c = 40, .h = 3, .w = 3, .oh = 1, .ow = 1, .kh = 3, .kw = 3,
                               .stride_h = 2, .stride_w = 2 } };
    on_each(&d, nan_stays_in_its_lane);
}

// ---- activations ----

static void relu_values(const mu_op_class *c, const mu_op_desc *d) {
    float x[6] = {-INFINITY, -2, 0, 3, INFINITY, NAN}, y[6] = {1, 1, 1, 1, 1, 1};
    mu_op_args a = { .src = x, .dst = y };
    mu_op *op = make(c, d, &a);
    go(op, &a, false);
    assert_true(y[0] == (d->act.slope > 0 ? -INFINITY : 0.0f));
    expect(c->name, "relu", y + 1, (const float[]){-2 * d->act.slope, 0, 3}, 3, 1e-6f);
    assert_true(y[4] == INFINITY && isnan(y[5]));
    drop(op, &a);
}

static void sigmoid_ends(const mu_op_class *c, const mu_op_desc *d) {
    float x[6] = {-INFINITY, -200, 0, 200, INFINITY, NAN}, y[6];
    mu_op_args a = { .src = x, .dst = y };
    mu_op *op = make(c, d, &a);
    go(op, &a, false);
    bool sigmoid = d->act.kind == MU_ACT_SIGMOID;
    float top = d->act.kind == MU_ACT_STANH ? 1.7159047f : 1.0f, low = sigmoid ? 0 : -top;
    expect(c->name, "ends", y, (const float[]){low, low, sigmoid ? .5f : 0, top, top}, 5, 1e-6f);
    assert_true(isnan(y[5]));
    drop(op, &a);
}

static void activations(void **state) {
    (void)state;
    mu_op_desc d = { .prim = MU_PRIM_ACTIVATION, .act = { .count = 6, .kind = MU_ACT_RELU } };
    on_each(&d, relu_values);
    d.act.slope = 0.1f;
    on_each(&d, relu_values);
    for (int k = MU_ACT_SIGMOID; k <= MU_ACT_STANH; k++) {
        d.act.kind = (mu_act_kind)k;
        on_each(&d, sigmoid_ends);
    }
}

// ---- softmax: rows that would overflow without subtracting the maximum ----

static void softmax_rows(const mu_op_class *c, const mu_op_desc *d) {
    const float x[6] = {1000, 1000, -1000, -1000, -1000 + 0.6931472f, -INFINITY};
    float y[6];
    mu_op_args a = { .src = x, .dst = y };
    mu_op *op = make(c, d, &a);
    go(op, &a, false);
    expect(c->name, "softmax", y, (const float[]){.5f, .5f, 0, 1 / 3.f, 2 / 3.f, 0}, 6, 3e-5f);
    drop(op, &a);
}

static void softmax(void **state) {
    (void)state;
    mu_op_desc d = { .prim = MU_PRIM_SOFTMAX, .softmax = { .n = 2, .c = 3 } };
    on_each(&d, softmax_rows);
}

// ---- batch norm: a mean that is large against the spread ----

static void norm_far_from_zero(const mu_op_class *c, const mu_op_desc *d) {
    const int64_t n = d->norm.rows;
    float *x = mu_alloc_array((size_t)n, sizeof *x, "test");
    float *y = mu_alloc_array((size_t)n, sizeof *y, "test");
    float mean = 0, var = 0;
    assert_true(x && y);
    for (int64_t i = 0; i < n; i++) x[i] = 4096.0f + (float)(i % 2 ? 1 : -1);
    mu_op_args a = { .src = x, .dst = y, .run_mean = &mean, .run_var = &var };
    mu_op *op = make(c, d, &a);
    go(op, &a, false);
    expect(c->name, "run_mean", &mean, (const float[]){4096}, 1, 1e-3f);
    expect(c->name, "run_var", &var, (const float[]){1 + 1 / (float)(n - 1)}, 1, 1e-6f);
    expect(c->name, "y", y, (const float[]){-1, 1}, 2, 1e-4f);
    drop(op, &a);
    mu_free(x);
    mu_free(y);
}

static void batch_norm(void **state) {
    (void)state;
    mu_op_desc d = { .prim = MU_PRIM_NORM,
                     .norm = { .rows = 100000, .c = 1, .eps = 1e-6f, .momentum = 1, .training = true } };
    on_each(&d, norm_far_from_zero);
}

// ---- dropout ----

enum { DROP_N = 6, DROP_E = 1030 };

static void dropout_of(const mu_op_class *c, mu_op_desc d, int64_t first, int64_t n, const float *x,
                       float *y) {
    d.dropout.n = n;
    mu_op_args a = { .src = x, .dst = y, .key = mu_rng_key_make(SEED, "drop"), .first_sample = first };
    mu_op *op = make(c, &d, &a);
    go(op, &a, false);
    drop(op, &a);
}

static void masks_do_not_depend_on_batching(const mu_op_class *c, const mu_op_desc *d) {
    static float x[DROP_N * DROP_E], whole[DROP_N * DROP_E], parts[DROP_N * DROP_E];
    for (int i = 0; i < DROP_N * DROP_E; i++) x[i] = 1;
    dropout_of(c, *d, 500, DROP_N, x, whole);
    dropout_of(c, *d, 500, 2, x, parts);
    dropout_of(c, *d, 502, 3, x, parts + 2 * DROP_E);
    dropout_of(c, *d, 505, 1, x, parts + 5 * DROP_E);
    assert_memory_equal(whole, parts, sizeof whole);
    assert_true(memcmp(whole, whole + DROP_E, DROP_E * sizeof(float)) != 0);
    int kept = 0;
    float scale = 1 / (1 - d->dropout.ratio);
    for (int i = 0; i < DROP_N * DROP_E; i++) {
        assert_true(whole[i] == 0 || fabsf(whole[i] - scale) < 1e-6f);
        kept += whole[i] > 0;
    }
    double share = (double)kept / (DROP_N * DROP_E), want = 1 - (double)d->dropout.ratio;
    double sigma = sqrt(want * (1 - want) / (DROP_N * DROP_E));
    if (fabs(share - want) > 4 * sigma)
        fail_msg("%s keeps %g, expected %g +- %g", c->name, share, want, sigma);
}

static void dropout(void **state) {
    (void)state;
    mu_op_desc d = { .prim = MU_PRIM_DROPOUT,
                     .dropout = { .n = DROP_N, .per_sample = DROP_E, .ratio = .3f } };
    on_each(&d, masks_do_not_depend_on_batching);
}

// ---- gradients by central differences:  L = sum(ddst * dst) ----

enum { MAX_VALUES = 512 };

typedef struct net { mu_op *op; mu_op_args a; int64_t n_dst; } net;

static double loss(net *t, const float *ddst) {
    go(t->op, &t->a, false);
    double sum = 0;
    for (int64_t i = 0; i < t->n_dst; i++) sum += (double)ddst[i] * (double)t->a.dst[i];
    return sum;
}

static void compare_gradient(net *t, const char *what, float *value, const float *grad, int64_t n) {
    const float step = 1.0f / 128;
    for (int64_t i = 0; i < n; i++) {
        float old = value[i];
        value[i] = old + step;
        double up = loss(t, t->a.ddst);
        value[i] = old - step;
        double down = loss(t, t->a.ddst);
        value[i] = old;
        double want = (up - down) / (2 * (double)step), diff = fabs((double)grad[i] - want);
        if (!(diff <= 2e-3 * (1 + fabs(want))))
            fail_msg("%s: %s[%ld] is %.6g, central difference %.6g (seed %u)", t->op->class->name, what,
                     (long)i, (double)grad[i], want, SEED);
    }
}

typedef struct counts { int64_t src, dst, weight, bias; } counts;

static void gradient(const mu_op_class *c, const mu_op_desc *d, counts n) {
    static float v[7][MAX_VALUES];
    assert_true(n.src <= MAX_VALUES && n.dst <= MAX_VALUES && n.weight <= MAX_VALUES);
    for (int i = 0; i < 7; i++) {
        mu_rng_fill_uniform(mu_rng_key_make(SEED, "values"), (uint64_t)i, 0, v[i], MAX_VALUES);
        for (int j = 0; j < MAX_VALUES; j++) v[i][j] = 2 * v[i][j] - 1;
    }
    float run_mean[16] = {0}, run_var[16] = {0}, dst[MAX_VALUES];
    net t = { .a = { .src = v[0], .dst = dst, .ddst = v[1], .dsrc = v[2], .weight = v[3], .bias = v[4],
                     .dweight = v[5], .dbias = v[6], .run_mean = run_mean, .run_var = run_var },
              .n_dst = n.dst };
    t.op = make(c, d, &t.a);
    go(t.op, &t.a, true);
    compare_gradient(&t, "dsrc", v[0], v[2], n.src);
    compare_gradient(&t, "dweight", v[3], v[5], n.weight);
    compare_gradient(&t, "dbias", v[4], v[6], n.bias);
    drop(t.op, &t.a);
}

static void conv_gradient(const mu_op_class *c, const mu_op_desc *d) {
    gradient(c, d, (counts){240, 72, 72, 4});
}
static void lrn_gradient(const mu_op_class *c, const mu_op_desc *d) {
    gradient(c, d, (counts){60, 60, 0, 0});
}
static void norm_gradient(const mu_op_class *c, const mu_op_desc *d) {
    gradient(c, d, (counts){50, 50, 5, 5});
}
static void inner_gradient(const mu_op_class *c, const mu_op_desc *d) {
    gradient(c, d, (counts){21, 12, 28, 4});
}
static void soft_gradient(const mu_op_class *c, const mu_op_desc *d) {
    gradient(c, d, (counts){30, 30, 0, 0});
}
static void curve_gradient(const mu_op_class *c, const mu_op_desc *d) {
    gradient(c, d, (counts){40, 40, 0, 0});
}

static void gradients_by_differences(void **state) {
    (void)state;
    mu_op_desc conv = { .prim = MU_PRIM_CONV,
                        .conv = { .n = 2, .c = 4, .h = 6, .w = 5, .o = 4, .oh = 3, .ow = 3, .kh = 3,
                                  .kw = 3, .stride_h = 2, .stride_w = 1, .pad_h = 1, .pad_w = 1,
                                  .dil_h = 1, .dil_w = 2, .groups = 2, .bias = true, .need_dsrc = true } };
    on_each(&conv, conv_gradient);
    mu_op_desc lrn = { .prim = MU_PRIM_LRN,
                       .lrn = { .n = 1, .c = 5, .h = 4, .w = 3, .size = 3, .alpha = 2, .beta = .75f,
                                .k = 1 } };
    on_each(&lrn, lrn_gradient);
    lrn.lrn.within = true;
    on_each(&lrn, lrn_gradient);
    mu_op_desc norm = { .prim = MU_PRIM_NORM,
                        .norm = { .rows = 10, .c = 5, .eps = 1e-3f, .training = true, .affine = true } };
    on_each(&norm, norm_gradient);
    mu_op_desc inner = { .prim = MU_PRIM_INNER,
                         .inner = { .n = 3, .i = 7, .o = 4, .bias = true, .need_dsrc = true } };
    on_each(&inner, inner_gradient);
    mu_op_desc soft = { .prim = MU_PRIM_SOFTMAX, .softmax = { .n = 3, .c = 10 } };
    on_each(&soft, soft_gradient);
    mu_op_desc act = { .prim = MU_PRIM_ACTIVATION, .act = { .count = 40 } };
    for (int k = MU_ACT_SIGMOID; k <= MU_ACT_STANH; k++) {
        act.act.kind = (mu_act_kind)k;
        on_each(&act, curve_gradient);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pooling),    cmocka_unit_test(pooling_lanes), cmocka_unit_test(activations),
        cmocka_unit_test(softmax),    cmocka_unit_test(batch_norm),    cmocka_unit_test(dropout),
        cmocka_unit_test(gradients_by_differences),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
