// SPDX-License-Identifier: Apache-2.0
// test_train_choice.c - which path of a net answers is chosen on validation data, and the choice stays with
// the weights: in checkpoints, in the model, over a resume, with learners in processes of their own.
#include "training_help.h"

#include "train/state.h"

static char folder[] = "test-choice-XXXXXX";

// A word of its class decides. `noise` answers at random, and so loudly that the mean is often wrong.
#define DATA "data:\n  train: {reader: sentences, file: sentences.tsv}\n"
#define VALIDATION "  validation: {fraction: 0.25, seed: 1}\n"
#define PATH(name, more)                                                                                     \
    "- {name: " name ", type: linear_words, src: data.words, outputs: auto, buckets: 64" more "}\n"          \
    "- {name: " name "_loss, type: softmax_loss, src: [" name ", data.label], top: []}\n"
#define NOISE ", weight: {init: {type: gaussian, std: 40}, lr: 0}, bias: {lr: 0}"
#define ENDS                                                                                                 \
    "- {name: answer, type: best_of, src: [other, good]}\n"                                                  \
    "- {name: accuracy, type: accuracy, src: [answer, data.label]}\n"
#define NET(other) "net:\n" PATH("other", other) PATH("good", ", weight: {rule: descent, lr: 10}") ENDS
#define TRAIN                                                                                                \
    "name: t\ntrain: {batch: 4, epochs: 4}\ntest: {every: 1 epoch, batch: 25}\n"                             \
    "updater: {type: adagrad, rate: 0.05}\n"

static const char loud[] = TRAIN DATA VALIDATION NET(NOISE), even[] = TRAIN DATA VALIDATION NET(""),
                  blind[] = TRAIN DATA NET(NOISE);

static void write_sentences(void) {
    FILE *f = fopen("sentences.tsv", "w");
    assert_non_null(f);
    for (int i = 0; i < 400; i++)
        fprintf(f, "class%d\tcommon%d own%d common%d\n", i % 4, i * 13 % 97, i % 4 * 3 + i / 4 % 3,
                i * 29 % 97);
    assert_int_equal(fclose(f), 0);
}

static float choice_in(const training *t) {
    const mu_param *p = mu_params_find(t->s->params, "answer.choice");
    assert_non_null(p);
    return p->value[0];
}

static void expect_saved(const char *path, float want) {
    training t;
    int n;
    prepare(&t, loud, NULL, 0);
    assert_ok(mu_state_load_params(path, MU_CKPT_NEWEST, t.s->params, true, &n, err));
    const float got = choice_in(&t);
    if (got != want) fail_msg("%s has choice %g, not %g", path, (double)got, (double)want);
    end(&t);
}

static void the_better_path_answers(void **state) {
    static const char *const sets[][2] = {{"cluster.learners=1", "seed=1"},
                                          {"cluster.learners=2", "cluster.protocol=hardsync"},
                                          {"cluster.learners=2", "cluster.protocol=async"}};
    (void)state;
    for (size_t i = 0; i < MU_COUNT(sets); i++) {
        char dir[40], model[64];
        snprintf(dir, sizeof dir, "run%zu", i);
        snprintf(model, sizeof model, "%s/model.safetensors", dir);
        training t;
        train(&t, loud, &(mu_run_opts){.out = dir}, sets[i], 2);
        assert_true(t.r.validation.accuracy > 0.9); // of the choice, not of what answered before
        assert_true(choice_in(&t) == 2);
        end(&t);
        expect_saved(model, 2);
        expect_saved(dir, 2);
    }
}

// The mean wins ties, and answers where nothing can be chosen by.
static void the_mean_is_the_usual_answer(void **state) {
    (void)state;
    training t;
    train(&t, even, &(mu_run_opts){.no_files = true}, NULL, 0);
    assert_true(t.r.validation.accuracy > 0.9);
    assert_true(choice_in(&t) == 0);
    end(&t);
    train(&t, blind, &(mu_run_opts){.no_files = true}, NULL, 0);
    assert_true(choice_in(&t) == 0);
    end(&t);
}

// Nothing is evaluated after the resume: what was chosen before still holds.
static void a_resumed_run_keeps_it(void **state) {
    static const char *const first[] = {"train.epochs=2"}, *const more[] = {"test.every=never"};
    (void)state;
    training t;
    train(&t, loud, &(mu_run_opts){.out = "resumed"}, first, 1);
    assert_true(choice_in(&t) == 2);
    end(&t);
    train(&t, loud, &(mu_run_opts){.resume = "resumed"}, more, 1);
    assert_true(t.r.epochs > 3.9);
    assert_true(choice_in(&t) == 2);
    end(&t);
    expect_saved("resumed/model.safetensors", 2);
}

// Choices take no part in training: one learner and two that wait for each other end alike.
static void choices_change_no_gradient(void **state) {
    static const char *const one[] = {"test.every=never"},
                             *const two[] = {"cluster.learners=2", "cluster.protocol=hardsync"};
    (void)state;
    training a, b;
    train(&a, loud, &(mu_run_opts){.no_files = true}, one, 1);
    train(&b, loud, &(mu_run_opts){.no_files = true}, two, 2);
    assert_true(choice_in(&a) == 0 && choice_in(&b) == 2);
    const mu_param *p = mu_params_find(a.s->params, "good.weight"),
                   *q = mu_params_find(b.s->params, "good.weight");
    for (size_t i = 0; i < p->count; i++) assert_near((double)p->value[i], (double)q->value[i], 1e-3);
    end(&a);
    end(&b);
}

static void steps_take_no_memory(void **state) {
    (void)state;
    count_allocations(loud);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_better_path_answers),
        cmocka_unit_test(the_mean_is_the_usual_answer),
        cmocka_unit_test(a_resumed_run_keeps_it),
        cmocka_unit_test(choices_change_no_gradient),
        cmocka_unit_test(steps_take_no_memory),
    };
    if (!mkdtemp(folder) || chdir(folder)) return 1;
    write_sentences();
    const int wrong = cmocka_run_group_tests(tests, NULL, NULL);
    if (!chdir("..")) remove_tree(folder);
    return wrong;
}
