// SPDX-License-Identifier: Apache-2.0
// Which layer of a net says what its answers are, and that what is scored is what the layer counted: with
// reused memory, over time steps, with one score for two classes, with several heads. Who has no classes and
// no targets is left alone.
#include "training_help.h"

#include "look/scorer.h"

#define FRAME(data, net)                                                                                     \
    "name: t\nseed: 5\ntrain: {batch: 4, steps: 1}\ntest: {every: never, batch: 4}\n"                        \
    "data:\n  train: " data "\n  test: " data "\nnet:\n" net "updater: {type: sgd, rate: 0.1}\n"
#define POINTS "{reader: synthetic, shape: [6], classes: 7, records: 30, scale: 0.01}"
#define IMAGES "{reader: synthetic, shape: [2, 3, 3], classes: 2, records: 30, scale: 0.01}"
#define SCORES "- {name: ip, type: inner_product, src: data.features, outputs: 7}\n"
#define LOSS "- {name: loss, type: softmax_loss, src: [ip, data.label], top: [1, 5]}\n"

#define TWO                                                                                                  \
    "{reader: zip, parts: [{reader: synthetic, shape: [2, 3, 3], classes: 2, records: 30},"                  \
    " {reader: synthetic, shape: [3, 2, 2], classes: 2, records: 30, seed: 1}], names: [image, _, to, _]}"

typedef struct judged {
    training t;
    mu_scorer j;
    mu_scores sc;
} judged;

static void judge_head(judged *g, const char *job, const char *head) {
    prepare(&g->t, job, NULL, 0);
    assert_ok(mu_scorer_open(&g->j, &g->t.s->test, head, err));
    assert_ok(mu_evaluate(&g->t.s->test, MU_TEST, mu_scorer_batch, &g->j, &g->sc, err));
}

static void done(judged *g) {
    mu_scorer_close(&g->j);
    end(&g->t);
}

static double metric(const judged *g, const char *name) {
    for (int i = 0; i < g->sc.n; i++)
        if (!strcmp(g->sc.name[i], name)) return g->sc.value[i];
    fail_msg("no metric `%s`", name);
    return 0;
}

static void assert_head(const judged *g, const char *name, mu_confidence what, const char *other) {
    const mu_head *h = &g->j.classes;
    assert_non_null(h->layer);
    assert_string_equal(mu_head_name(h->layer), name);
    assert_int_equal(h->confidence, what);
    if (other) assert_string_equal(h->other, other);
    else assert_null(h->other);
}

// ---- classes ----

static void test_scores_are_the_layers(void **state) {
    (void)state;
    judged g;
    judge_head(&g, FRAME(POINTS, SCORES LOSS), NULL);
    assert_head(&g, "loss", MU_SCORES_LOGITS, NULL);
    assert_null(g.j.numbers.layer);
    assert_int_equal(g.j.class_scores.samples, 30); // also of the last batch, which has two
    assert_near(mu_class_scores_accuracy(&g.j.class_scores), metric(&g, "accuracy"), 1e-12);
    assert_near(mu_class_scores_top5(&g.j.class_scores), metric(&g, "top5"), 1e-12);
    done(&g);
}

// The scores go on to other layers after the loss has read them; the plan may use their memory again.
static void test_memory_is_kept(void **state) {
    (void)state;
    judged g, bare;
#define ON                                                                                                   \
    "- {name: prob, type: softmax, src: ip}\n- {name: on, type: inner_product, src: prob, outputs: 7}\n"     \
    "- {name: further, type: inner_product, outputs: 7}\n- {name: end, type: inner_product, outputs: 7}\n"
    judge_head(&bare, FRAME(POINTS, SCORES LOSS), NULL);
    judge_head(&g, FRAME(POINTS, SCORES LOSS ON), NULL);
    assert_near(metric(&g, "accuracy"), metric(&bare, "accuracy"), 1e-12);
    assert_memory_equal(g.j.class_scores.confusion.count, bare.j.class_scores.confusion.count,
                        49 * sizeof(int32_t));
    assert_near(mu_class_scores_calibration(&g.j.class_scores),
                mu_class_scores_calibration(&bare.j.class_scores), 1e-12);
    done(&g);
    // an accuracy layer that reads probabilities: the same answers with the same confidence
    judge_head(&g,
               FRAME(POINTS, SCORES LOSS "- {name: prob, type: softmax, src: ip}\n"
                                         "- {name: acc, type: accuracy, src: [prob, data.label]}\n"),
               NULL);
    assert_head(&g, "acc", MU_SCORES_PROBABILITIES, NULL);
    assert_near(mu_class_scores_confidence(&g.j.class_scores),
                mu_class_scores_confidence(&bare.j.class_scores), 1e-5);
    done(&g);
    done(&bare);
}

static void test_which_head(void **state) {
    (void)state;
    judged g;
    // an accuracy layer comes first; beside a loss of the same scores it is no other question
    judge_head(&g, FRAME(POINTS, SCORES LOSS "- {name: acc, type: accuracy, src: [ip, data.label]}\n"), NULL);
    assert_head(&g, "acc", MU_SCORES_LOGITS, NULL);
    done(&g);
    // scores that no loss turns into probabilities
    judge_head(&g,
               FRAME(POINTS, SCORES "- {name: acc, type: accuracy, src: [ip, data.label]}\n"
                                    "- {name: hot, type: one_hot, src: data.label, vocab: 7}\n"
                                    "- {name: off, type: euclidean_loss, src: [ip, hot]}\n"),
               NULL);
    assert_head(&g, "acc", MU_SCORES_ONLY, NULL);
    assert_true(isnan(mu_class_scores_calibration(&g.j.class_scores)));
    assert_string_equal(mu_head_name(g.j.numbers.layer), "off"); // the labels as numbers are a target
    assert_int_equal(g.j.numbers.width, 7);
    done(&g);
#define SECOND                                                                                               \
    "- {name: ip2, type: inner_product, src: data.features, outputs: 9}\n"                                   \
    "- {name: loss2, type: softmax_loss, src: [ip2, data.label]}\n"
    judge_head(&g, FRAME(POINTS, SCORES LOSS SECOND), NULL);
    assert_head(&g, "loss", MU_SCORES_LOGITS, "loss2");
    assert_int_equal(g.j.class_scores.classes, 7);
    done(&g);
    judge_head(&g, FRAME(POINTS, SCORES LOSS SECOND), "loss2");
    assert_head(&g, "loss2", MU_SCORES_LOGITS, "loss");
    assert_int_equal(g.j.class_scores.classes, 9);
    mu_scorer j;
    assert_fails(mu_scorer_open(&j, &g.t.s->test, "los2", err), MU_EUSAGE, "no layer `los2` compares");
    mu_scorer_close(&j);
    assert_fails(mu_scorer_open(&j, &g.t.s->test, "ip", err), MU_EUSAGE, "no layer `ip` compares");
    mu_scorer_close(&j);
    done(&g);
}

// One score and a label 0 or 1: two classes, of which sigmoid(score) is the probability of the second.
static void test_one_score(void **state) {
    (void)state;
    judged g;
    judge_head(&g,
               FRAME(IMAGES, "- {name: ip, type: inner_product, src: data.image, outputs: 1}\n"
                             "- {name: loss, type: sigmoid_loss, src: [ip, data.label]}\n"),
               NULL);
    assert_head(&g, "loss", MU_SCORES_LOGITS, NULL);
    assert_int_equal(g.j.class_scores.classes, 2);
    assert_int_equal(g.j.class_scores.samples, 30);
    // against the parameters themselves, batch by batch
    const mu_layer *l = g.j.classes.layer;
    int64_t right = 0;
    double confidence = 0;
    mu_source_stop(g.t.s->test.source);
    assert_ok(mu_source_seek(g.t.s->test.source, 0, err));
    assert_ok(mu_source_start(g.t.s->test.source, err));
    for (;;) {
        const mu_batch *batch;
        assert_ok(mu_source_next(g.t.s->test.source, &batch, err));
        if (!batch) break;
        mu_net_set_input(g.t.s->test.net, batch->field, mu_source_n_fields(g.t.s->test.source));
        mu_step step = {.phase = MU_TEST, .rows = batch->n, .global_rows = batch->n};
        assert_ok(mu_net_forward(g.t.s->test.net, &step, err));
        for (int64_t i = 0; i < batch->n; i++) {
            const double p = 1 / (1 + exp(-(double)l->src[0]->value.f[i]));
            right += (p > 0.5) == l->src[1]->value.i[i];
            confidence += fmax(p, 1 - p);
        }
    }
    mu_source_stop(g.t.s->test.source);
    assert_int_equal(g.j.class_scores.right, right);
    assert_near(mu_class_scores_confidence(&g.j.class_scores), confidence / 30, 1e-9);
    done(&g);
}

// Of sequences, whole or unrolled, every time step is an answer.
static void test_time_steps(void **state) {
    (void)state;
#define TEXT "{reader: synthetic, vocab: 5, shape: [6], streams: 4, records: 8, noise: 0.5}"
#define STEPS(unroll, axis)                                                                                  \
    "- {name: emb, type: embedding, src: data.words, dim: 6, init: {type: gaussian, std: 1}}\n"              \
    "- {name: ip, type: inner_product, outputs: 5, init: {type: gaussian, std: 1}" axis unroll "}\n"         \
    "- {name: loss, type: softmax_loss, src: [ip, data.label], ignore_label: 1" unroll "}\n"
    judged g[2];
    judge_head(&g[0], FRAME(TEXT, STEPS("", ", axis: 2")), NULL);
    judge_head(&g[1], FRAME(TEXT, STEPS(", unroll: 6", "")), NULL);
    for (int i = 0; i < 2; i++) {
        assert_head(&g[i], "loss", MU_SCORES_LOGITS, NULL);
        assert_true(mu_scorer_of_steps(&g[i].j.classes));
        assert_near(mu_class_scores_accuracy(&g[i].j.class_scores), metric(&g[i], "accuracy"), 1e-12);
        assert_int_equal(g[i].j.class_scores.support[1], 0);
    }
    assert_int_equal(g[1].j.classes.n_copies, 6);
    assert_int_equal(g[0].j.class_scores.samples, g[1].j.class_scores.samples);
    assert_memory_equal(g[0].j.class_scores.confusion.count, g[1].j.class_scores.confusion.count,
                        25 * sizeof(int32_t));
    done(&g[0]);
    done(&g[1]);
}

// ---- numbers ----

static void assert_no_head(const char *job) {
    judged g;
    judge_head(&g, job, NULL);
    assert_null(g.j.classes.layer);
    assert_null(g.j.numbers.layer);
    done(&g);
}

// Two codes of two kinds of data that learn to be near, as for retrieval: neither is the other's target.
static void test_codes_are_no_targets(void **state) {
    (void)state;
    assert_no_head(FRAME(TWO, "- {name: a, type: inner_product, src: data.image, outputs: 2}\n"
                              "- {name: b, type: inner_product, src: data.to, outputs: 2}\n"
                              "- {name: off, type: euclidean_loss, src: [a, b]}\n"));
}

// The input is no target, by whatever way it comes; nor is what another layer has learned.
static void test_no_head(void **state) {
    (void)state;
#define CODE                                                                                                 \
    "- {name: flat, type: flatten, src: data.image}\n- {name: code, type: inner_product, outputs: 2}\n"      \
    "- {name: back, type: inner_product, outputs: 18}\n"
    assert_no_head(FRAME(IMAGES, CODE "- {name: off, type: euclidean_loss, src: [back, flat]}\n"));
    assert_no_head(FRAME(IMAGES, CODE "- {name: off, type: euclidean_loss, src: [flat, back]}\n"));
    assert_no_head(FRAME(IMAGES, CODE "- {name: off, type: sigmoid_loss, src: [back, flat]}\n"));
    assert_no_head(FRAME(IMAGES, CODE "- {name: again, type: flatten, src: data.image}\n"
                                      "- {name: clean, type: relu}\n"
                                      "- {name: off, type: euclidean_loss, src: [back, clean]}\n"));
    assert_no_head(FRAME(IMAGES, CODE "- {name: other, type: inner_product, src: flat, outputs: 2}\n"
                                      "- {name: off, type: euclidean_loss, src: [code, other]}\n"));
}

// The first four values of a record tell the last two: parts of one field are different data. Checked against
// the loss, which is half the sum of the squared errors.
static void test_parts_of_a_field(void **state) {
    (void)state;
#define CUT "- {name: cut, type: slice, src: data.features, points: [4]}\n"
    static const char *const sources[] = {"[ip, cut.1]", "[cut.1, ip]"};
    for (size_t i = 0; i < MU_COUNT(sources); i++) {
        char job[1200];
        judged g;
        snprintf(job, sizeof job,
                 FRAME(POINTS, CUT "- {name: ip, type: inner_product, src: cut.0, outputs: 2}\n"
                                   "- {name: off, type: euclidean_loss, src: %s}\n"),
                 sources[i]);
        judge_head(&g, job, NULL);
        assert_null(g.j.classes.layer);
        assert_non_null(g.j.numbers.layer);
        assert_int_equal(g.j.numbers.answer, i);
        assert_int_equal(g.j.numbers.width, 2);
        const mu_errors e = mu_number_scores_all(&g.j.number_scores);
        assert_int_equal(g.j.number_scores.of[1].n, 30);
        assert_near(e.rmse * e.rmse, metric(&g, "loss"),
                    1e-4 * (1 + metric(&g, "loss"))); // two outputs, half
        done(&g);
    }
}

// Outputs of images are numbered by channel, row, column; sequences have the values of one time step.
static void test_shapes_of_outputs(void **state) {
    (void)state;
    judged g;
    judge_head(&g,
               FRAME(TWO, "- {name: conv, type: convolution, src: data.image, filters: 3, kernel: 2}\n"
                          "- {name: off, type: euclidean_loss, src: [conv, data.to]}\n"),
               NULL);
    assert_int_equal(g.j.numbers.width, 12);
    assert_int_equal(g.j.numbers.places, 1);
    // of the last batch: the sums of each output are those of its channel and place
    const mu_layer *l = g.j.numbers.layer;
    mu_number_scores s;
    float answer[12], target[12];
    assert_ok(mu_number_scores_init(&s, 12, err));
    mu_head_add_numbers(&g.j.numbers, 2, &s);
    for (int k = 0; k < 12; k++) {
        double sum = 0;
        for (int r = 0; r < 2; r++) {
            mu_inspect_row(&l->src[0]->value, r, answer);
            mu_inspect_row(&l->src[1]->value, r, target);
            sum += fabs((double)answer[k] - (double)target[k]);
        }
        assert_near(s.of[k].absolute, sum, 1e-6 * (1 + sum));
    }
    mu_number_scores_fini(&s);
    done(&g);
}

// ---- names ----

static void test_class_names(void **state) {
    (void)state;
    char room[64];
    static const char *const names[] = {"shirt", "", "\n", " ", "a\tb", "\xff\xfe", "h\xc3\xbcte", "\x7f"};
    static const char *const want[] = {"shirt", "1",  "byte 0x0a",   "byte 0x20",
                                       "a?b",   "??", "h\xc3\xbcte", "byte 0x7f"};
    for (int64_t k = 0; k < (int64_t)MU_COUNT(names); k++)
        assert_string_equal(mu_class_name(names, MU_COUNT(names), k, room), want[k]);
    assert_string_equal(mu_class_name(names, MU_COUNT(names), 8, room), "8");
    assert_string_equal(mu_class_name(NULL, 0, 3, room), "3");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scores_are_the_layers),
        cmocka_unit_test(test_memory_is_kept),
        cmocka_unit_test(test_which_head),
        cmocka_unit_test(test_one_score),
        cmocka_unit_test(test_time_steps),
        cmocka_unit_test(test_no_head),
        cmocka_unit_test(test_codes_are_no_targets),
        cmocka_unit_test(test_parts_of_a_field),
        cmocka_unit_test(test_shapes_of_outputs),
        cmocka_unit_test(test_class_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
