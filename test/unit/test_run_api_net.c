// SPDX-License-Identifier: Apache-2.0
// test_run_api_net.c - the installed interface: parameters and layers one by one, several outputs, answers
// with names, typed texts; and NULL for every pointer of every function.
#include "run_help.h"

#include "muster/muster.h"

#include <math.h>

#define NET                                                                                                  \
    "net:\n"                                                                                                 \
    "- {name: conv, type: convolution, src: data.image, filters: 6, kernel: 3, pad: 1}\n"                    \
    "- {name: norm, type: batch_norm}\n"                                                                     \
    "- {name: pool, type: pooling, method: max, kernel: 2}\n"                                                \
    "- {name: ip, type: inner_product, outputs: 4}\n"                                                        \
    "- {name: loss, type: softmax_loss, src: [ip, data.label]}\n"
#define REST                                                                                                 \
    "train: {batch: 16, steps: 10}\ntest: {batch: 16}\nupdater: {type: sgd, momentum: 0.9, rate: 0.02}\n"
static const char text[] =
    "name: api\nseed: 5\n"
    "data: {train: {reader: synthetic, shape: [2, 8, 8], classes: 4, records: 64, scale: 0.01}}\n" NET REST;
enum { IN = 2 * 8 * 8, N = 20 };

static char folder[64];

#define ok(call)                                                                                             \
    do {                                                                                                     \
        muster_error e_ = {0}, *err = &e_;                                                                   \
        muster_status s_ = (call);                                                                           \
        if (s_ != MUSTER_OK) fail_msg("%s: status %d: %s (%s)", #call, (int)s_, e_.message, e_.hint);        \
    } while (0)

#define fails(call, status_, want)                                                                           \
    do {                                                                                                     \
        muster_error e_ = {0}, *err = &e_;                                                                   \
        muster_status s_ = (call);                                                                           \
        if (s_ != (status_) || e_.status != (status_) || !strstr(e_.message, (want)))                        \
            fail_msg("%s: %d: `%s`, expected %d: `%s`", #call, (int)s_, e_.message, (int)(status_), (want)); \
    } while (0)

static const char *in_folder(const char *name) {
    static char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static muster_run *open_text(const char *job_text, const char *edit) {
    muster_job *job = NULL;
    muster_run *run = NULL;
    ok(muster_job_parse(in_folder("t.yaml"), job_text, strlen(job_text), &edit, edit ? 1 : 0, &job, err));
    ok(muster_run_create(job, NULL, &run, err));
    muster_job_destroy(job);
    return run;
}

static void fill(float *v, size_t n, unsigned seed) {
    for (size_t i = 0; i < n; i++) v[i] = (float)((i * 37 + seed * 11) % 101);
}

static char *model_of(muster_run *run, size_t *size) {
    char *bytes = NULL, path[128];
    snprintf(path, sizeof path, "%s", in_folder("compare.safetensors"));
    ok(muster_run_save(run, path, err));
    assert_ok(mu_fs_read(path, (size_t)1 << 24, &bytes, size, err));
    remove(path);
    return bytes;
}

static bool same_model(muster_run *a, muster_run *b) {
    size_t n, m;
    char *x = model_of(a, &n), *y = model_of(b, &m);
    const bool same = n == m && !memcmp(x, y, n);
    mu_free(x);
    mu_free(y);
    return same;
}

// ---- parameters ----

static void parameters_are_listed(void **state) {
    (void)state;
    muster_run *run = open_text(text, NULL);
    static const struct { const char *name; size_t n_dims, count; int trained; } want[] = {
        {"conv.weight", 4, 6 * 2 * 3 * 3, 1}, {"conv.bias", 1, 6, 1},
        {"norm.weight", 1, 6, 1},             {"norm.bias", 1, 6, 1},
        {"norm.running_mean", 1, 6, 0},       {"norm.running_var", 1, 6, 0},
        {"ip.weight", 2, 4 * 6 * 16, 1},      {"ip.bias", 1, 4, 1},
    };
    size_t n = 0, seen = 0;
    muster_param p, q;
    ok(muster_run_param_count(run, &n, err));
    assert_int_equal(n, MU_COUNT(want));
    for (size_t i = 0; i < n; i++) {
        ok(muster_run_param_at(run, i, &p, err));
        ok(muster_run_param_find(run, p.name, &q, err));
        assert_memory_equal(&p, &q, sizeof p);
        size_t product = 1;
        for (size_t k = 0; k < p.n_dims; k++) product *= (size_t)p.shape[k];
        assert_int_equal(product, p.count);
        for (size_t k = 0; k < MU_COUNT(want); k++) {
            if (strcmp(want[k].name, p.name)) continue;
            seen++;
            assert_int_equal(p.n_dims, want[k].n_dims);
            assert_int_equal(p.count, want[k].count);
            assert_int_equal(p.trained, want[k].trained);
        }
    }
    assert_int_equal(seen, MU_COUNT(want));
    ok(muster_run_param_find(run, "ip.weight", &p, err));
    assert_true(p.shape[0] == 4 && p.shape[1] == 96); // PyTorch's order
    fails(muster_run_param_at(run, n, &p, err), MUSTER_USAGE, "parameter 8 asked of 8");
    fails(muster_run_param_find(run, "ip.wieght", &p, err), MUSTER_USAGE, "ip.wieght");
    muster_run_destroy(run);
}

static void new_values_predict(void **state) {
    (void)state;
    static float x[N * IN], before[N * 4], after[N * 4], keep[4 * 96], w[4 * 96], conv[108];
    muster_run *run = open_text(text, NULL);
    fill(x, N * IN, 1);
    ok(muster_run_predict(run, x, N, NULL, before, err));
    ok(muster_run_param_get(run, "ip.weight", keep, 4 * 96, err));
    const float bias[] = {1, 2, 3, 4};
    ok(muster_run_param_set(run, "ip.weight", w, 4 * 96, err)); // zeros
    ok(muster_run_param_set(run, "ip.bias", bias, 4, err));
    ok(muster_run_predict(run, x, N, NULL, after, err));
    for (int i = 0; i < N * 4; i++) assert_true(after[i] == bias[i % 4]);
    fails(muster_run_param_set(run, "ip.bias", bias, 3, err), MUSTER_USAGE, "4 values, not 3");
    fails(muster_run_param_get(run, "ip.bias", after, 5, err), MUSTER_USAGE, "4 values, not 5");
    const float wild[] = {1, NAN, 3, 4};
    fails(muster_run_param_set(run, "ip.bias", wild, 4, err), MUSTER_BAD_INPUT, "not finite");
    float have[4];
    ok(muster_run_param_get(run, "ip.bias", have, 4, err));
    assert_memory_equal(have, bias, sizeof have); // untouched by the failures
    memset(have, 0, sizeof have);
    ok(muster_run_param_set(run, "ip.weight", keep, 4 * 96, err));
    ok(muster_run_param_set(run, "ip.bias", have, 4, err)); // initial biases are 0
    ok(muster_run_predict(run, x, N, NULL, after, err));
    assert_memory_equal(before, after, sizeof before);
    ok(muster_run_param_get(run, "conv.weight", conv, 108, err)); // a layer that packs its weights
    for (int i = 0; i < 108; i++) conv[i] = -conv[i];
    ok(muster_run_param_set(run, "conv.weight", conv, 108, err));
    ok(muster_run_predict(run, x, N, NULL, after, err));
    assert_memory_not_equal(before, after, sizeof before);
    muster_run_destroy(run);
}

// Training goes on from the values: as from a file that holds them.
static void new_values_train(void **state) {
    (void)state;
    static float w[4 * 96];
    char model[128];
    snprintf(model, sizeof model, "%s", in_folder("set.safetensors"));
    muster_run *run = open_text(text, NULL), *other = open_text(text, NULL), *plain = open_text(text, NULL);
    fill(w, 4 * 96, 3);
    for (int i = 0; i < 4 * 96; i++) w[i] *= 0.001f;
    ok(muster_run_param_set(run, "ip.weight", w, 4 * 96, err));
    ok(muster_run_save(run, model, err));
    ok(muster_run_train(run, NULL, NULL, NULL, err));
    ok(muster_run_load(other, model, err));
    ok(muster_run_train(other, NULL, NULL, NULL, err));
    ok(muster_run_train(plain, NULL, NULL, NULL, err));
    assert_true(same_model(run, other));
    assert_false(same_model(run, plain));
    muster_run_destroy(run);
    muster_run_destroy(other);
    muster_run_destroy(plain);
}

// Learners are processes of their own. At a rate of nothing the values come back as they were sent.
static void new_values_reach_learners(void **state) {
    (void)state;
    if (!getenv("MUSTER_PROGRAM")) skip();
    char job_text[1024];
    snprintf(job_text, sizeof job_text, "%scluster: {learners: 2}\n", text);
    muster_run *run = open_text(job_text, "updater.rate=1e-30");
    const float bias[] = {0.5f, -2, 3, 0.25f};
    float have[4];
    ok(muster_run_param_set(run, "ip.bias", bias, 4, err));
    muster_result r;
    ok(muster_run_train(run, NULL, NULL, &r, err));
    assert_int_equal(r.steps, 10);
    ok(muster_run_param_get(run, "ip.bias", have, 4, err));
    assert_memory_equal(have, bias, sizeof have);
    muster_run_destroy(run);
}

// ---- layers ----

static void layers_are_listed(void **state) {
    (void)state;
    static float x[N * IN], *to, *again;
    muster_run *run = open_text(text, NULL);
    size_t n = 0, size = 0;
    ok(muster_run_layer_count(run, &n, err));
    assert_int_equal(n, 4); // the loss is no part of prediction
    static const struct { const char *name, *type; size_t n_dims; int64_t shape[3]; } want[] = {
        {"conv", "convolution", 3, {6, 8, 8}},
        {"norm", "batch_norm", 3, {6, 8, 8}},
        {"pool", "pooling", 3, {6, 4, 4}},
        {"ip", "inner_product", 1, {4}},
    };
    fill(x, N * IN, 2);
    for (size_t i = 0; i < n; i++) {
        muster_layer l;
        ok(muster_run_layer_at(run, i, &l, err));
        assert_string_equal(l.name, want[i].name);
        assert_string_equal(l.type, want[i].type);
        assert_int_equal(l.n_dims, want[i].n_dims);
        assert_memory_equal(l.shape, want[i].shape, want[i].n_dims * sizeof *l.shape);
        assert_int_equal(l.n_outputs, 1);
        ok(muster_run_output_size(run, l.name, &size, err));
        assert_int_equal(l.count, size);
        to = malloc((N * size + 1) * sizeof *to), again = malloc((N * size + 1) * sizeof *again);
        to[N * size] = 12345; // nothing is written behind
        ok(muster_run_predict(run, x, N, l.name, to, err));
        assert_true(to[N * size] == 12345);
        ok(muster_run_predict_layers(run, x, N, &l.name, 1, &again, err));
        assert_memory_equal(to, again, N * size * sizeof *to);
        free(to), free(again);
    }
    muster_layer l;
    fails(muster_run_layer_at(run, n, &l, err), MUSTER_USAGE, "layer 4 asked of 4");
    muster_run_destroy(run);
}

// Cut in two, and one part's class numbers: several outputs, several ends, whole numbers.
static void several_outputs(void **state) {
    (void)state;
    static const char job_text[] =
        "name: cut\ndata:\n  predict: {reader: array, shape: [6]}\n"
        "net:\n- {name: cut, type: slice, src: data.features, points: [2]}\n"
        "- {name: small, type: relu, src: cut.0}\n- {name: large, type: relu, src: cut.1}\n"
        "- {name: best, type: argsort, src: cut.1, top: 2}\ntrain: {batch: 2}\n";
    muster_job *job = NULL;
    muster_run *run = NULL;
    ok(muster_job_parse("o.yaml", job_text, strlen(job_text), NULL, 0, &job, err));
    ok(muster_run_create_predictor(job, NULL, &run, err));
    const float x[3][6] = {{1, 2, 3, 4, 5, 6}, {10, 20, 31, 30, 50, 60}, {7, 8, 9, 9, 3, 1}};
    float a[3][2], b[3][4], c[3][2], first[3][2];
    const char *const layers[] = {"small", "cut.1", "best", "cut"};
    float *const to[] = {a[0], b[0], c[0], first[0]};
    size_t size = 0;
    for (int i = 0; i < 4; i++) {
        ok(muster_run_output_size(run, layers[i], &size, err));
        assert_int_equal(size, i == 1 ? 4 : 2);
    }
    ok(muster_run_predict_layers(run, x[0], 3, layers, 4, to, err));
    for (int i = 0; i < 3; i++) {
        assert_memory_equal(a[i], x[i], sizeof a[i]);
        assert_memory_equal(first[i], x[i], sizeof first[i]);
        assert_memory_equal(b[i], x[i] + 2, sizeof b[i]);
    }
    assert_true(c[0][0] == 3 && c[0][1] == 2 && c[1][0] == 3 && c[2][0] == 0 && c[2][1] == 1);
    muster_layer l;
    ok(muster_run_layer_at(run, 0, &l, err));
    assert_int_equal(l.n_outputs, 2);
    ok(muster_run_output_size(run, NULL, &size, err));
    assert_int_equal(size, 4); // `large`: class numbers are a report
    fails(muster_run_output_size(run, "cut.2", &size, err), MUSTER_USAGE, "cut.2");
    fails(muster_run_predict_layers(run, x[0], 3, (const char *const[]){"small", "nothing"}, 2, to, err),
          MUSTER_USAGE, "nothing");
    muster_run_destroy(run);
    muster_job_destroy(job);
}

// ---- answers ----

static void classes_have_probabilities(void **state) {
    (void)state;
    static float x[N * IN], score[N * 4];
    muster_answer a[N * 5];
    muster_run *run = open_text(text, NULL);
    fill(x, N * IN, 4);
    ok(muster_run_predict(run, x, N, NULL, score, err));
    ok(muster_run_classify(run, x, N, 5, a, err));
    for (int i = 0; i < N; i++) {
        double sum = 0, all = 0;
        for (int k = 0; k < 4; k++) all += exp((double)score[i * 4 + k]);
        for (int k = 0; k < 4; k++) {
            const muster_answer *t = &a[i * 5 + k];
            assert_true(t->number < 4 && !t->name);
            assert_near(t->probability, exp((double)score[i * 4 + (int)t->number]) / all, 1e-6);
            assert_true(!k || t->probability <= t[-1].probability);
            sum += t->probability;
        }
        assert_near(sum, 1, 1e-9);
        assert_true(a[i * 5 + 4].number == SIZE_MAX && a[i * 5 + 4].probability == 0);
    }
    const char *const words[] = {"good"};
    fails(muster_run_predict_texts(run, words, 1, NULL, score, err), MUSTER_USAGE, "read by `synthetic`");
    muster_run_destroy(run);
}

static void values_are_no_classes(void **state) {
    (void)state;
    static const char job_text[] =
        "name: v\ndata: {train: {reader: synthetic, shape: [1, 4, 4], classes: 4, records: 32}}\n"
        "net:\n- {name: code, type: inner_product, src: data.image, outputs: 3}\n"
        "- {name: back, type: inner_product, outputs: 16}\n"
        "- {name: loss, type: euclidean_loss, src: [back, data.image]}\n" REST;
    float x[16] = {0};
    muster_answer a[1];
    muster_run *run = open_text(job_text, NULL);
    fails(muster_run_classify(run, x, 1, 1, a, err), MUSTER_USAGE, "`back` gives values");
    muster_run_destroy(run);
}

// One score with the label 0 or 1: two classes, by the sigmoid.
static void yes_and_no(void **state) {
    (void)state;
    static const char job_text[] =
        "name: y\ndata: {train: {reader: synthetic, shape: [1, 4, 4], classes: 2, records: 32}}\n"
        "net:\n- {name: ip, type: inner_product, src: data.image, outputs: 1}\n"
        "- {name: loss, type: sigmoid_loss, src: [ip, data.label]}\n" REST;
    float x[16] = {0}, bias = 1.5f, zero[16] = {0};
    muster_answer a[2];
    muster_run *run = open_text(job_text, NULL);
    ok(muster_run_param_set(run, "ip.weight", zero, 16, err));
    ok(muster_run_param_set(run, "ip.bias", &bias, 1, err));
    ok(muster_run_classify(run, x, 1, 2, a, err));
    assert_int_equal(a[0].number, 1);
    assert_near(a[0].probability, 1 / (1 + exp(-1.5)), 1e-6);
    assert_int_equal(a[1].number, 0);
    muster_run_destroy(run);
}

static const char sentences[] =
    "name: s\ndata: {train: {reader: sentences, file: train.tsv, pad: 1}}\n"
    "net:\n- {name: e, type: embedding, src: data.words, dim: 4}\n"
    "- {name: ip, type: inner_product, outputs: 2}\n- {name: loss, type: softmax_loss, src: [ip, "
    "data.label]}\n"
    "train: {batch: 2, steps: 200}\ntest: {batch: 2}\nupdater: {type: adam, rate: 0.05}\n";

static void write_sentences(void) {
    static const char lines[] = "yes\tgood fine\nno\tbad poor\n";
    write_file(in_folder("train.tsv"), lines, sizeof lines - 1);
}

static void ask_texts(muster_run *run) {
    const char *const asked[] = {"Good FINE!", "bad poor", "bad bad", "unheard of", ""};
    float out[5 * 2], by_number[2];
    muster_answer a[5];
    ok(muster_run_predict_texts(run, asked, 5, NULL, out, err));
    ok(muster_run_classify_texts(run, asked, 5, 1, a, err));
    assert_string_equal(a[0].name, "yes");
    assert_string_equal(a[1].name, "no");
    assert_true(a[0].probability > 0.9 && a[0].probability <= 1);
    for (int i = 0; i < 5; i++) assert_int_equal(a[i].number, out[2 * i + 1] > out[2 * i]);
    const float words[] = {0, 4, 4, 0}; // bad bad, between its pads
    ok(muster_run_predict(run, words, 1, NULL, by_number, err));
    assert_memory_equal(by_number, out + 4, sizeof by_number);
    const char *const two[] = {"good", "one\ntwo"};
    fails(muster_run_predict_texts(run, two, 2, NULL, out, err), MUSTER_USAGE, "more than one line");
    fails(muster_run_predict_texts(run, two, 1, "nothing", out, err), MUSTER_USAGE, "nothing");
    ok(muster_run_predict_texts(run, NULL, 0, NULL, NULL, err));
}

static void texts_are_answered(void **state) {
    (void)state;
    char model[128];
    snprintf(model, sizeof model, "%s", in_folder("s.safetensors"));
    write_sentences();
    muster_run *run = open_text(sentences, NULL), *alone = NULL;
    ok(muster_run_train(run, NULL, NULL, NULL, err));
    ask_texts(run); // the run that trained
    ok(muster_run_save(run, model, err));
    muster_run_destroy(run);
    remove(in_folder("train.tsv"));
    ok(muster_run_create_from_model(model, &alone, err)); // and its model alone
    ask_texts(alone);
    muster_run_destroy(alone);
}

// Every allocation on the way of typed texts fails once; nothing leaks, and the run stays usable.
static void memory_may_run_out(void **state) {
    (void)state;
    const char *const asked[] = {"good"};
    muster_answer a[1];
    float out[2];
    size_t n;
    write_sentences();
    muster_run *run = open_text(sentences, NULL);
    ok(muster_run_layer_count(run, &n, err));
    const uint64_t live = mu_alloc_get_stats().n_live;
    for (int64_t at = 1;; at++) {
        mu_alloc_fail_at(at);
        muster_status st = muster_run_classify_texts(run, asked, 1, 1, a, NULL);
        if (!st) st = muster_run_predict_texts(run, asked, 1, NULL, out, NULL);
        mu_alloc_fail_at(0);
        assert_int_equal(mu_alloc_get_stats().n_live, live);
        if (!st) break;
        if (st != MUSTER_FAILURE && st != MUSTER_BAD_INPUT) fail_msg("status %d at %d", (int)st, (int)at);
        if (at > 5000) fail_msg("never succeeds");
    }
    ok(muster_run_predict_texts(run, asked, 1, NULL, out, err));
    muster_run_destroy(run);
}

// ---- NULL ----

static muster_run *a_run;
static muster_job *a_job;
static int without; // which pointer is left out

#define NEED(i, pointer) (without == (i) ? NULL : (pointer))

// The call with one of its pointers left out; 0 = it has no pointer of that number.
typedef muster_status (*call_fn)(muster_error *err);
#define CALL(name_, expression)                                                                              \
    static muster_status call_##name_(muster_error *err) {                                                   \
        muster_job *job = NULL;                                                                              \
        muster_run *run = NULL;                                                                              \
        size_t n = 0;                                                                                        \
        float v[1024] = {0}, *list[] = {NEED(9, v)};                                                         \
        const char *const texts[] = {NEED(8, "x")}, *const *names = NULL;                                    \
        muster_param p;                                                                                      \
        muster_layer l;                                                                                      \
        muster_answer a[2];                                                                                  \
        muster_metric m[2];                                                                                  \
        (void)job, (void)run, (void)n, (void)v, (void)list, (void)texts, (void)names, (void)p, (void)l,      \
            (void)a, (void)m;                                                                                \
        return (expression);                                                                                 \
    }
CALL(muster_job_load, muster_job_load(NEED(0, "x.yaml"), NEED(1, texts), 1, NEED(2, &job), err))
CALL(muster_job_parse,
     muster_job_parse(NEED(0, "x.yaml"), NEED(1, "a: 1"), 4, NEED(2, texts), 1, NEED(3, &job), err))
CALL(muster_run_create, muster_run_create(NEED(0, a_job), NULL, NEED(1, &run), err))
CALL(muster_run_create_predictor, muster_run_create_predictor(NEED(0, a_job), NULL, NEED(1, &run), err))
CALL(muster_run_create_from_model, muster_run_create_from_model(NEED(0, "x"), NEED(1, &run), err))
CALL(muster_run_class_names, muster_run_class_names(NEED(0, a_run), NEED(1, &names), NEED(2, &n), err))
CALL(muster_run_train, muster_run_train(NEED(0, a_run), NULL, NULL, NULL, err))
CALL(muster_run_evaluate, muster_run_evaluate(NEED(0, a_run), NEED(1, "test"), NEED(2, m), 2, NULL, err))
CALL(muster_run_input_size, muster_run_input_size(NEED(0, a_run), NEED(1, &n), err))
CALL(muster_run_output_size, muster_run_output_size(NEED(0, a_run), NULL, NEED(1, &n), err))
CALL(muster_run_predict, muster_run_predict(NEED(0, a_run), NEED(1, v), 1, NULL, NEED(2, v), err))
CALL(muster_run_load, muster_run_load(NEED(0, a_run), NEED(1, "x"), err))
CALL(muster_run_resume, muster_run_resume(NEED(0, a_run), NULL, err))
CALL(muster_run_save, muster_run_save(NEED(0, a_run), NEED(1, "x"), err))
CALL(muster_run_param_count, muster_run_param_count(NEED(0, a_run), NEED(1, &n), err))
CALL(muster_run_param_at, muster_run_param_at(NEED(0, a_run), 0, NEED(1, &p), err))
CALL(muster_run_param_find,
     muster_run_param_find(NEED(0, a_run), NEED(1, "ip.bias"), NEED(2, &p), err))
CALL(muster_run_param_get,
     muster_run_param_get(NEED(0, a_run), NEED(1, "ip.bias"), NEED(2, v), 4, err))
CALL(muster_run_param_set,
     muster_run_param_set(NEED(0, a_run), NEED(1, "ip.bias"), NEED(2, v), 4, err))
CALL(muster_run_layer_count, muster_run_layer_count(NEED(0, a_run), NEED(1, &n), err))
CALL(muster_run_layer_at, muster_run_layer_at(NEED(0, a_run), 0, NEED(1, &l), err))
CALL(muster_run_predict_layers,
     muster_run_predict_layers(NEED(0, a_run), NEED(1, v), 1, NEED(2, texts), 1, NEED(3, list), err))
CALL(muster_run_predict_layers_one, muster_run_predict_layers(a_run, v, 1, texts, 1, list, err))
CALL(muster_run_classify, muster_run_classify(NEED(0, a_run), NEED(1, v), 1, 2, NEED(2, a), err))
CALL(muster_run_predict_texts,
     muster_run_predict_texts(NEED(0, a_run), NEED(1, texts), 1, NULL, NEED(2, v), err))
CALL(muster_run_predict_texts_one, muster_run_predict_texts(a_run, texts, 1, NULL, v, err))
CALL(muster_run_classify_texts,
     muster_run_classify_texts(NEED(0, a_run), NEED(1, texts), 1, 2, NEED(2, a), err))
CALL(muster_run_classify_texts_one, muster_run_classify_texts(a_run, texts, 1, 2, a, err))
CALL(muster_job_load_one, muster_job_load("x.yaml", texts, 1, &job, err))
CALL(muster_job_parse_one, muster_job_parse("x.yaml", "a: 1", 4, texts, 1, &job, err))

static const struct { const char *name; call_fn call; int first, last; } calls[] = {
#define ROW(name_, first_, last_) {#name_, call_##name_, first_, last_},
    ROW(muster_job_load, 0, 2)
    ROW(muster_job_parse, 0, 3)
    ROW(muster_run_create, 0, 1)
    ROW(muster_run_create_predictor, 0, 1)
    ROW(muster_run_create_from_model, 0, 1)
    ROW(muster_run_class_names, 0, 2)
    ROW(muster_run_train, 0, 0)
    ROW(muster_run_evaluate, 0, 2)
    ROW(muster_run_input_size, 0, 1)
    ROW(muster_run_output_size, 0, 1)
    ROW(muster_run_predict, 0, 2)
    ROW(muster_run_load, 0, 1)
    ROW(muster_run_resume, 0, 0)
    ROW(muster_run_save, 0, 1)
    ROW(muster_run_param_count, 0, 1)
    ROW(muster_run_param_at, 0, 1)
    ROW(muster_run_param_find, 0, 2)
    ROW(muster_run_param_get, 0, 2)
    ROW(muster_run_param_set, 0, 2)
    ROW(muster_run_layer_count, 0, 1)
    ROW(muster_run_layer_at, 0, 1)
    ROW(muster_run_predict_layers, 0, 3)
    ROW(muster_run_predict_layers_one, 9, 9)
    ROW(muster_run_classify, 0, 2)
    ROW(muster_run_predict_texts, 0, 2)
    ROW(muster_run_predict_texts_one, 8, 8)
    ROW(muster_run_classify_texts, 0, 2)
    ROW(muster_run_classify_texts_one, 8, 8)
    ROW(muster_job_load_one, 8, 8)
    ROW(muster_job_parse_one, 8, 8)
#undef ROW
};

static void null_is_answered(void **state) {
    (void)state;
    ok(muster_job_parse("t.yaml", text, strlen(text), NULL, 0, &a_job, err));
    ok(muster_run_create(a_job, NULL, &a_run, err));
    for (size_t i = 0; i < MU_COUNT(calls); i++)
        for (without = calls[i].first; without <= calls[i].last; without++) {
            muster_error e = {0};
            const muster_status st = calls[i].call(&e);
            if (st != MUSTER_USAGE || e.status != MUSTER_USAGE || !e.message[0])
                fail_msg("%s without pointer %d: status %d `%s`", calls[i].name, without, (int)st, e.message);
            assert_int_equal(calls[i].call(NULL), MUSTER_USAGE); // nobody wants the text
        }
    muster_run_destroy(a_run);
    muster_job_destroy(a_job);
}

// A function that is added to the header is added to the table above.
static void every_function_is_called(void **state) {
    (void)state;
    static const char *const without_status[] = {"muster_version", "muster_job_destroy", "muster_run_destroy",
                                                 "muster_run_stop"};
    char *header = NULL;
    size_t size = 0, found = 0;
    assert_ok(mu_fs_read(MU_TEST_DIR "/../include/muster/muster.h", 1 << 20, &header, &size, err));
    for (const char *p = header; (p = strstr(p, "\nMU_API ")); found++) {
        p = strstr(p, " muster_status muster_") == p + 7 ? p + 22 : strstr(p, "muster_");
        assert_non_null(p);
        if (p[-1] == '*') p = strstr(p, "muster_");
        const size_t n = strspn(p, "abcdefghijklmnopqrstuvwxyz_");
        bool known = false;
        for (size_t i = 0; i < MU_COUNT(calls); i++)
            known |= strlen(calls[i].name) == n && !strncmp(calls[i].name, p, n);
        for (size_t i = 0; i < MU_COUNT(without_status); i++)
            known |= strlen(without_status[i]) == n && !strncmp(without_status[i], p, n);
        if (!known) fail_msg("%.*s is not tried with NULL", (int)n, p);
    }
    assert_true(found >= 25);
    mu_free(header);
}

static int make_folder(void **state) {
    (void)state;
    temp_dir(folder);
    return 0;
}
static int remove_folder(void **state) {
    (void)state;
    remove_tree(folder);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parameters_are_listed),
        cmocka_unit_test(new_values_predict),
        cmocka_unit_test(new_values_train),
        cmocka_unit_test(new_values_reach_learners),
        cmocka_unit_test(layers_are_listed),
        cmocka_unit_test(several_outputs),
        cmocka_unit_test(classes_have_probabilities),
        cmocka_unit_test(values_are_no_classes),
        cmocka_unit_test(yes_and_no),
        cmocka_unit_test(texts_are_answered),
        cmocka_unit_test(memory_may_run_out),
        cmocka_unit_test(null_is_answered),
        cmocka_unit_test(every_function_is_called),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
