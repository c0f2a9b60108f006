// SPDX-License-Identifier: Apache-2.0
// test_learners_learners.c - trainings by several learner processes: the same result as by one, every
// protocol to its end with a balanced ledger, losses survived.
#include "base/clock.h"
#include "comm/process.h"
#include "run/driver.h"

#include <dirent.h>
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define DATA(shape)                                                                                          \
    "data:\n"                                                                                                \
    "  train: {reader: synthetic, shape: " shape ", classes: 10, records: 1000, scale: 0.0078125}\n"         \
    "  test: {reader: synthetic, shape: " shape ", classes: 10, records: 200, scale: 0.0078125}\n"
#define LENET                                                                                                \
    "net:\n"                                                                                                 \
    "- {name: conv1, type: convolution, src: data.image, filters: 8, kernel: 5}\n"                           \
    "- {name: pool1, type: pooling, method: average, kernel: 2, stride: 2}\n"                                \
    "- {name: conv2, type: convolution, filters: 16, kernel: 3}\n"                                           \
    "- {name: pool2, type: pooling, method: average, kernel: 2, stride: 2}\n"                                \
    "- {name: ip1, type: inner_product, outputs: 64}\n"                                                      \
    "- {name: tanh1, type: tanh}\n"                                                                          \
    "- {name: drop1, type: dropout, ratio: 0.5}\n"                                                           \
    "- {name: ip2, type: inner_product, outputs: 10}\n"                                                      \
    "- {name: loss, type: softmax_loss, src: [ip2, data.label]}\n"
#define MLP                                                                                                  \
    "net:\n"                                                                                                 \
    "- {name: fc1, type: inner_product, src: data.features, outputs: 100, init: msra}\n"                     \
    "- {name: tanh1, type: tanh}\n"                                                                          \
    "- {name: drop1, type: dropout, ratio: 0.2}\n"                                                           \
    "- {name: fc2, type: inner_product, outputs: 50, init: msra}\n"                                          \
    "- {name: tanh2, type: tanh}\n"                                                                          \
    "- {name: fc3, type: inner_product, outputs: 10}\n"                                                      \
    "- {name: loss, type: softmax_loss, src: [fc3, data.label]}\n"
#define NORMED                                                                                               \
    "net:\n"                                                                                                 \
    "- {name: fc1, type: inner_product, src: data.features, outputs: 40, init: msra}\n"                      \
    "- {name: bn1, type: batch_norm}\n"                                                                      \
    "- {name: relu1, type: relu}\n"                                                                          \
    "- {name: fc2, type: inner_product, outputs: 10}\n"                                                      \
    "- {name: loss, type: softmax_loss, src: [fc2, data.label]}\n"
// Sums over learners are rounded differently. Where a maximum or a relu is all but a tie that rounding
// decides, on one processor and not on the next; and at usual rates training amplifies a difference a
// thousandfold in a hundred steps. So equality is looked at with smooth nets and a small rate.
#define SGD "updater: {type: sgd, momentum: 0.9, decay: 0.0005, rate: 0.0003}\n"

typedef struct training {
    mu_job *job;
    mu_session *s;
    mu_run_result r;
    mu_err err;
    mu_status status;
} training;

static void say(void *ctx, const char *text) {
    (void)ctx;
    print_message("%s\n", text);
}

static void train(training *t, const char *text, const char *const *sets, size_t n) {
    memset(t, 0, sizeof *t);
    mu_status st = mu_job_parse("t.yaml", text, strlen(text), sets, n, &t->job, &t->err);
    if (st == MU_OK)
        st = mu_session_open(t->job, &(mu_session_opts){.phases = MU_TRAIN | MU_TEST}, &t->s, &t->err);
    if (st != MU_OK) {
        if (t->job) mu_diags_print(&t->job->diags, stderr, false);
        fail_msg("%s", t->err.msg);
    }
    t->status = mu_run_train(t->s, &(mu_run_opts){.no_files = true, .watch.message = say}, &t->r, &t->err);
    if (t->status != MU_OK) fail_msg("%s (%s)", t->err.msg, t->err.note);
}

static void end(training *t) {
    mu_session_close(t->s);
    mu_job_destroy(t->job);
}

// Largest difference of a parameter's elements, relative to its largest element.
static double distance(const training *a, const training *b) {
    double worst = 0;
    for (int i = 0; i < a->s->params->n; i++) {
        const mu_param *p = a->s->params->list[i], *q = b->s->params->list[i];
        double most = 0, off = 0;
        for (size_t k = 0; k < p->count; k++) {
            most = fmax(most, fabs((double)p->value[k]));
            double d = fabs((double)p->value[k] - (double)q->value[k]);
            off = d > off || isnan(d) ? d : off;
        }
        if (off / most > worst || isnan(off)) worst = off / most;
    }
    return worst;
}

static void expect_no_children(void) {
    int status;
    assert_int_equal(waitpid(-1, &status, WNOHANG), -1); // no child, not even a dead one
}

// ---- equivalence ----

static void same_as_one(const char *name, const char *text, int steps) {
    char n_steps[40], learners[40];
    snprintf(n_steps, sizeof n_steps, "train.steps=%d", steps);
    training one;
    train(&one, text, (const char *const[]){n_steps}, 1);
    for (int lambda = 2; lambda <= 8; lambda *= 2) {
        training t;
        snprintf(learners, sizeof learners, "cluster.learners=%d", lambda);
        train(&t, text, (const char *const[]){n_steps, learners}, 2);
        double d = distance(&one, &t);
        print_message("%s, %d learners: largest relative difference %.2g after %d steps\n", name, lambda, d,
                      steps);
        if (!(d <= 1e-5)) fail_msg("%s with %d learners is off by %g", name, lambda, d);
        assert_int_equal(t.r.learners.staleness_max, 0);
        assert_int_equal(t.r.learners.produced, (int64_t)steps * lambda);
        assert_int_equal(t.r.learners.applied, (int64_t)steps * lambda);
        end(&t);
    }
    end(&one);
    expect_no_children();
}

#define TRAIN "name: t\ntrain: {batch: 64, steps: 200}\ntest: {every: never}\n"

static void hardsync_equals_one_learner(void **state) {
    (void)state;
    same_as_one("lenet sgd", TRAIN DATA("[1, 20, 20]") LENET SGD, 200);
    same_as_one("mlp sgd", TRAIN DATA("[200]") MLP SGD, 200);
    same_as_one("mlp adam", TRAIN DATA("[200]") MLP "updater: {type: adam, rate: 0.00003}\n", 200);
    same_as_one("mlp nesterov",
                TRAIN DATA("[200]") MLP "updater: {type: nesterov, momentum: 0.9, rate: 0.0003}\n", 200);
}

// However they share the net, also unevenly: by rows, by features, both, and whole layers at one of them.
static void workers_equal_one_process(void **state) {
    (void)state;
    static const char *const by_feature = "cluster.partition=feature";
    static const char *const not_cut = "cluster.partition=none";
    static const struct { const char *name, *text, *learners, *workers, *split, *more; } rows[] = {
        {"lenet", TRAIN DATA("[1, 20, 20]") LENET SGD, "1", "2", NULL, NULL},
        {"lenet", TRAIN DATA("[1, 20, 20]") LENET SGD, "1", "3", by_feature, NULL},
        {"lenet", TRAIN DATA("[1, 20, 20]") LENET SGD, "3", "2", NULL, "net.ip1.partition=feature"},
        {"mlp", TRAIN DATA("[200]") MLP SGD, "2", "3", NULL, NULL},
        {"mlp", TRAIN DATA("[200]") MLP SGD, "2", "3", by_feature, NULL},
        {"mlp", TRAIN DATA("[200]") MLP SGD, "1", "4", NULL, "net.fc1.partition={batch: 2, feature: 2}"},
        {"mlp", TRAIN DATA("[200]") MLP SGD, "1", "2", not_cut, "net.fc2.location=1"},
        {"mlp adam", TRAIN DATA("[200]") MLP "updater: {type: adam, rate: 0.00003}\n", "1", "5", NULL, NULL},
    };
    for (size_t i = 0; i < MU_COUNT(rows); i++) {
        char learners[40], workers[40];
        const char *const usual = "cluster.pin=true";
        snprintf(learners, sizeof learners, "cluster.learners=%s", rows[i].learners);
        snprintf(workers, sizeof workers, "cluster.workers=%s", rows[i].workers);
        training one, many;
        train(&one, rows[i].text, (const char *const[]){"train.steps=100"}, 1);
        train(&many, rows[i].text,
              (const char *const[]){"train.steps=100", learners, workers,
                                    rows[i].split ? rows[i].split : usual,
                                    rows[i].more ? rows[i].more : usual},
              5);
        const double d = distance(&one, &many);
        print_message("%s, %s x %s, %s %s: largest relative difference %.2g\n", rows[i].name,
                      rows[i].learners, rows[i].workers, rows[i].split ? rows[i].split : "by batch",
                      rows[i].more ? rows[i].more : "", d);
        if (!(d <= 1e-5)) fail_msg("%s is off by %g", rows[i].name, d);
        if (fabs(one.r.train_loss - many.r.train_loss) > 1e-3 * fabs(one.r.train_loss))
            fail_msg("loss %g, not %g", many.r.train_loss, one.r.train_loss);
        assert_int_equal(many.r.learners.applied, 100 * atoi(rows[i].learners));
        assert_int_equal(many.r.samples, one.r.samples);
        end(&one);
        end(&many);
    }
    expect_no_children();
}

// By every protocol, and where a gradient has fewer samples than workers (10 in 3 gradients of 4 workers).
static void workers_use_every_sample(void **state) {
    (void)state;
    static const struct {
        const char *protocol, *learners, *workers;
    } rows[] = {
        {"hardsync", "3", "4"}, {"hardsync", "2", "3"}, {"softsync", "2", "3"},
        {"async", "2", "3"},    {"async", "1", "2"},    {"{type: ssp, bound: 2}", "2", "5"},
    };
    for (size_t i = 0; i < MU_COUNT(rows); i++) {
        char protocol[60], learners[40], workers[40];
        snprintf(protocol, sizeof protocol, "cluster.protocol=%s", rows[i].protocol);
        snprintf(learners, sizeof learners, "cluster.learners=%s", rows[i].learners);
        snprintf(workers, sizeof workers, "cluster.workers=%s", rows[i].workers);
        training t;
        train(&t, TRAIN DATA("[200]") MLP SGD,
              (const char *const[]){protocol, learners, workers, "train.batch=10", "train.steps=31",
                                    "cluster.warm_start=2 steps"},
              6);
        const mu_learners_result *g = &t.r.learners;
        if (g->produced != g->applied || g->applied != 31 * atoi(rows[i].learners) || t.r.samples != 310)
            fail_msg("%s, %s x %s: %lld samples, %lld gradients of %lld applied", rows[i].protocol,
                     rows[i].learners, rows[i].workers, (long long)t.r.samples, (long long)g->applied,
                     (long long)g->produced);
        end(&t);
    }
    expect_no_children();
}

static void server_process_equals_beside(void **state) {
    (void)state;
    training a, b;
    const char *text = TRAIN DATA("[1, 20, 20]") LENET SGD;
    train(&a, text, (const char *const[]){"cluster.learners=3", "cluster.server=beside", "train.steps=60"},
          3);
    train(&b, text,
          (const char *const[]){"cluster.learners=3", "cluster.server=process", "cluster.server_threads=2",
                                "train.steps=60"}, 4);
    assert_true(distance(&a, &b) == 0.0); // the same sums in the same order
    end(&a);
    end(&b);
    expect_no_children();
}

// ---- every protocol ----

static void every_protocol_ends(void **state) {
    (void)state;
    static const struct { const char *name; int64_t stalest; } protocols[] = {
        {"hardsync", 0},
        {"softsync", 2},
        {"{type: softsync, n: 2}", 4},
        {"{type: softsync, bound: 1}", 1},
        {"{type: softsync, bound: 0}", INT64_MAX},
        {"async", INT64_MAX},
        {"{type: async, bound: 4}", 4},
        {"hogwild", INT64_MAX},
        {"mirror", INT64_MAX},
        {"{type: mirror, every: 2}", INT64_MAX},
        {"{type: ssp, bound: 2}", INT64_MAX},
    };
    static const char *const servers[] = {"cluster.server=beside", "cluster.server=process",
                                          "cluster.server=both"};
    for (size_t i = 0; i < MU_COUNT(protocols); i++)
        for (size_t k = 0; k < MU_COUNT(servers); k++) {
            char p[80];
            const char *name = protocols[i].name;
            snprintf(p, sizeof p, "cluster.protocol=%s", name);
            // These have no server.
            const bool mirrors = strstr(name, "mirror"), itself = mirrors || !strcmp(name, "hogwild");
            training t;
            train(&t, TRAIN DATA("[200]") MLP SGD,
                  (const char *const[]){"cluster.learners=4", p, "cluster.warm_start=never", "train.steps=50",
                                        servers[k]},
                  itself ? 4 : 5);
            const mu_learners_result *g = &t.r.learners;
            print_message("%s %s: %lld gradients, staleness %.2f at most %lld, loss %.3f\n", name, servers[k],
                          (long long)g->produced, g->staleness_mean, (long long)g->staleness_max,
                          t.r.train_loss);
            assert_true(g->staleness_max <= protocols[i].stalest);
            assert_int_equal(g->produced, g->applied + g->rejected + g->lost);
            assert_int_equal(g->applied, 200);
            assert_int_equal(t.r.steps, 50);
            assert_true(isfinite(t.r.train_loss) && t.r.train_loss < 3);
            // The rule's division, whatever the protocol, and the same number wherever it is told.
            const double n = t.s->setup.stale.n / t.s->setup.momentum_rate;
            if (fabs(g->rate_effective * n - 0.0003) > 1e-9 || g->rate_effective != t.r.rate)
                fail_msg("%s: rate %g, in the result %g; 0.0003 / %g is right", name, g->rate_effective,
                         t.r.rate, n);
            end(&t);
        }
    expect_no_children();
}

// ---- a warm start, and what is evaluated before it ----

static const char *const asynchronous[] = {"softsync", "async", "hogwild", "mirror", "ssp"};

// Bit for bit, running statistics, too; so its staleness does not count as the protocol's.
static void warm_start_is_hardsync(void **state) {
    (void)state;
    training sync;
    train(&sync, TRAIN DATA("[200]") NORMED SGD,
          (const char *const[]){"cluster.learners=3", "train.steps=30", "train.batch=63"}, 3);
    for (size_t i = 0; i < MU_COUNT(asynchronous); i++) {
        char p[80];
        snprintf(p, sizeof p, "cluster.protocol=%s", asynchronous[i]);
        training t;
        train(&t, TRAIN DATA("[200]") NORMED SGD,
              (const char *const[]){"cluster.learners=3", p, "train.steps=30", "train.batch=63",
                                    "cluster.warm_start=30 steps"}, 5);
        if (distance(&sync, &t) != 0) fail_msg("%s: off by %g", asynchronous[i], distance(&sync, &t));
        assert_int_equal(t.r.learners.applied, 90);
        assert_int_equal(t.r.learners.staleness_hist[0], 0);
        assert_true(t.r.learners.staleness_mean == 0);
        end(&t);
    }
    assert_int_equal(sync.r.learners.staleness_hist[0], 90);
    end(&sync);
    expect_no_children();
}

static void warm_start_switches(void **state) {
    (void)state;
    for (size_t i = 0; i < MU_COUNT(asynchronous); i++) {
        char p[80];
        snprintf(p, sizeof p, "cluster.protocol=%s", asynchronous[i]);
        training t;
        train(&t, TRAIN DATA("[200]") NORMED SGD,
              (const char *const[]){"cluster.learners=3", p, "train.steps=40", "train.batch=63",
                                    "cluster.warm_start=10 steps", "test.at_start=true"}, 6);
        const mu_learners_result *g = &t.r.learners;
        print_message("%s after 10 steps of hardsync: %lld versions, staleness %.2f\n", asynchronous[i],
                      (long long)g->versions, g->staleness_mean);
        assert_int_equal(g->applied, 120);
        assert_true(isfinite(t.r.train_loss) && t.r.train_loss < 3);
        assert_int_equal(g->learners_lost, 0);
        assert_int_equal(t.r.steps, 40);
        if (strcmp(asynchronous[i], "softsync")) assert_int_equal(g->versions, 10 + 90);
        end(&t);
    }
    expect_no_children();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hardsync_equals_one_learner), cmocka_unit_test(workers_equal_one_process),
        cmocka_unit_test(workers_use_every_sample),    cmocka_unit_test(server_process_equals_beside),
        cmocka_unit_test(every_protocol_ends),         cmocka_unit_test(warm_start_switches),
        cmocka_unit_test(warm_start_is_hardsync),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
