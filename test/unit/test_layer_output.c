// SPDX-License-Identifier: Apache-2.0
// test_layer_output.c - argsort and csv_output: values, files, files begun anew, files that cannot be.
#include "layer_rig.h"

#include <unistd.h>

#define FILE_NAME "test_layer_output.out"

static rig *make(const char *type, const char *settings, const char *sources) {
    rig *r = calloc(1, sizeof *r);
    mu_err err;
    const mu_layer_class *c = (const mu_layer_class *)mu_registry_find(&mu_layers, type);
    if (rig_infer(r, c, settings, sources, MU_TEST, 9, &err) != MU_OK) fail_msg("%s: %s", type, err.msg);
    rig_setup(r);
    return r;
}

static void drop(rig *r) {
    rig_fini(r);
    free(r);
}

static void expect_file(const char *want) {
    char got[1024] = {0};
    FILE *f = fopen(FILE_NAME, "r");
    assert_non_null(f);
    size_t n = fread(got, 1, sizeof got - 1, f);
    got[n] = '\0';
    fclose(f);
    assert_string_equal(got, want);
}

static void argsort_orders_best_first(void **state) {
    (void)state;
    rig *r = make("argsort", "top: 3, path: " FILE_NAME, "f3,4");
    memcpy(r->layer.src[0]->value.f, (float[]){1, 4, 2, 3, 5, 5, 5, 6, NAN, -1, NAN, 0}, 12 * sizeof(float));
    mu_step s = rig_step(r);
    rig_forward(r, &s);
    assert_memory_equal(r->layer.out[0].value.i, ((int32_t[]){1, 3, 2, 3, 0, 1, 3, 1, 0}),
                        9 * sizeof(int32_t));
    expect_file("1 3 2\n3 0 1\n3 1 0\n");
    drop(r);
    unlink(FILE_NAME);
}

static void csv_holds_the_latest_pass(void **state) {
    (void)state;
    rig *r = make("csv_output", "path: " FILE_NAME, "f2,2 i2");
    memcpy(r->layer.src[0]->value.f, (float[]){0.1f, -2, 1e-10f, 3}, 4 * sizeof(float));
    memcpy(r->layer.src[1]->value.i, (int32_t[]){7, 8}, 2 * sizeof(int32_t));
    mu_step s = rig_step(r);
    s.first_sample = 0;
    rig_forward(r, &s);
    s.first_sample = 2;
    s.rows = 1;
    rig_forward(r, &s);
    expect_file("sample,src0.0,src0.1,src1\n0,0.100000001,-2,7\n1,1.00000001e-10,3,8\n2,0.100000001,-2,7\n");
    s.first_sample = 0;
    rig_forward(r, &s);
    expect_file("sample,src0.0,src0.1,src1\n0,0.100000001,-2,7\n");
    drop(r);
    unlink(FILE_NAME);
}

static void csv_writes_images_in_logical_order(void **state) {
    (void)state;
    rig *r = make("csv_output", "header: false, index: false, path: " FILE_NAME, "f1,2,1,3");
    memcpy(r->layer.src[0]->value.f, (float[]){0, 10, 1, 11, 2, 12}, 6 * sizeof(float)); // channels last
    mu_step s = rig_step(r);
    rig_forward(r, &s);
    expect_file("0,1,2,10,11,12\n");
    drop(r);
    unlink(FILE_NAME);
}

static void an_impossible_path_is_named(void **state) {
    (void)state;
    rig *r = make("csv_output", "path: no/such/folder/x.csv", "f1,2");
    mu_step s = rig_step(r);
    mu_err err = {0};
    assert_int_equal(r->layer.class->forward(&r->layer, &s, &err), MU_EIO);
    if (!strstr(err.msg, "no/such/folder/x.csv") || !strstr(err.msg, "No such file")) fail_msg("%s", err.msg);
    drop(r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(argsort_orders_best_first),
        cmocka_unit_test(csv_holds_the_latest_pass),
        cmocka_unit_test(csv_writes_images_in_logical_order),
        cmocka_unit_test(an_impossible_path_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
