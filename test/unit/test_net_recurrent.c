// SPDX-License-Identifier: Apache-2.0
// test_net_recurrent.c - a fused recurrent layer and the same cells unrolled by the net are one model: the
// same parameters by name, the same loss, gradients and remembered states, batch after batch.
#include "net/net.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const mu_registry *const registries[] = {&mu_inits, NULL};
#define HEAD                                                                                                 \
    "name: t\ndata: {train: {reader: synthetic}}\ntrain: {epochs: 1}\nupdater: {type: sgd, rate: 0.1}\n"     \
    "net:\n"

enum { MAX_ROWS = 5, MAX_T = 24, DIM = 3, WORDS = 7, BATCHES = 3 };

typedef struct variant {
    const char *cell;    // "gru"
    const char *input;   // field of the data: "seq" or "words"
    const char *options; // more keys of the recurrent layer
    bool carry, stacked;
    int rows, t;
} variant;

typedef struct model {
    mu_job *job;
    mu_binder b;
    mu_net *net;
} model;

static float seq[MAX_ROWS * MAX_T * DIM];
static int32_t words[MAX_ROWS * MAX_T], next[MAX_ROWS * MAX_T], begin[MAX_ROWS];

static void open_model(model *m, const variant *v, const char *layers) {
    static char text[4096];
    mu_err err = {0};
    snprintf(text, sizeof text, "%s%s", HEAD, layers);
    assert_int_equal(mu_job_parse("t.yaml", text, strlen(text), NULL, 0, &m->job, &err), MU_OK);
    m->b = (mu_binder){&m->job->arena, &m->job->diags, ".", registries, 0};
    const mu_data_field fields[] = {
        {.name = "seq", .shape = MU_SHAPE(v->t, DIM), .store = MU_STORE_F32, .streams = v->rows},
        {.name = "words",
         .shape = MU_SHAPE(v->t),
         .store = MU_STORE_I32,
         .n_classes = WORDS,
         .streams = v->rows},
        {.name = "next",
         .shape = MU_SHAPE(v->t),
         .store = MU_STORE_I32,
         .n_classes = WORDS,
         .streams = v->rows},
        {.name = "begin", .store = MU_STORE_I32, .n_classes = 2, .streams = v->rows},
    };
    mu_net_opts o = {.net = m->job->net,
                     .fields = fields,
                     .n_fields = MU_COUNT(fields),
                     .phase = MU_TRAIN,
                     .batch = v->rows,
                     .seed = 11};
    if (mu_net_create(&m->b, &o, &m->net, &err) != MU_OK) {
        mu_diags_print(&m->job->diags, stderr, false);
        fail_msg("%s: %s", v->cell, err.msg);
    }
}

static void close_model(model *m) {
    mu_net_destroy(m->net);
    mu_job_destroy(m->job);
}

// One recurrent layer as text, fused and unrolled.
static int write_layer(char *out, size_t size, const variant *v, bool fused, const char *name,
                       const char *src) {
    const char *second = strcmp(v->cell, "lstm") ? "" : ".1"; // the output that is the state
    if (fused)
        return snprintf(out, size, "- {name: %s, type: %s, src: [%s%s], hidden: 6%s}\n", name, v->cell, src,
                        v->carry ? ", data.begin" : "", v->options);
    return snprintf(out, size,
                    "- {name: %s, type: %s_cell, unroll: %d, src: [%s, {layer: %s%s, shift: 1}%s], "
                    "hidden: 6%s}\n",
                    name, v->cell, v->t, src, name, second,
                    v->carry ? ", {layer: data.begin, connect: one_to_all}" : "", v->options);
}

static void open_variant(model *m, const variant *v, bool fused) {
    char text[2048], unroll[32] = ", axis: 2", src[32];
    int n;
    snprintf(src, sizeof src, "data.%s", v->input);
    n = write_layer(text, sizeof text, v, fused, "r", src);
    if (v->stacked) n += write_layer(text + n, sizeof text - (size_t)n, v, fused, "r2", "r");
    if (!fused) snprintf(unroll, sizeof unroll, ", unroll: %d", v->t);
    n += snprintf(text + n, sizeof text - (size_t)n, "- {name: ip, type: inner_product, outputs: %d%s}\n",
                  WORDS, unroll);
    snprintf(text + n, sizeof text - (size_t)n,
             "- {name: loss, type: softmax_loss, src: [ip, data.next]%s}\n", fused ? "" : unroll);
    open_model(m, v, text);
}

static void fill(const variant *v, int q) {
    for (int i = 0; i < v->rows * v->t * DIM; i++)
        seq[i] = 1.5f * sinf((float)(i * (q + 2)) * 0.9f + (float)q);
    for (int i = 0; i < v->rows * v->t; i++)
        words[i] = (i * 5 + q * 3 + i / 4) % WORDS, next[i] = (i * 3 + q) % WORDS;
    for (int b = 0; b < v->rows; b++) begin[b] = q == 0 || (q == 2 && b == 0); // one sequence ends
}

static double step(model *m, const variant *v, int q) {
    mu_tensor in[] = {{.f = seq}, {.i = words}, {.i = next}, {.i = begin}};
    mu_net_set_input(m->net, in, MU_COUNT(in));
    mu_step s = {.phase = MU_TRAIN,
                 .first_sample = (int64_t)q * v->rows,
                 .rows = v->rows,
                 .global_rows = v->rows + 1}; // another learner has one
    mu_err err;
    mu_err_clear(&err);
    if (mu_net_forward(m->net, &s, &err) != MU_OK) fail_msg("%s", err.msg);
    if (mu_net_backward(m->net, &s, &err) != MU_OK) fail_msg("%s", err.msg);
    double loss = 0;
    for (int i = 1; i < m->net->n_layers; i++)
        for (int k = 0; k < m->net->layer[i]->n_metric; k++)
            if (m->net->layer[i]->metric[k].is_loss)
                loss += m->net->layer[i]->metric[k].sum / m->net->layer[i]->metric[k].weight;
    return loss;
}

static void near_all(const variant *v, const char *what, const char *name, const float *a, const float *b,
                     size_t n) {
    float largest = 0;
    for (size_t i = 0; i < n; i++) largest = fmaxf(largest, fabsf(a[i]));
    for (size_t i = 0; i < n; i++)
        if (!(fabsf(a[i] - b[i]) <= 1e-7f + 2e-5f * largest))
            fail_msg("%s of %s, %d x %d, input %s%s%s%s: %s[%zu] is %.8g fused and %.8g unrolled", what,
                     v->cell, v->rows, v->t, v->input, v->carry ? ", carried" : "",
                     v->stacked ? ", stacked" : "", v->options, name, i, (double)a[i], (double)b[i]);
}

static void compare(const variant *v) {
    model fused, unrolled;
    open_variant(&fused, v, true);
    open_variant(&unrolled, v, false);
    assert_int_equal(fused.net->params->n, unrolled.net->params->n);
    for (int q = 0; q < BATCHES; q++) {
        fill(v, q);
        const double a = step(&fused, v, q), b = step(&unrolled, v, q);
        if (!(fabs(a - b) <= 2e-6 * (1 + fabs(a))))
            fail_msg("%s, %d x %d, batch %d: loss %.9g fused, %.9g unrolled", v->cell, v->rows, v->t, q, a,
                     b);
        for (int i = 0; i < fused.net->params->n; i++) {
            const mu_param *p = fused.net->params->list[i],
                           *o = mu_params_find(unrolled.net->params, p->name);
            if (!o) fail_msg("the unrolled net has no `%s`", p->name);
            assert_int_equal(p->count, o->count);
            assert_int_equal(p->is_state, o->is_state);
            near_all(v, "value", p->name, p->value, o->value, p->count); // initial values, and states
            if (p->is_stat) continue;
            assert_int_equal(p->grad.form, MU_GRAD_DENSE);
            assert_int_equal(o->grad.form, MU_GRAD_DENSE);
            near_all(v, "gradient", p->name, p->grad.dense, o->grad.dense, p->count);
        }
    }
    close_model(&fused);
    close_model(&unrolled);
}

static const char *const cells[] = {"rnn", "gru", "lstm"};

static void compare_all(const char *ops) {
    static const int sizes[][2] = {{1, 1}, {3, 2}, {2, 5}, {5, 24}};
    setenv("MUSTER_OPS", ops, 1);
    for (size_t c = 0; c < MU_COUNT(cells); c++)
        for (size_t k = 0; k < MU_COUNT(sizes); k++)
            for (int bits = 0; bits < 8; bits++)
                compare(&(variant){.cell = cells[c],
                                   .input = bits & 1 ? "words" : "seq",
                                   .options = "",
                                   .carry = bits & 2,
                                   .stacked = bits & 4,
                                   .rows = sizes[k][0],
                                   .t = sizes[k][1]});
    unsetenv("MUSTER_OPS");
}

static void fused_and_unrolled_agree(void **state) {
    (void)state;
    compare_all("");
}

static void also_with_the_plain_ops(void **state) {
    (void)state;
    compare_all("ref");
}

static void options_mean_the_same(void **state) {
    (void)state;
    compare(&(variant){.cell = "gru", .input = "seq", .options = ", bias_term: false", .rows = 3, .t = 4});
    compare(&(variant){.cell = "lstm", .input = "words", .options = ", forget_bias: 1", .rows = 3, .t = 4});
    compare(&(variant){.cell = "lstm",
                       .input = "words",
                       .options = ", vocab: 9, init: {type: uniform, low: -0.08, "
                                  "high: 0.08}",
                       .rows = 3,
                       .t = 4});
    compare(&(variant){.cell = "rnn",
                       .input = "seq",
                       .options = ", weight_hh: {name: own, init: gaussian}",
                       .rows = 3,
                       .t = 4});
}

// A state that is carried must matter, or the comparisons above would say nothing about it.
static void carried_states_matter(void **state) {
    (void)state;
    for (size_t c = 0; c < MU_COUNT(cells); c++)
        for (int fused = 0; fused < 2; fused++) {
            const variant v = {
                .cell = cells[c], .input = "seq", .options = "", .carry = true, .rows = 3, .t = 4};
            model a, b;
            open_variant(&a, &v, fused);
            open_variant(&b, &v, fused);
            fill(&v, 0);
            step(&a, &v, 0);
            step(&b, &v, 0);
            fill(&v, 1);
            const double goes_on = step(&a, &v, 1);
            for (int k = 0; k < v.rows; k++) begin[k] = 1;
            const double anew = step(&b, &v, 1);
            if (fabs(goes_on - anew) < 1e-4) fail_msg("%s: loss %g both ways", v.cell, goes_on);
            close_model(&a);
            close_model(&b);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fused_and_unrolled_agree),
        cmocka_unit_test(also_with_the_plain_ops),
        cmocka_unit_test(options_mean_the_same),
        cmocka_unit_test(carried_states_matter),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
