// SPDX-License-Identifier: Apache-2.0
// test_algo_cd.c - energy models trained from job files. On machines small enough to visit every state the
// likelihood is known exactly: it must rise as theory says. Then what every model owes: resume and several
// learners end with the same, every protocol ends, steps allocate nothing, mistakes are named.
#include "run_help.h"

#include "energy_help.h"
#include "ps/protocol.h"
#include "run/driver.h"
#include "train/worker.h"

static char folder[64];

#define BARS_DATA(text) "data: {train: {reader: csv, file: %s/bars.csv, label: none, header: no}}\n" text
#define RBM8                                                                                                 \
    "net:\n- {name: m, type: rbm, hidden: 8, sample_visible: true, init: {type: gaussian, std: 0.1}}\n"
#define SGD "updater: {type: sgd, rate: 0.05}\n"

typedef struct training {
    mu_job *job;
    mu_session *s;
    mu_worker w;
    mu_err err;
} training;

static void open_text(training *t, const char *text, const char *const *sets, size_t n) {
    memset(t, 0, sizeof *t);
    mu_status st = mu_job_parse("t.yaml", text, strlen(text), sets, n, &t->job, &t->err);
    if (st == MU_OK)
        st = mu_session_open(t->job, &(mu_session_opts){.phases = MU_TRAIN | MU_TEST}, &t->s, &t->err);
    if (st == MU_OK) return;
    if (t->job) mu_diags_print(&t->job->diags, stderr, false);
    fail_msg("%s", t->err.msg);
}

// The text may hold one %s: the folder of the data.
static void open_job(training *t, const char *format, const char *const *sets, size_t n) {
    char text[2048];
    snprintf(text, sizeof text, format, folder); // NOLINT: formats are those of this file
    open_text(t, text, sets, n);
    mu_worker_init(&t->w, t->s);
    assert_ok(mu_source_start(t->s->train.source, err));
}

static void steps(training *t, int n) {
    for (int i = 0; i < n; i++) assert_ok(mu_worker_step(&t->w, err));
}

static void close_job(training *t) {
    mu_source_stop(t->s->train.source);
    mu_session_close(t->s);
    mu_job_destroy(t->job);
}

static const float *value_of(const training *t, const char *name) {
    const mu_param *p = mu_params_find(t->s->params, name);
    if (!p) fail_msg("no parameter %s", name);
    return p->value;
}

// ---- likelihood ----

enum { COPIES = 8 }; // of each picture: a batch has them all, so that noise does not hide what theory says
static double bars[BARS][BARS_PIXELS];

static void write_bars(void) {
    char path[128];
    snprintf(path, sizeof path, "%s/bars.csv", folder);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    bars_fill(bars);
    for (int n = 0; n < BARS * COPIES; n++)
        for (int i = 0; i < BARS_PIXELS; i++)
            fprintf(f, "%d%c", (int)bars[n % BARS][i], i == BARS_PIXELS - 1 ? '\n' : ',');
    assert_int_equal(fclose(f), 0);
}

// Mean ln p of the pictures. At best -ln 14 = -2.64; a machine that knows nothing has -9 ln 2 = -6.24.
static double rbm_likelihood(const training *t) {
    tiny_rbm m;
    tiny_set(&m, BARS_PIXELS, 8, value_of(t, "m.weight"), value_of(t, "m.visible_bias"),
             value_of(t, "m.hidden_bias"));
    double sum = 0, log_z = tiny_log_z(&m);
    for (int n = 0; n < BARS; n++) sum += -tiny_free_energy(&m, bars[n]) - log_z;
    return sum / BARS;
}

static double train_bars(const char *algorithm, int n, const char *seed) {
    training t;
    char set[100];
    snprintf(set, sizeof set, "train.algorithm=%s", algorithm);
    open_job(&t, BARS_DATA("train: {algorithm: cd, batch: 112, steps: 100000}\n" RBM8 SGD),
             (const char *const[]){set, seed}, 2);
    const double before = rbm_likelihood(&t);
    steps(&t, n);
    const double after = rbm_likelihood(&t);
    print_message("%-32s %s: likelihood %.3f before, %.3f after %d steps\n", algorithm, seed, before, after,
                  n);
    if (!(after > before + 0.5)) fail_msg("%s: likelihood %g before, %g after", algorithm, before, after);
    close_job(&t);
    return after;
}

// More Gibbs steps come closer to the gradient of the likelihood, and chains that go on come closest.
static void likelihood_rises_as_theory_says(void **state) {
    (void)state;
    enum { SEEDS = 2, STEPS = 3000 };
    double cd1 = 0, cd10 = 0, pcd = 0;
    for (int i = 0; i < SEEDS; i++) {
        char seed[20];
        snprintf(seed, sizeof seed, "seed=%d", i + 1);
        cd1 += train_bars("{type: cd, k: 1}", STEPS, seed) / SEEDS;
        cd10 += train_bars("{type: cd, k: 10}", STEPS, seed) / SEEDS;
        pcd += train_bars("{type: cd, persistent: true}", STEPS, seed) / SEEDS;
    }
    print_message("mean of %d seeds: CD-1 %.3f, CD-10 %.3f, PCD %.3f\n", SEEDS, cd1, cd10, pcd);
    if (!(cd10 > cd1 + 0.05)) fail_msg("CD-10 %g is not above CD-1 %g", cd10, cd1);
    if (!(pcd > cd1 + 0.05)) fail_msg("PCD %g is not above CD-1 %g", pcd, cd1);
}

static double dbm_likelihood(const training *t) {
    const tiny_dbm m = {.v = BARS_PIXELS, .h1 = 8, .h2 = 5,
                        .w1 = value_of(t, "m.weight1"), .w2 = value_of(t, "m.weight2"),
                        .a = value_of(t, "m.visible_bias"), .b1 = value_of(t, "m.hidden_bias1"),
                        .b2 = value_of(t, "m.hidden_bias2")};
    double sum = 0, log_z = tiny_dbm_log_z(&m);
    for (int n = 0; n < BARS; n++) sum += tiny_dbm_log_p(&m, bars[n]) - log_z;
    return sum / BARS;
}

static void deep_machine_learns(void **state) {
    (void)state;
    training t;
    open_job(&t,
             BARS_DATA("train: {algorithm: {type: cd, persistent: true, k: 2}, batch: 112, steps: 100000}\n"
                       "net:\n- {name: m, type: dbm, hidden: [8, 5],"
                       " weight1: {init: {type: gaussian, std: 0.1}},"
                       " weight2: {init: {type: gaussian, std: 0.1}}}\n" SGD),
             NULL, 0);
    const double before = dbm_likelihood(&t);
    steps(&t, 4000);
    const double after = dbm_likelihood(&t);
    print_message("dbm 9-8-5: likelihood %.3f before, %.3f after\n", before, after);
    if (!(after > before + 0.8)) fail_msg("likelihood %g before, %g after", before, after);
    assert_true(isfinite(t.w.loss));
    close_job(&t);
}

// The last column of pixels given the first two: what the condition tells is used.
static void conditional_machine_uses_its_condition(void **state) {
    (void)state;
    training t;
    open_job(&t,
             BARS_DATA("train: {algorithm: {type: cd, k: 5}, batch: 112, steps: 100000}\n"
                       "net:\n- {name: part, type: slice, points: [3], axis: 1}\n"
                       "- {name: m, type: rbm, src: [part.0, part.1], hidden: 6,"
                       " sample_visible: true}\n" SGD),
             NULL, 0);
    double likelihood[2];
    for (int pass = 0; pass < 2; pass++) {
        likelihood[pass] = 0;
        const float *cv = value_of(&t, "m.condition_visible"), *ch = value_of(&t, "m.condition_hidden");
        for (int n = 0; n < BARS; n++) {
            tiny_rbm m;
            tiny_set(&m, 3, 6, value_of(&t, "m.weight"), value_of(&t, "m.visible_bias"),
                     value_of(&t, "m.hidden_bias"));
            for (int k = 0; k < 6; k++) {
                for (int i = 0; i < 3; i++) m.a[i] += (double)cv[i * 6 + k] * bars[n][3 + k];
                for (int j = 0; j < 6; j++) m.b[j] += (double)ch[j * 6 + k] * bars[n][3 + k];
            }
            likelihood[pass] += (-tiny_free_energy(&m, bars[n]) - tiny_log_z(&m)) / BARS;
        }
        if (!pass) steps(&t, 3000);
    }
    // Given two rows the third is free in the 6 pictures of stripes (and the two plain ones), else known.
    print_message("conditional: %.3f before, %.3f after\n", likelihood[0], likelihood[1]);
    if (!(likelihood[0] < -1.9 && likelihood[1] > -1.2))
        fail_msg("likelihood %g before, %g after", likelihood[0], likelihood[1]);
    close_job(&t);
}

static double mean_activity(const training *t) {
    tiny_rbm m;
    double sum = 0;
    tiny_set(&m, BARS_PIXELS, 8, value_of(t, "m.weight"), value_of(t, "m.visible_bias"),
             value_of(t, "m.hidden_bias"));
    for (int n = 0; n < BARS; n++)
        for (int j = 0; j < 8; j++) sum += logistic_of(tiny_input(&m, j, bars[n]));
    return sum / (BARS * 8);
}

static void sparsity_reaches_its_target(void **state) {
    (void)state;
    const char *text = BARS_DATA("train: {algorithm: cd, batch: 112, steps: 100000}\n" RBM8 SGD);
    training plain, sparse;
    open_job(&plain, text, NULL, 0);
    open_job(&sparse, text, (const char *const[]){"net.m.sparsity=0.15", "net.m.sparsity_cost=3"}, 2);
    steps(&plain, 3000);
    steps(&sparse, 3000);
    const double a = mean_activity(&plain), b = mean_activity(&sparse);
    print_message("mean activity %.3f, %.3f with target 0.15\n", a, b);
    if (!(fabs(b - 0.15) < 0.03 && fabs(a - 0.15) > 0.1)) fail_msg("%g without, %g with", a, b);
    close_job(&plain);
    close_job(&sparse);
}

// ---- what every model owes ----

#define MNIST_LIKE                                                                                           \
    "name: t\ndata:\n"                                                                                       \
    "  train: {reader: synthetic, shape: [1, 8, 8], classes: 4, records: 90, scale: 0.0039}\n"               \
    "  test: {reader: synthetic, shape: [1, 8, 8], classes: 4, records: 50, scale: 0.0039}\n"
#define RBM_NET "net:\n- {name: m, type: rbm, src: data.image, hidden: 40, sparsity: 0.1}\n"
#define DBM_NET "net:\n- {name: m, type: dbm, src: data.image, hidden: [30, 20, 10]}\n"
#define PCD "train: {algorithm: {type: cd, k: 2, persistent: true}, batch: 16, steps: 40}\n"
#define MOMENTUM                                                                                             \
    "updater: {type: sgd, rate: 0.01, momentum: 0.9, early_momentum: 0.5, early: 2 epochs, decay: 0.0002}\n"

static void run(training *t, const char *text, const char *out, bool resume, const char *const *sets,
                size_t n) {
    char dir[128];
    mu_run_result r;
    open_text(t, text, sets, n);
    snprintf(dir, sizeof dir, "%s/%s", folder, out ? out : "");
    const mu_run_opts files = {.out = resume ? NULL : dir, .resume = resume ? dir : NULL};
    const mu_run_opts none = {.no_files = true};
    assert_ok(mu_run_train(t->s, out ? &files : &none, &r, err));
}

static double distance(const training *a, const training *b) {
    double worst = 0;
    for (int i = 0; i < a->s->params->n; i++) {
        const mu_param *p = a->s->params->list[i], *q = b->s->params->list[i];
        for (size_t k = 0; k < p->count; k++)
            worst = fmax(worst, fabs((double)p->value[k] - (double)q->value[k]));
    }
    return worst;
}

static const char *const nets[] = {MNIST_LIKE RBM_NET PCD MOMENTUM, MNIST_LIKE DBM_NET PCD MOMENTUM};

// Stopped inside the epoch of early momentum, and after it; the chains go on, too.
static void resume_is_exact(void **state) {
    (void)state;
    for (size_t k = 0; k < MU_COUNT(nets); k++)
        for (int at = 7; at <= 23; at += 16) {
            char out[20], stop[40];
            training whole, first, second;
            snprintf(out, sizeof out, "run-%zu-%d", k, at);
            snprintf(stop, sizeof stop, "train.steps=%d", at);
            run(&whole, nets[k], NULL, false, NULL, 0);
            run(&first, nets[k], out, false, (const char *const[]){stop}, 1);
            close_job(&first);
            run(&second, nets[k], out, true, NULL, 0);
            const double d = distance(&whole, &second);
            if (d != 0) fail_msg("net %zu, stopped at %d: off by %g", k, at, d);
            close_job(&whole);
            close_job(&second);
        }
}

// Another number of learners may mean another number of chains: they begin anew, all else goes on.
static void resume_with_other_learners(void **state) {
    (void)state;
    for (size_t k = 0; k < MU_COUNT(nets); k++) {
        char out[20];
        training first, second;
        snprintf(out, sizeof out, "others-%zu", k);
        run(&first, nets[k], out, false, (const char *const[]){"train.steps=7"}, 1);
        const mu_param *a = mu_params_find(first.s->params, "m.chain");
        run(&second, nets[k], out, true,
            (const char *const[]){"train.steps=20", "cluster.learners=3", "cluster.protocol=async"}, 3);
        const mu_param *b = mu_params_find(second.s->params, "m.chain");
        assert_int_equal(a->shape.d[0], 16);
        if (b->shape.d[0] == a->shape.d[0]) fail_msg("the same number of chains proves nothing");
        const int64_t row = b->shape.d[1];
        for (int64_t i = 0; i < b->shape.d[0]; i++) {
            const float even = b->value[i * row], odd = b->value[i * row + row / 2];
            if (!(even > 0 || odd > 0)) fail_msg("net %zu: chain %d never began", k, (int)i);
        }
        close_job(&first);
        close_job(&second);
    }
}

static void two_learners_equal_one(void **state) {
    (void)state;
    for (size_t k = 0; k < MU_COUNT(nets); k++) {
        training one, two;
        run(&one, nets[k], NULL, false, NULL, 0);
        run(&two, nets[k], NULL, false, (const char *const[]){"cluster.learners=2"}, 1);
        const double d = distance(&one, &two);
        print_message("net %zu: two learners are off by %.2g\n", k, d);
        if (!(d <= 1e-5)) fail_msg("net %zu: two learners are off by %g", k, d);
        close_job(&one);
        close_job(&two);
    }
}

static void every_protocol_ends(void **state) {
    (void)state;
    for (size_t k = 0; k < MU_COUNT(nets); k++)
        for (size_t i = 0; i < mu_protocols.n; i++) {
            char protocol[60];
            snprintf(protocol, sizeof protocol, "cluster.protocol=%s", mu_protocols.list[i]->name);
            training t;
            run(&t, nets[k], NULL, false, (const char *const[]){"cluster.learners=2", protocol}, 2);
            for (int p = 0; p < t.s->params->n; p++)
                for (size_t e = 0; e < t.s->params->list[p]->count; e++)
                    assert_true(isfinite(t.s->params->list[p]->value[e]));
            close_job(&t);
        }
}

static void a_step_allocates_nothing(void **state) {
    (void)state;
    for (size_t k = 0; k < MU_COUNT(nets); k++) {
        training t;
        open_job(&t, nets[k], NULL, 0);
        steps(&t, 5);
        const uint64_t before = mu_alloc_get_stats().n_calls;
        steps(&t, 20);
        assert_int_equal(mu_alloc_get_stats().n_calls, before);
        close_job(&t);
    }
}

// Rows applied at once, factors kept to the end of the step, sums of two half batches: the same weights. Two
// machines learn at the same time, and the factors of one must outlive the other's chain.
static void ways_of_a_gradient_agree(void **state) {
    (void)state;
    const char *text = "name: t\n"
                       "data: {train: {reader: synthetic, shape: [3, 12, 12], records: 90, scale: 0.0039}}\n"
                       "net:\n- {name: a, type: rbm, src: data.image, hidden: 300}\n"
                       "- {name: b, type: rbm, hidden: 200}\n"
                       "train: {algorithm: cd, batch: 16, steps: 6, shuffle: false}\n" MOMENTUM;
    static const char *const ways[][2] = {{"updater.clip_norm=1e9", "seed=1"},
                                          {"train.nonfinite=skip", "seed=1"},
                                          {"train.batch=8", "train.accumulate=2"}};
    training fused, other;
    run(&fused, text, NULL, false, NULL, 0);
    for (size_t i = 0; i < MU_COUNT(ways); i++) {
        run(&other, text, NULL, false, ways[i], 2);
        const double d = distance(&fused, &other);
        if (!(d <= 1e-6)) fail_msg("%s, %s: off by %g", ways[i][0], ways[i][1], d);
        close_job(&other);
    }
    close_job(&fused);
}

// ---- stacks ----

#define STACK                                                                                                \
    "net:\n- {name: r1, type: rbm, src: data.image, hidden: 24, weight: {lr: 0}, hidden_bias: {lr: 0},"      \
    " visible_bias: {lr: 0}}\n- {name: r2, type: rbm, hidden: 12}\n"
#define CD1 "train: {algorithm: cd, batch: 16, steps: 40, init_from: %s/one}\n"

// The second machine learns on the output of the first, which comes from a checkpoint and stays; then both
// are layers of a feed-forward net, one as rbm, one as inner_product.
static void stacks_are_trained_layer_by_layer(void **state) {
    (void)state;
    training one, two, net;
    run(&one, MNIST_LIKE "net:\n- {name: r1, type: rbm, src: data.image, hidden: 24}\n"
                         "train: {algorithm: cd, batch: 16, steps: 40}\n" MOMENTUM,
        "one", false, NULL, 0);
    char text[2048];
    snprintf(text, sizeof text, MNIST_LIKE STACK CD1 MOMENTUM, folder);
    run(&two, text, "two", false, NULL, 0);
    assert_memory_equal(value_of(&one, "r1.weight"), value_of(&two, "r1.weight"), 24 * 64 * sizeof(float));
    assert_true(mu_params_find(two.s->params, "r2.weight")->count == 24 * 12);
    snprintf(text, sizeof text,
             MNIST_LIKE "net:\n- {name: r1, type: rbm, src: data.image, hidden: 24}\n"
                        "- {name: r2, type: inner_product, outputs: 12, bias: {name: r2.hidden_bias}}\n"
                        "- {name: s2, type: sigmoid}\n- {name: top, type: inner_product, outputs: 4}\n"
                        "- {name: loss, type: softmax_loss, src: [top, data.label]}\n"
                        "train: {batch: 16, steps: 1, init_from: %s/two}\nupdater: {type: sgd, rate: 0}\n",
             folder);
    run(&net, text, "three", false, NULL, 0);
    static const char *const ported[] = {"r1.weight", "r1.hidden_bias", "r2.weight", "r2.hidden_bias"};
    for (size_t i = 0; i < MU_COUNT(ported); i++) {
        const mu_param *p = mu_params_find(two.s->params, ported[i]);
        if (memcmp(p->value, value_of(&net, ported[i]), p->count * sizeof(float)))
            fail_msg("%s is not ported", ported[i]);
    }
    close_job(&one);
    close_job(&two);
    close_job(&net);
}

// ---- mistakes ----

static void expect_problem(const char *text, const char *words) {
    mu_job *job = NULL;
    mu_session *s = NULL;
    mu_err err = {0};
    mu_status st = mu_job_parse("t.yaml", text, strlen(text), NULL, 0, &job, &err);
    const mu_session_opts o = {.phases = MU_TRAIN, .check_only = true};
    if (st == MU_OK) st = mu_session_open(job, &o, &s, &err);
    assert_int_equal(st, MU_EJOB);
    bool found = false;
    for (size_t i = 0; i < job->diags.n; i++) found |= strstr(job->diags.list[i].msg, words) != NULL;
    if (!found) fail_msg("no `%s`; first is `%s`", words, job->diags.n ? job->diags.list[0].msg : "");
    mu_session_close(s);
    mu_job_destroy(job);
}

static void mistakes_are_named(void **state) {
    (void)state;
    const char *mlp = "net:\n- {name: ip, type: inner_product, src: data.image, outputs: 4}\n"
                      "- {name: loss, type: softmax_loss, src: [ip, data.label]}\n";
    char text[1024];
    snprintf(text, sizeof text, MNIST_LIKE "%s" "train: {algorithm: cd, epochs: 1}\n" SGD, mlp);
    expect_problem(text, "no energy layer");
    expect_problem(MNIST_LIKE RBM_NET "train: {algorithm: bp, epochs: 1}\n" SGD, "no loss layer");
    expect_problem(MNIST_LIKE STACK "train: {algorithm: {type: cd, k: 0}, epochs: 1}\n" SGD, "out of range");
    expect_problem(MNIST_LIKE RBM_NET "train: {algorithm: {type: cd, kk: 2}, epochs: 1}\n" SGD,
                   "unknown key `kk`");
    expect_problem(MNIST_LIKE RBM_NET "train: {algorithm: cdd, epochs: 1}\n" SGD, "unknown");
    expect_problem(MNIST_LIKE "net:\n- {name: m, type: dbm, src: data.image, hidden: [5]}\n"
                              "train: {algorithm: cd, epochs: 1}\n" SGD, "2 to 3 hidden layers");
    expect_problem(MNIST_LIKE "net:\n- {name: m, type: rbm, src: data.image, hidden: 5, weight: {lr: 0},"
                              " hidden_bias: {lr: 0}, visible_bias: {lr: 0}}\n"
                              "train: {algorithm: cd, epochs: 1}\n" SGD, "frozen");
    expect_problem(MNIST_LIKE RBM_NET "- {name: few, type: sparsity}\n"
                                      "train: {algorithm: cd, epochs: 1}\n" SGD, "penalty of backward");
    expect_problem(MNIST_LIKE RBM_NET "train: {algorithm: cd, epochs: 1}\n"
                                      "updater: {type: sgd, rate: 0.1, early: 5m}\n", "not a time");
}

static int begin(void **state) {
    (void)state;
    temp_dir(folder);
    write_bars();
    return 0;
}

static int finish(void **state) {
    (void)state;
    remove_tree(folder);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(likelihood_rises_as_theory_says),
        cmocka_unit_test(deep_machine_learns),
        cmocka_unit_test(conditional_machine_uses_its_condition),
        cmocka_unit_test(sparsity_reaches_its_target),
        cmocka_unit_test(resume_is_exact),
        cmocka_unit_test(resume_with_other_learners),
        cmocka_unit_test(two_learners_equal_one),
        cmocka_unit_test(every_protocol_ends),
        cmocka_unit_test(a_step_allocates_nothing),
        cmocka_unit_test(ways_of_a_gradient_agree),
        cmocka_unit_test(stacks_are_trained_layer_by_layer),
        cmocka_unit_test(mistakes_are_named),
    };
    return cmocka_run_group_tests(tests, begin, finish);
}
