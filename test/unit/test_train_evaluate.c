// SPDX-License-Identifier: Apache-2.0
// test_train_evaluate.c - a loss over whole sequences and the same one unrolled report the same: loss,
// accuracy and confusions, also where labels are ignored and where the metrics of copies are thousands.
#include "training_help.h"

#include "look/confusion.h"
#include "train/evaluate.h"

#define JOB(t, more, unroll)                                                                                 \
    "name: t\nseed: 5\ntrain: {batch: 2, steps: 1}\ntest: {every: never, batch: 2}\n"                        \
    "data:\n"                                                                                                \
    "  train: {reader: synthetic, vocab: 5, shape: [" t "], streams: 2, records: 4, noise: 0.5}\n"           \
    "  test: {reader: synthetic, vocab: 5, shape: [" t "], streams: 2, records: 4, noise: 0.5}\n"            \
    "net:\n"                                                                                                 \
    "- {name: emb, type: embedding, src: data.words, dim: 6, init: {type: gaussian, std: 1}}\n"              \
    "- {name: ip, type: inner_product, outputs: 5, init: {type: gaussian, std: 1}" unroll "}\n"              \
    "- {name: loss, type: softmax_loss, src: [ip, data.label], top: [1, 2, 3]" more "}\n"                    \
    "updater: {type: sgd, rate: 0.1}\n"
#define FUSED(t, more) JOB(t, more, ", axis: 2")
#define UNROLLED(t, more) JOB(t, more ", unroll: " t, ", unroll: " t)

static int metrics_of(const mu_net *net) {
    int n = 0;
    for (int i = 1; i < net->n_layers; i++) n += net->layer[i]->n_metric;
    return n;
}

static void compare(const char *fused, const char *unrolled, int least) {
    training t[2];
    mu_scores sc[2];
    mu_worker w[2];
    mu_confusion c[2] = {{0}};
    for (int i = 0; i < 2; i++) {
        bool found;
        prepare(&t[i], i ? unrolled : fused, NULL, 0);
        assert_ok(mu_evaluate(&t[i].s->test, MU_TEST, NULL, NULL, &sc[i], err));
        mu_inspect in = {t[i].job, t[i].s, &t[i].s->test, MU_TEST, "test", {0}};
        assert_ok(mu_confusion_measure(&c[i], &in, &found, err));
        assert_true(found);
        mu_worker_init(&w[i], t[i].s);
        assert_ok(mu_worker_step(&w[i], err));
    }
    assert_true(metrics_of(t[1].s->test.net) >= least);
    assert_int_equal(sc[0].n, 4);
    assert_int_equal(sc[1].n, 4);
    for (int k = 0; k < 4; k++) {
        assert_string_equal(sc[1].name[k], sc[0].name[k]);
        assert_near(sc[1].value[k], sc[0].value[k], 1e-5);
    }
    assert_near(sc[1].loss, sc[0].loss, 1e-5);
    assert_near(w[1].loss, w[0].loss, 1e-5);
    assert_near((double)c[0].right / (double)c[0].samples, sc[0].accuracy, 1e-9);
    assert_int_equal(c[0].samples, c[1].samples);
    assert_int_equal(c[0].right, c[1].right);
    assert_true(c[0].of_steps && c[1].of_steps);
    assert_int_equal(c[1].classes, 5);
    assert_memory_equal(c[0].count, c[1].count, 25 * sizeof *c[0].count);
    for (int i = 0; i < 2; i++) {
        mu_confusion_fini(&c[i]);
        end(&t[i]);
    }
}

static void copies_report_what_a_sequence_does(void **state) {
    (void)state;
    compare(FUSED("6", ""), UNROLLED("6", ""), 24);
}

static void ignored_labels_count_nowhere(void **state) {
    (void)state;
    compare(FUSED("6", ", ignore_label: 1"), UNROLLED("6", ", ignore_label: 1"), 24);
    compare(FUSED("6", ", ignore_label: 3, loss_weight: 0.5"),
            UNROLLED("6", ", ignore_label: 3, loss_weight: 0.5"), 24);
}

static void thousands_of_metrics_all_count(void **state) {
    (void)state;
#define AGAIN "}\n- {name: again, type: softmax_loss, src: [ip, data.label], top: [1, 2, 3], ignore_label: 2"
    compare(FUSED("600", ", ignore_label: 2" AGAIN), UNROLLED("600", ", ignore_label: 2, unroll: 600" AGAIN),
            4097);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copies_report_what_a_sequence_does),
        cmocka_unit_test(ignored_labels_count_nowhere),
        cmocka_unit_test(thousands_of_metrics_all_count),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
