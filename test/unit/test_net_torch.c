// SPDX-License-Identifier: Apache-2.0
// test_net_torch.c - loss and every gradient agree with PyTorch, and so do three steps of momentum.
//
// What PyTorch said, in double precision, is recorded in test/torch/vectors by test/torch/make_vectors.py.
// Parameters, images and labels are the formula of test/torch/nets.py. The steps are done in the three
// ways a gradient can reach the updater: dense, as factors, and row by row while backward runs.
//
// `test_net_torch --dump NET FOLDER` writes the complete gradients as raw floats for test/peers.
#include "net/net.h"
#include "updater/updater.h"

#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { BATCH = 4, STEPS = 3 };
#define TOLERANCE 1e-4 // of an element's size plus the root mean square of its parameter

typedef enum way { DENSE, FACTORS, FUSED } way;
static const char *const way_name[] = {"dense", "factors", "fused"};

typedef struct fixture {
    const char *name;
    way way;
    json_t *want;
    mu_job *job;
    mu_updater *updater;
    mu_net *net;
    float *image; // (BATCH, H, W, C), as nets take it
    float *plain; // (BATCH, C, H, W), as the formula counts
    int32_t label[BATCH];
    int64_t step;
    mu_err err;
    double worst; // largest deviation so far, in units as TOLERANCE
} fixture;

#define check(f, call)                                                                                       \
    do {                                                                                                     \
        if ((call) != MU_OK) fail_msg("%s: %s: %s", (f)->name, #call, (f)->err.msg);                         \
    } while (0)

// Element i of the formula, in [-1, 1).
static float draw(uint32_t key, uint32_t i) {
    uint32_t z = i * 0x9E3779B1u + key * 0x85EBCA77u;
    z ^= z >> 16;
    z *= 0x85EBCA6Bu;
    z ^= z >> 13;
    z *= 0xC2B2AE35u;
    z ^= z >> 16;
    return (float)(z >> 8) * 0x1p-23f - 1.0f;
}
static void draw_all(float *out, size_t n, uint32_t key, float size) {
    for (size_t i = 0; i < n; i++) out[i] = draw(key, (uint32_t)i) * size;
}

static double number(const json_t *o, const char *key) {
    const json_t *v = json_object_get(o, key);
    if (!json_is_number(v)) fail_msg("the vectors have no number `%s`", key);
    return json_number_value(v);
}

static void load_vectors(fixture *f) {
    char path[512];
    json_error_t e;
    snprintf(path, sizeof path, "%s/torch/vectors/%s.json", MU_TEST_DIR, f->name);
    f->want = json_load_file(path, 0, &e);
    if (!f->want) fail_msg("%s: %s", path, e.text);
}

static void fill_params(fixture *f) {
    const json_t *list = json_object_get(f->want, "params"), *row;
    size_t i;
    int trained = 0;
    json_array_foreach(list, i, row) {
        const char *name = json_string_value(json_object_get(row, "name"));
        mu_param *p = mu_params_find(f->net->params, name);
        if (!p) fail_msg("%s: the net has no parameter `%s`", f->name, name);
        const json_t *shape = json_object_get(row, "shape");
        assert_int_equal(p->shape.n, json_array_size(shape));
        for (int d = 0; d < p->shape.n; d++)
            assert_int_equal(p->shape.d[d], json_integer_value(json_array_get(shape, (size_t)d)));
        draw_all(p->value, p->count, (uint32_t)number(row, "key"), (float)number(row, "size"));
        p->allow_factors = f->way == FACTORS;
        trained++;
    }
    assert_int_equal(f->net->params->n, trained);
}

static void open_net(fixture *f, const char *name, way w) {
    static const mu_registry *const registries[] = {&mu_inits, &mu_schedules, NULL};
    char path[512];
    *f = (fixture){.name = name, .way = w};
    load_vectors(f);
    snprintf(path, sizeof path, "%s/torch/%s.yaml", MU_TEST_DIR, name);
    check(f, mu_job_load(path, NULL, 0, &f->job, &f->err));
    mu_binder b = {&f->job->arena, &f->job->diags, f->job->folder, registries, 0};
    const json_t *d = json_object_get(f->want, "image");
    mu_data_field fields[2] = {
        {.name = "image", .shape = {.n = 3}, .store = MU_STORE_F32, .is_image = true},
        {.name = "label", .store = MU_STORE_I32, .n_classes = 10},
    };
    for (size_t i = 0; i < 3; i++) fields[0].shape.d[i] = json_integer_value(json_array_get(d, i));
    size_t count = BATCH * (size_t)mu_shape_count(&fields[0].shape);
    f->image = calloc(count, sizeof(float)), f->plain = calloc(count, sizeof(float));
    assert_true(f->image && f->plain);
    mu_net_opts o = {.net = f->job->net,
                     .fields = fields,
                     .n_fields = 2,
                     .phase = MU_TRAIN,
                     .batch = BATCH,
                     .seed = 1,
                     .keep_factors = w == FACTORS};
    check(f, mu_net_create(&b, &o, &f->net, &f->err));
    f->updater = mu_updater_bind(&b, f->job->updater);
    assert_non_null(f->updater);
    check(f, mu_params_alloc_slots(f->net->params, f->updater->class->n_slots, &f->err));
    fill_params(f);
}

static void close_net(fixture *f) {
    mu_net_destroy(f->net);
    mu_job_destroy(f->job);
    free(f->image), free(f->plain);
    json_decref(f->want);
}

// ---- one step ----------------------------------------------------------------------------------

static double rate(const fixture *f) { return mu_updater_rate(f->updater, f->step, 0, STEPS, 1, 0); }

static bool takes(void *ctx, const mu_param *p) {
    (void)ctx;
    return p->shape.n == 2;
}
static void take_rows(void *ctx, mu_param *p, int64_t row0, int64_t n_rows, const float *grad) {
    fixture *f = ctx;
    const mu_target t = mu_target_of(f->updater, f->net->params, p);
    mu_updater_apply_rows(&t, &(mu_update){.rate = rate(f), .step = {.update = f->step}}, row0, n_rows, grad);
}

static double loss_of(const mu_net *net) {
    double sum = 0;
    for (int i = 1; i < net->n_layers; i++)
        for (int k = 0; k < net->layer[i]->n_metric; k++) {
            const mu_metric *m = &net->layer[i]->metric[k];
            if (m->is_loss) sum += m->sum / m->weight;
        }
    return sum;
}

static double forward_backward(fixture *f) {
    const mu_shape *s = &f->net->layer[0]->out[0].value.shape;
    draw_all(f->plain, (size_t)mu_shape_count(s), (uint32_t)(1000 + f->step),
             (float)number(f->want, "image_size"));
    mu_nchw_to_nhwc(f->image, f->plain, BATCH, s->d[1], s->d[2] * s->d[3]);
    for (int32_t b = 0; b < BATCH; b++) f->label[b] = (7 * b + 3 + (int32_t)f->step) % 10;
    mu_tensor in[2] = {{.f = f->image}, {.i = f->label}};
    mu_grad_sink sink = {.ctx = f, .takes = takes, .rows = take_rows};
    mu_step step = {.phase = MU_TRAIN,
                    .step = f->step,
                    .rows = BATCH,
                    .global_rows = BATCH,
                    .sink = f->way == FUSED ? &sink : NULL};
    mu_net_set_input(f->net, in, 2);
    check(f, mu_net_forward(f->net, &step, &f->err));
    double loss = loss_of(f->net);
    check(f, mu_net_backward(f->net, &step, &f->err));
    return loss;
}

static void apply_rest(fixture *f) {
    for (int i = 0; i < f->net->params->n; i++) {
        mu_param *p = f->net->params->list[i];
        const mu_grad *g = &p->grad;
        const mu_target t = mu_target_of(f->updater, f->net->params, p);
        mu_updater_apply(&t, &(mu_update){1, &g, (float[]){1}, rate(f), {.update = f->step}});
    }
    f->step++;
}

// ---- comparison --------------------------------------------------------------------------------

// `noise` is what single precision alone may do to an element.
static void compare_element(fixture *f, const char *param, const char *what, size_t i, double got,
                            double want, double rms, double noise) {
    double off = fabs(got - want) - noise, part = off / (fabs(want) + rms);
    if (part > f->worst) f->worst = part;
    if (!(part <= TOLERANCE))
        fail_msg(
            "%s, %s, %s of %s, element %zu: got %.9g, want %.9g, off by %.2g of its size, tolerance %.2g",
            f->name, way_name[f->way], what, param, i, got, want, part, TOLERANCE);
}

// v - start against the recorded digest; start NULL = 0.
static void compare(fixture *f, const json_t *row, const char *what, const float *v, const float *start,
                    size_t n) {
    const json_t *want = json_object_get(row, what), *samples = json_object_get(want, "samples");
    const char *param = json_string_value(json_object_get(row, "name"));
    const double rms = sqrt(number(want, "squares") / (double)n);
    double sum = 0, squares = 0, noise = 0;
    for (size_t i = 0; i < n; i++) {
        double d = (double)v[i] - (start ? (double)start[i] : 0);
        sum += d;
        squares += d * d;
    }
    const size_t k = json_array_size(samples);
    assert_int_equal(k, n < 64 ? n : 64);
    for (size_t j = 0; j < k; j++) {
        size_t i = j * n / k;
        double base = start ? (double)start[i] : 0;
        noise = fabs(base) * 2 * STEPS * 0x1p-24;
        compare_element(f, param, what, i, (double)v[i] - base, json_number_value(json_array_get(samples, j)),
                        rms, noise);
    }
    double spread = start ? number(row, "size") * STEPS * 0x1p-23 : 0; // rounding of one weight, at most
    compare_element(f, param, "mean", n, sum / (double)n, number(want, "sum") / (double)n, rms, spread);
    compare_element(f, param, "root mean square", n, sqrt(squares / (double)n), rms, rms, spread);
}

static void compare_gradients(fixture *f) {
    const json_t *row;
    size_t i;
    json_array_foreach(json_object_get(f->want, "params"), i, row) {
        const mu_param *p = mu_params_find(f->net->params, json_string_value(json_object_get(row, "name")));
        if (p->grad.form != MU_GRAD_DENSE) fail_msg("%s: gradient of `%s` is not dense", f->name, p->name);
        compare(f, row, "grad", p->grad.dense, NULL, p->count);
    }
}

static void compare_changes(fixture *f) {
    const json_t *row;
    size_t i;
    json_array_foreach(json_object_get(f->want, "params"), i, row) {
        const mu_param *p = mu_params_find(f->net->params, json_string_value(json_object_get(row, "name")));
        float *start = malloc(p->count * sizeof *start);
        assert_non_null(start);
        draw_all(start, p->count, (uint32_t)number(row, "key"), (float)number(row, "size"));
        compare(f, row, "change", p->value, start, p->count);
        free(start);
    }
}

static void run(const char *name, way w) {
    fixture f;
    open_net(&f, name, w);
    int n_factors = 0;
    for (int64_t s = 0; s < STEPS; s++) {
        double loss = forward_backward(&f),
               want = json_number_value(json_array_get(json_object_get(f.want, "losses"), (size_t)s));
        compare_element(&f, "the net", "loss", (size_t)s, loss, want, 0, 0);
        if (s == 0 && w == DENSE) compare_gradients(&f);
        for (int i = 0; i < f.net->params->n; i++)
            n_factors += f.net->params->list[i]->grad.form == MU_GRAD_FACTORS;
        apply_rest(&f);
    }
    compare_changes(&f);
    if (w == FACTORS) assert_true(n_factors > 0);
    else assert_int_equal(n_factors, 0);
    print_message("%-13s %-8s worst deviation %.1e of an element's size (tolerance %.0e)\n", name,
                  way_name[w], f.worst, TOLERANCE);
    close_net(&f);
}

static void run_all(const char *name) {
    for (way w = DENSE; w <= FUSED; w++) run(name, w);
}
static void test_lenet(void **unused) { (void)unused, run_all("lenet"); }
static void test_cifar10_full(void **unused) { (void)unused, run_all("cifar10_full"); }
static void test_mlp_sigmoid(void **unused) { (void)unused, run_all("mlp_sigmoid"); }
static void test_mlp_relu(void **unused) { (void)unused, run_all("mlp_relu"); }
static void test_rnn(void **unused) { (void)unused, run_all("rnn"); }
static void test_gru(void **unused) { (void)unused, run_all("gru"); }
static void test_lstm(void **unused) { (void)unused, run_all("lstm"); }

static int dump(const char *name, const char *folder) {
    fixture f;
    open_net(&f, name, DENSE);
    printf("%.9g\n", forward_backward(&f));
    for (int i = 0; i < f.net->params->n; i++) {
        const mu_param *p = f.net->params->list[i];
        char path[1024];
        snprintf(path, sizeof path, "%s/%s.grad", folder, p->name);
        FILE *out = fopen(path, "wb");
        bool good = out && fwrite(p->grad.dense, sizeof(float), p->count, out) == p->count;
        if (!out || fclose(out) || !good) {
            perror(path);
            return 1;
        }
    }
    close_net(&f);
    return 0;
}

int main(int argc, char **argv) {
    if (argc == 4 && !strcmp(argv[1], "--dump")) return dump(argv[2], argv[3]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lenet),
        cmocka_unit_test(test_cifar10_full),
        cmocka_unit_test(test_mlp_sigmoid),
        cmocka_unit_test(test_mlp_relu),
        cmocka_unit_test(test_rnn),
        cmocka_unit_test(test_gru),
        cmocka_unit_test(test_lstm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
