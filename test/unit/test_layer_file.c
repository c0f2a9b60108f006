// SPDX-License-Identifier: Apache-2.0
// test_layer_file.c - the initialiser `file`: values of another run, straight and transposed, and what is
// said when they do not fit. (test/job/bad has the same with places in the job.)
#include "run_help.h"

#include "layer/param.h"
#include "file/safetensors.h"

struct file { // as in i_file.c, by its field table
    const char *path, *tensor;
    bool transpose;
};

static char dir[64];
static float weight[6] = {1, 2, 3, 4, 5, 6}, bias[3] = {7, 8, 9};

static const mu_init_class *file_class(void) {
    const mu_init_class *c = (const mu_init_class *)mu_registry_find(&mu_inits, "file");
    assert_non_null(c);
    assert_int_equal(c->state_size, sizeof(struct file));
    return c;
}

static mu_status load(struct file f, const char *name, mu_shape shape, float *out, mu_err *err) {
    return file_class()->load(&f, name, &shape, out, err);
}

static int make_file(void **state) {
    (void)state;
    temp_dir(dir);
    mu_st_tensor t[] = {mu_st_f32("enc.weight", MU_SHAPE(2, 3), weight), mu_st_f32("bias", MU_SHAPE(3), bias),
                        {.name = "words", .dtype = MU_ST_I32, .shape = MU_SHAPE(3), .data = bias}};
    assert_ok(mu_st_save(dir, "model.safetensors", t, 3, NULL, 0, err));
    return 0;
}

static int remove_file(void **state) {
    (void)state;
    remove_tree(dir);
    return 0;
}

static void values_are_those_of_the_file(void **state) {
    (void)state;
    char path[128];
    snprintf(path, sizeof path, "%s/model.safetensors", dir);
    float out[6];
    const char *const places[] = {path, dir}; // a folder stands for its model
    for (int k = 0; k < 2; k++) {
        memset(out, 0, sizeof out);
        assert_ok(load((struct file){places[k], "", false}, "enc.weight", MU_SHAPE(2, 3), out, err));
        assert_memory_equal(out, weight, sizeof weight);
        assert_ok(load((struct file){places[k], "bias", false}, "enc.bias", MU_SHAPE(3), out, err));
        assert_memory_equal(out, bias, sizeof bias);
    }
    const float turned[6] = {1, 4, 2, 5, 3, 6};
    assert_ok(load((struct file){path, "enc.weight", true}, "dec.weight", MU_SHAPE(3, 2), out, err));
    assert_memory_equal(out, turned, sizeof turned);
    assert_ok(load((struct file){path, "enc.weight", true}, "dec.weight", MU_SHAPE(3, 2), NULL, err));
}

static void what_does_not_fit_is_named(void **state) {
    (void)state;
    float out[6];
    assert_fails(load((struct file){dir, "", false}, "dec.weight", MU_SHAPE(2, 3), out, err), MU_EJOB,
                 "no tensor `dec.weight`");
    assert_fails(load((struct file){dir, "enc.weight", false}, "w", MU_SHAPE(3, 2), out, err), MU_EJOB,
                 "has shape (2, 3), `w` needs (3, 2)");
    assert_fails(load((struct file){dir, "enc.weight", true}, "w", MU_SHAPE(2, 3), out, err), MU_EJOB,
                 "has shape (2, 3), `w` needs (3, 2) to be transposed");
    assert_fails(load((struct file){dir, "bias", true}, "b", MU_SHAPE(3), out, err), MU_EJOB,
                 "only a matrix");
    assert_fails(load((struct file){dir, "words", false}, "b", MU_SHAPE(3), out, err), MU_EJOB, "I32");
    assert_fails(load((struct file){"no/such/folder", "", false}, "b", MU_SHAPE(3), out, err), MU_ENOTFOUND,
                 "does not exist");
    mu_err err;
    mu_err_clear(&err);
    assert_int_equal(load((struct file){dir, "enc.weight", false}, "w", MU_SHAPE(3, 2), out, &err), MU_EJOB);
    assert_non_null(strstr(err.hint, "transpose: true"));
}

static void every_allocation_may_fail(void **state) {
    (void)state;
    float out[6];
    mu_status s = MU_ENOMEM;
    uint64_t live = mu_alloc_get_stats().n_live;
    for (int n = 1; s != MU_OK; n++) {
        mu_err err;
        mu_err_clear(&err);
        mu_alloc_fail_at(n);
        s = load((struct file){dir, "", false}, "enc.weight", MU_SHAPE(2, 3), out, &err);
        mu_alloc_fail_at(0);
        if (s != MU_OK) assert_int_equal(err.status, s);
        assert_int_equal(mu_alloc_get_stats().n_live, live);
        assert_true(n < 1000);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_those_of_the_file),
        cmocka_unit_test(what_does_not_fit_is_named),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, make_file, remove_file);
}
