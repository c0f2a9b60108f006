// SPDX-License-Identifier: Apache-2.0
// test_net_tied.c - an auto-encoder whose decoder has its encoder's weight, transposed, against one with a
// transposed copy of its own: the same outputs, and gradients that are the sum of both.
#include "net/net.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define ROWS 5
#define SIDE 6
#define PIXELS (SIDE * SIDE)
#define HIDDEN 7

static const mu_registry *const registries[] = {&mu_inits, NULL};
#define HEAD                                                                                                 \
    "name: t\ndata: {train: {reader: synthetic}}\ntrain: {epochs: 1}\nupdater: {type: sgd, rate: 0.1}\n"     \
    "net:\n- {name: enc, type: inner_product, src: data.image, outputs: 7, bias: {init: gaussian}}\n"        \
    "- {name: act, type: sigmoid}\n"
#define TAIL "- {name: loss, type: euclidean_loss, src: [dec, data.image]}\n"

typedef struct fixture {
    mu_job *job;
    mu_net *net;
} fixture;

static void build(fixture *f, const char *decoder) {
    char text[2048];
    mu_err err;
    mu_err_clear(&err);
    snprintf(text, sizeof text, "%s%s%s", HEAD, decoder, TAIL);
    mu_status st = mu_job_parse("t.yaml", text, strlen(text), NULL, 0, &f->job, &err);
    if (st != MU_OK) fail_msg("%s", err.msg);
    mu_binder b = {&f->job->arena, &f->job->diags, ".", registries, 0};
    mu_data_field image = {
        .name = "image", .shape = MU_SHAPE(1, SIDE, SIDE), .store = MU_STORE_F32, .is_image = true};
    mu_net_opts o = {
        .net = f->job->net, .fields = &image, .n_fields = 1, .batch = ROWS, .phase = MU_TRAIN, .seed = 3};
    st = mu_net_create(&b, &o, &f->net, &err);
    if (st != MU_OK) mu_diags_print(&f->job->diags, stderr, false);
    if (st != MU_OK) fail_msg("%s", err.msg);
}

static void done(fixture *f) {
    mu_net_destroy(f->net);
    mu_job_destroy(f->job);
}

static float image[ROWS * PIXELS];

static double step(mu_net *net, bool backward) {
    mu_tensor in = {.f = image};
    mu_net_set_input(net, &in, 1);
    mu_step s = {.phase = MU_TRAIN, .rows = ROWS, .global_rows = ROWS};
    mu_err err;
    mu_err_clear(&err);
    if (mu_net_forward(net, &s, &err) != MU_OK) fail_msg("%s", err.msg);
    if (backward && mu_net_backward(net, &s, &err) != MU_OK) fail_msg("%s", err.msg);
    return mu_net_find(net, "loss")->metric[0].sum / ROWS;
}

static void tied_equals_a_transposed_copy(const char *ops) {
    setenv("MUSTER_OPS", ops, 1);
    fixture tied, apart;
    build(&tied, "- {name: dec, type: inner_product, outputs: 36, transpose: true, weight: {name: "
                 "enc.weight}}\n");
    build(&apart, "- {name: dec, type: inner_product, outputs: 36}\n");
    mu_param *w = mu_params_find(tied.net->params, "enc.weight"),
             *enc = mu_params_find(apart.net->params, "enc.weight"),
             *dec = mu_params_find(apart.net->params, "dec.weight");
    assert_int_equal(w->n_users, 2);
    assert_null(mu_params_find(tied.net->params, "dec.weight"));
    assert_memory_equal(w->value, enc->value, w->count * sizeof(float)); // same name, same seed
    for (int h = 0; h < HIDDEN; h++)
        for (int p = 0; p < PIXELS; p++) dec->value[p * HIDDEN + h] = w->value[h * PIXELS + p];
    w->allow_factors = true; // no way for a shared one
    for (int round = 0; round < 2; round++) {
        double a = step(tied.net, true), b = step(apart.net, true);
        if (!(fabs(a - b) <= 1e-5 * fabs(b))) fail_msg("loss %.9g tied, %.9g apart", a, b);
    }
    assert_int_equal(w->grad.form, MU_GRAD_DENSE);
    for (int h = 0; h < HIDDEN; h++)
        for (int p = 0; p < PIXELS; p++) {
            double got = (double)w->grad.dense[h * PIXELS + p],
                   want = (double)enc->grad.dense[h * PIXELS + p] + (double)dec->grad.dense[p * HIDDEN + h];
            if (!(fabs(got - want) <= 1e-5 + 1e-5 * fabs(want)))
                fail_msg("ops %s: gradient [%d][%d] is %.9g tied, %.9g apart", ops, h, p, got, want);
        }
    done(&tied);
    done(&apart);
    unsetenv("MUSTER_OPS");
}

static void outputs_and_gradients(void **state) {
    (void)state;
    tied_equals_a_transposed_copy("ref");
    tied_equals_a_transposed_copy("vec,gemm,ref");
    tied_equals_a_transposed_copy("");
}

// Through both uses at once: central differences of the whole net.
static void slopes(void **state) {
    (void)state;
    fixture tied;
    build(&tied, "- {name: dec, type: inner_product, outputs: 36, transpose: true, weight: {name: "
                 "enc.weight}}\n");
    mu_param *w = mu_params_find(tied.net->params, "enc.weight");
    step(tied.net, true);
    for (size_t i = 0; i < w->count; i += 5) {
        float x = w->value[i], eps = 0.01f;
        w->value[i] = x + eps;
        double above = step(tied.net, false);
        w->value[i] = x - eps;
        double below = step(tied.net, false), want = (above - below) / (2 * (double)eps),
               got = (double)w->grad.dense[i];
        w->value[i] = x;
        if (!(fabs(got - want) <= 1e-3 + 0.01 * fabs(want)))
            fail_msg("gradient [%zu] is %.6g, central difference %.6g", i, got, want);
    }
    done(&tied);
}

// A penalty on a branch of its own pulls at the encoder as one that stands on the way to the decoder does.
static void penalty_on_a_branch(void **state) {
    (void)state;
    fixture way, branch, none;
    build(&way, "- {name: few, type: sparsity, weight: 2}\n"
                "- {name: dec, type: inner_product, src: few, outputs: 36}\n");
    build(&branch, "- {name: few, type: sparsity, src: act, weight: 2}\n"
                   "- {name: dec, type: inner_product, src: act, outputs: 36}\n");
    build(&none, "- {name: dec, type: inner_product, src: act, outputs: 36}\n");
    step(way.net, true);
    step(branch.net, true);
    step(none.net, true);
    const mu_param *a = mu_params_find(way.net->params, "enc.weight"),
                   *b = mu_params_find(branch.net->params, "enc.weight"),
                   *c = mu_params_find(none.net->params, "enc.weight");
    double pull = 0;
    for (size_t i = 0; i < a->count; i++) {
        const float want = a->grad.dense[i], got = b->grad.dense[i];
        if (!(fabsf(got - want) <= 1e-6f + 1e-5f * fabsf(want)))
            fail_msg("gradient [%zu] is %.6g, want %.6g", i, (double)got, (double)want);
        pull = fmax(pull, fabs((double)want - (double)c->grad.dense[i]));
    }
    if (!(pull > 1e-3)) fail_msg("the penalty pulls by %g only", pull);
    done(&way);
    done(&branch);
    done(&none);
}

int main(void) {
    for (size_t i = 0; i < MU_COUNT(image); i++) image[i] = 0.5f + 0.5f * sinf((float)i * 0.7f);
    const struct CMUnitTest tests[] = {cmocka_unit_test(outputs_and_gradients), cmocka_unit_test(slopes),
                                       cmocka_unit_test(penalty_on_a_branch)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
