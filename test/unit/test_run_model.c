// SPDX-License-Identifier: Apache-2.0
// test_run_model.c - models that stand alone, through the installed interface: no job, no data file, the same
// answers.
#include "run_help.h"

#include "data/inputs.h"
#include "muster/muster.h"

#include <math.h>

static char folder[64];

#define ok(call)                                                                                             \
    do {                                                                                                     \
        muster_error e_ = {0}, *err = &e_;                                                                   \
        muster_status s_ = (call);                                                                           \
        if (s_ != MUSTER_OK) fail_msg("%s: status %d: %s (%s)", #call, (int)s_, e_.message, e_.hint);        \
    } while (0)

static muster_run *train(const char *text, const char *model) {
    muster_job *job = NULL;
    muster_run *run = NULL;
    char path[96];
    snprintf(path, sizeof path, "%s/job.yaml", folder);
    ok(muster_job_parse(path, text, strlen(text), NULL, 0, &job, err));
    ok(muster_run_create(job, NULL, &run, err));
    ok(muster_run_train(run, NULL, NULL, NULL, err));
    ok(muster_run_save(run, model, err));
    muster_job_destroy(job);
    return run;
}

// Images with a mean that was learnt: the model alone gives the trained run's answers, bit for bit.
static void test_images(void **state) {
    (void)state;
    static const char text[] =
        "name: m\nseed: 2\ndata:\n"
        "  train: {reader: synthetic, shape: [2, 6, 6], classes: 3, records: 60, mean: auto, scale: 0.01, "
        "crop: 5}\n"
        "net:\n- {name: conv, type: convolution, src: data.image, filters: 4, kernel: 3}\n"
        "- {name: ip, type: inner_product, outputs: 3}\n"
        "- {name: loss, type: softmax_loss, src: [ip, data.label]}\n"
        "train: {batch: 6, steps: 30}\nupdater: {type: sgd, rate: 0.01}\n";
    char model[96];
    snprintf(model, sizeof model, "%s/m.safetensors", folder);
    muster_run *trained = train(text, model), *alone = NULL;
    ok(muster_run_create_from_model(model, &alone, err));
    enum { N = 7, SIZE = 2 * 6 * 6 };
    size_t size = 0, outputs = 0;
    ok(muster_run_input_size(alone, &size, err));
    ok(muster_run_output_size(alone, NULL, &outputs, err));
    assert_int_equal(size, SIZE);
    assert_int_equal(outputs, 3);
    float in[N * SIZE], a[N * 3], b[N * 3];
    for (int i = 0; i < N * SIZE; i++) in[i] = (float)(i * 37 % 256);
    ok(muster_run_predict(trained, in, N, NULL, a, err));
    ok(muster_run_predict(alone, in, N, NULL, b, err));
    assert_memory_equal(a, b, sizeof a);
    // A model saved by a run that only predicts stands alone, too.
    char again[96];
    snprintf(again, sizeof again, "%s/again.safetensors", folder);
    ok(muster_run_save(alone, again, err));
    muster_run_destroy(alone);
    ok(muster_run_create_from_model(again, &alone, err));
    ok(muster_run_predict(alone, in, N, NULL, b, err));
    assert_memory_equal(a, b, sizeof a);
    muster_run_destroy(alone);
    muster_run_destroy(trained);
}

static void test_sentences(void **state) {
    (void)state;
    static const char text[] = "name: s\ndata: {train: {reader: sentences, file: train.tsv}}\n"
                               "net:\n- {name: e, type: embedding, src: data.words, dim: 4}\n"
                               "- {name: ip, type: inner_product, outputs: 2}\n- {name: loss, type: "
                               "softmax_loss, src: [ip, data.label]}\n"
                               "train: {batch: 2, steps: 200}\nupdater: {type: adam, rate: 0.05}\n";
    static const char lines[] = "yes\tgood fine\nno\tbad poor\n"; // good 2, fine 3, bad 4, poor 5
    char model[96], path[96];
    snprintf(model, sizeof model, "%s/s.safetensors", folder);
    snprintf(path, sizeof path, "%s/train.tsv", folder);
    write_file(path, lines, sizeof lines - 1);
    muster_run_destroy(train(text, model));
    remove(path);
    muster_run *alone = NULL;
    const char *const *names = NULL;
    size_t n = 0;
    ok(muster_run_create_from_model(model, &alone, err));
    ok(muster_run_class_names(alone, &names, &n, err));
    assert_int_equal(n, 2);
    assert_string_equal(names[0], "no");
    assert_string_equal(names[1], "yes");
    const float words[] = {2, 3, 4, 5};
    float out[4];
    ok(muster_run_predict(alone, words, 2, NULL, out, err));
    assert_true(out[1] > out[0]); // yes
    assert_true(out[2] > out[3]); // no
    muster_run_destroy(alone);
}

// What is too large to be kept is left out: training goes on, and the model says what it lacks.
static void test_too_many_words(void **state) {
    (void)state;
    static const char text[] = "name: s\ndata: {train: {reader: sentences, file: many.tsv}}\n"
                               "net:\n- {name: e, type: embedding, src: data.words, dim: 4}\n"
                               "- {name: ip, type: inner_product, outputs: 2}\n- {name: loss, type: "
                               "softmax_loss, src: [ip, data.label]}\n"
                               "train: {batch: 2, steps: 3}\nupdater: {type: adam, rate: 0.05}\n";
    static char lines[20000];
    size_t n = 0;
    for (int i = 0; i < 400; i++)
        n += (size_t)snprintf(lines + n, sizeof lines - n, "%s\tword%d other%d\n", i % 2 ? "yes" : "no", i,
                              i);
    char model[96], path[96];
    const char *const asked[] = {"word1"};
    float out[2];
    muster_error e;
    muster_run *alone = NULL;
    snprintf(model, sizeof model, "%s/many.safetensors", folder);
    snprintf(path, sizeof path, "%s/many.tsv", folder);
    write_file(path, lines, n);
    mu_inputs_set_max(4096);
    muster_run *run = train(text, model);
    mu_inputs_set_max(MU_INPUTS_MAX_BYTES);
    assert_int_equal(muster_run_predict_texts(run, asked, 1, NULL, out, &e), MUSTER_BAD_INPUT);
    assert_non_null(strstr(e.message, "does not tell"));
    muster_run_destroy(run);
    remove(path);
    assert_int_equal(muster_run_create_from_model(model, &alone, &e), MUSTER_BAD_INPUT);
    assert_null(alone);
    write_file(path, lines, n);
    run = train(text, model); // within the limit it stands alone
    remove(path);
    ok(muster_run_create_from_model(model, &alone, err));
    ok(muster_run_predict_texts(alone, asked, 1, NULL, out, err));
    muster_run_destroy(alone);
    muster_run_destroy(run);
}

static void test_misuse(void **state) {
    (void)state;
    muster_error e;
    muster_run *run = NULL;
    const char *const *names;
    size_t n;
    assert_int_equal(muster_run_create_from_model(NULL, &run, &e), MUSTER_USAGE);
    assert_int_equal(muster_run_create_from_model("x", NULL, &e), MUSTER_USAGE);
    assert_int_equal(muster_run_create_from_model("/nowhere/x.safetensors", &run, &e), MUSTER_NOT_FOUND);
    assert_int_equal(muster_run_class_names(NULL, &names, &n, &e), MUSTER_USAGE);
    char path[96];
    snprintf(path, sizeof path, "%s/plain.safetensors", folder);
    const float one = 1;
    const mu_st_tensor t = mu_st_f32("w", MU_SHAPE(1), &one);
    mu_err err = {0};
    assert_int_equal(mu_st_save(folder, "plain.safetensors", &t, 1, NULL, 0, &err), MU_OK);
    assert_int_equal(muster_run_create_from_model(path, &run, &e), MUSTER_BAD_INPUT);
    assert_non_null(strstr(e.message, "does not hold the job"));
}

static int make_folder(void **state) {
    (void)state;
    temp_dir(folder);
    return 0;
}

static int remove_folder(void **state) {
    (void)state;
    remove_tree(folder);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_images), cmocka_unit_test(test_sentences),
                                       cmocka_unit_test(test_too_many_words), cmocka_unit_test(test_misuse)};
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
