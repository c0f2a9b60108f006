// SPDX-License-Identifier: Apache-2.0
// test_run_api.c - the installed interface from outside: every function of muster.h on a small made-up job.
#include "run_help.h"

#include "muster/muster.h"
#include "train/session.h"

#include <dirent.h>
#include <math.h>
#include <pthread.h>

#define DATA                                                                                                 \
    "data:\n"                                                                                                \
    "  train: {reader: synthetic, shape: [2, 9, 9], classes: 4, records: 96, crop: 8, mirror: true, mean: "  \
    "[100, 120], scale: 0.01}\n"                                                                             \
    "  test: {reader: synthetic, shape: [2, 9, 9], classes: 4, records: 50, crop: 8, mean: [100, 120], "     \
    "scale: 0.01}\n"
#define NET                                                                                        \
    "net:\n"                                                                                       \
    "- {name: conv, type: convolution, src: data.image, filters: 6, kernel: 3, pad: 1}\n"          \
    "- {name: relu1, type: relu}\n"                                                                \
    "- {name: pool, type: pooling, method: max, kernel: 2}\n"                                      \
    "- {name: ip1, type: inner_product, outputs: 24}\n"                                            \
    "- {name: relu2, type: relu}\n"                                                                \
    "- {name: drop, type: dropout, ratio: 0.2}\n"                                                  \
    "- {name: ip2, type: inner_product, outputs: 4}\n"                                             \
    "- {name: loss, type: softmax_loss, src: [ip2, data.label]}\n"
#define REST                                                                                       \
    "train: {batch: 16, steps: 40}\n"                                                              \
    "test: {batch: 16, every: 20 steps}\n"                                                         \
    "updater: {type: sgd, momentum: 0.9, rate: 0.02}\n"
static const char text[] = "name: api\nseed: 5\n" DATA NET REST;

static char folder[64];

// ---- helpers ----

#define ok(call)                                                                                   \
    do {                                                                                           \
        muster_error e_ = {0}, *err = &e_;                                                         \
        muster_status s_ = (call);                                                                 \
        if (s_ != MUSTER_OK) fail_msg("%s: status %d: %s (%s)", #call, (int)s_, e_.message, e_.hint); \
    } while (0)

// The call (with `err`) gives this status, the same in the error, and a message that contains `want`.
#define fails(call, status_, want)                                                                           \
    do {                                                                                                     \
        muster_error e_ = {0}, *err = &e_;                                                                   \
        muster_status s_ = (call);                                                                           \
        if (s_ != (status_) || e_.status != (status_) || !strstr(e_.message, (want)))                        \
            fail_msg("%s: %d/%d: `%s`, expected %d: `%s`", #call, (int)s_, (int)e_.status, e_.message,       \
                     (int)(status_), (want));                                                                \
    } while (0)

static muster_job *parse(const char *edit) {
    muster_job *job = NULL;
    ok(muster_job_parse("t.yaml", text, strlen(text), &edit, edit ? 1 : 0, &job, err));
    return job;
}

static muster_run *open_run(const char *sub, const char *edit) {
    char path[128];
    muster_job *job = parse(edit);
    muster_run *run = NULL;
    if (sub) snprintf(path, sizeof path, "%s/%s", folder, sub);
    ok(muster_run_create(job, sub ? path : NULL, &run, err));
    muster_job_destroy(job); // a run does not need it any more
    return run;
}

static const char *in_folder(const char *name) {
    static char path[2][128];
    static int turn;
    turn = !turn;
    snprintf(path[turn], sizeof path[turn], "%s/%s", folder, name);
    return path[turn];
}

// All parameters as the bytes of a saved model: two runs are equal when these are.
static char *model_of(muster_run *run, size_t *size) {
    const char *path = in_folder("compare.safetensors");
    ok(muster_run_save(run, path, err));
    char *bytes = NULL;
    assert_ok(mu_fs_read(path, (size_t)1 << 24, &bytes, size, err));
    remove(path);
    return bytes;
}

static bool same_model(muster_run *a, muster_run *b) {
    size_t n, m;
    char *x = model_of(a, &n), *y = model_of(b, &m);
    bool same = n == m && !memcmp(x, y, n);
    mu_free(x);
    mu_free(y);
    return same;
}

static double metric(muster_run *run, const char *name) {
    muster_metric m[8];
    size_t n = 0;
    ok(muster_run_evaluate(run, "test", m, 8, &n, err));
    for (size_t i = 0; i < n && i < 8; i++)
        if (!strcmp(m[i].name, name)) return m[i].value;
    fail_msg("no metric %s among %zu", name, n);
    return 0;
}

// The 50 test records as a program would have them: (C, H, W) floats, values as in the data.
static void test_samples(float *x, int32_t *label) {
    mu_job *job;
    mu_session *s;
    assert_ok(mu_job_parse("t.yaml", text, strlen(text), NULL, 0, &job, err));
    assert_ok(mu_session_open(job, &(mu_session_opts){.phases = MU_TEST}, &s, err));
    mu_reader *r = (mu_reader *)(uintptr_t)mu_source_reader(s->test.source);
    for (int64_t i = 0; i < 50; i++) {
        mu_record rec;
        assert_ok(mu_reader_read(r, i, &rec, err));
        for (int c = 0; c < 2; c++)
            for (int p = 0; p < 81; p++) *x++ = (float)((const uint8_t *)rec.field[0])[p * 2 + c];
        label[i] = *(const int32_t *)rec.field[1];
    }
    mu_session_close(s);
    mu_job_destroy(job);
}

static size_t files_in(const char *path) {
    DIR *d = opendir(path);
    size_t n = 0;
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d));) n += e->d_name[0] != '.';
    closedir(d);
    return n;
}

// ---- jobs ----

static void jobs_and_their_errors(void **state) {
    (void)state;
    muster_error e = {0};
    muster_job *job = NULL;
    assert_string_equal(muster_version(), MU_VERSION);
    char bad[4096];
    snprintf(bad, sizeof bad,
             "name: api\n" DATA
             "net:\n- {name: conv, type: convolution, src: data.image, filters: 6, kernal: 3}\n"
             "- {name: loss, type: softmax_los, src: [conv, data.label]}\n" REST);
    assert_int_equal(muster_job_parse("bad.yaml", bad, strlen(bad), NULL, 0, &job, &e), MUSTER_BAD_INPUT);
    assert_null(job);
    assert_string_equal(e.path, "bad.yaml");
    assert_int_equal(e.line, 6);
    assert_int_equal(e.column, (int)(strstr(bad, "kernal") - strstr(bad, "- {name: conv")) + 1);
    if (!strstr(e.message, "kernal") || !strstr(e.message, "more problem"))
        fail_msg("message: %s", e.message);
    if (!strstr(e.hint, "Did you mean `kernel`?")) fail_msg("hint: %s", e.hint);

    fails(muster_job_parse("x.yaml", "{", 1, NULL, 0, &job, err), MUSTER_BAD_INPUT, "");
    fails(muster_job_load("no-such-job.yaml", NULL, 0, &job, err), MUSTER_BAD_INPUT, "cannot read");
    const char *edit = "train.bach=3";
    fails(muster_job_parse("t.yaml", text, strlen(text), &edit, 1, &job, err), MUSTER_BAD_INPUT, "bach");
    assert_null(job);

    write_file(in_folder("job.yaml"), text, strlen(text));
    edit = "train.steps=3";
    ok(muster_job_load(in_folder("job.yaml"), &edit, 1, &job, err));
    remove(in_folder("job.yaml")); // was read once and for all
    muster_run *run = NULL;
    muster_result r;
    ok(muster_run_create(job, NULL, &run, err));
    ok(muster_run_train(run, NULL, NULL, &r, err));
    assert_int_equal(r.steps, 3);
    muster_run_destroy(run);
    muster_job_destroy(job);
}

// What only shows with the data open is found when a run is made.
static void a_run_needs_its_data(void **state) {
    (void)state;
    muster_job *job = NULL;
    muster_run *run = NULL;
    static const char files[] = "name: api\ndata:\n  train: {reader: record, file: nowhere.rec}\n" NET REST;
    ok(muster_job_parse("t.yaml", files, strlen(files), NULL, 0, &job, err));
    fails(muster_run_create(job, NULL, &run, err), MUSTER_BAD_INPUT, "nowhere.rec");
    fails(muster_run_create_predictor(job, NULL, &run, err), MUSTER_BAD_INPUT,
          "neither `predict` nor `test`");
    assert_null(run);
    muster_job_destroy(job);
    static const char only_predict[] =
        "name: api\ndata:\n  train: {reader: array, shape: [2, 9, 9]}\n" NET REST;
    ok(muster_job_parse("t.yaml", only_predict, strlen(only_predict), NULL, 0, &job, err));
    fails(muster_run_create(job, NULL, &run, err), MUSTER_BAD_INPUT, "serves only `data.predict`");
    muster_job_destroy(job);
    job = parse("net.ip2.outputs=3"); // fewer outputs than labels: known only with the data
    fails(muster_run_create(job, NULL, &run, err), MUSTER_BAD_INPUT, "");
    muster_job_destroy(job);
}

// ---- training ----

typedef struct seen { int calls; int64_t last, stop_at; double accuracy; muster_run *run; } seen;

static int watch(void *ctx, const muster_progress *p) {
    seen *s = ctx;
    s->calls++;
    assert_true(p->step >= s->last);
    assert_int_equal(p->steps, 40);
    assert_true(isfinite(p->loss) && p->rate > 0 && p->elapsed_s >= 0 && p->epoch > 0);
    s->last = p->step;
    s->accuracy = p->test_accuracy;
    return s->stop_at && p->step >= s->stop_at;
}

static void training_reports_and_learns(void **state) {
    (void)state;
    muster_run *run = open_run("learns", NULL);
    double before = metric(run, "loss");
    seen s = {.accuracy = NAN};
    muster_result r;
    ok(muster_run_train(run, watch, &s, &r, err));
    assert_true(s.calls >= 2); // the first step and an evaluation, at least
    assert_true(s.accuracy >= 0 && s.accuracy <= 1);
    assert_int_equal(r.steps, 40);
    if (!(r.test_loss < before)) fail_msg("test loss %g before, %g after", before, r.test_loss);
    assert_float_equal(metric(run, "loss"), r.test_loss, 0);
    assert_float_equal(metric(run, "accuracy"), r.test_accuracy, 0);
    assert_int_equal(access(r.checkpoint, F_OK), 0);
    assert_int_equal(access(r.model, F_OK), 0);
    ok(muster_run_train(run, NULL, NULL, &r, err)); // nothing left to do, and no harm done
    assert_int_equal(r.steps, 40);

    muster_run *second = open_run("learns", NULL);
    fails(muster_run_train(second, NULL, NULL, NULL, err), MUSTER_USAGE, "already holds a run");
    muster_run_destroy(second);
    muster_run_destroy(run);
}

static void without_a_folder_nothing_is_written(void **state) {
    (void)state;
    size_t before = files_in("."), inside = files_in(folder);
    muster_run *run = open_run(NULL, NULL);
    muster_result r;
    ok(muster_run_train(run, NULL, NULL, &r, err));
    assert_string_equal(r.checkpoint, "");
    assert_string_equal(r.model, "");
    assert_int_equal(files_in("."), before);
    assert_int_equal(files_in(folder), inside);
    fails(muster_run_resume(run, NULL, err), MUSTER_USAGE, "no folder");
    muster_run *other = open_run("same", NULL);
    ok(muster_run_train(other, NULL, NULL, NULL, err));
    assert_true(same_model(run, other)); // files make no difference to the numbers
    muster_run_destroy(run);
    muster_run_destroy(other);
}

static void a_callback_stops_and_training_goes_on(void **state) {
    (void)state;
    muster_run *whole = open_run(NULL, NULL), *parts = open_run("parts", NULL),
               *later = open_run("parts", NULL);
    muster_result r = {0};
    ok(muster_run_train(whole, NULL, NULL, NULL, err));
    seen s = {.stop_at = 20};
    fails(muster_run_train(parts, watch, &s, &r, err), MUSTER_STOPPED, "stopped after step 20");
    assert_int_equal(r.steps, 20);
    assert_int_equal(access(r.checkpoint, F_OK), 0);
    assert_false(same_model(whole, parts));

    ok(muster_run_resume(later, NULL, err)); // another run of the same folder
    assert_true(same_model(parts, later));
    ok(muster_run_train(later, NULL, NULL, &r, err));
    assert_int_equal(r.steps, 40);
    assert_true(same_model(whole, later));

    muster_run *memory = open_run(NULL, NULL); // the same without files: the run itself keeps the state
    s = (seen){.stop_at = 20};
    fails(muster_run_train(memory, watch, &s, NULL, err), MUSTER_STOPPED, "stopped after step 20");
    ok(muster_run_train(memory, NULL, NULL, &r, err));
    assert_true(same_model(whole, memory));
    ok(muster_run_resume(memory, in_folder("parts"), err)); // a folder that is not its own
    assert_true(same_model(whole, memory));
    muster_run_destroy(memory);
    muster_run_destroy(whole);
    muster_run_destroy(parts);
    muster_run_destroy(later);
}

static void *stop_later(void *ctx) {
    seen *s = ctx;
    while (!__atomic_load_n(&s->calls, __ATOMIC_ACQUIRE)) usleep(500);
    muster_run_stop(s->run);
    return NULL;
}

static int count(void *ctx, const muster_progress *p) {
    (void)p;
    __atomic_fetch_add(&((seen *)ctx)->calls, 1, __ATOMIC_RELEASE);
    return 0;
}

static void another_thread_stops(void **state) {
    (void)state;
    muster_run *run = open_run("thread", "train.steps=100000000");
    seen s = {.run = run};
    pthread_t t;
    muster_result r = {0};
    assert_int_equal(pthread_create(&t, NULL, stop_later, &s), 0);
    fails(muster_run_train(run, count, &s, &r, err), MUSTER_STOPPED, "stopped after step");
    pthread_join(t, NULL);
    assert_true(r.steps > 0);
    assert_true(isnan(r.test_accuracy) || r.test_accuracy >= 0);
    int64_t there = r.steps;
    muster_run_stop(run); // before training: it ends where it stands
    fails(muster_run_train(run, NULL, NULL, &r, err), MUSTER_STOPPED, "stopped");
    assert_int_equal(r.steps, there);
    muster_run_destroy(run);
}

static void *train_one(void *ctx) {
    muster_run *run = ctx;
    return muster_run_train(run, NULL, NULL, NULL, NULL) == MUSTER_OK ? run : NULL;
}

static void runs_in_threads_do_not_disturb_each_other(void **state) {
    (void)state;
    muster_job *job = parse(NULL);
    muster_run *alone = NULL, *run[3] = {NULL};
    pthread_t t[3];
    ok(muster_run_create(job, NULL, &alone, err));
    ok(muster_run_train(alone, NULL, NULL, NULL, err));
    for (int i = 0; i < 3; i++)
        ok(muster_run_create(job, i ? in_folder(i > 1 ? "at-once-2" : "at-once-1") : NULL, &run[i], err));
    for (int i = 0; i < 3; i++) assert_int_equal(pthread_create(&t[i], NULL, train_one, run[i]), 0);
    for (int i = 0; i < 3; i++) {
        void *done;
        pthread_join(t[i], &done);
        assert_ptr_equal(done, run[i]);
    }
    for (int i = 0; i < 3; i++) {
        assert_true(same_model(alone, run[i]));
        muster_run_destroy(run[i]);
    }
    muster_run_destroy(alone);
    muster_job_destroy(job);
}

static void divergence_has_its_status(void **state) {
    (void)state;
    muster_run *run = open_run(NULL, "updater.rate=1e30");
    fails(muster_run_train(run, NULL, NULL, NULL, err), MUSTER_DIVERGED, "not finite");
    muster_run_destroy(run);
}

// ---- evaluation and prediction ----

static void evaluation_gives_what_there_is(void **state) {
    (void)state;
    muster_run *run = open_run(NULL, NULL);
    muster_metric m[2] = {{"untouched", -1}, {"untouched", -1}};
    size_t n = 99;
    fails(muster_run_evaluate(run, "tset", m, 2, &n, err), MUSTER_USAGE, "tset");
    fails(muster_run_evaluate(run, "validation", m, 2, &n, err), MUSTER_BAD_INPUT, "no `validation`");
    assert_int_equal(n, 99);
    assert_string_equal(m[0].name, "untouched");
    ok(muster_run_evaluate(run, "test", m, 1, &n, err)); // room for one only
    assert_true(n >= 2);
    assert_string_not_equal(m[0].name, "untouched");
    assert_string_equal(m[1].name, "untouched");
    ok(muster_run_evaluate(run, "test", NULL, 0, NULL, err));
    muster_run_destroy(run);
}

static double accuracy_of(muster_run *run, const float *x, const int32_t *label) {
    float y[50 * 4];
    int right = 0;
    ok(muster_run_predict(run, x, 50, NULL, y, err));
    for (int i = 0; i < 50; i++) {
        int best = 0;
        for (int k = 1; k < 4; k++) best = y[i * 4 + k] > y[i * 4 + best] ? k : best;
        right += best == label[i];
    }
    return right / 50.0;
}

static void prediction_agrees_with_evaluation(void **state) {
    (void)state;
    static float x[50 * 162];
    int32_t label[50];
    test_samples(x, label);
    muster_run *run = open_run(NULL, "train.steps=25");
    size_t in = 0, out = 0;
    ok(muster_run_input_size(run, &in, err));
    ok(muster_run_output_size(run, NULL, &out, err));
    assert_int_equal(in, 162); // before the crop
    assert_int_equal(out, 4);
    for (int trained = 0; trained < 2; trained++) { // the net for prediction follows the parameters
        double want = metric(run, "accuracy"), got = accuracy_of(run, x, label);
        if (fabs(want - got) > 1e-9) fail_msg("evaluate %g, predict %g", want, got);
        if (!trained) ok(muster_run_train(run, NULL, NULL, NULL, err));
    }
    float one[4], all[50 * 4]; // a sample does not depend on its neighbours
    ok(muster_run_predict(run, x, 50, "ip2", all, err));
    ok(muster_run_predict(run, x + 33 * 162, 1, "ip2", one, err));
    for (int k = 0; k < 4; k++) assert_float_equal(one[k], all[33 * 4 + k], 1e-5);
    ok(muster_run_predict(run, NULL, 0, NULL, NULL, err));

    ok(muster_run_output_size(run, "pool", &out, err)); // an inner layer
    assert_int_equal(out, 6 * 4 * 4);
    float *inner = malloc(50 * out * sizeof *inner);
    ok(muster_run_predict(run, x, 50, "pool", inner, err));
    free(inner);
    out = 7;
    fails(muster_run_output_size(run, "poool", &out, err), MUSTER_USAGE, "poool");
    fails(muster_run_output_size(run, "loss", &out, err), MUSTER_USAGE, "loss");
    assert_int_equal(out, 7);
    muster_run_destroy(run);
}

// Images go in and come out as (C, H, W), whatever the order inside.
static void images_keep_their_order(void **state) {
    (void)state;
    static const char job_text[] =
        "name: order\ndata:\n  predict: {reader: array, shape: [3, 2, 4], mean: [1, 2, 3], scale: 2}\n"
        "net:\n- {name: same, type: relu, src: data.image}\ntrain: {batch: 2}\n";
    muster_job *job = NULL;
    muster_run *run = NULL;
    float x[3][24], y[3][24];
    for (int i = 0; i < 72; i++) x[i / 24][i % 24] = (float)(i + 10);
    ok(muster_job_parse("o.yaml", job_text, strlen(job_text), NULL, 0, &job, err));
    ok(muster_run_create_predictor(job, NULL, &run, err));
    ok(muster_run_predict(run, x[0], 3, NULL, y[0], err));
    for (int i = 0; i < 72; i++) {
        float want = (x[i / 24][i % 24] - (float)(i % 24 / 8 + 1)) * 2;
        if (y[i / 24][i % 24] != want)
            fail_msg("element %d: %g, expected %g", i, (double)y[i / 24][i % 24], (double)want);
    }
    muster_run_destroy(run);
    muster_job_destroy(job);
}

static void a_predictor_needs_no_files(void **state) {
    (void)state;
    static const char files[] =
        "name: api\nseed: 9\ndata:\n  train: {reader: record, file: nowhere.rec}\n"
        "  predict: {reader: array, shape: [2, 9, 9], crop: 8, mean: [100, 120], scale: 0.01}\n" NET REST;
    static float x[50 * 162];
    int32_t label[50];
    float a[50 * 4], b[50 * 4];
    test_samples(x, label);
    muster_run *trained = open_run(NULL, NULL), *run = NULL;
    ok(muster_run_train(trained, NULL, NULL, NULL, err));
    ok(muster_run_save(trained, in_folder("p.safetensors"), err));
    muster_job *job = NULL;
    ok(muster_job_parse("t.yaml", files, strlen(files), NULL, 0, &job, err));
    ok(muster_run_create_predictor(job, in_folder("p.safetensors"), &run, err));
    ok(muster_run_predict(trained, x, 50, NULL, a, err));
    ok(muster_run_predict(run, x, 50, NULL, b, err));
    assert_memory_equal(a, b, sizeof a);
    fails(muster_run_train(run, NULL, NULL, NULL, err), MUSTER_USAGE, "prediction only");
    fails(muster_run_evaluate(run, "test", NULL, 0, NULL, err), MUSTER_USAGE, "prediction only");
    fails(muster_run_resume(run, "x", err), MUSTER_USAGE, "prediction only");
    muster_run_destroy(run);
    fails(muster_run_create_predictor(job, "no-model.safetensors", &run, err), MUSTER_NOT_FOUND, "no-model");
    muster_job_destroy(job);
    muster_run_destroy(trained);
    remove(in_folder("p.safetensors"));
}

// ---- models ----

static void a_failed_load_changes_nothing(void **state) {
    (void)state;
    muster_run *run = open_run("source", NULL), *twin = open_run(NULL, NULL),
               *wider = open_run(NULL, "net.ip2.outputs=8");
    ok(muster_run_save(wider, in_folder("wide.safetensors"), err)); // conv and ip1 fit, ip2 does not
    fails(muster_run_load(run, in_folder("wide.safetensors"), err), MUSTER_BAD_INPUT, "ip2");
    fails(muster_run_load(run, in_folder("nothing.safetensors"), err), MUSTER_NOT_FOUND, "");
    write_file(in_folder("junk.safetensors"), "junk", 4);
    fails(muster_run_load(run, in_folder("junk.safetensors"), err), MUSTER_BAD_INPUT, "");
    fails(muster_run_resume(run, NULL, err), MUSTER_NOT_FOUND, "");
    fails(muster_run_save(run, in_folder("no/such/folder.safetensors"), err), MUSTER_FAILURE, "");
    fails(muster_run_save(run, "folder/", err), MUSTER_USAGE, "file");
    assert_true(same_model(run, twin));
    ok(muster_run_train(run, NULL, NULL, NULL, err));
    ok(muster_run_load(twin, in_folder("source"), err)); // a run folder: its newest checkpoint
    assert_true(same_model(run, twin));
    // After a load training starts anew: the same steps again give the same as loading before the first.
    muster_run *fresh = open_run(NULL, NULL);
    ok(muster_run_load(fresh, in_folder("source"), err));
    ok(muster_run_train(twin, NULL, NULL, NULL, err));
    ok(muster_run_load(twin, in_folder("source"), err));
    muster_result r;
    ok(muster_run_train(twin, NULL, NULL, &r, err));
    ok(muster_run_train(fresh, NULL, NULL, NULL, err));
    assert_int_equal(r.steps, 40);
    assert_true(same_model(fresh, twin));
    muster_run_destroy(fresh);
    muster_run_destroy(run);
    muster_run_destroy(twin);
    muster_run_destroy(wider);
}

static void null_is_answered(void **state) {
    (void)state;
    muster_job *job = NULL;
    muster_run *run = NULL;
    size_t n = 5;
    muster_job_destroy(NULL);
    muster_run_destroy(NULL);
    muster_run_stop(NULL);
    fails(muster_job_load(NULL, NULL, 0, &job, err), MUSTER_USAGE, "path");
    fails(muster_job_load("x.yaml", NULL, 0, NULL, err), MUSTER_USAGE, "place");
    fails(muster_job_parse("x.yaml", NULL, 0, NULL, 0, &job, err), MUSTER_USAGE, "text");
    const char *const edits[] = {"train.batch=2", NULL};
    fails(muster_job_load("x.yaml", edits, 2, &job, err), MUSTER_USAGE, "edit of muster_job_load is NULL");
    fails(muster_job_parse("x.yaml", text, strlen(text), edits, 2, &job, err), MUSTER_USAGE, "is NULL");
    fails(muster_job_parse("x.yaml", text, 4, NULL, 2, &job, err), MUSTER_USAGE, "needs");
    fails(muster_run_create(NULL, NULL, &run, err), MUSTER_USAGE, "job");
    fails(muster_run_create_predictor(NULL, NULL, &run, err), MUSTER_USAGE, "job");
    fails(muster_run_train(NULL, NULL, NULL, NULL, err), MUSTER_USAGE, "run");
    fails(muster_run_evaluate(NULL, "test", NULL, 0, &n, err), MUSTER_USAGE, "run");
    fails(muster_run_input_size(NULL, &n, err), MUSTER_USAGE, "run");
    fails(muster_run_output_size(NULL, NULL, &n, err), MUSTER_USAGE, "run");
    fails(muster_run_predict(NULL, NULL, 0, NULL, NULL, err), MUSTER_USAGE, "run");
    fails(muster_run_load(NULL, "x", err), MUSTER_USAGE, "run");
    fails(muster_run_resume(NULL, "x", err), MUSTER_USAGE, "run");
    fails(muster_run_save(NULL, "x", err), MUSTER_USAGE, "run");
    assert_int_equal(muster_job_load("no-such.yaml", NULL, 0, &job, NULL),
                     MUSTER_BAD_INPUT); // nobody wants the text
    assert_int_equal(muster_run_train(NULL, NULL, NULL, NULL, NULL), MUSTER_USAGE);
    assert_null(job);
    assert_null(run);
    assert_int_equal(n, 5);
    run = open_run(NULL, NULL);
    fails(muster_run_predict(run, NULL, 1, NULL, NULL, err), MUSTER_USAGE, "arrays");
    fails(muster_run_load(run, NULL, err), MUSTER_USAGE, "path");
    fails(muster_run_save(run, NULL, err), MUSTER_USAGE, "path");
    muster_run_destroy(run);
}

// Every allocation of loading, creating, predicting and a resume fails once; nothing leaks.
static void memory_may_run_out(void **state) {
    (void)state;
    static float x[162];
    uint64_t live = mu_alloc_get_stats().n_live;
    for (int64_t at = 1;; at++) {
        muster_job *job = NULL;
        muster_run *run = NULL;
        float y[4];
        mu_alloc_fail_at(at);
        muster_status st = muster_job_parse("t.yaml", text, strlen(text), NULL, 0, &job, NULL);
        if (!st) st = muster_run_create(job, NULL, &run, NULL);
        if (!st) st = muster_run_predict(run, x, 1, NULL, y, NULL);
        if (!st) st = muster_run_resume(run, in_folder("same"), NULL);
        mu_alloc_fail_at(0);
        muster_run_destroy(run);
        muster_job_destroy(job);
        uint64_t now = mu_alloc_get_stats().n_live;
        if (now != live) fail_msg("%d blocks leak when allocation %d fails", (int)(now - live), (int)at);
        if (!st) break;
        if (st != MUSTER_FAILURE && st != MUSTER_BAD_INPUT)
            fail_msg("status %d for allocation %d", (int)st, (int)at);
        if (at > 20000) fail_msg("never succeeds");
    }
}

static int make_folder(void **state) { (void)state; temp_dir(folder); return 0; }
static int remove_folder(void **state) { (void)state; remove_tree(folder); return 0; }

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(jobs_and_their_errors),
        cmocka_unit_test(a_run_needs_its_data),
        cmocka_unit_test(training_reports_and_learns),
        cmocka_unit_test(without_a_folder_nothing_is_written),
        cmocka_unit_test(a_callback_stops_and_training_goes_on),
        cmocka_unit_test(another_thread_stops),
        cmocka_unit_test(runs_in_threads_do_not_disturb_each_other),
        cmocka_unit_test(divergence_has_its_status),
        cmocka_unit_test(evaluation_gives_what_there_is),
        cmocka_unit_test(prediction_agrees_with_evaluation),
        cmocka_unit_test(images_keep_their_order),
        cmocka_unit_test(a_predictor_needs_no_files),
        cmocka_unit_test(a_failed_load_changes_nothing),
        cmocka_unit_test(null_is_answered),
        cmocka_unit_test(memory_may_run_out),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
