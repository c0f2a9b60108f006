// SPDX-License-Identifier: Apache-2.0
// test_run_driver.c - whole trainings in small: steps allocate nothing, resume is exact, the ways of a
// gradient agree, policies for bad steps, and every reason to stop.
#include "base/rng.h"
#include "run/driver.h"
#include "train/state.h"
#include "train/stopflag.h"
#include "train/worker.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define COUNTS_MALLOC 0
#else
#define COUNTS_MALLOC 1 // every malloc of this process, libraries included, passes here
static atomic_long n_mallocs;
extern void *__libc_malloc(size_t);
void *malloc(size_t size) {
    atomic_fetch_add(&n_mallocs, 1);
    return __libc_malloc(size);
}
#endif

#define NET                                                                                        \
    "net:\n"                                                                                       \
    "- {name: conv, type: convolution, src: data.image, filters: 6, kernel: 3, pad: 1}\n"          \
    "- {name: pool, type: pooling, method: max, kernel: 2}\n"                                      \
    "- {name: norm, type: lrn, size: 3, region: within}\n"                                         \
    "- {name: ip1, type: inner_product, outputs: 40}\n"                                            \
    "- {name: relu, type: relu}\n"                                                                 \
    "- {name: drop, type: dropout, ratio: 0.3}\n"                                                  \
    "- {name: ip2, type: inner_product, outputs: 4}\n"                                             \
    "- {name: loss, type: softmax_loss, src: [ip2, data.label]}\n"
#define DATA                                                                                       \
    "data:\n"                                                                                      \
    "  train: {reader: synthetic, shape: [2, 8, 8], classes: 4, records: 90}\n"                    \
    "  test: {reader: synthetic, shape: [2, 8, 8], classes: 4, records: 50}\n"
#define SGD                                                                                                  \
    "updater: {type: sgd, momentum: 0.9, decay: 0.001, rate: {type: step, base: 0.05, gamma: 0.5, every: "   \
    "30}}\n"

static char folder[] = "test-run-XXXXXX";

typedef struct training {
    mu_job *job;
    mu_session *s;
    mu_run_result r;
    mu_err err;
    mu_status status;
} training;

static void open_job(training *t, const char *text, const char *const *sets, size_t n_sets) {
    memset(t, 0, sizeof *t);
    mu_status st = mu_job_parse("t.yaml", text, strlen(text), sets, n_sets, &t->job, &t->err);
    if (st == MU_OK)
        st = mu_session_open(t->job, &(mu_session_opts){.phases = MU_TRAIN | MU_TEST}, &t->s, &t->err);
    if (st != MU_OK) {
        if (t->job) mu_diags_print(&t->job->diags, stderr, false);
        fail_msg("%s", t->err.msg);
    }
}

static void close_job(training *t) {
    mu_session_close(t->s);
    mu_job_destroy(t->job);
}

static void train(training *t, const char *text, const char *out, bool resume, const char *const *sets,
                  size_t n_sets) {
    char dir[256];
    snprintf(dir, sizeof dir, "%s/%s", folder, out);
    open_job(t, text, sets, n_sets);
    mu_run_opts o = {.out = resume ? NULL : dir, .resume = resume ? dir : NULL};
    t->status = mu_run_train(t->s, &o, &t->r, &t->err);
}

static void expect_same_params(const training *a, const training *b, double tolerance) {
    for (int i = 0; i < a->s->params->n; i++) {
        const mu_param *p = a->s->params->list[i], *q = b->s->params->list[i];
        for (size_t k = 0; k < p->count; k++) {
            double d = fabs((double)p->value[k] - (double)q->value[k]);
            if (!(d <= tolerance))
                fail_msg("%s[%zu]: %.9g and %.9g", p->name, k, (double)p->value[k], (double)q->value[k]);
        }
    }
}

static void a_step_allocates_nothing(void **state) {
    (void)state;
    training t;
    open_job(&t, "name: t\ntrain: {batch: 16, steps: 100}\n" DATA NET SGD, NULL, 0);
    mu_worker w;
    mu_worker_init(&w, t.s);
    mu_err err;
    mu_err_clear(&err);
    assert_int_equal(mu_source_start(t.s->train.source, &err), MU_OK);
    for (int i = 0; i < 20; i++) assert_int_equal(mu_worker_step(&w, &err), MU_OK);
    uint64_t before = mu_alloc_get_stats().n_calls;
#if COUNTS_MALLOC
    long mallocs = atomic_load(&n_mallocs);
#endif
    for (int i = 0; i < 50; i++) assert_int_equal(mu_worker_step(&w, &err), MU_OK);
    assert_int_equal(mu_alloc_get_stats().n_calls, before);
#if COUNTS_MALLOC
    long more = atomic_load(&n_mallocs) - mallocs;
    if (more) fail_msg("%ld calls of malloc in 50 steps", more);
#endif
    mu_source_stop(t.s->train.source);
    close_job(&t);
}

static void resume_is_exact(void **state) {
    (void)state;
    static const char *const updaters[] = {"sgd, momentum: 0.9, nothing: 0",
                                           "nesterov, momentum: 0.9",
                                           "adam",
                                           "adadelta",
                                           "rmsprop",
                                           "adagrad",
                                           "adamax"};
    for (size_t u = 0; u < MU_COUNT(updaters); u++) {
        char text[4096], one[32], two[32];
        snprintf(text, sizeof text,
                 "name: t\ntrain: {batch: 16, steps: 100}\n" DATA NET
                 "updater: {type: %s, decay: 0.001, rate: 0.01}\n",
                 u ? updaters[u] : "sgd, momentum: 0.9");
        snprintf(one, sizeof one, "whole%zu", u);
        snprintf(two, sizeof two, "halves%zu", u);
        training whole, first, second;
        train(&whole, text, one, false, NULL, 0);
        if (whole.status != MU_OK) fail_msg("%s", whole.err.msg);
        const char *half[] = {"train.steps=50"};
        train(&first, text, two, false, half, 1);
        assert_int_equal(first.status, MU_OK);
        train(&second, text, two, true, NULL, 0);
        if (second.status != MU_OK) fail_msg("%s", second.err.msg);
        assert_int_equal(second.r.steps, 100);
        expect_same_params(&whole, &second, 0);
        close_job(&whole);
        close_job(&first);
        close_job(&second);
    }
}

static void ways_agree(int batch) {
    const char *text = "name: t\ntrain: {batch: 16, steps: 40}\n" DATA NET SGD;
    char size[32], name[3][32];
    snprintf(size, sizeof size, "train.batch=%d", batch);
    for (int i = 0; i < 3; i++) snprintf(name[i], sizeof name[i], "way%d_%d", i, batch);
    training fused, deferred, dense;
    train(&fused, text, name[0], false, (const char *[]){size}, 1);
    train(&deferred, text, name[1], false, (const char *[]){size, "train.nonfinite=skip"}, 2);
    train(&dense, text, name[2], false, (const char *[]){size, "updater.clip_norm=1e6"}, 2);
    assert_int_equal(fused.status, MU_OK);
    assert_int_equal(deferred.status, MU_OK);
    assert_int_equal(dense.status, MU_OK);
    expect_same_params(&fused, &deferred, 2e-5);
    expect_same_params(&fused, &dense, 2e-5);
    close_job(&fused);
    close_job(&deferred);
    close_job(&dense);
}

static void the_ways_of_a_gradient_agree(void **state) {
    (void)state;
    ways_agree(16);
    ways_agree(4);
    ways_agree(1); // handed over as it is
}

static void accumulation_equals_a_larger_batch(void **state) {
    (void)state;
    const char *text = "name: t\ntrain: {batch: 32, steps: 20}\n" DATA NET SGD;
    training large, small;
    const char *sets[] = {"train.batch=8", "train.accumulate=4"};
    train(&large, text, "large", false, NULL, 0);
    train(&small, text, "small", false, sets, 2);
    assert_int_equal(large.status, MU_OK);
    assert_int_equal(small.status, MU_OK);
    expect_same_params(&large, &small, 2e-5);
    close_job(&large);
    close_job(&small);
}

static void divergence_is_named_and_stops(void **state) {
    (void)state;
    training t;
    const char *sets[] = {"updater.rate=1e18"};
    train(&t, "name: t\ntrain: {batch: 16, steps: 100}\n" DATA NET SGD, "diverged", false, sets, 1);
    assert_int_equal(t.status, MU_EDIVERGED);
    print_message("%s\n", t.err.msg);
    assert_non_null(strstr(t.err.msg, "not finite at step"));
    assert_true(t.err.pos.line > 0);
    close_job(&t);
}

static int n_messages;
static void count_message(void *ctx, const char *text) {
    (void)ctx;
    (void)text;
    n_messages++;
}

// A hook in the middle of training: spoils one weight for one step, as a bad record or a bug would.
typedef struct saboteur { mu_session *s; int64_t at; bool done; } saboteur;
static void spoil(void *ctx, const mu_run_moment *m, mu_phase phase, const mu_scores *sc, bool best) {
    saboteur *x = ctx;
    (void)phase;
    (void)sc;
    (void)best;
    if (m->step >= x->at && !x->done) {
        x->done = true;
        mu_params_find(x->s->params, "ip1.weight")->value[3] = NAN;
    }
}

static void rollback_returns_to_the_checkpoint(void **state) {
    (void)state;
    training t;
    char dir[256];
    snprintf(dir, sizeof dir, "%s/rollback", folder);
    const char *sets[] = {"train.nonfinite=rollback", "checkpoint.every=10 steps", "test.every=7 steps",
                          "checkpoint.best=false"};
    open_job(&t, "name: t\ntrain: {batch: 16, steps: 60}\n" DATA NET SGD, sets, 4);
    saboteur x = {t.s, 28, false};
    n_messages = 0;
    mu_run_opts o = {.out = dir, .watch = {.ctx = &x, .evaluated = spoil, .message = count_message}};
    t.status = mu_run_train(t.s, &o, &t.r, &t.err);
    if (t.status != MU_OK) fail_msg("%s", t.err.msg);
    assert_true(x.done);
    assert_int_equal(t.r.rollbacks, 1);
    assert_int_equal(t.r.steps, 60);
    assert_true(n_messages >= 1);
    assert_true(fabs(t.r.rate - 0.05 * 0.5 * 0.5) < 1e-9); // one schedule drop, one halving
    close_job(&t);
}

static void skipping_gives_up_in_the_end(void **state) {
    (void)state;
    training t;
    char dir[256];
    snprintf(dir, sizeof dir, "%s/skip", folder);
    const char *sets[] = {"train.nonfinite=skip", "train.max_bad_steps=5", "test.every=7 steps",
                          "checkpoint.every=never"};
    open_job(&t, "name: t\ntrain: {batch: 16, steps: 60}\n" DATA NET SGD, sets, 4);
    saboteur x = {t.s, 14, false};
    mu_run_opts o = {.out = dir, .watch = {.ctx = &x, .evaluated = spoil}};
    t.status = mu_run_train(t.s, &o, &t.r, &t.err);
    assert_int_equal(t.status, MU_EDIVERGED); // the weight stays bad: skipping cannot help
    close_job(&t);
}

// Full for checkpoints, with room for smaller files.
static int open_unless_checkpoint(const char *path, int flags, mode_t mode) {
    if ((flags & O_CREAT) && strstr(path, "/checkpoints/")) {
        errno = ENOSPC;
        return -1;
    }
    return mu_fs_system.open(path, flags, mode);
}

static void a_full_disk_may_hold_the_model(void **state) {
    (void)state;
    training t;
    char model[300];
    mu_fs_ops ops = mu_fs_system;
    ops.open = open_unless_checkpoint;
    mu_fs_set_ops(&ops);
    train(&t, "name: t\ntrain: {batch: 16, steps: 10}\n" DATA NET SGD, "full", false, NULL, 0);
    mu_fs_set_ops(NULL);
    assert_int_equal(t.status, MU_EIO); // no checkpoint, so no success
    assert_non_null(strstr(t.err.msg, "No space left"));
    snprintf(model, sizeof model, "%s/full/model.safetensors", folder);
    int n = 0;
    training again;
    open_job(&again, "name: t\ntrain: {batch: 16, steps: 10}\n" DATA NET SGD, NULL, 0);
    if (mu_state_load_params(model, MU_CKPT_NEWEST, again.s->params, true, &n, &again.err) != MU_OK)
        fail_msg("%s", again.err.msg);
    expect_same_params(&t, &again, 0);
    close_job(&t);
    close_job(&again);
}

static void a_model_that_is_not_finite_is_refused(void **state) {
    (void)state;
    training t;
    char model[300];
    int n = 0;
    open_job(&t, "name: t\ntrain: {batch: 16, steps: 1}\n" DATA NET SGD, NULL, 0);
    float *value = t.s->params->list[1]->value, was = value[0];
    snprintf(model, sizeof model, "%s/nan.safetensors", folder);
    for (int i = 0; i < 2; i++) {
        value[0] = i ? NAN : was;
        assert_int_equal(mu_state_export(folder, "nan.safetensors", t.s, NULL, 0, &t.err), MU_OK);
        mu_status st = mu_state_load_params(model, MU_CKPT_NEWEST, t.s->params, true, &n, &t.err);
        assert_int_equal(st, i ? MU_EMODEL : MU_OK);
    }
    assert_non_null(strstr(t.err.msg, "holds values that are not finite"));
    assert_non_null(strstr(t.err.msg, t.s->params->list[1]->name));
    close_job(&t);
}

static void every_reason_to_stop(void **state) {
    (void)state;
    static const struct { const char *set, *why; } cases[] = {
        {"train.steps=7", "steps"}, {"train.epochs=2", "epochs"}, {"train.deadline=0.3", "deadline"},
        {"train.target_accuracy=0.05", "target"}, {"train.patience=2", "patience"},
    };
    for (size_t i = 0; i < MU_COUNT(cases); i++) {
        training t;
        char name[32];
        snprintf(name, sizeof name, "stop%zu", i);
        // a rate of zero never improves; without a limit of its own each case runs long
        const char *sets[] = {cases[i].set, i == 4 ? "updater.rate=0" : "seed=1"};
        train(&t, "name: t\ntrain: {batch: 16, deadline: 60}\n" DATA NET SGD, name, false, sets, 2);
        if (t.status != MU_OK) fail_msg("%s: %s", cases[i].set, t.err.msg);
        assert_string_equal(t.r.why, cases[i].why);
        assert_true(t.r.tested);
        assert_int_equal(t.r.test.samples, 50);
        assert_true(access(t.r.model, R_OK) == 0);
        close_job(&t);
    }
}

static void raise_signal(void *ctx, const mu_run_moment *m, mu_phase phase, const mu_scores *sc, bool best) {
    (void)m;
    (void)phase;
    (void)sc;
    (void)best;
    raise(*(int *)ctx);
}

static void a_signal_saves_and_ends(void **state) {
    (void)state;
    static const int signals[] = {SIGINT, SIGTERM};
    static const mu_status expect[] = {MU_EINTERRUPTED, MU_ETERMINATED};
    for (int i = 0; i < 2; i++) {
        training t;
        char dir[256];
        snprintf(dir, sizeof dir, "%s/signal%d", folder, i);
        open_job(&t,
                 "name: t\ntrain: {batch: 16, deadline: 60}\ntest: {every: 5 steps}\ncheckpoint: {every: "
                 "never}\n" DATA NET SGD,
                 NULL, 0);
        mu_err_clear(&t.err);
        assert_int_equal(mu_stop_install(&t.err), MU_OK);
        int sig = signals[i];
        mu_run_opts o = {.out = dir, .watch = {.ctx = &sig, .evaluated = raise_signal}};
        t.status = mu_run_train(t.s, &o, &t.r, &t.err);
        mu_stop_uninstall();
        mu_stop_reset();
        assert_int_equal(t.status, expect[i]);
        assert_int_equal(t.r.steps, 5);
        mu_err err;
        mu_err_clear(&err);
        if (mu_ckpt_verify(t.r.checkpoint, &err) != MU_OK) fail_msg("%s", err.msg);
        close_job(&t);
    }
}

// Every loss counts in evaluation as it does in training; equal names do not average them away.
static void several_losses_add_up(void **state) {
    (void)state;
    training t;
    train(&t,
          "name: t\ntrain: {batch: 10, steps: 2}\nlog: {every: 1 steps}\n" DATA
          "net:\n"
          "- {name: ip, type: inner_product, src: data.image, outputs: 4, init: {type: constant, value: 0}}\n"
          "- {name: one, type: softmax_loss, src: [ip, data.label]}\n"
          "- {name: two, type: softmax_loss, src: [ip, data.label], loss_weight: 0.5}\n"
          "updater: {type: sgd, rate: 0}\n",
          "losses", false, NULL, 0);
    if (t.status != MU_OK) fail_msg("%s", t.err.msg);
    double expected = 1.5 * log(4);
    if (fabs(t.r.train_loss - expected) > 1e-5) fail_msg("train loss %g, not %g", t.r.train_loss, expected);
    if (fabs(t.r.test.loss - expected) > 1e-5) fail_msg("test loss %g, not %g", t.r.test.loss, expected);
    if (fabs(t.r.test.value[0] - expected) > 1e-5) fail_msg("score %g, not %g", t.r.test.value[0], expected);
    close_job(&t);
}

static void the_smallest_interval_is_every_step(void **state) {
    (void)state;
    training t;
    const char *sets[] = {"log.every=1e-30 epochs", "test.every=never", "checkpoint.every=1e-9 s"};
    train(&t, "name: t\ntrain: {batch: 16, steps: 5}\n" DATA NET SGD, "tiny", false, sets, MU_COUNT(sets));
    if (t.status != MU_OK) fail_msg("%s", t.err.msg);
    assert_int_equal(t.r.steps, 5);
    close_job(&t);
}

// A bad batch must leave no trace: weights, running statistics and the place in the data are as if it had
// been left out.
static void a_skipped_step_leaves_no_trace(void **state) {
    (void)state;
    training t;
    open_job(&t,
             "name: t\ntrain: {batch: 10, steps: 100, nonfinite: skip, accumulate: 3}\n" DATA
             "net:\n"
             "- {name: ip1, type: inner_product, src: data.image, outputs: 6}\n"
             "- {name: bn, type: batch_norm}\n"
             "- {name: ip2, type: inner_product, outputs: 4}\n"
             "- {name: loss, type: softmax_loss, src: [ip2, data.label]}\n" SGD,
             NULL, 0);
    mu_worker w;
    mu_worker_init(&w, t.s);
    assert_int_equal(mu_worker_step(&w, &t.err), MU_OK);
    float before[6], *mean = mu_params_find(t.s->params, "bn.running_mean")->value;
    float *weight = mu_params_find(t.s->params, "ip1.weight")->value, good = weight[0];
    memcpy(before, mean, sizeof before);
    weight[0] = INFINITY;
    assert_int_equal(mu_worker_step(&w, &t.err), MU_EDIVERGED);
    weight[0] = good;
    for (int i = 0; i < 6; i++)
        if (mean[i] != before[i]) fail_msg("mean %d was %g and is %g", i, (double)before[i], (double)mean[i]);
    const mu_batch *next;
    mu_err_clear(&t.err);
    assert_int_equal(mu_source_next(t.s->train.source, &next, &t.err), MU_OK);
    assert_int_equal(next->first, 2 * mu_samples_per_step(t.s)); // where a resumed run would go on
    close_job(&t);
}

// The training is done and paid for: trouble with the test data afterwards must not cost its result.
static void a_failing_final_evaluation_keeps_the_model(void **state) {
    (void)state;
    char path[256], text[1024];
    snprintf(path, sizeof path, "%s/rows.csv", folder);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs("1,2,0\n2,1,1\n1,3,0\n3,1,1\n1,broken,0\n", f);
    fclose(f);
    snprintf(text, sizeof text,
             "name: t\ntrain: {batch: 2, steps: 3}\ntest: {every: never}\ncheckpoint: {every: never}\n"
             "data:\n"
             "  train: {reader: csv, file: %s, header: no}\n"
             "  test: {reader: csv, file: %s, header: no, max_bad: 0}\n"
             "net:\n"
             "- {name: ip, type: inner_product, outputs: 2}\n"
             "- {name: loss, type: softmax_loss, src: [ip, data.label]}\n"
             "updater: {type: sgd, rate: 0.1}\n",
             path, path);
    training t;
    train(&t, text, "final", false, NULL, 0);
    assert_int_equal(t.status, MU_EDATA);
    assert_string_not_equal(t.r.checkpoint, "");
    assert_int_equal(access(t.r.checkpoint, R_OK), 0);
    assert_int_equal(access(t.r.model, R_OK), 0);
    close_job(&t);
}

static void learning_lowers_the_loss(void **state) {
    (void)state;
    training t;
    const char *sets[] = {"train.epochs=30"};
    train(&t, "name: t\ntrain: {batch: 16, epochs: 1}\n" DATA NET SGD, "learn", false, sets, 1);
    assert_int_equal(t.status, MU_OK);
    print_message("train loss %g, test accuracy %g\n", t.r.train_loss, t.r.test.accuracy);
    assert_true(t.r.train_loss < 0.7); // chance is ln 4 = 1.386
    close_job(&t);
}

int main(void) {
    if (!mkdtemp(folder)) return 1;
    print_message("folder %s\n", folder);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_step_allocates_nothing),      cmocka_unit_test(resume_is_exact),
        cmocka_unit_test(the_ways_of_a_gradient_agree),  cmocka_unit_test(accumulation_equals_a_larger_batch),
        cmocka_unit_test(divergence_is_named_and_stops), cmocka_unit_test(rollback_returns_to_the_checkpoint),
        cmocka_unit_test(skipping_gives_up_in_the_end),  cmocka_unit_test(every_reason_to_stop),
        cmocka_unit_test(a_full_disk_may_hold_the_model),
        cmocka_unit_test(a_model_that_is_not_finite_is_refused),
        cmocka_unit_test(a_signal_saves_and_ends),       cmocka_unit_test(learning_lowers_the_loss),
        cmocka_unit_test(a_failing_final_evaluation_keeps_the_model),
        cmocka_unit_test(a_skipped_step_leaves_no_trace),
        cmocka_unit_test(several_losses_add_up),
        cmocka_unit_test(the_smallest_interval_is_every_step),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    char command[300];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    return system(command) ? 1 : failed;
}
