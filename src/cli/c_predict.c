// SPDX-License-Identifier: Apache-2.0
// c_predict.c - `muster predict`: for each sample the class, its probability and name, and the true class
// where the data knows it; or all values. Of scores over time (n, t, classes) an answer per time step.
//
// What is asked stands behind the model (look/question.h), else it is `data.predict`, else `data.test`.
// Losses are not part of the predict phase; the values shown are those of the last layer with an output, or
// of --layer.
#include "cli/cli.h"
#include "cli/jobs.h"
#include "cli/term.h"

#include "file/outfile.h"
#include "look/answer.h"
#include "look/inspect.h"
#include "look/question.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct predict {
    const char *model, *layer, *out, *format;
    int64_t top;
    bool raw, best;
};

static const mu_opt options[] = {
    MU_OPT_MODEL(struct predict),
    MU_OPT(struct predict, layer, "layer", MU_OPT_TEXT, "NAME", "whose output; the last one when not given"),
    MU_OPT(struct predict, out, "out", MU_OPT_FILE, "FILE", "write there instead of stdout"),
    MU_OPT(struct predict, top, "top", MU_OPT_INT, "N", "the N most probable classes of each sample; 1"),
    MU_OPT_ONE_OF(struct predict, format, "format", "table|csv|json",
                  "how answers are written; a table on a terminal, else csv"),
    MU_OPT(struct predict, raw, "raw", MU_OPT_FLAG, NULL,
           "all values of the layer instead of class and probability"),
    MU_OPT_BEST(struct predict),
    {0},
};

enum { TOP_MAX = 100, SHOWN_INPUT = 48 };

typedef struct answer_writer {
    FILE *out;
    const char *format; // table, csv, json
    const mu_layer *layer;
    bool raw;
    mu_answer_form form; // of the layer's outputs
    float *row;          // one sample's, in logical order
    mu_data_unit unit;   // of the values, which are standardised; deviation 0 = they are shown as they are
    int64_t steps;       // of a sample that are answered one by one; 1 = no sequence
    int64_t top;         // answers for each
    const char *const *names; // of the classes; NULL = they have none
    const mu_question *asked;
    int label; // field of the batch with the true class; -1 = none
    int name_width, input_width;
    json_t *list; // json: all answers
} answer_writer;

static const char *name_of(const answer_writer *w, int64_t class, char number[24]) {
    if (w->names) return w->names[class];
    snprintf(number, 24, "%" PRId64, class);
    return number;
}

// ---- csv ----

static void write_name(FILE *out, const char *name) {
    mu_text cell = {0};
    mu_text_csv_cell(&cell, name);
    fprintf(out, ",%s", cell.s ? cell.s : "");
    mu_text_fini(&cell);
}

static void write_csv_head(const answer_writer *w) {
    fprintf(w->out, "sample%s%s,class,probability%s%s\n", w->steps > 1 ? ",step" : "",
            w->top > 1 ? ",rank" : "", w->names ? ",predicted" : "", w->label >= 0 ? ",label" : "");
}

static void write_csv(const answer_writer *w, int64_t sample, int64_t step, const mu_class_answer *a,
                      int64_t truth) {
    char number[24];
    for (int64_t i = 0; i < w->top; i++) {
        fprintf(w->out, "%" PRId64, sample);
        if (w->steps > 1) fprintf(w->out, ",%" PRId64, step);
        if (w->top > 1) fprintf(w->out, ",%" PRId64, i + 1);
        fprintf(w->out, ",%" PRId64 ",%.6f", a[i].class, a[i].probability);
        if (w->names) write_name(w->out, w->names[a[i].class]);
        if (w->label >= 0) write_name(w->out, truth < 0 ? "" : name_of(w, truth, number));
        fputc('\n', w->out);
    }
}

// ---- a table ----

static const char *input_of(const answer_writer *w, int64_t sample) {
    return w->asked->input && sample < (int64_t)w->asked->n_input ? w->asked->input[sample] : NULL;
}

// A text cut to its place, whole letters only, without what would steer a terminal.
static void shorten(const char *text, char *out, size_t size) {
    size_t n = strnlen(text, size - 1);
    if (text[n]) {
        n = size - 4;
        while (n && ((unsigned char)text[n] & 0xC0) == 0x80) n--;
    }
    for (size_t i = 0; i < n; i++) out[i] = (unsigned char)text[i] < 0x20 || text[i] == 0x7F ? '?' : text[i];
    snprintf(out + n, size - n, "%s", text[n] ? "..." : "");
}

static void write_table(const answer_writer *w, int64_t sample, int64_t step, const mu_class_answer *a,
                        int64_t truth) {
    char number[24], text[SHOWN_INPUT + 8];
    const char *input = input_of(w, sample);
    if (input) shorten(input, text, SHOWN_INPUT + 1);
    else if (w->steps > 1) snprintf(text, sizeof text, "%" PRId64 ".%" PRId64, sample, step);
    else snprintf(text, sizeof text, "%" PRId64, sample);
    for (int64_t i = 0; i < w->top; i++) {
        char name[33];
        shorten(name_of(w, a[i].class, number), name, sizeof name);
        fprintf(w->out, "%-*s  %-*s  %11.4f", w->input_width, i ? "" : text, w->name_width, name,
                a[i].probability);
        if (w->label >= 0 && !i && truth >= 0) {
            shorten(name_of(w, truth, number), name, sizeof name);
            fprintf(w->out, "  %s%s", name, truth == a[0].class ? "" : "  (wrong)");
        }
        fputc('\n', w->out);
    }
}

static void set_widths(answer_writer *w, int64_t n_classes) {
    w->name_width = (int)strlen("predicted");
    w->input_width = (int)strlen("sample");
    for (int64_t i = 0; w->names && i < n_classes; i++) {
        const int n = (int)strnlen(w->names[i], 32);
        if (n > w->name_width) w->name_width = n;
    }
    for (size_t i = 0; w->asked->input && i < w->asked->n_input; i++) {
        const int n = (int)strnlen(w->asked->input[i], SHOWN_INPUT);
        if (n > w->input_width) w->input_width = n;
    }
    fprintf(w->out, "%-*s  %-*s  probability%s\n", w->input_width, w->asked->input ? "input" : "sample",
            w->name_width, "predicted", w->label >= 0 ? "  label" : "");
}

// ---- json ----

static json_t *json_answer(const answer_writer *w, const mu_class_answer *a) {
    json_t *o = json_pack("{s:I, s:f}", "class", (json_int_t)a->class, "probability", a->probability);
    if (w->names) json_object_set_new(o, "predicted", json_string(w->names[a->class]));
    return o;
}

static void write_json(const answer_writer *w, int64_t sample, int64_t step, const mu_class_answer *a,
                       int64_t truth) {
    json_t *o = json_answer(w, &a[0]), *top = w->top > 1 ? json_array() : NULL;
    const char *input = input_of(w, sample);
    json_object_set_new(o, "sample", json_integer(sample));
    if (w->steps > 1) json_object_set_new(o, "step", json_integer(step));
    if (input) json_object_set_new(o, "input", json_string(input));
    if (w->label >= 0 && truth >= 0)
        json_object_set_new(o, "label", w->names ? json_string(w->names[truth]) : json_integer(truth));
    for (int64_t i = 0; top && i < w->top; i++) json_array_append_new(top, json_answer(w, &a[i]));
    if (top) json_object_set_new(o, "top", top);
    json_array_append_new(w->list, o);
}

// ---- all samples ----

static double in_unit(const answer_writer *w, double v) {
    return w->unit.deviation > 0 ? (double)w->unit.mean + (double)w->unit.deviation * v : v;
}

static void write_values(const answer_writer *w, int64_t sample, int64_t n) {
    json_t *values = w->list ? json_array() : NULL;
    if (!values) fprintf(w->out, "%" PRId64, sample);
    for (int64_t k = 0; k < n; k++) {
        if (values) json_array_append_new(values, mu_json_number(in_unit(w, (double)w->row[k])));
        else fprintf(w->out, ",%.9g", in_unit(w, (double)w->row[k]));
    }
    if (values)
        json_array_append_new(w->list,
                              json_pack("{s:I, s:o}", "sample", (json_int_t)sample, "values", values));
    else fputc('\n', w->out);
}

static void write_row(const answer_writer *w, const mu_batch *batch, int64_t row) {
    const mu_tensor *t = &w->layer->out[0].value;
    const int64_t n = mu_shape_inner(&t->shape, 1) / w->steps, sample = batch->first + row;
    mu_inspect_row(t, row, w->row);
    if (w->raw) {
        write_values(w, sample, n);
        return;
    }
    const int64_t classes = mu_answer_classes(w->form, n);
    for (int64_t s = 0; s < w->steps; s++) {
        mu_class_answer a[TOP_MAX];
        int64_t truth = w->label < 0 ? -1 : batch->field[w->label].i[row * w->steps + s];
        if (truth >= classes) truth = -1;
        mu_answer_best(w->form, w->row + s * n, n, w->top, a);
        if (w->list) write_json(w, sample, s, a, truth);
        else if (!strcmp(w->format, "table")) write_table(w, sample, s, a, truth);
        else write_csv(w, sample, s, a, truth);
    }
}

static mu_status write_batch(void *ctx, MU_UNUSED mu_net *net, const mu_batch *batch, mu_err *err) {
    const answer_writer *w = ctx;
    for (int64_t i = 0; i < batch->n; i++) write_row(w, batch, i);
    return ferror(w->out) ? MU_FAIL(err, MU_EIO, "cannot write predictions: %s", strerror(errno)) : MU_OK;
}

static mu_status find_layer(const mu_net *net, const char *name, const mu_layer **out, mu_err *err) {
    const mu_layer *found = NULL;
    const char *names[256];
    size_t n = 0;
    for (int i = 1; i < net->n_layers; i++) {
        const mu_layer *l = net->layer[i];
        if (!l->n_out || l->out[0].value.dtype != MU_F32 || (l->class->flags & MU_LAYER_OUTPUT)) continue;
        if (n < MU_COUNT(names)) names[n++] = l->name;
        if (!name || !strcmp(name, l->name)) found = l;
    }
    if (found && mu_net_is_end(net, &found->out[0])) {
        *out = found;
        return MU_OK;
    }
    if (found) { // its memory may be used again before the pass ends
        return mu_err_hinted(
            MU_FAIL_AT(err, MU_EUSAGE, found->pos, "`%s` is not an end of the net", found->name), err,
            "Add a layer that is excluded from training and takes `%s`, such as `flatten`.", found->name);
    }
    MU_FAIL(err, MU_EUSAGE,
            name ? "no layer `%s` in phase predict" : "no layer with an output in phase predict%s",
            name ? name : "");
    return mu_err_suggest(MU_EUSAGE, err, "", name ? mu_nearest(name, names, n) : NULL);
}

// The field with the true classes, one for each answer.
static int find_label(const mu_source *source, int64_t steps) {
    for (int i = 0; i < mu_source_n_fields(source); i++) {
        const mu_data_field *f = mu_source_field(source, i);
        if (!strcmp(f->name, "label") && f->store == MU_STORE_I32 && mu_shape_count(&f->shape) == steps)
            return i;
    }
    return -1;
}

static mu_status set_up(answer_writer *w, mu_session *s, const struct predict *v, bool json, mu_err *err) {
    mu_session_phase *p = &s->predict;
    MU_TRY(find_layer(p->net, v->layer, &w->layer, err));
    const mu_reader *r = mu_source_reader(p->source);
    const mu_shape *shape = &w->layer->out[0].value.shape;
    MU_TRY(mu_answer_find_form(s, w->layer, !v->layer, &w->form, err));
    w->raw = v->raw || w->form == MU_ANSWER_VALUES;
    w->row = mu_alloc_array((size_t)mu_shape_inner(shape, 1) + 1, sizeof *w->row, "predict");
    if (!w->row) return MU_FAIL_NOMEM(err, "the answers of a sample");
    if (w->raw && !v->raw && mu_shape_inner(shape, 1) == 1) w->unit = r->target_unit;
    w->steps = shape->n == 3 && !w->raw ? shape->d[1] : 1;
    const int64_t outputs = mu_shape_inner(shape, 1) / w->steps,
                  n = w->raw ? outputs : mu_answer_classes(w->form, outputs);
    w->top = v->top > 0 ? v->top : 1;
    if (w->top > n) w->top = n;
    if (w->top > TOP_MAX) w->top = TOP_MAX;
    if (n == r->n_labels) w->names = r->label_names;
    w->label = w->raw ? -1 : find_label(p->source, w->steps);
    w->format = json ? "json" : v->format ? v->format : !v->out && mu_term_live(stdout) ? "table" : "csv";
    if (!strcmp(w->format, "json") && !(w->list = json_array())) return MU_FAIL_NOMEM(err, "the answers");
    if (w->raw || w->list) return MU_OK;
    if (!strcmp(w->format, "table")) set_widths(w, n);
    else write_csv_head(w);
    return MU_OK;
}

static mu_status write_list(answer_writer *w, mu_err *err) {
    json_t *o = json_pack("{s:O}", "predictions", w->list);
    const bool written = o && json_dumpf(o, w->out, JSON_COMPACT | JSON_REAL_PRECISION(9)) == 0;
    if (written) fputc('\n', w->out);
    json_decref(o);
    return written ? MU_OK : MU_FAIL(err, MU_EIO, "cannot write predictions: %s", strerror(errno));
}

static mu_status predict(mu_session *s, const mu_question *q, const struct predict *v, bool json,
                         mu_err *err) {
    mu_session_phase *p = &s->predict;
    if (!p->net)
        return mu_err_hinted(MU_FAIL(err, MU_EJOB, "the job has neither `data.predict` nor `data.test`"), err,
                             "Name what is to be answered behind the model: `muster predict RUN INPUT`.");
    answer_writer w = {.out = stdout, .asked = q};
    mu_outfile *file = NULL;
    if (v->out) MU_TRY(mu_outfile_create(v->out, &file, err));
    if (v->out && !(w.out = mu_outfile_stream(file))) {
        mu_outfile_abandon(file);
        return MU_FAIL_NOMEM(err, v->out);
    }
    mu_scores sc;
    mu_status st = set_up(&w, s, v, json, err);
    if (st == MU_OK) st = mu_evaluate(p, MU_PREDICT, write_batch, &w, &sc, err);
    if (st == MU_OK && w.list) st = write_list(&w, err);
    json_decref(w.list);
    mu_free(w.row);
    if (!v->out) return st;
    fclose(w.out); // what could not be written is told by commit
    if (st == MU_OK) return mu_outfile_commit(file, err);
    mu_outfile_abandon(file);
    return st;
}

static mu_status run(mu_args *a, void *values, mu_err *err) {
    mu_cli_model m;
    mu_question q = MU_QUESTION_NONE;
    mu_session_opts o = {.phases = MU_PREDICT};
    struct predict *v = values;
    mu_status st = mu_cli_load_model(a, a->word[0], v->model, v->best, &m, err);
    if (st == MU_OK && a->n_words > 1 && m.job_status == MU_OK)
        st = mu_question_put(&q, m.job, m.model.inputs, (const char *const *)a->word + 1,
                             (size_t)a->n_words - 1, err);
    if (st == MU_OK) st = mu_cli_ready_model(a, &o, &m, err);
    if (st == MU_OK) st = predict(m.session, &q, v, a->json, err);
    mu_cli_close_model(&m, err);
    mu_question_close(&q);
    return st;
}

const mu_verb_class mu_verb_predict = {
    .name = "predict",
    .help = "answer typed texts, images, files or data of the job: class, probability, true label",
    .state_size = sizeof(struct predict),
    .usage = "RUN|MODEL|JOB [INPUT...] [options]",
    .example = "muster predict runs/intents-0abc12 \"turn off the light\"\n"
               "muster predict runs/lenet-0abc12 photo.png --top 3\n"
               "muster predict runs/lenet-0abc12 > answers.csv",
    .about = "INPUT is what the model was trained on: texts as typed, image files or a folder of them, a "
             "file such "
             "as the training file, or - for standard input. Without INPUT, `data.predict` of the job is "
             "answered, else `data.test`. It is read and transformed as the training data was.",
    .args = {.options = options,
             .common = MU_COMMON_SET | MU_COMMON_JSON,
             .min_words = 1,
             .max_words = -1,
             .words_are = "a run folder, a model file or a job file, and what is to be answered"},
    .run = run,
};
