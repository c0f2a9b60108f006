// SPDX-License-Identifier: Apache-2.0
// test_net_build.c - building nets from job text: shapes, splits, sharing, memory reuse, errors.
#include "net/net.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const mu_registry *const registries[] = {&mu_inits, NULL};
#define HEAD                                                                                                 \
    "name: t\ndata: {train: {reader: synthetic}}\ntrain: {epochs: 1}\nupdater: {type: sgd, rate: "           \
    "0.1}\nnet:\n"

typedef struct fixture { mu_job *job; mu_binder b; mu_net *net; mu_err err; mu_status status; } fixture;

typedef mu_status (*builder)(mu_binder *b, const mu_net_opts *o, mu_net **out, mu_err *err);

static void build_by(builder how, fixture *f, const char *layers, mu_net_opts o) {
    static char text[8192];
    snprintf(text, sizeof text, "%s%s", HEAD, layers);
    memset(f, 0, sizeof *f);
    f->status = mu_job_parse("t.yaml", text, strlen(text), NULL, 0, &f->job, &f->err);
    if (f->status != MU_OK) mu_diags_print(&f->job->diags, stderr, false);
    assert_int_equal(f->status, MU_OK);
    f->b = (mu_binder){&f->job->arena, &f->job->diags, ".", registries, 0};
    static mu_data_field fields[2];
    fields[0] =
        (mu_data_field){.name = "image", .shape = MU_SHAPE(2, 8, 8), .store = MU_STORE_F32, .is_image = true};
    fields[1] = (mu_data_field){.name = "label", .shape = {0}, .store = MU_STORE_I32, .n_classes = 5};
    o.net = f->job->net;
    o.fields = fields;
    o.n_fields = 2;
    if (!o.batch) o.batch = 3;
    if (!o.phase) o.phase = MU_TRAIN;
    o.seed = 7;
    f->status = how(&f->b, &o, &f->net, &f->err);
    if (f->status != MU_OK && f->status != MU_EJOB) fail_msg("%s", f->err.msg);
}

static void build(fixture *f, const char *layers, mu_net_opts o) { build_by(mu_net_create, f, layers, o); }

static void done(fixture *f) {
    mu_net_destroy(f->net);
    mu_job_destroy(f->job);
}

static float image[3 * 2 * 8 * 8];
static int32_t label[3] = {1, 4, 0};

static void step(mu_net *net, const mu_step *extra) {
    for (size_t i = 0; i < MU_COUNT(image); i++) image[i] = sinf((float)i * 0.7f);
    mu_tensor in[2] = {{.f = image}, {.i = label}};
    mu_net_set_input(net, in, 2);
    mu_step s = {.phase = net->phase, .rows = 3, .global_rows = 3};
    if (extra) s = *extra;
    mu_err err;
    mu_err_clear(&err);
    if (mu_net_forward(net, &s, &err) != MU_OK) fail_msg("%s", err.msg);
    if (net->backward && mu_net_backward(net, &s, &err) != MU_OK) fail_msg("%s", err.msg);
}

#define BRANCHES                                                                                   \
    "- {name: c1, type: convolution, src: data.image, filters: 4, kernel: 3, pad: 1}\n"            \
    "- {name: r1, type: relu}\n"                                                                   \
    "- {name: a, type: convolution, src: r1, filters: 4, kernel: 3, pad: 1}\n"                     \
    "- {name: b, type: convolution, src: r1, filters: 4, kernel: 1}\n"                             \
    "- {name: sum, type: add, src: [a, b, r1]}\n"                                                  \
    "- {name: p, type: pooling, method: max, kernel: 2}\n"                                         \
    "- {name: ip, type: inner_product, outputs: 5}\n"                                              \
    "- {name: loss, type: softmax_loss, src: [ip, data.label]}\n"                                  \
    "- {name: acc, type: accuracy, src: [ip, data.label]}\n"

static void splits_are_inserted_and_named(void **state) {
    (void)state;
    fixture f;
    build(&f, BRANCHES, (mu_net_opts){0});
    assert_int_equal(f.status, MU_OK);
    mu_layer *s = mu_net_find(f.net, "split(r1)");
    assert_non_null(s);
    assert_int_equal(s->n_out, 3);
    assert_null(mu_net_find(f.net, "split(ip)")); // accuracy takes no gradient
    char text[96];
    assert_string_equal(mu_shape_text(&mu_net_find(f.net, "p")->out[0].value.shape, text), "(3, 4, 4, 4)");
    assert_int_equal(mu_params_n_trained(f.net->params), 4 * 2 * 9 + 4 + 4 * 4 * 9 + 4 + 16 + 4 + 5 * 64 + 5);
    done(&f);
}

static void reuse_changes_memory_not_results(void **state) {
    (void)state;
    fixture planned, apart;
    build(&planned, BRANCHES, (mu_net_opts){0});
    build(&apart, BRANCHES, (mu_net_opts){.keep_all = true});
    assert_int_equal(planned.status, MU_OK);
    assert_int_equal(apart.status, MU_OK);
    for (int round = 0; round < 2; round++) { // the second finds the memory dirty
        step(planned.net, NULL);
        step(apart.net, NULL);
        assert_true(mu_net_find(planned.net, "loss")->metric[0].sum ==
                    mu_net_find(apart.net, "loss")->metric[0].sum);
        for (int i = 0; i < planned.net->params->n; i++) {
            const mu_param *a = planned.net->params->list[i], *b = apart.net->params->list[i];
            assert_int_equal(a->grad.form, MU_GRAD_DENSE);
            if (memcmp(a->grad.dense, b->grad.dense, a->count * 4))
                fail_msg("gradient of %s differs", a->name);
        }
    }
    print_message("activations: %zu bytes planned, %zu without reuse\n", planned.net->activation_bytes,
                  apart.net->activation_bytes);
    assert_true(planned.net->activation_bytes < apart.net->activation_bytes);
    done(&planned);
    done(&apart);
}

// All nets of a job are shaped before one is ready. The second one's batch is larger: what the parameters say
// of gradients is that of the first.
static void shaping_takes_nothing_of_a_device(void **state) {
    (void)state;
    fixture train, test, whole;
    build(&whole, BRANCHES, (mu_net_opts){0});
    build_by(mu_net_shape, &train, BRANCHES, (mu_net_opts){0});
    build_by(mu_net_shape, &test, BRANCHES,
             (mu_net_opts){.phase = MU_TEST, .batch = 50, .share = train.net->params});
    const mu_net *nets[] = {train.net, test.net};
    for (size_t k = 0; k < MU_COUNT(nets); k++) {
        assert_null(nets[k]->device);
        assert_null(nets[k]->activations);
        assert_in_range(nets[k]->activation_bytes, 1, 1 << 20);
        for (int i = 0; i < nets[k]->n_layers; i++) assert_null(nets[k]->layer[i]->op);
    }
    const mu_params *ps = train.net->params;
    assert_null(ps->value);
    for (int i = 0; i < ps->n; i++) {
        assert_int_equal(ps->list[i]->index, i);
        assert_int_equal(ps->list[i]->n_users, 1);
    }
    assert_int_equal(mu_net_find(train.net, "ip")->param[0]->max_batch, 3);
    for (int round = 0; round < 2; round++) // the second finds it ready
        assert_int_equal(mu_net_ready(train.net, mu_device_cpu(), &train.err), MU_OK);
    assert_int_equal(mu_net_ready(test.net, mu_device_cpu(), &test.err), MU_OK);
    assert_int_equal(train.net->activation_bytes, whole.net->activation_bytes);
    step(train.net, NULL);
    step(whole.net, NULL);
    for (int i = 0; i < ps->n; i++)
        assert_memory_equal(ps->list[i]->grad.dense, whole.net->params->list[i]->grad.dense,
                            ps->list[i]->count * sizeof(float));
    done(&test);
    done(&train);
    done(&whole);
}

static void what_could_not_be_made_ready_says_so(void **state) {
    (void)state;
    fixture f;
    build_by(mu_net_shape, &f, BRANCHES, (mu_net_opts){0});
    mu_alloc_fail_at(1);
    assert_int_equal(mu_net_ready(f.net, mu_device_cpu(), &f.err), MU_ENOMEM);
    mu_alloc_fail_at(0);
    mu_err_clear(&f.err);
    assert_int_equal(mu_net_ready(f.net, mu_device_cpu(), &f.err), MU_EBACKEND);
    done(&f);
}

static void a_layer_without_a_cost_moves_its_elements(void **state) {
    (void)state;
    fixture f;
    build_by(mu_net_shape, &f, BRANCHES, (mu_net_opts){0});
    const mu_cost relu = mu_layer_cost(mu_net_find(f.net, "r1"));
    const mu_cost sum = mu_layer_cost(mu_net_find(f.net, "sum"));
    const mu_cost c1 = mu_layer_cost(mu_net_find(f.net, "c1"));
    assert_true(relu.flops_forward == 0 && relu.bytes == 4.0 * 2 * 3 * 4 * 8 * 8);
    assert_true(sum.bytes == 4.0 * 4 * 3 * 4 * 8 * 8);
    assert_true(c1.flops_forward > 0 && c1.flops_backward == c1.flops_forward); // no gradient of the data
    done(&f);
}

static void phases_share_parameters(void **state) {
    (void)state;
    fixture train, test;
    build(&train, BRANCHES "- {name: extra, type: relu, src: ip, include: [test]}\n", (mu_net_opts){0});
    assert_null(mu_net_find(train.net, "extra"));
    build(&test, BRANCHES "- {name: extra, type: relu, src: ip, include: [test]}\n",
          (mu_net_opts){.phase = MU_TEST, .share = train.net->params});
    assert_int_equal(test.status, MU_OK);
    assert_non_null(mu_net_find(test.net, "extra"));
    assert_null(mu_net_find(test.net, "split(r1)")); // no gradients, no split
    assert_ptr_equal(mu_net_find(test.net, "ip")->param[0], mu_net_find(train.net, "ip")->param[0]);
    step(train.net, NULL);
    step(test.net, NULL);
    assert_true(fabs(mu_net_find(train.net, "loss")->metric[0].sum -
                     mu_net_find(test.net, "loss")->metric[0].sum) < 1e-5);
    done(&test);
    done(&train);
}

static void sharing_by_name_sums_gradients(void **state) {
    (void)state;
    fixture f;
    build(&f,
          "- {name: a, type: inner_product, src: data.image, outputs: 128, weight: {name: w}, bias_term: "
          "false}\n"
          "- {name: b, type: inner_product, outputs: 128, weight: {name: w}, bias_term: false}\n"
          "- {name: c, type: inner_product, outputs: 5}\n"
          "- {name: loss, type: softmax_loss, src: [c, data.label]}\n",
          (mu_net_opts){0});
    assert_int_equal(f.status, MU_OK);
    mu_param *w = mu_params_find(f.net->params, "w");
    assert_non_null(w);
    assert_int_equal(w->n_users, 2);
    step(f.net, NULL);
    // numeric check of one element through both uses
    double h = 1e-2, up, down;
    float old = w->value[7], g = w->grad.dense[7];
    w->value[7] = (float)(old + h);
    step(f.net, NULL);
    up = mu_net_find(f.net, "loss")->metric[0].sum / 3;
    w->value[7] = (float)(old - h);
    step(f.net, NULL);
    down = mu_net_find(f.net, "loss")->metric[0].sum / 3;
    double numeric = (up - down) / (2 * h);
    if (fabs(numeric - (double)g) > 1e-3 + 0.02 * fabs(numeric))
        fail_msg("gradient %g, numeric %g", (double)g, numeric);
    done(&f);
}

static void accumulation_adds_batches(void **state) {
    (void)state;
    fixture f;
    build(&f, BRANCHES, (mu_net_opts){0});
    step(f.net, NULL);
    mu_param *w = mu_params_find(f.net->params, "a.weight");
    float once = w->grad.dense[3];
    step(f.net, &(mu_step){.phase = MU_TRAIN, .rows = 3, .global_rows = 3, .accumulate = true});
    if (fabsf(w->grad.dense[3] - 2 * once) > 1e-6f)
        fail_msg("%g is not twice %g", (double)w->grad.dense[3], (double)once);
    done(&f);
}

static void problems_are_all_reported(void **state) {
    (void)state;
    fixture f;
    build(&f, "- {name: c1, type: convolutoin, filters: 4}\n"
              "- {name: c2, type: convolution, src: data.imag, filters: 4, kernel: 3}\n"
              "- {name: c3, type: convolution, src: data.image, filters: 4, kernel: 30}\n"
              "- {name: c3, type: relu, src: data.image}\n"
              "- {name: d, type: relu, src: e}\n"
              "- {name: e, type: relu, src: data.image, include: [tset]}\n", (mu_net_opts){0});
    assert_int_equal(f.status, MU_EJOB);
    mu_diags_print(&f.job->diags, stdout, false);
    assert_int_equal(f.job->diags.n_errors, 6);
    assert_int_equal(f.job->diags.list[0].pos.line, 6);
    mu_job_destroy(f.job);
}

static void every_allocation_may_fail(void **state) {
    (void)state;
    for (int64_t n = 1;; n++) {
        fixture f = {0};
        static char text[8192];
        snprintf(text, sizeof text, "%s%s", HEAD, BRANCHES);
        uint64_t live = mu_alloc_get_stats().n_live;
        assert_int_equal(mu_job_parse("t.yaml", text, strlen(text), NULL, 0, &f.job, &f.err), MU_OK);
        f.b = (mu_binder){&f.job->arena, &f.job->diags, ".", registries, 0};
        mu_data_field fields[2] = {{.name = "image", .shape = MU_SHAPE(2, 8, 8)},
                                   {.name = "label", .store = MU_STORE_I32}};
        mu_net_opts o = {.net = f.job->net, .fields = fields, .n_fields = 2, .batch = 3, .phase = MU_TRAIN};
        mu_alloc_fail_at(n);
        mu_status s = mu_net_create(&f.b, &o, &f.net, &f.err);
        mu_alloc_fail_at(0);
        if (s == MU_OK) mu_net_destroy(f.net);
        mu_job_destroy(f.job);
        assert_int_equal(mu_alloc_get_stats().n_live, live);
        if (s == MU_OK) { print_message("%lld allocations\n", (long long)n - 1); break; }
        assert_true(n < 10000);
    }
}

// Outputs are declared in infer, after the marking of gradients: any of them may be the only one that counts.
static void a_later_output_alone_carries_the_gradient(void **state) {
    (void)state;
    fixture f;
    build(&f,
          "- {name: ip, type: inner_product, src: data.image, outputs: 10}\n"
          "- {name: cut, type: slice, outputs: 2}\n"
          "- {name: loss, type: softmax_loss, src: [cut.1, data.label]}\n",
          (mu_net_opts){0});
    assert_int_equal(f.status, MU_OK);
    step(f.net, NULL);
    const mu_param *w = mu_params_find(f.net->params, "ip.weight");
    assert_int_equal(w->grad.form, MU_GRAD_DENSE);
    // The first half belongs to cut.0, which nobody takes.
    for (size_t i = 0; i < w->count / 2; i++) assert_true(w->grad.dense[i] == 0);
    assert_true(w->grad.dense[w->count / 2] != 0);
    done(&f);
}

static void in_place_on_a_source_without_gradient(void **state) {
    (void)state;
    fixture f;
    build(&f,
          "- {name: p, type: pooling, src: data.image, kernel: 1}\n"
          "- {name: c, type: convolution, src: data.image, filters: 2, kernel: 1}\n"
          "- {name: sum, type: add, src: [p, c]}\n"
          "- {name: ip, type: inner_product, outputs: 5}\n"
          "- {name: loss, type: softmax_loss, src: [ip, data.label]}\n",
          (mu_net_opts){0});
    assert_int_equal(f.status, MU_OK);
    const mu_layer *p = mu_net_find(f.net, "p"), *sum = mu_net_find(f.net, "sum");
    assert_ptr_equal(sum->out[0].value.data, p->out[0].value.data);
    assert_null(p->out[0].grad.data);
    assert_non_null(sum->out[0].grad.data);
    step(f.net, NULL);
    assert_int_equal(mu_params_find(f.net->params, "c.weight")->grad.form, MU_GRAD_DENSE);
    done(&f);
}

// What a later user of a shared parameter says of it is what the first one says, or a problem at that place.
static void a_shared_parameter_is_described_once(void **state) {
    (void)state;
    static const struct { const char *first, *later, *key; } cases[] = {
        {"lr: 0.5, decay: 0, max_norm: 3, init: {type: uniform, high: 2}",
         "lr: 0.5, decay: 0, max_norm: 3, init: {type: uniform, high: 2}", NULL},
        {"lr: 0.5, decay: 0", "name: w", NULL},
        {"lr: 1", "decay: 1", NULL},
        {"lr: 0.5", "lr: 1", "lr"},
        {"decay: 1", "decay: 0", "decay"},
        {"lr: 1", "max_norm: 3", "max_norm"},
        {"init: {type: uniform, high: 2}", "init: {type: uniform, high: 3}", "init"},
        {"init: xavier", "init: gaussian", "init"},
        {"lr: 1", "init: {type: file, path: nowhere}", "init"},
    };
    for (size_t i = 0; i < MU_COUNT(cases); i++) {
        char text[1024], want[100];
        fixture f;
        snprintf(text, sizeof text,
                 "- {name: a, type: inner_product, src: data.image, outputs: 5, weight: {name: w, %s}}\n"
                 "- {name: b, type: inner_product, src: data.image, outputs: 5, weight: {%s%s}}\n"
                 "- {name: sum, type: add, src: [a, b]}\n"
                 "- {name: loss, type: softmax_loss, src: [sum, data.label]}\n",
                 cases[i].first, strncmp(cases[i].later, "name", 4) ? "name: w, " : "", cases[i].later);
        build(&f, text, (mu_net_opts){0});
        const mu_diag *d = f.job->diags.n ? &f.job->diags.list[0] : NULL;
        if (!cases[i].key && d) fail_msg("case %zu: `%s`", i, d->msg);
        snprintf(want, sizeof want, "`w` is described by layer `a`, with another `%s`",
                 cases[i].key ? cases[i].key : "");
        if (cases[i].key && (!d || strcmp(d->msg, want) || d->pos.line != 7))
            fail_msg("case %zu: `%s` at line %d, want `%s`", i, d ? d->msg : "", d ? (int)d->pos.line : 0,
                     want);
        done(&f);
    }
}

// More consumers than a split has outputs: a tree of splits adds the same gradients.
static void many_consumers_get_a_tree(void **state) {
    (void)state;
    char text[4096] = "- {name: ip, type: inner_product, src: data.image, outputs: 5}\n";
    for (int i = 0; i <= MU_MAX_OUT; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text),
                 "- {name: l%d, type: softmax_loss, src: [ip, data.label]}\n", i);
    fixture f, one;
    build(&f, text, (mu_net_opts){0});
    assert_int_equal(f.status, MU_OK);
    assert_non_null(mu_net_find(f.net, "split(ip)"));
    assert_non_null(mu_net_find(f.net, "split(split(ip).15)"));
    build(&one, "- {name: ip, type: inner_product, src: data.image, outputs: 5}\n"
                "- {name: l, type: softmax_loss, src: [ip, data.label]}\n", (mu_net_opts){0});
    step(f.net, NULL);
    step(one.net, NULL);
    const mu_param *a = mu_params_find(f.net->params, "ip.weight");
    const mu_param *b = mu_params_find(one.net->params, "ip.weight");
    for (size_t i = 0; i < a->count; i++) {
        const float want = (float)(MU_MAX_OUT + 1) * b->grad.dense[i];
        if (fabsf(a->grad.dense[i] - want) > 1e-5f * (1 + fabsf(want)))
            fail_msg("gradient %zu is %g, want %g", i, (double)a->grad.dense[i], (double)want);
    }
    done(&f);
    done(&one);
}

// Gradients as rows name them by the words of the batch, which must outlive the backward pass.
static void words_of_a_rows_gradient_stay_to_the_end(void **state) {
    (void)state;
    fixture f;
    build(&f,
          "- {name: word, type: reshape, src: data.label, shape: [0, 1]}\n"
          "- {name: words, type: concat, src: [word, word, word, word, word, word, word, word, word, word]}\n"
          "- {name: a, type: inner_product, src: data.image, outputs: 5}\n"
          "- {name: b, type: inner_product, outputs: 5}\n"
          "- {name: c, type: inner_product, outputs: 5}\n"
          "- {name: e, type: embedding, src: words, vocab: 100, dim: 1}\n"
          "- {name: d, type: inner_product, src: e, outputs: 5}\n"
          "- {name: sum, type: add, src: [c, d]}\n"
          "- {name: loss, type: softmax_loss, src: [sum, data.label]}\n",
          (mu_net_opts){0});
    assert_int_equal(f.status, MU_OK);
    mu_param *w = mu_params_find(f.net->params, "e.weight");
    w->allow_factors = true;
    step(f.net, NULL);
    assert_int_equal(w->grad.form, MU_GRAD_ROWS);
    assert_int_equal(w->grad.n_rows, 30);
    for (int i = 0; i < 30; i++) assert_int_equal(w->grad.row[i], label[i / 10]);
    done(&f);
}

// ---- what a job may say ----

static void phases_by_name(void **state) {
    (void)state;
    static const struct { const char *key, *phase; bool in_train, in_test; } cases[] = {
        {"include", "train", true, false},     {"include", "[train, validation]", true, false},
        {"include", "test", false, true},      {"include", "[train, test]", true, true},
        {"exclude", "train", false, true},     {"exclude", "[test, predict]", true, false},
        {"include", "validation", false, false}, {"exclude", "predict", true, true},
    };
    for (size_t i = 0; i < MU_COUNT(cases); i++) {
        char text[1024];
        fixture train, test;
        snprintf(text, sizeof text, BRANCHES "- {name: extra, type: relu, src: ip, %s: %s}\n", cases[i].key,
                 cases[i].phase);
        build(&train, text, (mu_net_opts){0});
        assert_int_equal(train.status, MU_OK);
        build(&test, text, (mu_net_opts){.phase = MU_TEST, .share = train.net->params});
        assert_int_equal(test.status, MU_OK);
        if (!!mu_net_find(train.net, "extra") != cases[i].in_train ||
            !!mu_net_find(test.net, "extra") != cases[i].in_test)
            fail_msg("%s: %s is not kept to", cases[i].key, cases[i].phase);
        done(&test);
        done(&train);
    }
}

static void expect_one_error(const char *layers, const char *says) {
    fixture f;
    build(&f, layers, (mu_net_opts){0});
    assert_int_equal(f.status, MU_EJOB);
    if (f.job->diags.n_errors != 1 || !strstr(f.job->diags.list[0].msg, says)) {
        mu_diags_print(&f.job->diags, stderr, false);
        fail_msg("%zu errors, expected one: %s", f.job->diags.n_errors, says);
    }
    mu_job_destroy(f.job);
}

// What follows from a problem is no second one.
static void one_problem_is_one_error(void **state) {
    (void)state;
    expect_one_error("- {name: a, type: convolution, src: data.image, filters: 4, kernel: 30}\n"
                     "- {name: b, type: relu}\n"
                     "- {name: c, type: inner_product, outputs: 5}\n"
                     "- {name: d, type: relu}\n"
                     "- {name: loss, type: softmax_loss, src: [d, data.label]}\n", "kernel");
    expect_one_error("- {name: a, type: inner_product, src: data.image, outputs: 5}\n"
                     "- {name: b, type: relu, src: a, include: [test]}\n"
                     "- {name: loss, type: softmax_loss, src: [b, data.label]}\n",
                     "takes `b`, which is not part of phase train");
    expect_one_error("- {name: a, type: inner_product, src: data.image, outputs: 10}\n"
                     "- {name: cut, type: slice, outputs: 2}\n"
                     "- {name: b, type: relu, src: cut.3}\n"
                     "- {name: loss, type: softmax_loss, src: [b, data.label]}\n",
                     "takes output 3 of `cut`, which has 2");
}

// Contrastive divergence: layers that have nothing to learn are fine, one that could learn is warned of.
static void contrast_wants_energy_layers(void **state) {
    (void)state;
    const mu_contrast c = {.k = 1};
    fixture f;
    build(&f, "- {name: flat, type: flatten, src: data.image}\n- {name: m, type: rbm, hidden: 5}\n",
          (mu_net_opts){.contrast = &c});
    assert_int_equal(f.status, MU_OK);
    assert_int_equal(f.job->diags.n, 0);
    done(&f);
    build(&f, "- {name: ip, type: inner_product, src: data.image, outputs: 9}\n- {name: s, type: sigmoid}\n"
              "- {name: m, type: rbm, hidden: 5}\n", (mu_net_opts){.contrast = &c});
    assert_int_equal(f.status, MU_OK);
    assert_int_equal(f.job->diags.n, 1);
    assert_non_null(strstr(f.job->diags.list[0].msg, "`ip` learns nothing"));
    done(&f);
}

// ---- gradients ----

// Any output may have several consumers, not only the first.
static void a_later_output_is_split(void **state) {
    (void)state;
    fixture one, two;
    build(&one, "- {name: ip, type: inner_product, src: data.image, outputs: 10}\n"
                "- {name: cut, type: slice, outputs: 2}\n"
                "- {name: l, type: softmax_loss, src: [cut.1, data.label]}\n", (mu_net_opts){0});
    build(&two, "- {name: ip, type: inner_product, src: data.image, outputs: 10}\n"
                "- {name: cut, type: slice, outputs: 2}\n"
                "- {name: l, type: softmax_loss, src: [cut.1, data.label]}\n"
                "- {name: m, type: softmax_loss, src: [cut.1, data.label]}\n", (mu_net_opts){0});
    assert_int_equal(one.status, MU_OK);
    assert_int_equal(two.status, MU_OK);
    step(one.net, NULL);
    step(two.net, NULL);
    const mu_param *a = mu_params_find(one.net->params, "ip.weight");
    const mu_param *b = mu_params_find(two.net->params, "ip.weight");
    for (size_t i = 0; i < a->count; i++)
        if (fabsf(b->grad.dense[i] - 2 * a->grad.dense[i]) > 1e-6f)
            fail_msg("gradient %zu is %g, want twice %g", i, (double)b->grad.dense[i],
                     (double)a->grad.dense[i]);
    done(&one);
    done(&two);
}

// Gradients in factor form point at activations and their gradients: these live to the end of the step. The
// gradient of `wide`, larger and placed first, begins when those above it would be over without factors.
static void factors_live_to_the_end(void **state) {
    (void)state;
    static const char layers[] = "- {name: flat, type: flatten, src: data.image}\n"
                                 "- {name: a, type: inner_product, outputs: 40}\n"
                                 "- {name: wide, type: concat, src: [a, flat]}\n"
                                 "- {name: b, type: inner_product, outputs: 40}\n"
                                 "- {name: c, type: inner_product, outputs: 40}\n"
                                 "- {name: d, type: inner_product, outputs: 40}\n"
                                 "- {name: e, type: inner_product, outputs: 5}\n"
                                 "- {name: loss, type: softmax_loss, src: [e, data.label]}\n";
    fixture planned, apart;
    build(&planned, layers, (mu_net_opts){.keep_factors = true});
    build(&apart, layers, (mu_net_opts){.keep_factors = true, .keep_all = true});
    mu_net *const nets[] = {planned.net, apart.net};
    for (int k = 0; k < 2; k++) {
        for (int i = 0; i < nets[k]->params->n; i++) nets[k]->params->list[i]->allow_factors = true;
        step(nets[k], NULL);
    }
    int n_factors = 0;
    for (int i = 0; i < planned.net->params->n; i++) {
        const mu_param *p = planned.net->params->list[i], *q = apart.net->params->list[i];
        assert_int_equal(p->grad.form, q->grad.form);
        if (p->grad.form != MU_GRAD_FACTORS) continue;
        const size_t rows = (size_t)p->shape.d[0], n = (size_t)p->grad.batch;
        n_factors++;
        if (memcmp(p->grad.x, q->grad.x, n * (p->count / rows) * 4) ||
            memcmp(p->grad.dy, q->grad.dy, n * rows * 4))
            fail_msg("something was written over the factors of %s", p->name);
    }
    assert_int_equal(n_factors, 4); // not `e`, which is small
    done(&planned);
    done(&apart);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(splits_are_inserted_and_named), cmocka_unit_test(reuse_changes_memory_not_results),
        cmocka_unit_test(shaping_takes_nothing_of_a_device),
        cmocka_unit_test(what_could_not_be_made_ready_says_so),
        cmocka_unit_test(a_layer_without_a_cost_moves_its_elements),
        cmocka_unit_test(phases_share_parameters),       cmocka_unit_test(sharing_by_name_sums_gradients),
        cmocka_unit_test(accumulation_adds_batches),     cmocka_unit_test(problems_are_all_reported),
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(a_later_output_alone_carries_the_gradient),
        cmocka_unit_test(in_place_on_a_source_without_gradient),
        cmocka_unit_test(a_shared_parameter_is_described_once),
        cmocka_unit_test(many_consumers_get_a_tree),
        cmocka_unit_test(words_of_a_rows_gradient_stay_to_the_end),
        cmocka_unit_test(phases_by_name),
        cmocka_unit_test(one_problem_is_one_error),
        cmocka_unit_test(contrast_wants_energy_layers),
        cmocka_unit_test(a_later_output_is_split),
        cmocka_unit_test(factors_live_to_the_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
