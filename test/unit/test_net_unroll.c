// SPDX-License-Identifier: Apache-2.0
// test_net_unroll.c - unrolled nets: every kind of connection against values computed by hand, shared
// parameters, long sequences (trees of splits, steps and stacks), gradients by central differences, phases.
#include "net/net.h"

#include "base/clock.h"

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

enum { ROWS = 2, MAX_T = 1000, DIM = 3 };

typedef struct fixture {
    mu_job *job;
    mu_binder b;
    mu_net *net;
    mu_err err;
    mu_status status;
    int64_t t, dim;
} fixture;

static float seq[ROWS * MAX_T * DIM], target[ROWS], context[ROWS];
static int32_t words[ROWS * MAX_T];
static bool keep_all;

static void build(fixture *f, int64_t t, int64_t dim, const char *layers, mu_net_opts o) {
    static char text[8192];
    snprintf(text, sizeof text, "%s%s", HEAD, layers);
    memset(f, 0, sizeof *f);
    f->t = t;
    f->dim = dim;
    assert_int_equal(mu_job_parse("t.yaml", text, strlen(text), NULL, 0, &f->job, &f->err), MU_OK);
    f->b = (mu_binder){&f->job->arena, &f->job->diags, ".", registries, 0};
    const mu_data_field fields[4] = {
        {.name = "seq", .shape = MU_SHAPE(t, dim), .store = MU_STORE_F32},
        {.name = "words", .shape = MU_SHAPE(t), .store = MU_STORE_I32, .n_classes = 5},
        {.name = "target", .shape = MU_SHAPE(1), .store = MU_STORE_F32},
        {.name = "context", .shape = MU_SHAPE(1), .store = MU_STORE_F32},
    };
    o.net = f->job->net;
    o.fields = fields;
    o.n_fields = o.phase == MU_PREDICT ? 1 : 4;
    o.batch = ROWS;
    if (!o.phase) o.phase = MU_TRAIN;
    o.seed = 7;
    f->status = mu_net_create(&f->b, &o, &f->net, &f->err);
    if (f->status != MU_OK && f->status != MU_EJOB) fail_msg("%s", f->err.msg);
}

static void must_build(fixture *f, int64_t t, int64_t dim, const char *layers) {
    build(f, t, dim, layers, (mu_net_opts){.keep_all = keep_all});
    if (f->status != MU_OK) mu_diags_print(&f->job->diags, stderr, false);
    assert_int_equal(f->status, MU_OK);
}

static void done(fixture *f) {
    mu_net_destroy(f->net);
    mu_job_destroy(f->job);
}

// One pass; returns the objective.
static double step(fixture *f) {
    mu_tensor in[4] = {{.f = seq}, {.i = words}, {.f = target}, {.f = context}};
    mu_net_set_input(f->net, in, f->net->layer[0]->n_out);
    mu_step s = {.phase = f->net->phase, .rows = ROWS, .global_rows = ROWS};
    mu_err err;
    mu_err_clear(&err);
    if (mu_net_forward(f->net, &s, &err) != MU_OK) fail_msg("%s", err.msg);
    if (f->net->backward && mu_net_backward(f->net, &s, &err) != MU_OK) fail_msg("%s", err.msg);
    double loss = 0;
    for (int i = 1; i < f->net->n_layers; i++)
        for (int k = 0; k < f->net->layer[i]->n_metric; k++) {
            const mu_metric *m = &f->net->layer[i]->metric[k];
            if (m->is_loss && m->weight > 0) loss += m->sum / m->weight;
        }
    return loss;
}

static const mu_layer *layer(const fixture *f, const char *name) {
    const mu_layer *l = mu_net_find(f->net, name);
    if (!l) fail_msg("no layer `%s`", name);
    return l;
}

static mu_param *param(const fixture *f, const char *name) {
    mu_param *p = mu_params_find(f->net->params, name);
    if (!p) fail_msg("no parameter `%s`", name);
    return p;
}

static void close_to(const char *what, double got, double want) {
    if (!(fabs(got - want) <= 1e-5 * (1 + fabs(want)))) fail_msg("%s is %.9g, want %.9g", what, got, want);
}

static int numbers(void **state) { // the same small numbers for every test
    (void)state;
    for (int i = 0; i < ROWS * MAX_T * DIM; i++) seq[i] = sinf((float)i * 1.3f + 0.4f);
    for (int i = 0; i < ROWS * MAX_T; i++) words[i] = (i * 7 + 3) % 5;
    for (int b = 0; b < ROWS; b++) target[b] = 0.25f * (float)(b + 1), context[b] = 0.5f - (float)b;
    return 0;
}

// ---- connections ----

#define CONST(v) "{init: {type: constant, value: " #v "}}"
// h(t) = w x(t) + u h(t-1), from parts; `uh` takes a layer below it in the file.
#define LINEAR(T)                                                                                            \
    "- {name: wx, type: inner_product, src: data.seq, outputs: 1, bias_term: false, unroll: " #T             \
    ", weight: " CONST(2) "}\n"                                                                              \
                          "- {name: uh, type: inner_product, src: {layer: h, shift: 1}, outputs: 1, "        \
                          "bias_term: false, unroll: " #T                                                    \
                          ", weight: " CONST(0.5) "}\n"                                                      \
                                                  "- {name: h, type: add, src: [wx, uh], unroll: " #T "}\n"

static void one_to_one_with_shift(void **state) {
    (void)state;
    fixture f;
    must_build(&f, 3, 1, LINEAR(3) "- {name: loss, type: euclidean_loss, src: [h, data.target]}\n");
    assert_null(mu_net_find(f.net, "uh#0")); // it has no source: there is no step before
    assert_ptr_equal(mu_net_find(f.net, "h"), mu_net_find(f.net, "h#2")); // the name alone: the last step
    assert_int_equal(layer(&f, "h#0")->n_src, 1);
    assert_int_equal(layer(&f, "h#2")->n_src, 2);
    assert_string_equal(layer(&f, "h#2")->origin, "h");
    assert_int_equal(f.net->params->n, 2);
    assert_int_equal(param(&f, "wx.weight")->n_users, 3);
    assert_int_equal(param(&f, "uh.weight")->n_users, 2);
    step(&f);
    double w = 2, u = 0.5, dw = 0, du = 0;
    for (int b = 0; b < ROWS; b++) {
        const double x0 = (double)seq[b * 3], x1 = (double)seq[b * 3 + 1], x2 = (double)seq[b * 3 + 2];
        const double h = w * x2 + u * w * x1 + u * u * w * x0, g = (h - (double)target[b]) / ROWS;
        close_to("h", (double)layer(&f, "loss")->src[0]->value.f[b], h);
        dw += g * (x2 + u * x1 + u * u * x0);
        du += g * (w * x1 + 2 * u * w * x0);
    }
    close_to("dw", (double)param(&f, "wx.weight")->grad.dense[0], dw);
    close_to("du", (double)param(&f, "uh.weight")->grad.dense[0], du);
    done(&f);
}

// y(t) = x(t) + x(t-2): a shift of a plain sequence, and of copies in an earlier group.
static void larger_shifts(void **state) {
    (void)state;
    fixture f;
    keep_all = true; // values in the middle of the net are looked at
    must_build(&f, 4, 1,
               "- {name: x, type: inner_product, src: data.seq, outputs: 1, unroll: 4, weight: " CONST(
                   1) "}\n"
                      "- {name: y, type: add, src: [x, {layer: x, shift: 2}], unroll: 4}\n"
                      "- {name: z, type: add, src: [y, {layer: data.seq, shift: 3}], unroll: 4}\n"
                      "- {name: all, type: flatten, src: {layer: z, connect: one_to_all}}\n"
                      "- {name: sum, type: inner_product, src: all, outputs: 1}\n"
                      "- {name: loss, type: euclidean_loss, src: [sum, data.target]}\n");
    step(&f);
    for (int b = 0; b < ROWS; b++)
        for (int t = 0; t < 4; t++) {
            const float *x = seq + 4 * b;
            double want = (double)x[t] + (t >= 2 ? (double)x[t - 2] : 0) + (t >= 3 ? (double)x[t - 3] : 0);
            close_to("z", (double)layer(&f, "stack(z)")->out[0].value.f[b * 4 + t], want);
        }
    keep_all = false;
    done(&f);
}

// Factors belong to the sources as they are listed, whichever of them a copy has.
static void coefficients_stay_with_their_sources(void **state) {
    (void)state;
    fixture f;
    keep_all = true;
    must_build(&f, 4, 1,
               "- {name: y, type: add, src: [{layer: data.seq, shift: 1}, data.seq, {layer: data.seq, "
               "shift: 2}], coefficients: [5, 2, -3], unroll: 4}\n"
               "- {name: loss, type: euclidean_loss, src: [y, {layer: data.target, connect: one_to_all}],"
               " unroll: 4}\n");
    step(&f);
    for (int t = 0; t < 4; t++)
        for (int b = 0; b < ROWS; b++) {
            const float *x = seq + 4 * b;
            char name[8];
            snprintf(name, sizeof name, "y#%d", t);
            double want = 2 * (double)x[t] + (t >= 1 ? 5 * (double)x[t - 1] : 0)
                          - (t >= 2 ? 3 * (double)x[t - 2] : 0);
            close_to(name, (double)layer(&f, name)->out[0].value.f[b], want);
        }
    keep_all = false;
    done(&f);
}

static void one_to_all_of_a_plain_layer(void **state) {
    (void)state;
    fixture f;
    must_build(
        &f, 3, 1,
        "- {name: c, type: inner_product, src: data.context, outputs: 1, bias_term: false, weight: " CONST(
            3) "}\n"
               "- {name: y, type: add, src: [data.seq, {layer: c, connect: one_to_all}], unroll: 3}\n"
               "- {name: loss, type: euclidean_loss, src: [y, {layer: data.target, connect: one_to_all}],"
               " unroll: 3}\n");
    close_to("weight", (double)layer(&f, "loss#1")->n_src, 2);
    double loss = step(&f), want = 0, dw = 0;
    for (int b = 0; b < ROWS; b++)
        for (int t = 0; t < 3; t++) {
            double d = (double)seq[b * 3 + t] + 3 * (double)context[b] - (double)target[b];
            want += d * d / (2 * ROWS) / 3; // the mean over time
            dw += d * (double)context[b] / ROWS / 3;
        }
    close_to("loss", loss, want);
    close_to("dw", (double)param(&f, "c.weight")->grad.dense[0], dw);
    done(&f);
}

// An encoder's last state begins the decoder.
static void first_to_last(void **state) {
    (void)state;
    fixture f;
    must_build(&f, 3, 1,
               LINEAR(3) "- {name: ud, type: inner_product, src: [{layer: h, connect: first_to_last}, "
                         "{layer: d, shift: 1}],"
                         " outputs: 1, bias_term: false, unroll: 2, weight: " CONST(
                             3) "}\n"
                                "- {name: d, type: add, src: [ud, {layer: data.context, connect: "
                                "one_to_all}], unroll: 2}\n"
                                "- {name: loss, type: euclidean_loss, src: [d, data.target]}\n");
    step(&f);
    for (int b = 0; b < ROWS; b++) {
        const float *x = seq + 3 * b;
        double h = 2 * (double)x[2] + (double)x[1] + 0.5 * (double)x[0], c = (double)context[b];
        close_to("d", (double)layer(&f, "loss")->src[0]->value.f[b], 3 * (3 * h + c) + c);
    }
    assert_int_equal(param(&f, "ud.weight")->n_users, 2);
    done(&f);
}

// Two layers that feed each other across time steps.
static void a_cycle_through_two_layers(void **state) {
    (void)state;
    fixture f;
    must_build(
        &f, 3, 1,
        "- {name: a, type: add, src: [data.seq, {layer: b, shift: 1}], unroll: 3}\n"
        "- {name: b, type: inner_product, src: a, outputs: 1, bias_term: false, unroll: 3, weight: " CONST(
            0.5) "}\n"
                 "- {name: loss, type: euclidean_loss, src: [b, data.target]}\n");
    step(&f);
    for (int b = 0; b < ROWS; b++) {
        const float *x = seq + 3 * b;
        close_to("b", (double)layer(&f, "loss")->src[0]->value.f[b],
                 0.5 * ((double)x[2] + 0.5 * ((double)x[1] + 0.5 * (double)x[0])));
    }
    done(&f);
}

// The same beside a layer that waits for all steps: what it takes says nothing about the two.
static void a_cycle_beside_one_that_waits(void **state) {
    (void)state;
    fixture f;
    must_build(&f, 3, 1,
               "- {name: a, type: add, src: [data.seq, {layer: b, shift: 1}], unroll: 3}\n"
               "- {name: b, type: tanh, src: a, unroll: 3}\n"
               "- {name: all, type: inner_product, src: {layer: a, connect: one_to_all}, outputs: 1,"
               " unroll: 2}\n"
               "- {name: loss, type: euclidean_loss, src: [b, data.target]}\n"
               "- {name: loss2, type: euclidean_loss, src: [all, data.target]}\n");
    step(&f);
    for (int b = 0; b < ROWS; b++) {
        const float *x = seq + 3 * b;
        double y = 0;
        for (int t = 0; t < 3; t++) y = tanh((double)x[t] + y);
        close_to("b", (double)layer(&f, "loss")->src[0]->value.f[b], y);
    }
    done(&f);
}

// ---- long sequences ----

// L = half the mean square of the sum over time of w x(t) + c, c from a blob that T copies take.
static void trees_add_up(void **state) {
    (void)state;
    static const int64_t lengths[] = {1, 15, 16, 17, 33, 200, 257, 272, 513, 1000};
    for (size_t k = 0; k < MU_COUNT(lengths); k++) {
        const int64_t t = lengths[k];
        char text[2000];
        snprintf(
            text, sizeof text,
            "- {name: s, type: inner_product, src: data.seq, outputs: %d, bias_term: false, init: uniform}\n"
            "- {name: r, type: reshape, src: s, shape: [0, %d, 1]}\n"
            "- {name: c, type: inner_product, src: data.context, outputs: 1, bias_term: false, "
            "weight: " CONST(
                2) "}\n"
                   "- {name: y, type: add, src: [r, {layer: c, connect: one_to_all}], unroll: %d}\n"
                   "- {name: all, type: flatten, src: {layer: y, connect: one_to_all}}\n"
                   "- {name: sum, type: inner_product, src: all, outputs: 1, bias_term: false, "
                   "weight: " CONST(1) "}\n"
                                       "- {name: loss, type: euclidean_loss, src: [sum, data.target]}\n",
            (int)t, (int)t, (int)t);
        fixture f;
        must_build(&f, t, 1, text);
        step(&f);
        const float *w = param(&f, "s.weight")->value;
        double dc = 0, dw0 = 0;
        for (int b = 0; b < ROWS; b++) {
            double sum = 2 * (double)context[b] * (double)t;
            for (int64_t i = 0; i < t; i++)
                for (int64_t j = 0; j < t; j++) sum += (double)w[i * t + j] * (double)seq[b * t + j];
            const double g = (sum - (double)target[b]) / ROWS;
            if (!(fabs((double)layer(&f, "sum")->out[0].value.f[b] - sum) < 1e-3 * (1 + fabs(sum))))
                fail_msg("t %d: sum is %g, want %g", (int)t, (double)layer(&f, "sum")->out[0].value.f[b],
                         sum);
            dc += g * (double)t * (double)context[b];
            dw0 += g * (double)seq[b * t];
        }
        if (!(fabs((double)param(&f, "c.weight")->grad.dense[0] - dc) < 1e-3 * (1 + fabs(dc))))
            fail_msg("t %d: dc is %g, want %g", (int)t, (double)param(&f, "c.weight")->grad.dense[0], dc);
        const float *dw = param(&f, "s.weight")->grad.dense;
        for (int64_t i = 0; i < t; i++) // of the weight from input 0 to every step
            if (!(fabs((double)dw[i * t] - dw0) < 1e-3 * (1 + fabs(dw0))))
                fail_msg("t %d: dw[%d] is %g, want %g", (int)t, (int)i, (double)dw[i * t], dw0);
        done(&f);
    }
}

#define TANH_NET(T)                                                                                          \
    "- {name: e, type: embedding, src: data.words, vocab: 5, dim: 3, unroll: " #T "}\n"                      \
    "- {name: wx, type: inner_product, src: e, outputs: 4, unroll: " #T "}\n"                                \
    "- {name: uh, type: inner_product, src: {layer: h, shift: 1}, outputs: 4, bias_term: false, unroll: " #T \
    ", init: {type: uniform, low: -0.4, high: 0.4}}\n"                                                       \
    "- {name: a, type: add, src: [wx, uh], unroll: " #T "}\n"                                                \
    "- {name: h, type: tanh, src: a, unroll: " #T "}\n"                                                      \
    "- {name: y, type: inner_product, src: h, outputs: 5, unroll: " #T "}\n"                                 \
    "- {name: loss, type: softmax_loss, src: [y, data.words], unroll: " #T "}\n"

static double slope(fixture *f, float *x, float eps) {
    const float old = *x, above = old + eps, below = old - eps;
    *x = above;
    const double up = step(f);
    *x = below;
    const double down = step(f);
    *x = old;
    return (up - down) / ((double)above - (double)below);
}

static void gradients_by_differences(void **state) {
    (void)state;
    fixture f;
    must_build(&f, 18, 1, TANH_NET(18)); // more than 16 steps: trees
    for (int p = 0; p < f.net->params->n; p++) {
        step(&f);
        mu_param *q = f.net->params->list[p];
        float *grad = malloc(q->count * sizeof *grad);
        assert_non_null(grad);
        assert_int_equal(q->grad.form, MU_GRAD_DENSE);
        memcpy(grad, q->grad.dense, q->count * sizeof *grad);
        for (size_t i = 0; i < q->count; i++) {
            const double wide = slope(&f, &q->value[i], 8e-3f), narrow = slope(&f, &q->value[i], 4e-3f);
            const double want = (4 * narrow - wide) / 3, got = (double)grad[i];
            if (!(fabs(want - got) <= 5e-3 * fabs(want) + 1e-4))
                fail_msg("%s[%zu]: gradient %.6g, central difference %.6g", q->name, i, got, want);
        }
        free(grad);
    }
    done(&f);
}

static void reuse_changes_no_bit(void **state) {
    (void)state;
    fixture planned, apart;
    must_build(&planned, 20, 1, TANH_NET(20));
    build(&apart, 20, 1, TANH_NET(20), (mu_net_opts){.keep_all = true});
    assert_int_equal(apart.status, MU_OK);
    for (int round = 0; round < 2; round++) {
        const double a = step(&planned), b = step(&apart);
        if (a != b) fail_msg("loss %.17g and %.17g", a, b);
        for (int i = 0; i < planned.net->params->n; i++) {
            const mu_param *p = planned.net->params->list[i], *q = apart.net->params->list[i];
            if (memcmp(p->grad.dense, q->grad.dense, p->count * 4))
                fail_msg("gradient of %s differs", p->name);
        }
    }
    done(&planned);
    done(&apart);
}

// Seven layers in 200 copies: building must not be quadratic in any slow way.
static void long_nets_build_fast(void **state) {
    (void)state;
    fixture f;
    double start = mu_clock_s();
    must_build(&f, 200, 1, TANH_NET(200));
    double s = mu_clock_s() - start;
    print_message("%d layers built in %.3f s, %.2f MB of activations\n", f.net->n_layers, s,
                  (double)f.net->activation_bytes * 1e-6);
    assert_true(f.net->n_layers > 1400);
    assert_true(s < 10); // 0.1 s on an idle core; sanitizers and a busy machine are slower
    step(&f);
    done(&f);
}

// The copies of a loss share its weight, the given one or that of its table.
static void copies_share_the_weight_of_a_loss(void **state) {
    (void)state;
    static const char *const given[] = {"", ", loss_weight: 1", ", loss_weight: 6"};
    static const double times[] = {1, 1, 6};
    double first = 0;
    for (size_t k = 0; k < MU_COUNT(given); k++) {
        char layers[300];
        fixture f;
        snprintf(layers, sizeof layers,
                 "- {name: x, type: inner_product, src: data.seq, outputs: 5, unroll: 3}\n"
                 "- {name: loss, type: softmax_loss, src: [x, data.words], unroll: 3%s}\n",
                 given[k]);
        must_build(&f, 3, 1, layers);
        const double loss = step(&f);
        if (k == 0) first = loss;
        assert_true(loss > 0.1);
        close_to("loss", loss, times[k] * first);
        done(&f);
    }
}

// ---- phases and problems ----

static void prediction_needs_no_label(void **state) {
    (void)state;
    fixture f;
    build(&f, 3, 1,
          "- {name: x, type: inner_product, src: data.seq, outputs: 5, unroll: 3}\n"
          "- {name: loss, type: softmax_loss, src: [x, data.words], unroll: 3}\n"
          "- {name: hits, type: accuracy, src: [x, {layer: data.words}], unroll: 3}\n"
          "- {name: p, type: softmax, src: x, unroll: 3, include: predict}\n",
          (mu_net_opts){.phase = MU_PREDICT});
    if (f.status != MU_OK) mu_diags_print(&f.job->diags, stderr, false);
    assert_int_equal(f.status, MU_OK);
    assert_null(mu_net_find(f.net, "loss#0"));
    assert_null(mu_net_find(f.net, "hits#0"));
    assert_null(mu_net_find(f.net, "steps(data.words)"));
    assert_non_null(mu_net_find(f.net, "p#2"));
    step(&f);
    done(&f);
}

// Every problem is said once, not once for each copy, at the user's place and without numbered names.
static void problems_are_said_once(void **state) {
    (void)state;
    static const struct {
        const char *layers, *message;
    } bad[] = {
        {"- {name: a, type: tanh, src: [data.seq, {layer: a, shift: 1}], unroll: 3}\n",
         "takes 1 source, not 2"},
        {"- {name: a, type: add, src: [data.seq, a], unroll: 3}\n", "takes itself at the same time step"},
        {"- {name: a, type: inner_product, src: data.seq, unroll: 3}\n", "outputs"},
        {"- {name: a, type: inner_product, src: data.context, outputs: 2, unroll: 3}\n",
         "not a sequence"},
        {"- {name: a, type: inner_product, src: data.seq, outputs: 2, unroll: 4}\n",
         "has 3 time steps, not the 4"},
        {"- {name: a, type: tanh, src: data.sqe, unroll: 3}\n", "unknown source `data.sqe`"},
        {"- {name: a, type: tanh, src: data.seq, unroll: 3}\n- {name: a, type: tanh}\n",
         "two layers are called"},
        {"- {name: a, type: tanh, src: data.seq, unroll: 3}\n"
         "- {name: a, type: tanh, src: data.seq, unroll: 3}\n",
         "two layers are called `a`"},
        {"- {name: a, type: tanh, src: {layer: a, shift: 1}, unroll: 3}\n", "has no source at all"},
        {"- {name: x, type: tanh, src: data.seq, unroll: 3}\n"
         "- {name: a, type: concat, src: [{layer: x, shift: 1}, x], unroll: 3}\n",
         "copy 0 of layer `a` has no `x`"},
    };
    for (size_t i = 0; i < MU_COUNT(bad); i++) {
        fixture f;
        char text[1000];
        snprintf(text, sizeof text, "%s- {name: loss, type: euclidean_loss, src: [a, data.target]}\n",
                 bad[i].layers);
        build(&f, 3, 1, text, (mu_net_opts){0});
        assert_int_equal(f.status, MU_EJOB);
        const mu_diags *d = &f.job->diags;
        if (d->n_errors != 1 || !strstr(d->list[0].msg, bad[i].message) || strchr(d->list[0].msg, '#')) {
            mu_diags_print(d, stderr, false);
            fail_msg("%zu problems, want one with `%s`", d->n_errors, bad[i].message);
        }
        assert_int_not_equal(d->list[0].pos.line, 0);
        done(&f);
    }
}

// A decoder's step 0 must not take the encoder's state as its input, though the shapes would allow it.
static void a_state_is_no_input(void **state) {
    (void)state;
    fixture f;
    build(&f, 3, 1,
          "- {name: x, type: tanh, src: data.seq, unroll: 3}\n"
          "- {name: e, type: gru_cell, hidden: 1, src: [x, {layer: e, shift: 1}], unroll: 3}\n"
          "- {name: d, type: gru_cell, hidden: 1, unroll: 3,\n"
          "   src: [{layer: x, shift: 1}, {layer: e, connect: first_to_last}, {layer: d, shift: 1}]}\n"
          "- {name: loss, type: euclidean_loss, src: [d, data.target]}\n",
          (mu_net_opts){0});
    assert_int_equal(f.status, MU_EJOB);
    assert_int_equal(f.job->diags.n_errors, 1);
    assert_non_null(strstr(f.job->diags.list[0].msg, "time step 0 of gru_cell has no input"));
    assert_int_equal(f.job->diags.list[0].pos.line, 8);
    done(&f);
}

static void memory_may_run_out(void **state) {
    (void)state;
    const uint64_t live = mu_alloc_get_stats().n_live;
    mu_status st = MU_ENOMEM;
    int n = 1;
    for (; st != MU_OK; n += 1 + n / 40) {
        static char text[4000];
        snprintf(text, sizeof text, "%s%s", HEAD, TANH_NET(20));
        mu_err err = {0};
        mu_job *job = NULL;
        assert_int_equal(mu_job_parse("t.yaml", text, strlen(text), NULL, 0, &job, &err), MU_OK);
        mu_binder b = {&job->arena, &job->diags, ".", registries, 0};
        const mu_data_field fields[2] = {
            {.name = "seq", .shape = MU_SHAPE(20, 1), .store = MU_STORE_F32},
            {.name = "words", .shape = MU_SHAPE(20), .store = MU_STORE_I32, .n_classes = 5}};
        mu_net_opts o = {
            .net = job->net, .fields = fields, .n_fields = 2, .batch = 2, .phase = MU_TRAIN, .seed = 1};
        mu_net *net = NULL;
        mu_alloc_fail_at(n);
        st = mu_net_create(&b, &o, &net, &err);
        mu_alloc_fail_at(0);
        if (st != MU_OK && st != MU_ENOMEM && !job->diags.no_memory)
            fail_msg("allocation %d: %s", n, err.msg);
        mu_net_destroy(net);
        mu_job_destroy(job);
        assert_int_equal(mu_alloc_get_stats().n_live, live);
        assert_true(n < 100000);
    }
    print_message("%d allocations\n", n);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_to_one_with_shift),       cmocka_unit_test(larger_shifts),
        cmocka_unit_test(a_state_is_no_input),
        cmocka_unit_test(coefficients_stay_with_their_sources),
        cmocka_unit_test(one_to_all_of_a_plain_layer), cmocka_unit_test(first_to_last),
        cmocka_unit_test(a_cycle_through_two_layers),  cmocka_unit_test(trees_add_up),
        cmocka_unit_test(a_cycle_beside_one_that_waits),
        cmocka_unit_test(gradients_by_differences),    cmocka_unit_test(reuse_changes_no_bit),
        cmocka_unit_test(copies_share_the_weight_of_a_loss),
        cmocka_unit_test(long_nets_build_fast),        cmocka_unit_test(prediction_needs_no_label),
        cmocka_unit_test(problems_are_said_once),      cmocka_unit_test(memory_may_run_out),
    };
    return cmocka_run_group_tests(tests, numbers, NULL);
}
