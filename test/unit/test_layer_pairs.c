// SPDX-License-Identifier: Apache-2.0
// test_layer_pairs.c - layers of nets with two paths: values against their formulas in double.
#include "layer_rig.h"

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

// ---- contrastive_loss ----

enum { N = 6, D = 4 };

static double score_of(const rig *r, int i, int j, double temperature) {
    double sum = 0;
    for (int k = 0; k < D; k++)
        sum += (double)r->layer.src[0]->value.f[i * D + k] * (double)r->layer.src[1]->value.f[j * D + k];
    return sum / temperature;
}

// -log of the share of the right answer; `rows`: the first source asks, else the second one.
static double surprise(const rig *r, int own, bool rows, double temperature, const int32_t *group) {
    double sum = 0;
    for (int j = 0; j < N; j++)
        if (j == own || !group || group[j] != group[own])
            sum += exp(rows ? score_of(r, own, j, temperature) : score_of(r, j, own, temperature));
    return log(sum) - score_of(r, own, own, temperature);
}

static void contrastive_loss_is_the_formula(void **state) {
    (void)state;
    rig *r = make("contrastive_loss", "temperature: 0.3, loss_weight: 0.5", "f6,4 f6,4");
    mu_step s = rig_step(r);
    rig_forward(r, &s);
    double want = 0;
    for (int i = 0; i < N; i++)
        want += (surprise(r, i, true, 0.3, NULL) + surprise(r, i, false, 0.3, NULL)) / 2;
    expect_near(r->layer.metric[0].sum, 0.5 * want, 1e-4);
    expect_near(r->layer.metric[0].weight, N, 0);
    drop(r);
}

static void the_same_group_is_no_wrong_answer(void **state) {
    (void)state;
    rig *r = make("contrastive_loss", "temperature: 0.5", "f6,4 f6,4 i6<3");
    const int32_t group[N] = {7, 7, 1, 7, 2, 1};
    memcpy(r->layer.src[2]->value.i, group, sizeof group);
    mu_step s = rig_step(r);
    rig_forward(r, &s);
    double want = 0;
    for (int i = 0; i < N; i++)
        want += (surprise(r, i, true, 0.5, group) + surprise(r, i, false, 0.5, group)) / 2;
    expect_near(r->layer.metric[0].sum, want, 1e-4);
    for (int i = 0; i < N; i++) r->layer.src[2]->value.i[i] = 1; // nobody else is left to be mistaken for
    rig_forward(r, &s);
    expect_near(r->layer.metric[0].sum, 0, 1e-6);
    rig_backward(r, &s);
    for (int i = 0; i < N * D; i++) expect_near((double)r->layer.src[0]->grad.f[i], 0, 1e-6);
    drop(r);
}

static void matches_are_counted(void **state) {
    (void)state;
    rig *r = make("contrastive_loss", "", "f3,2 f3,2");
    const float a[6] = {1, 0, 0, 1, -1, 0}, b[6] = {1, 0, 0, 1, 0, 1}; // the third one looks like the second
    memcpy(r->layer.src[0]->value.f, a, sizeof a);
    memcpy(r->layer.src[1]->value.f, b, sizeof b);
    mu_step s = rig_step(r);
    rig_forward(r, &s);
    assert_string_equal(r->layer.metric[1].name, "match");
    // a finds b: 1 yes, 2 tie = no, 3 no; b finds a: 1 yes, 2 yes, 3 no
    expect_near(r->layer.metric[1].sum, 1.5, 0);
    drop(r);
}

// ---- l2_normalise ----

static void normalised_lengths_are_one(void **state) {
    (void)state;
    rig *r = make("l2_normalise", "", "f3,4");
    memset(r->layer.src[0]->value.f, 0, 4 * sizeof(float));
    mu_step s = rig_step(r);
    rig_forward(r, &s);
    for (int b = 0; b < 3; b++) {
        double square = 0;
        for (int i = 0; i < 4; i++) square += pow((double)r->layer.out[0].value.f[4 * b + i], 2);
        expect_near(square, b ? 1 : 0, 1e-6);
    }
    drop(r);
}

static void a_sample_without_length_gets_no_gradient(void **state) {
    (void)state;
    rig *r = make("l2_normalise", "", "f3,4");
    for (int i = 0; i < 4; i++) {
        r->layer.src[0]->value.f[i] = 0;
        r->layer.src[0]->value.f[4 + i] = 4e-7f; // a square of 6.4e-13
    }
    mu_step s = rig_step(r);
    rig_forward(r, &s);
    rig_backward(r, &s);
    for (int i = 0; i < 8; i++) expect_near((double)r->layer.src[0]->grad.f[i], 0, 0);
    double sum = 0;
    for (int i = 8; i < 12; i++) sum += fabs((double)r->layer.src[0]->grad.f[i]);
    if (!(sum > 0)) fail_msg("the third sample has the gradient %g", sum);
    drop(r);
}

// ---- bag_of_words ----

static void words_are_counted_and_padding_is_not(void **state) {
    (void)state;
    const int32_t word[2][5] = {{3, 1, 3, 0, 0}, {0, 0, 0, 0, 0}};
    for (int count = 0; count < 2; count++) {
        rig *r = make("bag_of_words", count ? "vocab: 4, value: count" : "vocab: 4", "i2,5<4");
        memcpy(r->layer.src[0]->value.i, word, sizeof word);
        mu_step s = rig_step(r);
        rig_forward(r, &s);
        const float want[8] = {0, 1, 0, count ? 2 : 1, 0, 0, 0, 0};
        assert_memory_equal(r->layer.out[0].value.f, want, sizeof want);
        drop(r);
    }
}

static void words_have_weights(void **state) {
    (void)state;
    const float weight[4] = {9, 0.5f, 2, -1};
    FILE *f = fopen("test_layer_pairs.bin", "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(weight, sizeof weight[0], 4, f), 4);
    fclose(f);
    rig *r = make("bag_of_words", "vocab: 4, value: count, weights: test_layer_pairs.bin", "i1,4<4");
    memcpy(r->layer.src[0]->value.i, (int32_t[]){3, 1, 3, 0}, 4 * sizeof(int32_t));
    mu_step s = rig_step(r);
    rig_forward(r, &s);
    const float want[4] = {0, 0.5f, 0, -2};
    assert_memory_equal(r->layer.out[0].value.f, want, sizeof want);
    drop(r);
    rig *bad = calloc(1, sizeof *bad);
    mu_err err;
    const mu_layer_class *c = (const mu_layer_class *)mu_registry_find(&mu_layers, "bag_of_words");
    mu_status st =
        rig_infer(bad, c, "vocab: 5, weights: test_layer_pairs.bin", "i1,4<4", MU_TRAIN, 3, &err);
    if (st != MU_EJOB || !strstr(err.msg, "has 16 bytes, 5 words need 20")) fail_msg("%s", err.msg);
    drop(bad);
    remove("test_layer_pairs.bin");
}

static void a_word_beyond_the_vocabulary_is_named(void **state) {
    (void)state;
    rig *r = make("bag_of_words", "vocab: 4", "i2,3<4");
    r->layer.src[0]->value.i[4] = 4;
    mu_step s = rig_step(r);
    mu_err err = {0};
    assert_int_equal(r->layer.class->forward(&r->layer, &s, &err), MU_EDATA);
    assert_non_null(strstr(err.msg, "word 4 of sample 41 is not in 0..3"));
    drop(r);
}

// What the data knows is compared before anything runs.
static void a_small_vocabulary_is_refused(void **state) {
    (void)state;
    rig *r = calloc(1, sizeof *r);
    mu_err err;
    const mu_layer_class *c = (const mu_layer_class *)mu_registry_find(&mu_layers, "bag_of_words");
    assert_int_equal(rig_prepare(r, c, "vocab: 4", "i2,3<4", MU_TRAIN, 3, &err), MU_OK);
    r->layer.src[0]->n_classes = 9;
    assert_int_equal(c->infer(&r->layer, &err), MU_EJOB);
    if (!strstr(err.msg, "`vocab` is 4, `src0` has 9 different integers")) fail_msg("%s", err.msg);
    drop(r);
}

static void one_row_may_be_tested(void **state) {
    (void)state;
    rig *r = calloc(1, sizeof *r);
    mu_err err;
    const mu_layer_class *c = (const mu_layer_class *)mu_registry_find(&mu_layers, "contrastive_loss");
    if (rig_infer(r, c, "", "f1,3 f1,3", MU_TEST, 3, &err) != MU_OK) fail_msg("%s", err.msg);
    drop(r);
}

static void sources_are_checked(void **state) {
    (void)state;
    static const struct {
        const char *type, *settings, *sources, *says;
    } bad[] = {
        {"bag_of_words", "", "i4,3<5", "how many different integers `src0` has"},
        {"bag_of_words", "vocab: 5", "f4,3", "needs integers"},
        {"contrastive_loss", "", "f1,3 f1,3", "a batch of 1 has no wrong answers"},
        {"time_step", "step: 9223372036854775807", "f2,5,3", "9223372036854775807"},
        {"time_step", "step: 2147483647", "f2,5,3", "beyond the 5 steps"},
        {"time_step", "step: -2147483648", "f2,5,3", "beyond the 5 steps"},
        {"contrastive_loss", "", "f4,3 f4,2", "3 values a sample"},
        {"contrastive_loss", "", "f4,3 f4,3 f4,1", "integer"},
        {"l2_normalise", "", "i4,3<5", "number"},
    };
    for (size_t i = 0; i < MU_COUNT(bad); i++) {
        rig *r = calloc(1, sizeof *r);
        mu_err err;
        const mu_layer_class *c = (const mu_layer_class *)mu_registry_find(&mu_layers, bad[i].type);
        mu_status st = rig_infer(r, c, bad[i].settings, bad[i].sources, MU_TRAIN, 3, &err);
        if (st != MU_EJOB || !strstr(err.msg, bad[i].says))
            fail_msg("%s on %s: `%s`, want `%s`", bad[i].type, bad[i].sources, err.msg, bad[i].says);
        drop(r);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(contrastive_loss_is_the_formula),
        cmocka_unit_test(the_same_group_is_no_wrong_answer),
        cmocka_unit_test(matches_are_counted),
        cmocka_unit_test(normalised_lengths_are_one),
        cmocka_unit_test(a_sample_without_length_gets_no_gradient),
        cmocka_unit_test(a_small_vocabulary_is_refused),
        cmocka_unit_test(one_row_may_be_tested),
        cmocka_unit_test(words_are_counted_and_padding_is_not),
        cmocka_unit_test(words_have_weights),
        cmocka_unit_test(a_word_beyond_the_vocabulary_is_named),
        cmocka_unit_test(sources_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
