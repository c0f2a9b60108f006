// SPDX-License-Identifier: Apache-2.0
// test_train_advice.c - every finding: where it has something to say, and where it must be silent; the
// numbers behind two of them; what batches tell.
#include "training_help.h"

#include "train/advice.h"
#include "train/facts.h"
#include "train/training.h"

#define assert_says(out, word)                                                                               \
    do {                                                                                                     \
        if (!strstr((out).s, word)) fail_msg("no `%s` in: %s", word, (out).s);                               \
    } while (0)

// ---- the loss ----

typedef struct row { double train, loss; } row;

// The number of the row that gave advice, from 0; -1 = none.
static int overfits(const row *rows, size_t n, int64_t patience, mu_advice_text *out) {
    mu_overfit o = {0};
    for (size_t i = 0; i < n; i++) {
        const mu_eval_point p = {(double)i + 1, rows[i].train, rows[i].loss, "validation", patience};
        if (mu_advise_overfitting(&o, &p, out)) return (int)i;
    }
    return -1;
}

static void overfitting(void **state) {
    (void)state;
    static const row away[] = {{1, 0.8}, {0.5, 0.5}, {0.4, 0.41}, {0.3, 0.45}, {0.2, 0.5}, {0.1, 0.62}};
    static const row well[] = {{1, 0.8}, {0.5, 0.5}, {0.4, 0.41}, {0.35, 0.42}, {0.3, 0.40}, {0.29, 0.405},
                               {0.28, 0.41}, {0.27, 0.41}, {0.26, 0.411}, {0.25, 0.41}};
    static const row noisy[] = {{1, 0.5}, {0.5, 0.6}, {0.4, 0.505}, {0.3, 0.7}, {0.2, 0.6}, {0.1, 0.51}};
    static const row diverges[] = {{0.4, 0.41}, {0.45, 0.5}, {0.6, 0.6}, {0.7, 0.7}, {0.9, 0.9}};
    static const row slowly[] = {{1, 1}, {0.9, 1.04}, {0.8, 1.05}, {0.7, 1.06}, {0.6, 1.07}, {0.5, 1.08}};
    static const row unknown[] = {{NAN, 0.4}, {NAN, 0.5}, {NAN, 0.6}, {NAN, 0.7}, {NAN, NAN}};
    static const row energies[] = {{-1, -5}, {-2, -4}, {-3, -3}, {-4, -2}, {-5, -1}};
    mu_advice_text out;
    assert_int_equal(overfits(away, MU_COUNT(away), 0, &out), 5);
    assert_says(out, "validation loss rose from 0.41 to 0.62 since epoch 3 while training loss fell from "
                     "0.4 to 0.1");
    assert_says(out, "train.patience: 3");
    assert_int_equal(overfits(away, MU_COUNT(away), 4, &out), 5);
    assert_null(strstr(out.s, "patience")); // it has some
    assert_int_equal(overfits(well, MU_COUNT(well), 0, &out), -1);
    assert_int_equal(overfits(noisy, MU_COUNT(noisy), 0, &out), -1);
    assert_int_equal(overfits(diverges, MU_COUNT(diverges), 0, &out), -1);
    assert_int_equal(overfits(slowly, MU_COUNT(slowly), 0, &out), -1);
    assert_int_equal(overfits(unknown, MU_COUNT(unknown), 0, &out), -1);
    assert_int_equal(overfits(energies, MU_COUNT(energies), 0, &out), -1);
}

// After how many lines of n there was advice; -1 = never. The loss goes from `first` to `last`.
static int flat_after(int n, double first, double last, int64_t classes, mu_advice_text *out) {
    mu_flat f = {0};
    for (int i = 0; i < n; i++)
        if (mu_advise_flat(&f, (double)i / n, first + (last - first) * i / n, classes, out)) return i;
    return -1;
}

static void flat_loss(void **state) {
    (void)state;
    mu_advice_text out;
    assert_int_equal(flat_after(100, log(10), log(10), 10, &out), 20);
    assert_says(out, "2.3 = ln 10");
    assert_says(out, "20 %");
    assert_int_equal(flat_after(10, log(10), log(10), 10, &out), 4); // five lines at least
    assert_int_equal(flat_after(4, log(10), log(10), 10, &out), -1);
    assert_int_equal(flat_after(100, log(10), 0.5, 10, &out), -1);
    assert_int_equal(flat_after(100, log(10), 0.9 * log(10), 10, &out), -1); // slow, but it moves
    assert_int_equal(flat_after(100, 1.7, 1.7, 10, &out), -1); // stuck elsewhere: that has other reasons
    assert_int_equal(flat_after(100, log(10), log(10), 0, &out), -1);
    assert_int_equal(flat_after(100, NAN, NAN, 10, &out), -1);
    mu_flat f = {0};
    for (int i = 0; i < 50; i++) assert_false(mu_advise_flat(&f, NAN, log(4), 4, &out)); // of no known length
}

// ---- the data ----

static void classes_and_outputs(void **state) {
    (void)state;
    mu_advice_text out;
    assert_false(mu_advise_classes(0, 0, NULL, 10, &out));
    assert_true(mu_advise_classes(1, 3, NULL, 10, &out));
    assert_says(out, "1 of 10 classes has no sample in data.train (the first is number 3)");
    assert_true(mu_advise_classes(2, 3, "cat", 10, &out));
    assert_says(out, "2 of 10 classes have no sample in data.train (the first is `cat`)");
    assert_false(mu_advise_outputs(10, 10, &out));
    assert_false(mu_advise_outputs(10, 0, &out)); // the reader does not know
    assert_true(mu_advise_outputs(12, 10, &out));
    assert_says(out, "12 outputs for 10 classes, 2 of them are never right: set `outputs: 10`");
}

static void inputs(void **state) {
    (void)state;
    mu_advice_text out;
    static const mu_field_facts bytes = {0, 255, 72, 90, true}, unit = {0, 0.996, 0.28, 0.35, false},
                                standard = {-9, 14, 0, 1, false}, centred = {-128, 127, 0.4, 63, false},
                                table = {-3, 1680, 420, 380, false}, flags = {0, 1, 0.5, 0.5, true};
    assert_true(mu_advise_inputs("image", &bytes, &out));
    assert_says(out, "data.image has values from 0 to 255: add `scale: 0.00390625`");
    assert_true(mu_advise_inputs("features", &table, &out));
    assert_says(out, "data.features has values from -3 to 1680, mean 420");
    assert_says(out, "`mean: auto` and `scale: 0.0026`");
    assert_false(mu_advise_inputs("x", &unit, &out));
    assert_false(mu_advise_inputs("x", &standard, &out));
    assert_false(mu_advise_inputs("x", &centred, &out)); // recipes that subtract a mean only
    assert_false(mu_advise_inputs("x", &flags, &out));
}

#define JOB                                                                                                  \
    "name: t\ndata: {train: {reader: synthetic, shape: [1, 4, 4], classes: 4, records: 40, scale: 1}}\n"     \
    "net:\n- {name: ip, type: inner_product, outputs: 6, src: data.image}\n"                                \
    "- {name: loss, type: softmax_loss, src: [ip, data.label]}\n"                                            \
    "- {name: acc, type: accuracy, src: [ip, data.label]}\n"                                                 \
    "train: {batch: 8, steps: 10}\nupdater: {type: sgd, rate: 0.001}\n"

static void what_batches_tell(void **state) {
    (void)state;
    training t;
    mu_facts f;
    prepare(&t, JOB, NULL, 0);
    mu_facts_begin(&f, t.s);
    assert_int_equal(f.n_classes, 4);
    assert_int_equal(f.n_outputs, 6);
    assert_int_equal(f.numbers, 1u << 0);
    assert_true(f.label_field == 1 && f.counting == 1 && f.looked == 0);
    int64_t first = -1;
    assert_int_equal(mu_facts_missing(&f, &first), 4);
    assert_int_equal(first, 0);
    float pixels[2 * 16];
    int32_t labels[] = {2, 0};
    for (int i = 0; i < 32; i++) pixels[i] = i < 16 ? 10 : 30;
    mu_batch b = {.n = 2, .end = 2};
    b.field[0] = (mu_tensor){.shape = {4, {2, 1, 4, 4}}, .dtype = MU_F32, .f = pixels};
    b.field[1] = (mu_tensor){.shape = {1, {2}}, .dtype = MU_I32, .i = labels};
    mu_facts_add(&f, &b);
    assert_int_equal(f.looked, 2);
    assert_true(f.field[0].least == 10 && f.field[0].most == 30 && f.field[0].whole);
    assert_true(f.field[0].mean == 20 && f.field[0].deviation == 10);
    assert_int_equal(mu_facts_missing(&f, &first), 2);
    assert_int_equal(first, 1);
    pixels[0] = 1e6f; // one batch is enough
    labels[0] = 1, labels[1] = 99;
    mu_facts_add(&f, &b);
    assert_true(f.field[0].most == 30);
    assert_int_equal(mu_facts_missing(&f, &first), 1);
    assert_int_equal(first, 3);
    end(&t);
}

// ---- rate and time ----

static void rates(void **state) {
    (void)state;
    static const struct { const char *updater; bool far; } rows[] = {
        {"{type: sgd, rate: 0.01, momentum: 0.9}", false}, {"{type: sgd, rate: 1, momentum: 0.9}", false},
        {"{type: sgd, rate: 1.5, momentum: 0.9}", true},   {"{type: sgd, rate: 5}", false},
        {"{type: sgd, rate: 1e-7}", true},                 {"{type: sgd, rate: 0}", false},
        {"{type: nesterov, rate: 3, momentum: 0.9}", true},{"{type: adam, rate: 0.001}", false},
        {"{type: adam, rate: 0.1}", true},                 {"{type: rmsprop, rate: 0.5}", true},
        {"{type: adagrad, rate: 0.01}", false},            {"{type: adadelta, rate: 1}", false},
        {"{type: adadelta, rate: 1e-5}", true},            {"{type: adamax, rate: 0.002}", false},
        {"{type: adam, rate: {type: cosine, base: 0.3}}", true}};
    for (size_t i = 0; i < MU_COUNT(rows); i++) {
        char set[100];
        training t;
        mu_advice_text out = {""};
        double usual[2];
        snprintf(set, sizeof set, "updater=%s", rows[i].updater);
        prepare(&t, JOB, (const char *const[]){set}, 1);
        const mu_updater *u = t.s->updater;
        u->class->usual_rates(u->state, usual);
        if (mu_advise_rate(u->class->name, u->base, usual, &out) != rows[i].far)
            fail_msg("%s: %s", rows[i].updater, out.s);
        end(&t);
    }
}

static void schedules_and_deadlines(void **state) {
    (void)state;
    mu_advice_text out;
    // 100 of 1000 steps in 60 of 300 s: 500 when the time is over.
    assert_true(mu_advise_schedule("multi_step", 800, "step", 100, 100, 60, 300, &out));
    assert_says(out, "the deadline comes at about step 500, before the last change of the rate at 800");
    assert_false(mu_advise_schedule("multi_step", 490, "step", 100, 100, 60, 300, &out));
    assert_false(mu_advise_schedule("multi_step", 800, "step", 10, 10, 20, 300, &out)); // too early to tell
    assert_false(mu_advise_schedule("step", 0, "step", 100, 100, 60, 300, &out));       // has no end
    assert_false(mu_advise_schedule("multi_step", 800, "step", 100, 100, 60, 0, &out)); // no deadline
    assert_false(mu_advise_schedule("multi_step", 800, "step", 700, 0, 60, 300, &out)); // nothing yet
    assert_false(mu_advise_schedule("multi_step", 800, "step", 700, 100, 60, 300, &out)); // resumed
}

static void ended_schedules(void **state) {
    (void)state;
    mu_advice_text out;
    assert_false(mu_advise_ended("cosine", 0, 0.1, &out));
    assert_false(mu_advise_ended("cosine", 0.9, 0.002, &out));
    assert_true(mu_advise_ended("cosine", 1, 0, &out));
    assert_says(out, "goes on at its last rate, 0;");
}

static void time_of_checkpoints(void **state) {
    (void)state;
    mu_advice_text out;
    assert_true(mu_advise_saving(20, 10, 100, &out));
    assert_says(out, "checkpoints take 10 % of the time, 0.5 s each: set `checkpoint.every: 30s`");
    assert_true(mu_advise_saving(3, 300, 3000, &out));
    assert_says(out, "checkpoint.every: 60m");
    assert_false(mu_advise_saving(20, 2.9, 100, &out));
    assert_false(mu_advise_saving(2, 10, 100, &out));
    assert_false(mu_advise_saving(20, 5, 9, &out));
    assert_true(mu_save_interval(0) == 60 && mu_save_interval(1) == 60 && mu_save_interval(10) == 330);
}

// ---- several learners ----

// An idle machine where every learner has a core.
static mu_learners_load load_of(int learners, int cores) {
    return (mu_learners_load){.learners = learners, .cores = cores, .seconds = 5, .samples = 10000 * learners,
                              .updates = 1000, .global_batch = 64, .compute_s = 4.5 * learners,
                              .apply_s = 0.1 * learners, .cpu_s = 4.7 * learners, .queue_s = 0.01 * learners,
                              .data_s = 0.1 * learners};
}

static void learners(void **state) {
    (void)state;
    mu_advice_text out;
    for (int n = 2; n <= 8; n++) {
        const mu_learners_load well = load_of(n, n);
        assert_false(mu_advise_learners(&well, &out));
        const double one = mu_one_learner_speed(&well);
        if (!(one > 1950 && one < 2250)) fail_msg("one of %d alone: %g samples/s", n, one);
        assert_true(mu_other_programs(&well) == 0);
    }
    // Four on two cores: each has a core half of the time, twice as much as one is done.
    mu_learners_load four = load_of(4, 2);
    four.samples = 20000;
    four.compute_s = 18, four.cpu_s = 9.4, four.queue_s = 9.4, four.data_s = 0.2;
    assert_false(mu_advise_learners(&four, &out));
    // They hand over more than they compute: less than one is done.
    four.samples = 7000;
    four.compute_s = 3, four.cpu_s = 4, four.queue_s = 0.5;
    assert_true(mu_advise_learners(&four, &out));
    assert_says(out, "4 learners make 1400 samples/s, one alone would make about");
    assert_says(out, "there are 2 cores for them; try --learners 1");
    four.learners = 1, four.workers = 4; // one learner: fewer workers are what helps
    assert_true(mu_advise_learners(&four, &out));
    assert_says(out, "4 workers of learners make 1400 samples/s, one alone would make about");
    assert_says(out, "there are 2 cores for them; try --learners 1 --workers 1");
    // Two that wait for each other on free cores.
    mu_learners_load two = load_of(2, 2);
    two.samples = 5000;
    two.compute_s = 2.25, two.cpu_s = 2.4;
    assert_true(mu_advise_learners(&two, &out));
    assert_says(out, "they wait for each other");
    // The same on a machine with as much to do for others: one would be slow there, too.
    two.compute_s = 9, two.cpu_s = 2.4, two.queue_s = 7.2;
    assert_true(mu_other_programs(&two) > 5);
    assert_false(mu_advise_learners(&two, &out));
    // Data that cannot be read as fast as it is computed on.
    two = load_of(2, 4);
    two.samples = 6000;
    two.compute_s = 1, two.cpu_s = 1.2, two.data_s = 9.5;
    assert_false(mu_advise_learners(&two, &out));
    // Steps of some microseconds are not judged by a little.
    two = load_of(2, 2);
    two.samples = 3000000;
    two.compute_s = 1.5, two.cpu_s = 5;
    two.updates = 46875;
    assert_false(mu_advise_learners(&two, &out));
    const mu_learners_load unknown[] = {
        {.learners = 1}, {.learners = 2, .cores = 2, .seconds = 5},
        {.learners = 2, .cores = 2, .seconds = 5, .samples = 10, .compute_s = 1, .cpu_s = NAN}};
    for (size_t i = 0; i < MU_COUNT(unknown); i++) assert_false(mu_advise_learners(&unknown[i], &out));
}

static void share_of_the_time(void **state) {
    (void)state;
    static const struct { double begin, spent, deadline, want; } rows[] = {
        {0, 0, 100, 0}, {0, 25, 100, 0.25}, {0, 100, 100, 1}, {0, 130, 100, 1}, {0, -1, 100, 0},
        {0.6, 0, 50, 0.6}, {0.6, 25, 50, 0.8}, {0.6, 50, 50, 1}, {0.6, 10, 0, 0.6}, {0, 10, 0, 0}};
    for (size_t i = 0; i < MU_COUNT(rows); i++) {
        const double got = mu_time_share(rows[i].begin, rows[i].spent, rows[i].deadline);
        if (fabs(got - rows[i].want) > 1e-12) fail_msg("row %zu: %g", i, got);
    }
}

// ---- whole trainings ----

static int n_lines;
static char lines[4096];
static void keep(void *ctx, const char *text) {
    (void)ctx;
    n_lines++;
    snprintf(lines + strlen(lines), sizeof lines - strlen(lines), "%s\n", text);
}

static void a_line_is_said_once(void **state) {
    (void)state;
    static const char *const learners_of[] = {"cluster.learners=1", "cluster.learners=2"};
    for (size_t i = 0; i < MU_COUNT(learners_of); i++) {
        training t;
        const mu_run_opts o = {.no_files = true, .watch = {.message = keep}};
        n_lines = 0, lines[0] = '\0';
        train(&t, JOB, &o, (const char *const[]){learners_of[i], "train.steps=60"}, 2);
        end(&t);
        if (n_lines != 2 || !strstr(lines, "6 outputs for 4 classes") || !strstr(lines, "0.00390625"))
            fail_msg("%s: %d lines: %s", learners_of[i], n_lines, lines);
        n_lines = 0, lines[0] = '\0'; // the same in two parts, as programs that train step by step do
        prepare(&t, JOB, (const char *const[]){learners_of[i], "train.steps=30"}, 2);
        mu_run_position at = MU_RUN_BEGINNING;
        mu_run_opts parts = o;
        parts.at = &at;
        assert_ok(mu_run_train(t.s, &parts, &t.r, err));
        t.job->train.steps = 60;
        assert_ok(mu_run_train(t.s, &parts, &t.r, err));
        end(&t);
        if (n_lines != 2) fail_msg("%s, in parts: %d lines: %s", learners_of[i], n_lines, lines);
        n_lines = 0, lines[0] = '\0';
        train(&t, JOB, &o,
              (const char *const[]){learners_of[i], "data.train.scale=0.004", "net.ip.outputs=4",
                                    "train.steps=60"},
              4);
        end(&t);
        if (n_lines) fail_msg("%s, nothing to say: %s", learners_of[i], lines);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(overfitting),
        cmocka_unit_test(flat_loss),
        cmocka_unit_test(classes_and_outputs),
        cmocka_unit_test(inputs),
        cmocka_unit_test(what_batches_tell),
        cmocka_unit_test(rates),
        cmocka_unit_test(schedules_and_deadlines),
        cmocka_unit_test(ended_schedules),
        cmocka_unit_test(time_of_checkpoints),
        cmocka_unit_test(learners),
        cmocka_unit_test(share_of_the_time),
        cmocka_unit_test(a_line_is_said_once),
    };
    return cmocka_run_group_tests_name("train/advice", tests, NULL, NULL);
}
