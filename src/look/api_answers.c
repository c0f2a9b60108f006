// SPDX-License-Identifier: Apache-2.0
// api_answers.c - the installed C interface: answers with class names, and typed texts. It stands here and
// not beside the rest of that interface in run/, because it needs to know what a question and an answer are.
//
// Typed texts become records of the reader that read the training data (look/question.h), and their word
// numbers the input of muster_run_predict.
#include "look/answer.h"
#include "look/question.h"
#include "run/api.h"

#include <string.h>

// ---- texts as numbers ----

typedef struct typed_texts {
    mu_arena arena;
    mu_question question;
    mu_reader *reader;
    float *input; // [n x input size]
} typed_texts;

static void close_texts(typed_texts *t) {
    mu_reader_close(t->reader);
    mu_question_close(&t->question);
    mu_arena_fini(&t->arena);
    mu_free(t->input);
}

static void put_record(const mu_data_field *f, const void *record, size_t n, float *to) {
    for (size_t i = 0; i < n; i++)
        to[i] = f->store == MU_STORE_I32 ? (float)((const int32_t *)record)[i] : ((const float *)record)[i];
}

// `t` is due to be closed in any case.
static mu_status open_texts(muster_run *run, const char *const *texts, size_t n, typed_texts *t,
                            mu_err *err) {
    const mu_data_field *want = mu_api_input(run);
    const size_t size = (size_t)mu_shape_count(&want->shape);
    MU_TRY(mu_question_open_typed(&t->question, &t->arena, run->job, run->session->inputs, texts, n,
                                  &t->reader, err));
    const mu_data_field *have = &t->reader->field[0];
    if (!mu_shape_equal(&have->shape, &want->shape) || have->store == MU_STORE_U8 ||
        t->reader->n_records != (int64_t)n)
        return MU_FAIL(err, MU_EDATA, "the texts cannot be read as the training data was");
    t->input = mu_alloc_array(n * size + 1, sizeof *t->input, "api/texts");
    if (!t->input) return MU_FAIL_NOMEM(err, "the texts");
    for (size_t i = 0; i < n; i++) {
        mu_record rec = {{0}};
        MU_TRY(mu_reader_read(t->reader, (int64_t)i, &rec, err));
        put_record(have, rec.field[0], size, t->input + i * size);
    }
    return MU_OK;
}

static bool all_given(const char *const *texts, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (!texts || !texts[i]) return false;
    return true;
}

static mu_status predict_texts(muster_run *run, const char *const *texts, size_t n, const char *layer,
                               float *output, mu_err *err) {
    const mu_blob *blob = NULL;
    typed_texts t = {.question = MU_QUESTION_NONE};
    MU_TRY(mu_api_ready_predict(run, err));
    MU_TRY(mu_api_find_output(run, layer, &blob, err));
    if (!n) return MU_OK;
    mu_arena_init(&t.arena, "api/texts");
    mu_status st = open_texts(run, texts, n, &t, err);
    if (st == MU_OK) st = mu_api_predict(run, t.input, n, &blob, 1, &output, err);
    close_texts(&t);
    return st;
}

muster_status muster_run_predict_texts(muster_run *run, const char *const *texts, size_t n_texts,
                                       const char *layer, float *output, muster_error *err) {
    if (!run || !all_given(texts, n_texts) || (n_texts && !output))
        return mu_api_misuse(err, "muster_run_predict_texts needs a run, texts and an array");
    mu_err e = {0};
    const mu_status st = predict_texts(run, texts, n_texts, layer, output, &e);
    return st == MU_OK ? MUSTER_OK : mu_api_fail(st, &e, err);
}

// ---- classes ----

typedef struct class_output {
    const mu_blob *blob;
    mu_answer_form form;
    size_t width;             // floats of a sample
    const char *const *names; // NULL = none
} class_output;

static mu_status find_classes(muster_run *run, class_output *out, mu_err *err) {
    MU_TRY(mu_api_ready_predict(run, err));
    MU_TRY(mu_api_find_output(run, NULL, &out->blob, err));
    MU_TRY(mu_answer_find_form(run->session, out->blob->producer, true, &out->form, err));
    const char *layer = out->blob->producer->name;
    if (out->form == MU_ANSWER_VALUES)
        return mu_err_hinted(MU_FAIL(err, MU_EUSAGE, "layer `%s` gives values, not classes", layer), err,
                             "muster_run_predict gives them.");
    if (out->blob->value.shape.n > 2)
        return mu_err_hinted(MU_FAIL(err, MU_EUSAGE, "layer `%s` gives more than one answer a sample", layer),
                             err, "muster_run_predict gives all scores.");
    out->width = mu_api_row_size(out->blob);
    const mu_inputs *in = run->session->inputs;
    if (in && in->labels && in->n_labels == mu_answer_classes(out->form, (int64_t)out->width))
        out->names = in->labels;
    return MU_OK;
}

static void put_answers(const class_output *c, const float *v, size_t top, mu_class_answer *best,
                        muster_answer *out) {
    const size_t n = (size_t)mu_answer_best(c->form, v, (int64_t)c->width, (int64_t)top, best);
    for (size_t i = 0; i < top; i++) {
        if (i >= n) out[i] = (muster_answer){.number = SIZE_MAX};
        else
            out[i] = (muster_answer){(size_t)best[i].class, best[i].probability,
                                     c->names ? c->names[best[i].class] : NULL};
    }
}

static mu_status classify(muster_run *run, const class_output *c, const float *input, size_t n, size_t top,
                          muster_answer *out, mu_err *err) {
    const size_t room = top < c->width + 2 ? top : c->width + 2; // there are no more classes
    float *values = mu_alloc_array(n * c->width + 1, sizeof *values, "api/answers");
    mu_class_answer *best = mu_alloc_array(room + 1, sizeof *best, "api/answers");
    mu_status st = values && best ? MU_OK : MU_FAIL_NOMEM(err, "the answers");
    if (st == MU_OK) st = mu_api_predict(run, input, n, &c->blob, 1, &values, err);
    for (size_t i = 0; st == MU_OK && i < n; i++) {
        muster_answer *to = out + i * top;
        for (size_t k = room; k < top; k++) to[k] = (muster_answer){.number = SIZE_MAX};
        put_answers(c, values + i * c->width, room, best, to);
    }
    mu_free(values);
    mu_free(best);
    return st;
}

muster_status muster_run_classify(muster_run *run, const float *input, size_t n_samples, size_t top,
                                  muster_answer *answers, muster_error *err) {
    if (!run || !top || (n_samples && (!input || !answers)))
        return mu_api_misuse(err, "muster_run_classify needs a run, two arrays and a number of answers");
    class_output c = {0};
    mu_err e = {0};
    mu_status st = find_classes(run, &c, &e);
    if (st == MU_OK && n_samples) st = classify(run, &c, input, n_samples, top, answers, &e);
    return st == MU_OK ? MUSTER_OK : mu_api_fail(st, &e, err);
}

static mu_status classify_texts(muster_run *run, const char *const *texts, size_t n, size_t top,
                                muster_answer *answers, mu_err *err) {
    class_output c = {0};
    typed_texts t = {.question = MU_QUESTION_NONE};
    MU_TRY(find_classes(run, &c, err));
    if (!n) return MU_OK;
    mu_arena_init(&t.arena, "api/texts");
    mu_status st = open_texts(run, texts, n, &t, err);
    if (st == MU_OK) st = classify(run, &c, t.input, n, top, answers, err);
    close_texts(&t);
    return st;
}

muster_status muster_run_classify_texts(muster_run *run, const char *const *texts, size_t n_texts, size_t top,
                                        muster_answer *answers, muster_error *err) {
    if (!run || !top || !all_given(texts, n_texts) || (n_texts && !answers))
        return mu_api_misuse(
            err, "muster_run_classify_texts needs a run, texts, an array and a number of answers");
    mu_err e = {0};
    const mu_status st = classify_texts(run, texts, n_texts, top, answers, &e);
    return st == MU_OK ? MUSTER_OK : mu_api_fail(st, &e, err);
}
