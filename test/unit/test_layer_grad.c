// SPDX-License-Identifier: Apache-2.0
// test_layer_grad.c - the forms of a weight gradient: whatever form a layer leaves, it multiplies out
// to the dense one; when each form is taken.
#include "layer_rig.h"

static rig *make(const char *type, const char *settings, const char *sources) {
    rig *r = calloc(1, sizeof *r);
    mu_err err;
    const mu_layer_class *c = (const mu_layer_class *)mu_registry_find(&mu_layers, type);
    if (rig_infer(r, c, settings, sources, MU_TRAIN, 9, &err) != MU_OK) fail_msg("%s: %s", type, err.msg);
    rig_setup(r);
    return r;
}

static void drop(rig *r) {
    rig_fini(r);
    free(r);
}

static void run(rig *r, const mu_grad_sink *sink) {
    mu_step s = rig_step(r);
    s.sink = sink;
    for (int k = 0; k < r->layer.n_param; k++) r->layer.param[k]->grad.form = MU_GRAD_NONE;
    rig_forward(r, &s);
    rig_backward(r, &s);
}

static float *dense_copy(rig *r, int k) {
    const mu_param *p = r->layer.param[k];
    assert_int_equal(p->grad.form, MU_GRAD_DENSE);
    float *c = mu_alloc(p->count * sizeof *c, "test");
    memcpy(c, p->grad.dense, p->count * sizeof *c);
    return c;
}

static void expect_equal(const char *what, const float *got, const float *want, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (!(fabs((double)got[i] - (double)want[i]) <= 1e-5 + 1e-5 * fabs((double)want[i])))
            fail_msg("%s[%zu] is %.8g, want %.8g", what, i, (double)got[i], (double)want[i]);
}

// ---- inner product ----

static void factors_multiply_out(const char *settings, const char *sources) {
    rig *r = make("inner_product", settings, sources);
    mu_param *w = r->layer.param[0], *bias = r->layer.param[1];
    run(r, NULL);
    float *dense = dense_copy(r, 0), *dbias = dense_copy(r, 1),
          *dsrc = mu_alloc(mu_tensor_count(&r->layer.src[0]->value) * 4, "t");
    memcpy(dsrc, r->layer.src[0]->grad.f, mu_tensor_count(&r->layer.src[0]->value) * 4);
    w->allow_factors = bias->allow_factors = true;
    run(r, NULL);
    assert_int_equal(w->grad.form, MU_GRAD_FACTORS);
    int64_t o = w->shape.d[0], i = w->shape.d[1];
    float *product = mu_alloc(w->count * sizeof *product, "test");
    for (int64_t b = 0; b < w->grad.batch; b++)
        for (int64_t k = 0; k < o * i; k++)
            product[k] += w->grad.dy[b * o + k / i] * w->grad.x[b * i + k % i];
    expect_equal("weight", product, dense, w->count);
    assert_int_equal(bias->grad.form, MU_GRAD_DENSE);
    expect_equal("bias", bias->grad.dense, dbias, bias->count);
    expect_equal("source", r->layer.src[0]->grad.f, dsrc, mu_tensor_count(&r->layer.src[0]->value));
    mu_free(product);
    mu_free(dense);
    mu_free(dbias);
    mu_free(dsrc);
    drop(r);
}

static void inner_product_leaves_factors(void **state) {
    (void)state;
    factors_multiply_out("outputs: 30", "f3,40");
    factors_multiply_out("outputs: 30", "f2,4,3,4"); // transposed source: x is the flat copy
    factors_multiply_out("outputs: 30, transpose: true", "f3,40");
    factors_multiply_out("outputs: 40, transpose: true", "f2,4,3,3");
    factors_multiply_out("outputs: 30, axis: 2", "f2,3,40"); // six rows
}

static void factors_are_for_small_batches(void **state) {
    (void)state;
    rig *r = make("inner_product", "outputs: 30", "f16,40"); // 16 * 70 > 30 * 40 / 2
    r->layer.param[0]->allow_factors = true;
    run(r, NULL);
    assert_int_equal(r->layer.param[0]->grad.form, MU_GRAD_DENSE);
    drop(r);
    r = make("inner_product", "outputs: 30", "f3,40");
    r->layer.param[0]->allow_factors = true;
    r->layer.param[0]->n_users = 2; // shared: somebody adds to it
    run(r, NULL);
    assert_int_equal(r->layer.param[0]->grad.form, MU_GRAD_DENSE);
    drop(r);
}

typedef struct caught {
    float *grad;
    int64_t next;
    const mu_param *want;
} caught;

static bool takes(void *ctx, const mu_param *p) { return ((caught *)ctx)->want == p; }

static void take_rows(void *ctx, mu_param *p, int64_t row0, int64_t n_rows, const float *grad) {
    caught *c = ctx;
    int64_t cols = p->shape.d[1];
    assert_int_equal(row0, c->next); // every row once, in order
    c->next += n_rows;
    memcpy(c->grad + row0 * cols, grad, (size_t)(n_rows * cols) * sizeof *grad);
    for (int64_t i = row0 * cols; i < c->next * cols; i++)
        p->value[i] = NAN; // the receiver may change these weights
}

static void sink_gets_every_row(const char *settings, const char *sources, const char *ops) {
    setenv("MUSTER_OPS", ops, 1);
    rig *r = make("inner_product", settings, sources);
    mu_param *w = r->layer.param[0];
    size_t n_src = mu_tensor_count(&r->layer.src[0]->value);
    run(r, NULL);
    float *dense = dense_copy(r, 0), *dbias = dense_copy(r, 1), *dsrc = mu_alloc(n_src * 4, "test");
    memcpy(dsrc, r->layer.src[0]->grad.f, n_src * 4);
    caught c = {mu_alloc(w->count * sizeof(float), "test"), 0, w};
    run(r, &(mu_grad_sink){.ctx = &c, .takes = takes, .rows = take_rows});
    assert_int_equal(c.next, w->shape.d[0]);
    assert_int_equal(w->grad.form, MU_GRAD_NONE);
    expect_equal("weight", c.grad, dense, w->count);
    expect_equal("bias", r->layer.param[1]->grad.dense, dbias, 30);
    expect_equal("source", r->layer.src[0]->grad.f, dsrc, n_src); // from the old weights
    mu_free(c.grad);
    mu_free(dense);
    mu_free(dbias);
    mu_free(dsrc);
    drop(r);
    unsetenv("MUSTER_OPS");
}

static void inner_product_feeds_the_sink(void **state) {
    (void)state;
    static const char *const ops[] = {"ref", "gemm,ref", "vec,ref", "vec,gemm,onednn,ref"};
    for (size_t i = 0; i < MU_COUNT(ops); i++) {
        sink_gets_every_row("outputs: 30", "f3,40", ops[i]);
        sink_gets_every_row("outputs: 30", "f1,40", ops[i]);
        sink_gets_every_row("outputs: 30", "f33,4,3,4", ops[i]);
        sink_gets_every_row("outputs: 30, axis: -1", "f5,7,40", ops[i]);
        sink_gets_every_row("outputs: 30, transpose: true", "f3,40", ops[i]);
        sink_gets_every_row("outputs: 30, transpose: true", "f33,4,3,4", ops[i]);
    }
}

// Whoever takes the rows changes the weights at once: what is not finite is said before the first one.
static void the_sink_gets_no_nan(void **state) {
    (void)state;
    for (int bad = 0; bad < 2; bad++) {
        rig *r = make("inner_product", "outputs: 30", "f3,40");
        caught c = {mu_alloc(r->layer.param[0]->count * sizeof(float), "test"), 0, r->layer.param[0]};
        const mu_grad_sink sink = {.ctx = &c, .takes = takes, .rows = take_rows};
        mu_step s = rig_step(r);
        s.sink = &sink;
        mu_err err = {0};
        rig_forward(r, &s);
        if (bad) r->layer.out[0].grad.f[17] = INFINITY;
        else r->layer.src[0]->value.f[50] = NAN;
        assert_int_equal(r->layer.class->backward(&r->layer, &s, &err), MU_EDIVERGED);
        assert_non_null(strstr(err.msg, bad ? "output gradient" : "input"));
        assert_int_equal(c.next, 0);
        mu_free(c.grad);
        drop(r);
    }
}

// Steps of a sequence are rows: the same bits as the sequence written as one batch of its steps.
static void steps_of_a_sequence_are_rows(void **state) {
    (void)state;
    rig *seq = make("inner_product", "outputs: 6, axis: 2", "f3,4,5"),
        *flat = make("inner_product", "outputs: 6", "f12,5");
    char text[96];
    assert_string_equal(mu_shape_text(&seq->layer.out[0].value.shape, text), "(3, 4, 6)");
    run(seq, NULL);
    run(flat, NULL);
    assert_memory_equal(seq->layer.out[0].value.f, flat->layer.out[0].value.f, 12 * 6 * sizeof(float));
    assert_memory_equal(seq->layer.src[0]->grad.f, flat->layer.src[0]->grad.f, 12 * 5 * sizeof(float));
    for (int k = 0; k < 2; k++)
        assert_memory_equal(seq->layer.param[k]->grad.dense, flat->layer.param[k]->grad.dense,
                            seq->layer.param[k]->count * sizeof(float));
    assert_int_equal(seq->layer.param[0]->max_batch, 12);
    drop(seq);
    drop(flat);
}

// ---- embedding ----

static void embedding_leaves_rows(void **state) {
    (void)state;
    rig *r = make("embedding", "vocab: 20, dim: 3", "i4,3<6"); // words repeat
    mu_param *w = r->layer.param[0];
    run(r, NULL);
    float *dense = dense_copy(r, 0), *sum = mu_alloc(w->count * sizeof *sum, "test");
    w->allow_factors = true;
    run(r, NULL);
    assert_int_equal(w->grad.form, MU_GRAD_ROWS);
    assert_int_equal(w->grad.n_rows, 12);
    for (int64_t k = 0; k < 12; k++)
        for (int64_t i = 0; i < 3; i++) sum[w->grad.row[k] * 3 + i] += w->grad.row_value[k * 3 + i];
    expect_equal("weight", sum, dense, w->count);
    mu_free(sum);
    mu_free(dense);
    drop(r);
    for (int64_t samples = 1; samples <= 4; samples += 3) { // a whole batch has more words than rows
        r = make("embedding", "vocab: 5, dim: 3", "i4,3<5");
        r->layer.param[0]->allow_factors = true;
        mu_step s = rig_step(r);
        s.rows = samples; // a message has room for one form, however few samples there are
        mu_err err = {0};
        assert_int_equal(r->layer.class->backward(&r->layer, &s, &err), MU_OK);
        assert_int_equal(r->layer.param[0]->grad.form, MU_GRAD_DENSE);
        drop(r);
    }
}

// Padding gets no gradient in either form, and begins as zeros.
static void embedding_keeps_padding_zero(void **state) {
    (void)state;
    for (int rows = 0; rows < 2; rows++) {
        rig *r = make("embedding", "vocab: 20, dim: 3, pad: true", "i4,3<3");
        mu_param *w = r->layer.param[0];
        assert_non_null(w->start);
        mu_err err = {0};
        for (size_t i = 0; i < w->count; i++) w->value[i] = 7;
        assert_int_equal(w->start(w, w->start_ctx, &err), MU_OK);
        for (size_t i = 0; i < w->count; i++) assert_float_equal(w->value[i], i < 3 ? 0 : 7, 0);
        int64_t n = 0;
        for (int k = 0; k < 12; k++) n += r->layer.src[0]->value.i[k] != 0;
        assert_true(n > 0 && n < 12);
        w->allow_factors = rows;
        run(r, NULL);
        assert_int_equal(w->grad.form, rows ? MU_GRAD_ROWS : MU_GRAD_DENSE);
        if (rows) assert_int_equal(w->grad.n_rows, n);
        for (int64_t k = 0, at = 0; rows && k < 12; k++) {
            if (!r->layer.src[0]->value.i[k]) continue;
            assert_int_equal(w->grad.row[at], r->layer.src[0]->value.i[k]);
            for (int64_t i = 0; i < 3; i++)
                assert_float_equal(w->grad.row_value[at * 3 + i], r->layer.out[0].grad.f[k * 3 + i], 0);
            at++;
        }
        for (int i = 0; i < 3 && !rows; i++) assert_float_equal(w->grad.dense[i], 0, 0);
        drop(r);
    }
}

static void embedding_names_the_bad_word(void **state) {
    (void)state;
    rig *r = make("embedding", "vocab: 5, dim: 3", "i4,3<5");
    mu_step s = rig_step(r);
    r->layer.src[0]->value.i[4] = 5;
    mu_err err = {0};
    assert_int_equal(r->layer.class->forward(&r->layer, &s, &err), MU_EDATA);
    if (!strstr(err.msg, "word 5 of sample 41 is not in 0..4")) fail_msg("%s", err.msg);
    s.rows = 1; // the bad word lies beyond the valid rows
    mu_err_clear(&err);
    assert_int_equal(r->layer.class->forward(&r->layer, &s, &err), MU_OK);
    drop(r);
}

// ---- sentence convolution ----

static void gathered_rows_multiply_out(const char *settings, const char *sources, const char *ops) {
    setenv("MUSTER_OPS", ops, 1);
    rig *r = make("sentence_convolution", settings, sources);
    mu_param *w = r->layer.param[0], *bias = r->layer.param[1];
    const size_t n_src = mu_tensor_count(&r->layer.src[0]->value);
    run(r, NULL);
    float *dense = dense_copy(r, 0), *dbias = dense_copy(r, 1), *dsrc = mu_alloc(n_src * 4, "test");
    memcpy(dsrc, r->layer.src[0]->grad.f, n_src * 4);
    w->allow_factors = bias->allow_factors = true;
    run(r, NULL);
    assert_int_equal(w->grad.form, MU_GRAD_GATHERED);
    const int64_t o = w->shape.d[0], i = w->shape.d[1], batch = w->grad.batch;
    assert_int_equal(batch, w->max_batch);
    assert_int_equal(w->grad.n_x, batch * w->max_x);
    int64_t none = 0;
    float *product = mu_alloc(w->count * sizeof *product, "test");
    for (int64_t k = 0; k < batch * o; k++) {
        const int32_t at = w->grad.src_row[k];
        none += at < 0;
        assert_true(at < w->grad.n_x);
        for (int64_t c = 0; c < i && at >= 0; c++)
            product[k % o * i + c] += w->grad.dy[k] * w->grad.x[at * i + c];
    }
    assert_true(none > 0 && none < batch * o); // relu cuts some
    expect_equal("weight", product, dense, w->count);
    assert_int_equal(bias->grad.form, MU_GRAD_DENSE);
    expect_equal("bias", bias->grad.dense, dbias, bias->count);
    expect_equal("source", r->layer.src[0]->grad.f, dsrc, n_src);
    w->n_users = 2; // shared: somebody adds to it
    run(r, NULL);
    assert_int_equal(w->grad.form, MU_GRAD_DENSE);
    mu_free(product), mu_free(dense), mu_free(dbias), mu_free(dsrc);
    drop(r);
    unsetenv("MUSTER_OPS");
}

static void sentence_convolution_leaves_gathered_rows(void **state) {
    (void)state;
    static const char *const ops[] = {"ref", "gemm,ref"};
    for (size_t k = 0; k < MU_COUNT(ops); k++) {
        gathered_rows_multiply_out("widths: [2, 3], filters: 20", "f3,6,30", ops[k]);
        gathered_rows_multiply_out("widths: [1], filters: 70", "f1,5,40", ops[k]);
        gathered_rows_multiply_out("widths: [3, 1, 4], filters: 40", "f2,9,33", ops[k]);
    }
    rig *r = make("sentence_convolution", "widths: [2, 3], filters: 20", "f8,6,30"); // no smaller than dense
    r->layer.param[0]->allow_factors = true;
    run(r, NULL);
    assert_int_equal(r->layer.param[0]->grad.form, MU_GRAD_DENSE);
    drop(r);
}

// ---- dropout ----

static void dropout_keeps_the_mean_and_forgets_batching(void **state) {
    (void)state;
    rig *r = make("dropout", "ratio: 0.25", "f8,2000");
    for (int i = 0; i < 16000; i++) r->layer.src[0]->value.f[i] = 1;
    mu_step s = rig_step(r);
    rig_forward(r, &s);
    double kept = 0;
    for (int i = 0; i < 16000; i++) kept += (double)(r->layer.out[0].value.f[i] != 0);
    if (fabs(kept / 16000 - 0.75) > 0.02) fail_msg("%g of the values are kept, want 0.75", kept / 16000);
    float *row3 = mu_alloc(2000 * sizeof *row3, "test"); // sample 43, here row 3
    memcpy(row3, r->layer.out[0].value.f + 3 * 2000, 2000 * sizeof *row3);
    s.first_sample = 43;
    rig_forward(r, &s);
    assert_memory_equal(row3, r->layer.out[0].value.f, 2000 * sizeof *row3);
    mu_free(row3);
    drop(r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(inner_product_leaves_factors),
        cmocka_unit_test(factors_are_for_small_batches),
        cmocka_unit_test(inner_product_feeds_the_sink),
        cmocka_unit_test(the_sink_gets_no_nan),
        cmocka_unit_test(steps_of_a_sequence_are_rows),
        cmocka_unit_test(embedding_leaves_rows),
        cmocka_unit_test(embedding_keeps_padding_zero),
        cmocka_unit_test(embedding_names_the_bad_word),
        cmocka_unit_test(sentence_convolution_leaves_gathered_rows),
        cmocka_unit_test(dropout_keeps_the_mean_and_forgets_batching),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
