// SPDX-License-Identifier: Apache-2.0
// c_predict.c - `muster predict`: a line of CSV per sample: number, class, probability and, where the data
// knows it, the class's name; or all values. Of scores over time (n, t, classes) a line per time step, its
// number behind that of the sample.
//
// Takes `data.predict` (labels are not needed there), else `data.test`. Losses are not part of the
// predict phase; the values shown are those of the last layer with an output, or of --layer.
#include "cli/cli.h"
#include "cli/jobs.h"

#include "file/outfile.h"
#include "train/evaluate.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

struct predict { const char *model, *layer, *out; bool raw, best; };

static const mu_opt options[] = {
    MU_OPT_MODEL(struct predict),
    MU_OPT(struct predict, layer, "layer", MU_OPT_TEXT, "NAME", "whose output; the last one when not given"),
    MU_OPT(struct predict, out, "out", MU_OPT_FILE, "FILE", "write there instead of stdout"),
    MU_OPT(struct predict, raw, "raw", MU_OPT_FLAG, NULL,
           "all values of the layer instead of class and probability"),
    MU_OPT_BEST(struct predict),
    {0},
};

typedef struct answer_writer {
    FILE              *out;
    const mu_layer    *layer;
    bool               raw, softmax_done;
    int64_t            steps;   // of a sample that are answered one by one; 1 = no sequence
    const char *const *names;   // of the classes; NULL = they have none
} answer_writer;

// Value k of a sample in logical order; images are stored channels-last.
static double value_at(const mu_tensor *t, int64_t row, int64_t k) {
    int64_t n = mu_shape_inner(&t->shape, 1), hw = t->shape.n == 4 ? t->shape.d[2] * t->shape.d[3] : 1;
    int64_t at = t->shape.n == 4 ? k % hw * t->shape.d[1] + k / hw : k;
    return (double)t->f[row * n + at];
}

static void write_name(FILE *out, const char *name) {
    mu_text cell = {0};
    mu_text_csv_cell(&cell, name);
    fprintf(out, ",%s", cell.s ? cell.s : "");
    mu_text_fini(&cell);
}

// The class of the n scores from `first` on.
static void write_class(const answer_writer *w, const mu_tensor *t, int64_t row, int64_t first, int64_t n) {
    int64_t best = first;
    double sum = 0;
    for (int64_t k = first + 1; k < first + n; k++)
        if (value_at(t, row, k) > value_at(t, row, best)) best = k;
    const double top = value_at(t, row, best);
    for (int64_t k = first; k < first + n; k++) sum += exp(value_at(t, row, k) - top);
    fprintf(w->out, ",%" PRId64 ",%.6f", best - first, w->softmax_done ? top : 1 / sum);
    if (w->names) write_name(w->out, w->names[best - first]);
}

static void write_row(const answer_writer *w, int64_t sample, const mu_tensor *t, int64_t row) {
    const int64_t n = mu_shape_inner(&t->shape, 1) / w->steps;
    for (int64_t s = 0; s < w->steps; s++) {
        fprintf(w->out, "%" PRId64, sample);
        if (w->steps > 1) fprintf(w->out, ",%" PRId64, s);
        for (int64_t k = 0; w->raw && k < n; k++) fprintf(w->out, ",%.9g", value_at(t, row, k));
        if (!w->raw) write_class(w, t, row, s * n, n);
        fputc('\n', w->out);
    }
}

static mu_status write_batch(void *ctx, MU_UNUSED mu_net *net, const mu_batch *batch, mu_err *err) {
    const answer_writer *w = ctx;
    for (int64_t i = 0; i < batch->n; i++) write_row(w, batch->first + i, &w->layer->out[0].value, i);
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
    if (found && mu_net_is_end(net, &found->out[0])) { *out = found; return MU_OK; }
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

static mu_status predict(mu_session *s, const struct predict *v, mu_err *err) {
    mu_session_phase *p = &s->predict;
    if (!p->net)
        return mu_err_hinted(MU_FAIL(err, MU_EJOB, "the job has neither `data.predict` nor `data.test`"), err,
                             "Add one of them to the job. Models of characters write by `muster sample`.");
    answer_writer w = {.out = stdout, .raw = v->raw};
    MU_TRY(find_layer(p->net, v->layer, &w.layer, err));
    w.softmax_done = !strcmp(w.layer->class->name, "softmax");
    mu_outfile *file = NULL;
    if (v->out) MU_TRY(mu_outfile_create(v->out, &file, err));
    if (v->out && !(w.out = mu_outfile_stream(file))) {
        mu_outfile_abandon(file);
        return MU_FAIL_NOMEM(err, v->out);
    }
    const mu_reader *r = mu_source_reader(p->source);
    const mu_shape *shape = &w.layer->out[0].value.shape;
    w.steps = shape->n == 3 && !v->raw ? shape->d[1] : 1;
    if (mu_shape_inner(shape, 1) / w.steps == r->n_labels) w.names = r->label_names;
    if (!v->raw)
        fprintf(w.out, "sample%s,class,probability%s\n", w.steps > 1 ? ",step" : "", w.names ? ",label" : "");
    mu_scores sc;
    mu_status st = mu_evaluate(p, MU_PREDICT, write_batch, &w, &sc, err);
    if (!v->out) return st;
    fclose(w.out); // what could not be written is told by commit
    if (st == MU_OK) return mu_outfile_commit(file, err);
    mu_outfile_abandon(file);
    return st;
}

static mu_status run(mu_args *a, void *values, mu_err *err) {
    mu_job *job = NULL;
    mu_session *s = NULL;
    mu_session_opts o = {.phases = MU_PREDICT};
    struct predict *v = values;
    mu_status st = mu_cli_open(a, a->word[0], &o, &job, &s, err);
    if (st == MU_OK) st = mu_cli_load_model(s, a->word[0], v->model, v->best, err);
    if (st == MU_OK) st = predict(s, v, err);
    mu_cli_close(job, s, err);
    return st;
}

const mu_verb_class mu_verb_predict = {
    .name = "predict",
    .help = "class and probability for each sample, as CSV; of sequences for each time step",
    .state_size = sizeof(struct predict),
    .usage = "RUN|JOB [options]",
    .example = "muster predict runs/lenet-0abc12 > answers.csv",
    .args = {.options = options,
             .common = MU_COMMON_SET,
             .min_words = 1,
             .max_words = 1,
             .words_are = "a run folder or a job file"},
    .run = run,
};
