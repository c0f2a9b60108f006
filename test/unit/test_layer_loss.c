// SPDX-License-Identifier: Apache-2.0
// test_layer_loss.c - values of the losses against their formulas in double, extreme scores, bad labels,
// what counts and what does not.
#include "layer_rig.h"

#include <float.h>

static rig *make(const char *type, const char *settings, const char *sources) {
    rig *r = calloc(1, sizeof *r);
    mu_err err;
    const mu_layer_class *c = (const mu_layer_class *)mu_registry_find(&mu_layers, type);
    if (rig_infer(r, c, settings, sources, MU_TRAIN, 3, &err) != MU_OK) fail_msg("%s: %s", type, err.msg);
    rig_setup(r);
    return r;
}

static void drop(rig *r) {
    rig_fini(r);
    free(r);
}

static void expect_near(double got, double want, double tol) {
    if (!(fabs(got - want) <= tol)) fail_msg("%.9g, want %.9g within %g", got, want, tol);
}

static void softmax_loss_is_the_formula(void **state) {
    (void)state;
    rig *r = make("softmax_loss", "loss_weight: 0.5", "f4,5 i4<5");
    mu_step s = rig_step(r);
    rig_forward(r, &s);
    double want = 0;
    for (int b = 0; b < 4; b++) {
        const float *x = r->layer.src[0]->value.f + 5 * b;
        double sum = 0;
        for (int j = 0; j < 5; j++) sum += exp((double)x[j]);
        want += log(sum) - (double)x[r->layer.src[1]->value.i[b]];
    }
    expect_near(r->layer.metric[0].sum, 0.5 * want, 1e-5);
    expect_near(r->layer.metric[0].weight, 4, 0);
    assert_string_equal(r->layer.metric[1].name, "accuracy");
    drop(r);
}

static void softmax_loss_survives_extreme_scores(void **state) {
    (void)state;
    rig *r = make("softmax_loss", "", "f2,3 i2");
    memcpy(r->layer.src[0]->value.f, (float[]){1e4f, -1e4f, 0, 500, 500, -3e38f}, 6 * sizeof(float));
    memcpy(r->layer.src[1]->value.i, (int32_t[]){1, 0}, 2 * sizeof(int32_t));
    mu_step s = rig_step(r);
    rig_forward(r, &s);
    expect_near(r->layer.metric[0].sum, 2e4 + log(2), 1e-3);
    rig_backward(r, &s);
    expect_near((double)r->layer.src[0]->grad.f[0], 0.5, 1e-6);
    expect_near((double)r->layer.src[0]->grad.f[1], -0.5, 1e-6);
    expect_near((double)r->layer.src[0]->grad.f[3], -0.25, 1e-6);
    drop(r);
}

static void a_score_that_is_no_number_is_seen(void **state) {
    (void)state;
    rig *r = make("softmax_loss", "top: [1, 2]", "f2,3 i2");
    memcpy(r->layer.src[0]->value.f, (float[]){NAN, NAN, NAN, 0, NAN, 1}, 6 * sizeof(float));
    memcpy(r->layer.src[1]->value.i, (int32_t[]){0, 2}, 2 * sizeof(int32_t));
    mu_step s = rig_step(r);
    rig_forward(r, &s);
    assert_true(isnan(r->layer.metric[0].sum));
    expect_near(r->layer.metric[1].sum, 0, 0); // a NaN beats every score
    expect_near(r->layer.metric[2].sum, 1, 0);
    drop(r);
}

static void bad_labels_name_the_sample(void **state) {
    (void)state;
    static const char *const types[] = {"softmax_loss", "accuracy"};
    for (size_t t = 0; t < MU_COUNT(types); t++) {
        rig *r = make(types[t], "", "f4,5 i4<5");
        mu_step s = rig_step(r); // rows 0.. are samples 40..
        r->layer.src[1]->value.i[2] = 5;
        mu_err err = {0};
        assert_int_equal(r->layer.class->forward(&r->layer, &s, &err), MU_EDATA);
        if (!strstr(err.msg, "label 5 of sample 42 is not in 0..4")) fail_msg("%s", err.msg);
        assert_int_equal(err.pos.line, 6);
        r->layer.src[1]->value.i[2] = -1;
        mu_err_clear(&err);
        assert_int_equal(r->layer.class->forward(&r->layer, &s, &err), MU_EDATA);
        drop(r);
    }
}

static void ignored_labels_count_nothing(void **state) {
    (void)state;
    rig *r = make("softmax_loss", "ignore_label: -1", "f3,2 i3");
    memcpy(r->layer.src[0]->value.f, (float[]){1, 0, 5, 0, 0, 1}, 6 * sizeof(float));
    memcpy(r->layer.src[1]->value.i, (int32_t[]){0, -1, 0}, 3 * sizeof(int32_t));
    mu_step s = rig_step(r);
    rig_forward(r, &s);
    expect_near(r->layer.metric[0].weight, 2, 0);
    expect_near(r->layer.metric[0].sum, 2 * log(1 + exp(-1)) + 1, 1e-6);
    expect_near(r->layer.metric[1].sum, 1, 0);
    rig_backward(r, &s);
    expect_near((double)r->layer.src[0]->grad.f[2], 0, 0);
    drop(r);
}

static void equal_scores_are_no_hit_for_all(void **state) {
    (void)state;
    rig *r = make("accuracy", "top: [1, 2]", "f4,4 i4");
    for (int i = 0; i < 16; i++) r->layer.src[0]->value.f[i] = 0.25f;
    for (int i = 0; i < 4; i++) r->layer.src[1]->value.i[i] = i;
    mu_step s = rig_step(r);
    rig_forward(r, &s);
    expect_near(r->layer.metric[0].sum, 1, 0);
    expect_near(r->layer.metric[1].sum, 2, 0);
    assert_string_equal(r->layer.metric[1].name, "top2");
    drop(r);
}

static void euclidean_loss_is_half_the_square(void **state) {
    (void)state;
    rig *r = make("euclidean_loss", "", "f2,2 f2,2");
    memcpy(r->layer.src[0]->value.f, (float[]){1, 2, 3, 4}, 4 * sizeof(float));
    memcpy(r->layer.src[1]->value.f, (float[]){0, 0, 3, 2}, 4 * sizeof(float));
    mu_step s = rig_step(r);
    rig_forward(r, &s);
    expect_near(r->layer.metric[0].sum / r->layer.metric[0].weight, (1 + 4 + 0 + 4) / (2.0 * 2), 1e-6);
    rig_backward(r, &s);
    expect_near((double)r->layer.src[0]->grad.f[1], 1, 1e-6);
    expect_near((double)r->layer.src[1]->grad.f[1], -1, 1e-6);
    drop(r);
}

static void sigmoid_loss_survives_extreme_scores(void **state) {
    (void)state;
    rig *r = make("sigmoid_loss", "", "f4,1 i4");
    memcpy(r->layer.src[0]->value.f, (float[]){0, 1e4f, -1e4f, 200}, 4 * sizeof(float));
    memcpy(r->layer.src[1]->value.i, (int32_t[]){1, 1, 1, 0}, 4 * sizeof(int32_t));
    mu_step s = rig_step(r);
    rig_forward(r, &s);
    expect_near(r->layer.metric[0].sum, log(2) + 1e4 + 200, 1e-2);
    rig_backward(r, &s);
    static const double want[] = {-0.125, 0, -0.25, 0.25};
    for (int i = 0; i < 4; i++) expect_near((double)r->layer.src[0]->grad.f[i], want[i], 1e-6);
    drop(r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(softmax_loss_is_the_formula),
        cmocka_unit_test(softmax_loss_survives_extreme_scores),
        cmocka_unit_test(a_score_that_is_no_number_is_seen),
        cmocka_unit_test(bad_labels_name_the_sample),
        cmocka_unit_test(ignored_labels_count_nothing),
        cmocka_unit_test(equal_scores_are_no_hit_for_all),
        cmocka_unit_test(euclidean_loss_is_half_the_square),
        cmocka_unit_test(sigmoid_loss_survives_extreme_scores),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
