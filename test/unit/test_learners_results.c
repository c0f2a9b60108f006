// SPDX-License-Identifier: Apache-2.0
// test_learners_results.c - what trainings report: bad records of all learners, each once; a best loss below
// 0.
#include "training_help.h"

#define NET                                                                                                  \
    "net:\n"                                                                                                 \
    "- {name: ip, type: inner_product, src: data.features, outputs: 2}\n"                                    \
    "- {name: loss, type: softmax_loss, src: [ip, data.label]}\n"                                            \
    "updater: {type: sgd, rate: 0.01}\n"

static char path[64];

// 70 rows, of which 7 are no numbers.
static void write_rows(void) {
    snprintf(path, sizeof path, "/tmp/muster-bad-%d.csv", (int)getpid());
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    for (int i = 0; i < 70; i++) fprintf(f, i % 10 == 3 ? "oops,%d\n" : "%d.5,%d\n", i, i % 2);
    fclose(f);
}

static mu_status train_on_rows(training *t, int learners, const char *protocol, int max_bad) {
    char text[900];
    snprintf(text, sizeof text,
             "name: t\ntrain: {batch: 8, epochs: 6}\ncheckpoint: {every: never}\n"
             "data:\n  train: {reader: csv, header: 'no', file: %s, max_bad: %d}\n" NET
             "cluster: {learners: %d, protocol: %s}\n",
             path, max_bad, learners, protocol);
    prepare(t, text, NULL, 0);
    return mu_run_train(t->s, &(mu_run_opts){.no_files = true}, &t->r, &t->err);
}

static void bad_records_are_counted_once(void **state) {
    (void)state;
    const char *const protocol[] = {"hardsync", "hardsync", "async", "hogwild"};
    const int learners[] = {1, 3, 3, 2};
    for (size_t i = 0; i < MU_COUNT(protocol); i++) {
        training t;
        if (train_on_rows(&t, learners[i], protocol[i], 7) != MU_OK) fail_msg("%s", t.err.msg);
        if (t.r.learners.bad_records != 7)
            fail_msg("%d learners, %s: %d bad records", learners[i], protocol[i],
                     (int)t.r.learners.bad_records);
        end(&t);
    }
}

// max_bad is for the run, not for each learner.
static void too_many_bad_records_end_the_run(void **state) {
    (void)state;
    for (int learners = 1; learners <= 3; learners++) {
        training t;
        assert_int_equal(train_on_rows(&t, learners, "async", 6), MU_EDATA);
        if (!strstr(t.err.note, "max_bad allows 6")) fail_msg("%d learners: %s", learners, t.err.note);
        end(&t);
    }
}

static void best_loss_keeps_its_sign(void **state) {
    (void)state;
    training t;
    train(&t,
          "name: t\ntrain: {batch: 10, steps: 20}\ntest: {every: 5 steps}\ncheckpoint: {every: never}\n"
          "data:\n"
          "  train: {reader: synthetic, shape: [6], classes: 2, records: 40, scale: 0.01}\n"
          "  validation: {reader: synthetic, shape: [6], classes: 2, records: 40, scale: 0.01}\n"
          "net:\n"
          "- {name: ip, type: inner_product, src: data.features, outputs: 6}\n"
          "- {name: loss, type: euclidean_loss, src: [ip, data.features], loss_weight: -1}\n"
          "updater: {type: sgd, rate: 0.001}\n",
          &(mu_run_opts){.no_files = true}, NULL, 0);
    assert_true(t.r.validation.loss < 0);
    assert_true(t.r.best < 0 && t.r.best <= t.r.validation.loss);
    end(&t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_records_are_counted_once),
        cmocka_unit_test(too_many_bad_records_end_the_run),
        cmocka_unit_test(best_loss_keeps_its_sign),
    };
    write_rows();
    const int failed = cmocka_run_group_tests_name("learners_results", tests, NULL, NULL);
    unlink(path);
    return failed;
}
