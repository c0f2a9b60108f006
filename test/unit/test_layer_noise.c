// SPDX-License-Identifier: Apache-2.0
// test_layer_noise.c - the layers of sparse and denoising auto-encoders: what `noise` does to how many values
// and that batching does not matter; the penalty of `sparsity` by its formula, and that shares add up.
#include "layer_rig.h"

static rig *make(const char *type, const char *settings, const char *sources, mu_phase phase) {
    rig *r = calloc(1, sizeof *r);
    mu_err err;
    const mu_layer_class *c = (const mu_layer_class *)mu_registry_find(&mu_layers, type);
    if (rig_infer(r, c, settings, sources, phase, 5, &err) != MU_OK) fail_msg("%s: %s", type, err.msg);
    rig_setup(r);
    return r;
}

static void drop(rig *r) {
    rig_fini(r);
    free(r);
}

static void expect_near(const char *what, double got, double want, double tol) {
    if (!(fabs(got - want) <= tol)) fail_msg("%s is %.9g, want %.9g within %g", what, got, want, tol);
}

// ---- noise ----

#define VALUES 50000

typedef struct counts {
    double same, zero, one, mean, square; // of the change, as shares
} counts;

static counts measure(const char *settings) {
    rig *r = make("noise", settings, "f50,1000", MU_TRAIN);
    for (int i = 0; i < VALUES; i++) r->layer.src[0]->value.f[i] = 0.5f;
    mu_step s = rig_step(r);
    rig_forward(r, &s);
    counts c = {0};
    for (int i = 0; i < VALUES; i++) {
        double y = (double)r->layer.out[0].value.f[i], d = y - 0.5;
        c.same += y == 0.5;
        c.zero += y == 0;
        c.one += y == 1;
        c.mean += d;
        c.square += d * d;
    }
    drop(r);
    return (counts){c.same / VALUES, c.zero / VALUES, c.one / VALUES, c.mean / VALUES, c.square / VALUES};
}

static void each_kind_spoils_as_told(void **state) {
    (void)state;
    counts c = measure("kind: mask, level: 0.3");
    expect_near("masked", c.zero, 0.3, 0.01);
    expect_near("left", c.same, 0.7, 0.01);
    c = measure("kind: salt_pepper, level: 0.4");
    expect_near("pepper", c.zero, 0.2, 0.01);
    expect_near("salt", c.one, 0.2, 0.01);
    expect_near("left", c.same, 0.6, 0.01);
    c = measure("kind: gaussian, level: 0.25");
    expect_near("mean change", c.mean, 0, 0.005);
    expect_near("its variance", c.square, 0.0625, 0.002);
}

static void other_phases_are_clean(void **state) {
    (void)state;
    rig *r = make("noise", "level: 0.9", "f4,9", MU_TEST);
    mu_step s = rig_step(r);
    rig_forward(r, &s);
    assert_memory_equal(r->layer.out[0].value.f, r->layer.src[0]->value.f, 36 * sizeof(float));
    drop(r);
}

// Sample 42 gets the same noise as row 2 of a batch from 40 on and as row 0 of one that begins with it.
static void a_sample_has_its_noise_in_every_batch(void **state) {
    (void)state;
    static const char *const kinds[] = {"kind: mask", "kind: gaussian", "kind: salt_pepper"};
    for (size_t k = 0; k < MU_COUNT(kinds); k++) {
        rig *a = make("noise", kinds[k], "f4,300", MU_TRAIN),
            *b = make("noise", kinds[k], "f1,300", MU_TRAIN);
        memcpy(b->layer.src[0]->value.f, a->layer.src[0]->value.f + 600, 300 * sizeof(float));
        mu_step s = rig_step(a), t = rig_step(b);
        t.first_sample = s.first_sample + 2;
        rig_forward(a, &s);
        rig_forward(b, &t);
        assert_memory_equal(b->layer.out[0].value.f, a->layer.out[0].value.f + 600, 300 * sizeof(float));
        drop(a);
        drop(b);
    }
}

static void more_than_all_is_refused(void **state) {
    (void)state;
    rig *r = calloc(1, sizeof *r);
    mu_err err;
    const mu_layer_class *c = (const mu_layer_class *)mu_registry_find(&mu_layers, "noise");
    assert_int_equal(rig_infer(r, c, "level: 1.5", "f4,9", MU_TRAIN, 1, &err), MU_EJOB);
    drop(r);
}

// ---- sparsity ----

static double kl(double t, double m) { return t * log(t / m) + (1 - t) * log((1 - t) / (1 - m)); }

static void penalty_is_the_formula(void **state) {
    (void)state;
    rig *r = make("sparsity", "target: 0.1, weight: 3", "f3,2", MU_TRAIN);
    memcpy(r->layer.src[0]->value.f, (float[]){0.2f, 0.6f, 0.4f, 0.7f, 9, 9}, 6 * sizeof(float));
    memcpy(r->layer.out[0].grad.f, (float[]){1, 2, 3, 4, 5, 6}, 6 * sizeof(float));
    mu_step s = rig_step(r);
    s.rows = 2; // the third does not count
    s.global_rows = 8;
    rig_forward(r, &s);
    expect_near("penalty", r->layer.metric[0].sum / r->layer.metric[0].weight, 3 * (kl(.1, .3) + kl(.1, .65)),
                1e-5);
    expect_near("activation", r->layer.metric[1].sum / r->layer.metric[1].weight, (.3 + .65) / 2, 1e-6);
    rig_backward(r, &s);
    const double slope[2] = {.9 / .7 - .1 / .3, .9 / .35 - .1 / .65};
    for (int i = 0; i < 6; i++) {
        double own = i < 4 ? 3 * slope[i % 2] / 8 : 0;
        expect_near("gradient", (double)r->layer.src[0]->grad.f[i], i + 1 + own, 1e-5);
    }
    drop(r);
}

// A unit that is silent, or always on, costs a finite amount and is pushed back.
static void edges_are_finite(void **state) {
    (void)state;
    rig *r = make("sparsity", "target: 0.1", "f2,2", MU_TRAIN);
    memcpy(r->layer.src[0]->value.f, (float[]){0, 1, 0, 1}, 4 * sizeof(float));
    memset(r->layer.out[0].grad.f, 0, 4 * sizeof(float));
    mu_step s = rig_step(r);
    rig_forward(r, &s);
    rig_backward(r, &s);
    assert_true(isfinite(r->layer.metric[0].sum) && r->layer.metric[0].sum > 0);
    assert_true(isfinite(r->layer.src[0]->grad.f[0]) && r->layer.src[0]->grad.f[0] < 0);
    assert_true(isfinite(r->layer.src[0]->grad.f[1]) && r->layer.src[0]->grad.f[1] > 0);
    drop(r);
}

// ---- the error that auto-encoders report ----

static void squared_error_is_of_the_reconstruction(void **state) {
    (void)state;
    rig *r = make("sigmoid_loss", "squared_error: true, loss_weight: 2", "f2,4 f2,1,2,2", MU_TRAIN),
        *e = make("euclidean_loss", "squared_error: true, loss_weight: 2", "f2,4 f2,1,2,2", MU_TRAIN);
    mu_step s = rig_step(r);
    rig_forward(r, &s);
    rig_forward(e, &s);
    double sigmoid = 0, plain = 0;
    for (int i = 0; i < 8; i++) {
        double x = (double)r->layer.src[0]->value.f[i], t = (double)r->layer.src[1]->value.f[i];
        sigmoid += pow(1 / (1 + exp(-x)) - t, 2) / 2;
        plain += pow(x - t, 2) / 2;
    }
    assert_string_equal(r->layer.metric[1].name, "squared_error");
    assert_false(r->layer.metric[1].is_loss);
    expect_near("of sigmoid", r->layer.metric[1].sum / r->layer.metric[1].weight, sigmoid, 1e-5);
    expect_near("plain", e->layer.metric[1].sum / e->layer.metric[1].weight, plain, 1e-5);
    drop(r);
    drop(e);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_kind_spoils_as_told),
        cmocka_unit_test(other_phases_are_clean),
        cmocka_unit_test(a_sample_has_its_noise_in_every_batch),
        cmocka_unit_test(more_than_all_is_refused),
        cmocka_unit_test(penalty_is_the_formula),
        cmocka_unit_test(edges_are_finite),
        cmocka_unit_test(squared_error_is_of_the_reconstruction),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
