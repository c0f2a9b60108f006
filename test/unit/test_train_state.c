// SPDX-License-Identifier: Apache-2.0
// test_train_state.c - where a training stands, through a checkpoint: samples finished out of order are not
// used again, a step may have another size afterwards, and what has to be repeated is counted.
#include "training_help.h"

static char folder[] = "test-state-XXXXXX";

#define JOB(train)                                                                                           \
    "name: t\ntrain: {" train "}\n"                                                                          \
    "data:\n  train: {reader: synthetic, shape: [4], classes: 3, records: 60}\n"                             \
    "net:\n- {name: ip, type: inner_product, src: data.features, outputs: 3}\n"                              \
    "- {name: loss, type: softmax_loss, src: [ip, data.label]}\n"                                            \
    "updater: {type: sgd, momentum: 0.9, rate: 0.01}\n"

// 50 samples below the cursor and 33 beyond it.
static mu_finished finished(void) {
    mu_finished f = {.cursor = 50};
    mu_finished_add(&f, (mu_range){55, 75});
    mu_finished_add(&f, (mu_range){80, 93});
    return f;
}

static mu_position position(void) {
    return (mu_position){.step = 8, .partial = 3, .samples = 83, .extra_updates = 20, .version = 31,
                         .applied = 90, .repeated = 7, .rate_scale = 0.5};
}

static const char *save_one(training *t, const char *name) {
    static char dir[128];
    const mu_position at = position();
    const mu_finished f = finished();
    const mu_progress_state ps = {.best = NAN, .evaluated_step = -1};
    char saved[MU_CKPT_NAME];
    snprintf(dir, sizeof dir, "%s/%s", folder, name);
    assert_ok(mu_state_save(dir, t->s, &at, &f, &ps, &(mu_ckpt_opts){.keep = 3}, saved, err));
    assert_string_equal(saved, "step-31");
    return dir;
}

static mu_position restore(training *t, const char *dir, mu_finished *f) {
    mu_position at;
    mu_progress_state ps;
    assert_ok(mu_state_restore(dir, MU_CKPT_NEWEST, t->s, &at, f, &ps, err));
    assert_int_equal(at.samples, mu_finished_count(f));
    return at;
}

static const float *next_rows(training *t) {
    const mu_batch *b = NULL;
    assert_ok(mu_source_next(t->s->train.source, &b, err));
    return b->field[0].f;
}

static void what_is_finished_is_not_used_again(void **state) {
    (void)state;
    training t, plain;
    mu_finished f;
    prepare(&t, JOB("batch: 10, steps: 20"), NULL, 0);
    prepare(&plain, JOB("batch: 10, steps: 20"), NULL, 0);
    const mu_position at = restore(&t, save_one(&t, "a"), &f), want = position();
    assert_memory_equal(&at, &want, sizeof at);
    assert_int_equal(f.cursor, 50);
    assert_int_equal(f.n, 2);
    assert_int_equal(mu_end_sample(t.s, &at), 200);
    for (int64_t number = 83; number < 143; number += 10) {
        const float *rows = next_rows(&t);
        for (int i = 0; i < 10; i++) {
            assert_ok(mu_source_seek(plain.s->train.source, mu_finished_sample(&f, number + i), err));
            assert_memory_equal(rows + 4 * i, next_rows(&plain), 4 * sizeof(float));
        }
    }
    end(&t);
    end(&plain);
}

// 83 samples done, 3 of them of a step that had 10: the training ends as many samples later as steps are
// left.
static void a_step_may_change_its_size(void **state) {
    (void)state;
    training t;
    mu_finished f;
    prepare(&t, JOB("batch: 10, steps: 20"), NULL, 0);
    const char *dir = save_one(&t, "b");
    end(&t);
    prepare(&t, JOB("batch: 2, steps: 20"), NULL, 0);
    mu_position at = restore(&t, dir, &f);
    assert_int_equal(at.step, 9);
    assert_int_equal(at.partial, 1);
    assert_int_equal(at.step + at.extra_updates, 28); // updates for the rule
    assert_int_equal(at.version, 31);
    assert_int_equal(mu_end_sample(t.s, &at), 83 - 1 + 11 * 2);
    at = mu_position_at(t.s, &at, 50);
    assert_int_equal(at.step, -7);
    assert_int_equal(at.partial, 0);
    end(&t);
    prepare(&t, JOB("batch: 7, epochs: 3"), NULL, 0);
    at = restore(&t, dir, &f);
    assert_int_equal(at.partial, 3);
    assert_int_equal(mu_end_sample(t.s, &at), 80 + 15 * 7); // the first whole step at or behind 180
    end(&t);
    prepare(&t, JOB("batch: 7, epochs: 3, steps: 11"), NULL, 0);
    at = restore(&t, dir, &f);
    assert_int_equal(mu_end_sample(t.s, &at), 80 + 3 * 7); // steps end first
    end(&t);
    prepare(&t, JOB("batch: 7, epochs: 2, steps: 100"), NULL, 0);
    at = restore(&t, dir, &f);
    assert_int_equal(mu_end_sample(t.s, &at), 80 + 6 * 7);
    end(&t);
    prepare(&t, JOB("batch: 7, epochs: 1"), NULL, 0);
    at = restore(&t, dir, &f);
    assert_int_equal(mu_end_sample(t.s, &at), 83); // done already
    end(&t);
}

// Records that continue each other are used in order: from the cursor on, and counted.
static void streams_are_repeated(void **state) {
    (void)state;
    static const char text[] =
        "name: t\ntrain: {batch: 10, steps: 20}\n"
        "data:\n  train: {reader: synthetic, vocab: 5, shape: [3], streams: 10, records: 60}\n"
        "net:\n- {name: rec, type: rnn, src: [data.words, data.begin], hidden: 4}\n"
        "- {name: ip, type: inner_product, outputs: 5, axis: 2}\n"
        "- {name: loss, type: softmax_loss, src: [ip, data.label]}\n"
        "updater: {type: sgd, rate: 0.01}\n";
    training t;
    mu_finished f;
    prepare(&t, text, NULL, 0);
    const mu_position at = restore(&t, save_one(&t, "c"), &f);
    assert_int_equal(f.n, 0);
    assert_int_equal(at.samples, 50);
    assert_int_equal(at.repeated, 7 + 33);
    assert_int_equal(at.applied, 90);
    assert_int_equal(at.step, 5);
    assert_int_equal(at.partial, 0);
    assert_int_equal(at.step + at.extra_updates, 28);
    assert_int_equal(at.version, 31);
    end(&t);
}

// One learner after several: a short step first, then whole ones, to the job's last sample.
static void one_learner_ends_the_step_under_way(void **state) {
    (void)state;
    training t;
    prepare(&t, JOB("batch: 10, steps: 20"), NULL, 0);
    mu_run_position at = {.at = position(), .progress = {.best = NAN}, .finished = finished()};
    assert_ok(mu_run_train(t.s, &(mu_run_opts){.no_files = true, .at = &at}, &t.r, err));
    assert_int_equal(t.r.samples, 200);
    assert_int_equal(t.r.steps, 20);
    assert_int_equal(t.r.applied_samples, 90 + 200 - 83);
    assert_int_equal(t.r.repeated_samples, 7);
    assert_int_equal(at.at.version, 31 + 12);
    assert_int_equal(at.finished.cursor, 200);
    assert_int_equal(at.finished.n, 0);
    end(&t);
}

static int make_folder(void **state) {
    (void)state;
    mu_log_set_level(MU_LOG_ERROR);
    return mkdtemp(folder) ? 0 : -1;
}
static int remove_folder(void **state) {
    (void)state;
    remove_tree(folder);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_finished_is_not_used_again),
        cmocka_unit_test(a_step_may_change_its_size),
        cmocka_unit_test(streams_are_repeated),
        cmocka_unit_test(one_learner_ends_the_step_under_way),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
