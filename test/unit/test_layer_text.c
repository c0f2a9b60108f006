// SPDX-License-Identifier: Apache-2.0
// test_layer_text.c - linear_words and best_of against their formulas.
#include "layer_rig.h"

static rig *make(const char *type, const char *settings, const char *sources, mu_phase phase) {
    rig *r = calloc(1, sizeof *r);
    mu_err err;
    const mu_layer_class *c = (const mu_layer_class *)mu_registry_find(&mu_layers, type);
    assert_non_null(c);
    if (rig_infer(r, c, settings, sources, phase, 3, &err) != MU_OK) fail_msg("%s: %s", type, err.msg);
    rig_setup(r);
    return r;
}

static void drop(rig *r) {
    rig_fini(r);
    free(r);
}

static void expect_near(double got, double want) {
    if (!(fabs(got - want) <= 1e-5)) fail_msg("%.9g, want %.9g", got, want);
}

// ---- linear_words ----

enum { VOCAB = 9, OUTPUTS = 3 };

// The rows of a sentence, by hand. The numbers of pairs are part of every saved model.
static void rows_are_words_and_pairs(void **state) {
    (void)state;
    rig *r = make("linear_words", "outputs: 3, vocab: 9, buckets: 1000", "i2,5<9", MU_TEST);
    static const int32_t words[2][5] = {{2, 3, 0, 5, 5}, {3, 2, 0, 0, 0}};
    static const int rows[2][6] = {{2, 3, 5, 5, VOCAB + 699, VOCAB + 54}, {3, 2, VOCAB + 789}};
    static const int many[2] = {6, 3};
    memcpy(r->layer.src[0]->value.i, words, sizeof words);
    mu_step s = rig_step(r);
    rig_forward(r, &s);
    const float *w = r->layer.param[0]->value, *bias = r->layer.param[1]->value;
    for (int b = 0; b < 2; b++)
        for (int i = 0; i < OUTPUTS; i++) {
            double sum = 0;
            for (int k = 0; k < many[b]; k++) sum += (double)w[rows[b][k] * OUTPUTS + i];
            expect_near((double)r->layer.out[0].value.f[b * OUTPUTS + i],
                        sum / sqrt(many[b]) + (double)bias[i]);
        }
    drop(r);
}

// A sentence without words is answered by the bias.
static void nothing_gives_the_bias(void **state) {
    (void)state;
    rig *r = make("linear_words", "outputs: 3, vocab: 9", "i2,5<9", MU_TEST);
    memset(r->layer.src[0]->value.i, 0, 10 * sizeof(int32_t));
    mu_step s = rig_step(r);
    rig_forward(r, &s);
    for (int i = 0; i < OUTPUTS; i++)
        expect_near((double)r->layer.out[0].value.f[i], (double)r->layer.param[1]->value[i]);
    drop(r);
}

static void rows_add_up_to_the_dense_gradient(void **state) {
    (void)state;
    rig *r = make("linear_words", "outputs: 3, vocab: 9, buckets: 50, dropout: 0.3", "i4,6<9", MU_TRAIN);
    mu_param *w = r->layer.param[0];
    mu_step s = rig_step(r);
    rig_forward(r, &s);
    rig_backward(r, &s);
    assert_int_equal(w->grad.form, MU_GRAD_DENSE);
    float *dense = malloc(w->count * sizeof *dense);
    memcpy(dense, w->grad.dense, w->count * sizeof *dense);
    w->grad.form = r->layer.param[1]->grad.form = MU_GRAD_NONE;
    w->allow_factors = true;
    w->n_users = 1;
    rig_forward(r, &s);
    rig_backward(r, &s);
    assert_int_equal(w->grad.form, MU_GRAD_ROWS);
    assert_true(w->grad.n_rows > 0 && w->grad.n_rows <= w->max_rows);
    for (int64_t k = 0; k < w->grad.n_rows; k++)
        for (int i = 0; i < OUTPUTS; i++)
            dense[w->grad.row[k] * OUTPUTS + i] -= w->grad.row_value[k * OUTPUTS + i];
    for (size_t i = 0; i < w->count; i++) expect_near((double)dense[i], 0);
    free(dense);
    drop(r);
}

// What is left out depends on the sample's number, not on its place in a batch.
static void dropout_follows_the_sample(void **state) {
    (void)state;
    rig *r = make("linear_words", "outputs: 3, vocab: 9, dropout: 0.5", "i2,6<9", MU_TRAIN);
    mu_step s = rig_step(r);
    rig_forward(r, &s);
    float second[OUTPUTS], whole[OUTPUTS];
    memcpy(second, r->layer.out[0].value.f + OUTPUTS, sizeof second);
    int32_t *words = r->layer.src[0]->value.i;
    memmove(words, words + 6, 6 * sizeof *words);
    s.first_sample++;
    rig_forward(r, &s);
    memcpy(whole, r->layer.out[0].value.f, sizeof whole);
    assert_memory_equal(second, whole, sizeof second);
    s.first_sample += 1000;
    rig_forward(r, &s);
    assert_memory_not_equal(second, r->layer.out[0].value.f, sizeof second);
    drop(r);
}

// ---- best_of ----

static void softmax(const float *x, int c, double *out) {
    double sum = 0;
    for (int i = 0; i < c; i++) sum += out[i] = exp((double)x[i]);
    for (int i = 0; i < c; i++) out[i] /= sum;
}

static void answers_by_its_choice(void **state) {
    (void)state;
    enum { N = 4, C = 5 };
    rig *r = make("best_of", "", "f4,5 f4,5", MU_TEST);
    mu_param *choice = r->layer.param[0];
    assert_int_equal(choice->options, 3);
    assert_true(choice->is_stat && !choice->is_state); // saved in models, not trained
    static const float values[] = {0, 1, 2, 7, -1, NAN};
    for (size_t v = 0; v < sizeof values / sizeof *values; v++) {
        choice->value[0] = values[v];
        mu_step s = rig_step(r);
        rig_forward(r, &s);
        for (int b = 0; b < N; b++) {
            double first[C], second[C], sum = 0;
            softmax(r->layer.src[0]->value.f + b * C, C, first);
            softmax(r->layer.src[1]->value.f + b * C, C, second);
            for (int i = 0; i < C; i++) {
                const double got = (double)r->layer.out[0].value.f[b * C + i];
                expect_near(got, v == 1 ? first[i] : v == 2 ? second[i] : (first[i] + second[i]) / 2);
                sum += got;
            }
            expect_near(sum, 1);
        }
    }
    drop(r);
}

static void paths_must_have_the_same_classes(void **state) {
    (void)state;
    rig *r = calloc(1, sizeof *r);
    mu_err err;
    const mu_layer_class *c = (const mu_layer_class *)mu_registry_find(&mu_layers, "best_of");
    assert_int_equal(rig_infer(r, c, "", "f4,5 f4,6", MU_TEST, 3, &err), MU_EJOB);
    assert_non_null(strstr(err.msg, "(4, 6)"));
    drop(r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_words_and_pairs),
        cmocka_unit_test(nothing_gives_the_bias),
        cmocka_unit_test(rows_add_up_to_the_dense_gradient),
        cmocka_unit_test(dropout_follows_the_sample),
        cmocka_unit_test(answers_by_its_choice),
        cmocka_unit_test(paths_must_have_the_same_classes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
