// SPDX-License-Identifier: Apache-2.0
// test_layer_infer.c - output sizes as in Caffe and PyTorch, and what a layer says about wrong sources.
#include "layer_rig.h"

static void expect_shape(const char *type, const char *settings, const char *sources, const char *want) {
    rig *r = calloc(1, sizeof *r);
    mu_err err;
    char text[96];
    const mu_layer_class *c = (const mu_layer_class *)mu_registry_find(&mu_layers, type);
    if (rig_infer(r, c, settings, sources, MU_TRAIN, 1, &err) != MU_OK)
        fail_msg("%s {%s}: %s", type, settings, err.msg);
    assert_string_equal(mu_shape_text(&r->layer.out[0].value.shape, text), want);
    rig_fini(r);
    free(r);
}

static void sizes_are_those_of_the_known_nets(void **state) {
    (void)state;
    expect_shape("convolution", "filters: 20, kernel: 5", "f64,1,28,28", "(64, 20, 24, 24)"); // LeNet
    expect_shape("pooling", "kernel: 2, stride: 2", "f64,20,24,24", "(64, 20, 12, 12)");
    expect_shape("convolution", "filters: 32, kernel: 5, pad: 2", "f100,3,32,32",
                 "(100, 32, 32, 32)"); // cifar10
    expect_shape("pooling", "kernel: 3, stride: 2", "f100,32,32,32", "(100, 32, 16, 16)");
    expect_shape("pooling", "kernel: 3, stride: 2, round: floor", "f100,32,32,32", "(100, 32, 15, 15)");
    expect_shape("convolution", "filters: 96, kernel: 11, stride: 4", "f2,3,227,227",
                 "(2, 96, 55, 55)"); // AlexNet
    expect_shape("pooling", "kernel: 3, stride: 2", "f2,96,55,55", "(2, 96, 27, 27)");
    expect_shape("convolution", "filters: 256, kernel: 5, pad: 2, groups: 2", "f2,96,27,27",
                 "(2, 256, 27, 27)");
    expect_shape("convolution", "filters: 64, kernel: 11, stride: 4, pad: 2", "f2,3,224,224",
                 "(2, 64, 55, 55)");
    expect_shape("pooling", "kernel: 2, pad: 1, stride: 2", "f2,1,3,3",
                 "(2, 1, 2, 2)");                                          // no window of padding only
    expect_shape("pooling", "kernel: [3, 2]", "f2,1,6,6", "(2, 1, 2, 3)"); // stride = kernel
    expect_shape("inner_product", "outputs: 500", "f64,50,4,4", "(64, 500)");
    expect_shape("embedding", "vocab: 9, dim: 4", "i3,7", "(3, 7, 4)");
}

static void expect_refusal(const char *type, const char *settings, const char *sources, const char *msg,
                           const char *hint) {
    rig *r = calloc(1, sizeof *r);
    mu_err err;
    const mu_layer_class *c = (const mu_layer_class *)mu_registry_find(&mu_layers, type);
    mu_status st = rig_infer(r, c, settings, sources, MU_TRAIN, 1, &err);
    assert_int_equal(st, MU_EJOB);
    if (!strstr(err.msg, msg)) fail_msg("%s {%s}: message is `%s`, want `%s`", type, settings, err.msg, msg);
    if (hint && !strstr(err.hint, hint))
        fail_msg("%s {%s}: hint is `%s`, want `%s`", type, settings, err.hint, hint);
    assert_int_equal(err.pos.line, 6);
    rig_fini(r);
    free(r);
}

static void refusals_name_both_sides(void **state) {
    (void)state;
    expect_refusal("convolution", "filters: 2, kernel: 3", "f64,500",
                   "convolution needs a 4-D source, `src0` gives (64, 500)",
                   "(batch, channels, height, width)");
    expect_refusal("convolution", "filters: 2, kernel: 9", "f2,3,4,5",
                   "kernel 9x9 does not fit into `src0` of 4x5 with pad 0x0", "height x width");
    expect_refusal("convolution", "filters: 4, kernel: 1, groups: 2", "f2,3,4,5",
                   "3 input channels cannot be cut into 2 groups", "`groups`");
    expect_refusal("convolution", "filters: 3, kernel: 1, groups: 2", "f2,4,4,5",
                   "3 filters cannot be cut into 2 groups", NULL);
    expect_refusal("pooling", "kernel: 5", "f2,3,4,5", "kernel 5x5 does not fit", "smaller");
    expect_refusal("pooling", "kernel: 2, pad: 2", "f2,3,4,5", "pad 2 is not smaller than kernel 2", "touch");
    expect_refusal("lrn", "size: 4", "f2,3,4,5", "size 4 is even", "3 or 5");
    expect_refusal("relu", "", "i4", "relu needs numbers, `src0` gives integers", "labels");
    expect_refusal("softmax_loss", "", "f4,5 f4,5",
                   "one integer label for each sample, `src1` gives numbers (4, 5)", "data.label");
    expect_refusal("softmax_loss", "", "f4,5,3,3 i4",
                   "needs a source (batch, values), `src0` gives (4, 5, 3, 3)", "flatten");
    expect_refusal("softmax_loss", "top: [1, 9]", "f4,5 i4", "top 9 of only 5 scores", "classes");
    expect_refusal("accuracy", "", "f4,5 i3", "`src0` gives 4 rows, `src1` gives 3 labels", NULL);
    expect_refusal("euclidean_loss", "", "f4,5 f4,6", "`src0` gives (4, 5), `src1` gives (4, 6)", NULL);
    expect_refusal("euclidean_loss", "", "f4,12 f4,3,2,2", "two sources of one shape", "flatten");
    expect_refusal("sigmoid_loss", "", "f4,5 i4",
                   "an integer label needs a single score, `src0` gives (4, 5)", "softmax_loss");
    expect_refusal("add", "", "f4,5 f4,6", "`src0` gives (4, 5), `src1` gives (4, 6)", NULL);
    expect_refusal("add", "coefficients: [1, 2, 3]", "f4,5 f4,5", "3 coefficients for 2 sources", NULL);
    expect_refusal("concat", "axis: 2", "f4,5 f4,5", "there is no axis 2 in `src0` (4, 5)", "batch");
    expect_refusal("concat", "", "f4,5 f3,5", "`src0` (4, 5) and `src1` (3, 5) cannot be joined along axis 1",
                   "equal");
    expect_refusal("slice", "outputs: 3", "f4,5", "axis 1 of size 5 cannot be cut into 3 equal parts",
                   "points");
    expect_refusal("slice", "points: [3, 2]", "f4,5", "point 2 is not between 3 and 5", "rise");
    expect_refusal("slice", "points: [5]", "f4,5", "point 5 is not between 0 and 5", "inside");
    expect_refusal("reshape", "shape: [0, 7]", "f4,5", "`src0` (4, 5) cannot take the shape (0, 7)", "-1");
    expect_refusal("reshape", "shape: [2, 10]", "f4,5", "cannot take the shape (2, 10)", "batch");
    expect_refusal("argsort", "top: 6", "f4,5", "top 6 of only 5 scores", NULL);
    expect_refusal("batch_norm", "", "f1,5", "a batch of 1 has no variance", "at least 2");
    expect_refusal("embedding", "vocab: 5, dim: 2", "f4,5", "embedding needs integers", "word numbers");
}

static void costs_count_useful_work(void **state) {
    (void)state;
    rig *r = calloc(1, sizeof *r);
    mu_err err;
    const mu_layer_class *c = (const mu_layer_class *)mu_registry_find(&mu_layers, "convolution");
    assert_int_equal(rig_infer(r, c, "filters: 4, kernel: 3, pad: 1", "f2,3,4,4", MU_TRAIN, 1, &err), MU_OK);
    mu_cost cost = {0};
    c->cost(&r->layer, &cost);
    double taps = (2 + 3 + 3 + 2) * (2 + 3 + 3 + 2); // an edge row has two taps in the image
    assert_int_equal((int64_t)cost.flops_forward, (int64_t)(2.0 * 2 * 4 * 3 * taps));
    assert_int_equal((int64_t)cost.flops_backward, 2 * (int64_t)cost.flops_forward);
    rig_fini(r);
    free(r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_are_those_of_the_known_nets),
        cmocka_unit_test(refusals_name_both_sides),
        cmocka_unit_test(costs_count_useful_work),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
