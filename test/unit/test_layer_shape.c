// SPDX-License-Identifier: Apache-2.0
// test_layer_shape.c - concat, slice, flatten, reshape and inner_product speak of logical (N, C, H, W)
// order whatever the order in memory: checked element by element against logical indexing.
#include "layer_rig.h"

// Place in memory of logical element (n, c, h, w).
static size_t at4(const mu_shape *s, int64_t n, int64_t c, int64_t h, int64_t w) {
    return (size_t)(((n * s->d[2] + h) * s->d[3] + w) * s->d[1] + c);
}

// Element number i in logical order.
static float logical(const mu_tensor *t, int64_t i) {
    const mu_shape *s = &t->shape;
    if (s->n != 4) return t->f[i];
    int64_t w = i % s->d[3], h = i / s->d[3] % s->d[2], c = i / (s->d[3] * s->d[2]) % s->d[1];
    return t->f[at4(s, i / (s->d[1] * s->d[2] * s->d[3]), c, h, w)];
}

static rig *make(const char *type, const char *settings, const char *sources) {
    rig *r = calloc(1, sizeof *r);
    mu_err err;
    const mu_layer_class *c = (const mu_layer_class *)mu_registry_find(&mu_layers, type);
    assert_non_null(c);
    if (rig_infer(r, c, settings, sources, MU_TRAIN, 5, &err) != MU_OK) fail_msg("%s: %s", type, err.msg);
    rig_setup(r);
    mu_step s = rig_step(r);
    rig_forward(r, &s);
    return r;
}

static void drop(rig *r) {
    rig_fini(r);
    free(r);
}

static void expect_shape(const mu_tensor *t, const char *want) {
    char text[96];
    assert_string_equal(mu_shape_text(&t->shape, text), want);
}

static void same_logical_elements(const rig *r) {
    const mu_tensor *x = &r->layer.src[0]->value, *y = &r->layer.out[0].value;
    assert_int_equal(mu_tensor_count(x), mu_tensor_count(y));
    for (int64_t i = 0; i < (int64_t)mu_tensor_count(x); i++)
        if (logical(x, i) != logical(y, i))
            fail_msg("element %d: %g, want %g", (int)i, (double)logical(y, i), (double)logical(x, i));
}

static void flatten_keeps_logical_order(void **state) {
    (void)state;
    rig *r = make("flatten", "", "f2,3,4,5");
    expect_shape(&r->layer.out[0].value, "(2, 60)");
    same_logical_elements(r);
    drop(r);
}

static void reshape_keeps_logical_order(void **state) {
    (void)state;
    static const char *const cases[][3] = {
        {"shape: [0, 4, 3, -1]", "f2,24", "(2, 4, 3, 2)"},
        {"shape: [0, -1, 2, 5]", "f2,3,4,5", "(2, 6, 2, 5)"},
        {"shape: [0, 0, -1]", "f2,3,4,5", "(2, 3, 20)"},
        {"shape: [2, 3, 4, 5]", "f2,3,4,5", "(2, 3, 4, 5)"},
        {"shape: [-1, 60]", "f2,3,4,5", "(2, 60)"},
        {"shape: [0, 1, 4, 6]", "f3,24", "(3, 1, 4, 6)"},
    };
    for (size_t i = 0; i < MU_COUNT(cases); i++) {
        rig *r = make("reshape", cases[i][0], cases[i][1]);
        expect_shape(&r->layer.out[0].value, cases[i][2]);
        same_logical_elements(r);
        drop(r);
    }
}

static void concat_joins_logical_axes(void **state) {
    (void)state;
    static const char *const sources[] = {NULL, "f2,3,4,5 f2,2,4,5", "f2,3,4,5 f2,3,2,5",
                                          "f2,3,4,5 f2,3,4,1"};
    for (int axis = 1; axis <= 3; axis++) {
        char settings[32];
        snprintf(settings, sizeof settings, "axis: %d", axis);
        rig *r = make("concat", settings, sources[axis]);
        const mu_tensor *a = &r->layer.src[0]->value, *b = &r->layer.src[1]->value,
                        *y = &r->layer.out[0].value;
        const int64_t *d = y->shape.d;
        for (int64_t i = 0; i < (int64_t)mu_tensor_count(y); i++) {
            int64_t at[4] = {i / (d[1] * d[2] * d[3]), i / (d[2] * d[3]) % d[1], i / d[3] % d[2], i % d[3]};
            bool second = at[axis] >= a->shape.d[axis];
            if (second) at[axis] -= a->shape.d[axis];
            const mu_tensor *x = second ? b : a;
            float want = x->f[at4(&x->shape, at[0], at[1], at[2], at[3])];
            if (logical(y, i) != want)
                fail_msg("axis %d, element %d: %g, want %g", axis, (int)i, (double)logical(y, i),
                         (double)want);
        }
        drop(r);
    }
}

static void slice_undoes_concat(void **state) {
    (void)state;
    rig *r = make("slice", "axis: 1, points: [1, 3]", "f2,4,3,5");
    assert_int_equal(r->layer.n_out, 3);
    assert_string_equal(r->layer.out[2].name, "it.2");
    const mu_tensor *x = &r->layer.src[0]->value;
    for (int64_t c = 0; c < 4; c++) {
        int part = c < 1 ? 0 : c < 3 ? 1 : 2;
        const mu_tensor *y = &r->layer.out[part].value;
        for (int64_t i = 0; i < 15; i++) {
            float got = y->f[at4(&y->shape, 1, c - (part == 0 ? 0 : part == 1 ? 1 : 3), i / 5, i % 5)];
            assert_float_equal(got, x->f[at4(&x->shape, 1, c, i / 5, i % 5)], 0);
        }
    }
    drop(r);
}

static void inner_product_weighs_logical_order(void **state) {
    (void)state;
    rig *r = make("inner_product", "outputs: 3", "f2,3,4,5");
    const mu_tensor *x = &r->layer.src[0]->value;
    const float *w = r->layer.param[0]->value, *b = r->layer.param[1]->value;
    for (int64_t n = 0; n < 2; n++)
        for (int64_t o = 0; o < 3; o++) {
            double want = (double)b[o];
            for (int64_t i = 0; i < 60; i++) want += (double)w[o * 60 + i] * (double)logical(x, n * 60 + i);
            assert_float_equal((double)r->layer.out[0].value.f[n * 3 + o], want, 1e-5);
        }
    drop(r);
}

// Sizes that fit a source and no memory: refused when shapes are found, not when memory is taken.
static void too_large_is_refused(void **state) {
    (void)state;
    rig r;
    mu_err err;
    const mu_layer_class *c = (const mu_layer_class *)mu_registry_find(&mu_layers, "concat");
    const char *sources = "f1,2305843009213693952 f1,2305843009213693952";
    assert_int_equal(rig_infer(&r, c, "", sources, MU_TRAIN, 5, &err), MU_EJOB);
    assert_non_null(strstr(err.msg, "is too large"));
    assert_int_equal(r.layer.n_out, 0);
    rig_fini(&r);
}

static void one_hot_marks_every_word(void **state) {
    (void)state;
    static const char *const sources[] = {"i6<5", "i3,4<5"};
    for (size_t k = 0; k < MU_COUNT(sources); k++) {
        rig *r = make("one_hot", "vocab: 5", sources[k]);
        const int32_t *word = r->layer.src[0]->value.i;
        const float *y = r->layer.out[0].value.f;
        const size_t n = mu_tensor_count(&r->layer.src[0]->value);
        assert_int_equal(mu_tensor_count(&r->layer.out[0].value), n * 5);
        for (size_t i = 0; i < n * 5; i++)
            if (y[i] != (float)((int32_t)(i % 5) == word[i / 5]))
                fail_msg("%s: element %zu of word %d is %g", sources[k], i % 5, word[i / 5], (double)y[i]);
        drop(r);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(flatten_keeps_logical_order),        cmocka_unit_test(reshape_keeps_logical_order),
        cmocka_unit_test(concat_joins_logical_axes),          cmocka_unit_test(slice_undoes_concat),
        cmocka_unit_test(inner_product_weighs_logical_order), cmocka_unit_test(too_large_is_refused),
        cmocka_unit_test(one_hot_marks_every_word),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
