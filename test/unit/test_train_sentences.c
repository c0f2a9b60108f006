// SPDX-License-Identifier: Apache-2.0
// test_train_sentences.c - trainings of Kim's net on sentences of many lengths: rows of the embedding,
// padding that stays zero and rows that stay short with every protocol, resuming, initial word vectors.
#include "training_help.h"

static char folder[] = "test-sentences-XXXXXX";

// Four classes; a sentence has a word of its class somewhere among common ones.
#define DATA                                                                                                 \
    "data:\n"                                                                                                \
    "  train: {reader: sentences, file: sentences.tsv}\n"                                                    \
    "  test: {reader: sentences, file: sentences.tsv}\n"
#define NET(more) SIZED_NET("12", "8", more)
#define SIZED_NET(dim, filters, more)                                                                        \
    "net:\n"                                                                                                 \
    "- {name: words, type: embedding, src: data.words, dim: " dim ", pad: true" more "}\n"                   \
    "- {name: windows, type: sentence_convolution, widths: [2, 3], filters: " filters "}\n"                  \
    "- {name: drop, type: dropout, ratio: 0.2}\n"                                                            \
    "- {name: last, type: inner_product, outputs: 4, weight: {max_norm: 1.2}}\n"                             \
    "- {name: loss, type: softmax_loss, src: [last, data.label]}\n"
#define TRAIN(steps) "name: t\ntrain: {batch: 8, steps: " steps "}\ntest: {every: never, batch: 24}\n"
#define RULES "updater: {type: adagrad, rate: 0.1}\n"
#define JOB(steps) TRAIN(steps) DATA NET("") RULES
// The gradient of its filters is gathered. (AdaGrad makes a large step of a gradient that is rounding alone.)
#define WIDE_JOB(steps)                                                                                      \
    TRAIN(steps) DATA SIZED_NET("64", "80", "") "updater: {type: sgd, momentum: 0.9, rate: 0.1}\n"

enum { SENTENCES = 240 };

static void write_sentences(void) {
    FILE *f = fopen("sentences.tsv", "w");
    assert_non_null(f);
    for (int i = 0; i < SENTENCES; i++) {
        const int n = 1 + i * 7 % 9, at = i * 5 % n;
        fprintf(f, "class%d\t", i % 4);
        for (int k = 0; k < n; k++)
            if (k == at) fprintf(f, "own%d ", i % 4 * 3 + i / 4 % 3);
            else fprintf(f, "common%d ", (i * 13 + k * 29) % 97);
        fprintf(f, "\n");
    }
    assert_int_equal(fclose(f), 0);
}

static const mu_param *param(const training *t, const char *name) {
    const mu_param *p = mu_params_find(t->s->params, name);
    assert_non_null(p);
    return p;
}

static void check_limits(const training *t, const char *who) {
    const mu_param *words = param(t, "words.weight"), *last = param(t, "last.weight");
    const int64_t cols = last->shape.d[1];
    for (int i = 0; i < words->shape.d[1]; i++)
        if (words->value[i] != 0) fail_msg("%s: value %d of padding is %g", who, i, (double)words->value[i]);
    double longest = 0;
    for (int r = 0; r < 4; r++) {
        double sum = 0;
        for (int64_t i = 0; i < cols; i++) sum += pow((double)last->value[r * cols + i], 2);
        longest = fmax(longest, sqrt(sum));
    }
    if (!(longest <= 1.2 * (1 + 2e-6))) fail_msg("%s: the longest row is %.9g, max_norm 1.2", who, longest);
    assert_true(longest > 1.1); // the limit was in the way
}

static void every_protocol_learns(void **state) {
    static const char *const protocols[] = {"one",     "hardsync", "softsync", "async",
                                            "hogwild", "mirror",   "ssp"};
    const mu_run_opts quiet = {.no_files = true};
    for (size_t i = 0; i < MU_COUNT(protocols); i++) {
        char p[80];
        snprintf(p, sizeof p, "cluster.protocol=%s", protocols[i]);
        training t;
        train(&t, *state, &quiet, (const char *const[]){"cluster.learners=2", p}, i ? 2 : 0);
        print_message("%s: loss %.3f of ln 4 = 1.386\n", protocols[i], t.r.train_loss);
        if (!(t.r.train_loss < 0.8)) fail_msg("%s: the loss is %g", protocols[i], t.r.train_loss);
        check_limits(&t, protocols[i]);
        end(&t);
    }
}

static void two_learners_equal_one(void **state) {
    const mu_run_opts quiet = {.no_files = true};
    training one, two;
    train(&one, *state, &quiet, NULL, 0);
    train(&two, *state, &quiet, (const char *const[]){"cluster.learners=2"}, 1);
    const double d = distance(&one, &two);
    print_message("largest relative difference %.2g\n", d);
    if (!(d <= 1e-4)) fail_msg("2 learners are off by %g", d);
    end(&one);
    end(&two);
}

static void resume_is_exact(void **state) {
    (void)state;
    char one[64], two[64];
    snprintf(one, sizeof one, "whole");
    snprintf(two, sizeof two, "halves");
    training whole, first, second;
    train(&whole, JOB("50"), &(mu_run_opts){.out = one}, NULL, 0);
    train(&first, JOB("50"), &(mu_run_opts){.out = two}, (const char *const[]){"train.steps=17"}, 1);
    end(&first); // an epoch has 30 steps
    train(&second, JOB("50"), &(mu_run_opts){.resume = two}, NULL, 0);
    assert_int_equal(second.r.steps, 50);
    assert_true(distance(&whole, &second) == 0.0);
    end(&whole);
    end(&second);
}

// The fused, the deferred and the summed way: few rows where they can be, the same weights in the end.
static void rows_stay_rows(void **state) {
    const bool wide = strstr(*state, "dim: 64") != NULL;
    static const char *const ways[] = {"train.nonfinite=stop", "updater.clip_norm=1000",
                                       "train.accumulate=2"};
    training t[MU_COUNT(ways)];
    for (size_t i = 0; i < MU_COUNT(ways); i++) {
        const char *sets[] = {ways[i], i == 2 ? "train.batch=4" : "train.batch=8"};
        prepare(&t[i], *state, sets, 2);
        mu_worker w;
        mu_worker_init(&w, t[i].s);
        for (int k = 0; k < 20; k++) {
            if (mu_worker_step(&w, &t[i].err) != MU_OK) fail_msg("%s", t[i].err.msg);
            const mu_grad *g = &param(&t[i], "words.weight")->grad;
            assert_int_equal(g->form, i == 2 ? MU_GRAD_DENSE : MU_GRAD_ROWS);
            for (int64_t r = 0; i != 2 && r < g->n_rows; r++) assert_int_not_equal(g->row[r], 0);
            if (i == 1)
                assert_int_equal(param(&t[1], "windows.weight")->grad.form,
                                 wide ? MU_GRAD_GATHERED : MU_GRAD_DENSE);
        }
        const double d = distance(&t[0], &t[i]);
        print_message("%s: largest relative difference %.2g\n", ways[i], d);
        if (i == 1 && !(d <= 1e-5)) fail_msg("%s is off by %g", ways[i], d); // the last one is not lazy
        check_limits(&t[i], ways[i]);
    }
    for (size_t i = 0; i < MU_COUNT(ways); i++) end(&t[i]);
}

typedef struct finite_check {
    mu_worker w;
    const mu_param *p;
    bool spoil;
} finite_check;

// A word is not finite just while the gradient that points to it is made; then its memory has another use.
static void check_layer(void *ctx, mu_layer *layer) {
    finite_check *k = ctx;
    for (int i = 0; i < layer->n_param; i++) {
        if (!mu_grad_done_in_layer(layer->param[i])) continue;
        float *x = (float *)(uintptr_t)k->p->grad.x, was = x ? *x : 0;
        const bool spoil = k->spoil && layer->param[i] == k->p;
        if (spoil) *x = INFINITY;
        mu_worker_check_finite(&k->w, layer->param[i]);
        if (spoil) *x = was;
    }
}

static void gradients_are_checked_when_made(void **state) {
    (void)state;
    training t;
    prepare(&t, WIDE_JOB("40"), NULL, 0);
    finite_check k = {.p = param(&t, "windows.weight")};
    mu_worker_init(&k.w, t.s);
    for (int i = 0; i < 3; i++) {
        k.spoil = i == 1;
        mu_step s = {.phase = MU_TRAIN, .step = i,
                     .hooks = &(mu_step_hooks){.ctx = &k, .after_backward = check_layer}};
        float scale = 0;
        mu_err err = {0};
        const mu_status st = mu_worker_gradient(&k.w, &s, i * mu_samples_per_step(t.s), &scale, &err);
        assert_int_equal(k.p->grad.form, MU_GRAD_GATHERED);
        assert_int_equal(st, k.spoil ? MU_EDIVERGED : MU_OK);
        if (!k.spoil) continue;
        if (!strstr(err.msg, "`windows.weight` is not finite")) fail_msg("%s", err.msg);
        if (!strstr(err.hint, "`updater.rate`")) fail_msg("%s", err.hint);
    }
    end(&t);
}

static void plain_ops_give_the_same(void **state) {
    (void)state;
    const mu_run_opts quiet = {.no_files = true};
    training fast, plain;
    train(&fast, JOB("10"), &quiet, NULL, 0);
    assert_int_equal(setenv("MUSTER_OPS", "ref", 1), 0);
    train(&plain, JOB("10"), &quiet, NULL, 0);
    assert_int_equal(unsetenv("MUSTER_OPS"), 0);
    const double d = distance(&fast, &plain);
    if (!(d <= 1e-3)) fail_msg("plain ops are off by %g", d);
    end(&fast);
    end(&plain);
}

static void words_begin_with_vectors(void **state) {
    (void)state;
    write_file("vectors.txt", "own3 1 2 3 4 5 6 7 8 9 10 11 12\n", 32);
    training plain, given;
    prepare(&plain, JOB("1"), NULL, 0);
    prepare(&given, TRAIN("1") DATA NET(", vectors: vectors.txt") RULES, NULL, 0);
    const mu_param *p = param(&plain, "words.weight"), *q = param(&given, "words.weight");
    int64_t other = 0, found = -1;
    for (int64_t r = 0; r < p->shape.d[0]; r++)
        if (memcmp(p->value + r * 12, q->value + r * 12, 12 * sizeof(float))) other++, found = r;
    assert_int_equal(other, 1);
    for (int i = 0; i < 12; i++) assert_near((double)q->value[found * 12 + i], i + 1, 0);
    end(&plain);
    end(&given);
}

// All values are in the checkpoint.
static void a_resumed_run_needs_no_vectors(void **state) {
    (void)state;
    const char *text = TRAIN("30") DATA NET(", vectors: once.txt") RULES;
    write_file("once.txt", "own3 1 2 3 4 5 6 7 8 9 10 11 12\n", 32);
    training whole, first, second = {0};
    train(&whole, text, &(mu_run_opts){.no_files = true}, NULL, 0);
    train(&first, text, &(mu_run_opts){.out = "once"}, (const char *const[]){"train.steps=17"}, 1);
    end(&first);
    assert_int_equal(remove("once.txt"), 0);
    const mu_session_opts o = {.phases = MU_TRAIN | MU_TEST, .restored = true};
    assert_ok(mu_job_parse("t.yaml", text, strlen(text), NULL, 0, &second.job, err));
    assert_ok(mu_session_open(second.job, &o, &second.s, err));
    assert_ok(mu_run_train(second.s, &(mu_run_opts){.resume = "once"}, &second.r, err));
    assert_true(distance(&whole, &second) == 0.0);
    end(&whole);
    end(&second);
}

// Numbers beyond the data's words have no name; the words keep theirs.
static void a_larger_vocabulary_takes_vectors(void **state) {
    (void)state;
    write_file("vectors.txt", "own3 1 2 3 4 5 6 7 8 9 10 11 12\n", 32);
    training t;
    prepare(&t, TRAIN("1") DATA NET(", vocab: 500, vectors: vectors.txt") RULES, NULL, 0);
    const mu_param *p = param(&t, "words.weight");
    int64_t found = 0;
    assert_int_equal(p->shape.d[0], 500);
    for (int64_t r = 0; r < 500; r++) found += p->value[r * 12] == 1 && p->value[r * 12 + 11] == 12;
    assert_int_equal(found, 1);
    end(&t);
}

// A trained net has its words in the checkpoint: the file of their beginning may be gone.
static void only_training_needs_the_vectors(void **state) {
    (void)state;
    static const char text[] = TRAIN("1") DATA NET(", vectors: gone.txt") RULES;
    for (int trains = 0; trains < 2; trains++) {
        training t = {0};
        assert_int_equal(mu_job_parse("t.yaml", text, strlen(text), NULL, 0, &t.job, &t.err), MU_OK);
        mu_status st = mu_session_open(
            t.job, &(mu_session_opts){.phases = trains ? MU_TRAIN : MU_TEST | MU_PREDICT}, &t.s, &t.err);
        if ((st == MU_OK) == trains) fail_msg("training %d: status %d, %s", trains, (int)st, t.err.msg);
        end(&t);
    }
}

static void a_step_allocates_nothing(void **state) {
    (void)state;
    count_allocations(JOB("50"));
}

static int make_folder(void **state) {
    (void)state;
    if (!mkdtemp(folder) || chdir(folder)) return -1;
    write_sentences();
    return 0;
}
static int remove_folder(void **state) {
    (void)state;
    if (chdir("..")) return -1;
    remove_tree(folder);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(every_protocol_learns, JOB("300")),
        cmocka_unit_test_prestate(every_protocol_learns, WIDE_JOB("300")),
        cmocka_unit_test_prestate(two_learners_equal_one, JOB("60")),
        cmocka_unit_test_prestate(two_learners_equal_one, WIDE_JOB("60")),
        cmocka_unit_test_prestate(rows_stay_rows, JOB("40")),
        cmocka_unit_test_prestate(rows_stay_rows, WIDE_JOB("40")),
        cmocka_unit_test(resume_is_exact),
        cmocka_unit_test(gradients_are_checked_when_made),
        cmocka_unit_test(plain_ops_give_the_same),  cmocka_unit_test(words_begin_with_vectors),
        cmocka_unit_test(a_resumed_run_needs_no_vectors),
        cmocka_unit_test(a_step_allocates_nothing), cmocka_unit_test(a_larger_vocabulary_takes_vectors),
        cmocka_unit_test(only_training_needs_the_vectors),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
