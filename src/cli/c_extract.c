// SPDX-License-Identifier: Apache-2.0
// c_extract.c - `muster extract`: what layers of a trained net say about a data set, as arrays; and how well
// the codes of two layers find each other.
//
// Works with the net of phase predict, so losses are left out, on any block of `data:`, in the order of
// its records and without augmentation. Fields with one integer a record (labels) come along.
#include "cli/cli.h"
#include "cli/jobs.h"

#include "run/extract.h"
#include "run/retrieval.h"

#include <inttypes.h>
#include <string.h>

struct extract {
    const char *model, *data, *out, *recall, *group, *distance;
    mu_strings  layer;
    bool        best;
};

static const mu_opt options[] = {
    MU_OPT(struct extract, model, "model", MU_OPT_FILE, "FILE",
           "parameters: .safetensors file, checkpoint or run folder"),
    MU_OPT(struct extract, best, "best", MU_OPT_FLAG, NULL,
           "the run's best checkpoint instead of its newest"),
    MU_OPT(struct extract, layer, "layer", MU_OPT_TEXTS, "NAME",
           "whose output, or a field such as data.label; repeatable"),
    MU_OPT_ONE_OF(struct extract, data, "data", "train|validation|test|predict",
                  "which data of the job; test when not given"),
    MU_OPT(struct extract, out, "out", MU_OPT_FILE, "FILE",
           "write the arrays there: .npy, .csv or .safetensors"),
    MU_OPT(struct extract, recall, "recall", MU_OPT_TEXT, "A:B",
           "rank of the right answer when codes of layer A ask for those of B, and back"),
    MU_OPT_ONE_OF(struct extract, distance, "distance", MU_DISTANCE_CHOICES,
                  "what is near in --recall; cosine when not given"),
    MU_OPT(struct extract, group, "group", MU_OPT_TEXT, "FIELD",
           "records that are equal in this field are right answers for each other"),
    {0},
};

// ---- what to collect ----

typedef struct wanted {         // names of arrays: --out takes the first n_out, --recall also needs the rest
    const char *name[64];
    size_t      n, n_out;
    char        code[2][160];   // A and B of --recall
    char        group[160];     // data.<field>, or "" for none
} wanted;

static mu_status want(wanted *w, const char *name, mu_err *err) {
    for (size_t i = 0; i < w->n; i++)
        if (!strcmp(w->name[i], name)) return MU_OK;
    if (w->n == MU_COUNT(w->name))
        return MU_FAIL(err, MU_EUSAGE, "more than %zu arrays are asked for", MU_COUNT(w->name));
    w->name[w->n++] = name;
    return MU_OK;
}

static mu_status split_recall(wanted *w, const struct extract *v, mu_err *err) {
    const char *colon = strchr(v->recall, ':');
    size_t n = colon ? (size_t)(colon - v->recall) : 0;
    if (!n || !colon[1] || n >= sizeof w->code[0] || strlen(colon + 1) >= sizeof w->code[1]) {
        MU_FAIL(err, MU_EUSAGE, "`--recall %s` is no pair of layers", v->recall);
        mu_err_hint(err, "Write for example `--recall image_code:text_code`.");
        return MU_EUSAGE;
    }
    memcpy(w->code[0], v->recall, n);
    strcpy(w->code[1], colon + 1);
    for (int i = 0; i < 2; i++) MU_TRY(want(w, w->code[i], err));
    if (!v->group) return MU_OK;
    snprintf(w->group, sizeof w->group, strncmp(v->group, "data.", 5) ? "data.%s" : "%s", v->group);
    return want(w, w->group, err);
}

static mu_status choose(wanted *w, const struct extract *v, const mu_net *net, mu_err *err) {
    for (size_t i = 0; i < v->layer.n; i++) MU_TRY(want(w, v->layer.v[i], err));
    const mu_layer *data = net->layer[0];
    for (int i = 0; v->out && i < data->n_out; i++) {
        const mu_tensor *t = &data->out[i].value;
        if (t->dtype == MU_I32 && t->shape.n == 1) MU_TRY(want(w, data->out[i].name, err));
    }
    w->n_out = w->n;
    return v->recall ? split_recall(w, v, err) : MU_OK;
}

static mu_status check_options(const struct extract *v, mu_err *err) {
    if (!v->out && !v->recall) {
        MU_FAIL(err, MU_EUSAGE, "nothing to do: neither `--out` nor `--recall` is given");
        mu_err_hint(err, "Write for example `--layer fc1 --out features.npy`.");
        return MU_EUSAGE;
    }
    if (v->out && !v->layer.n) {
        MU_FAIL(err, MU_EUSAGE, "`--out` needs `--layer`: whose output?");
        mu_err_hint(err, "`muster check JOB` lists the layers.");
        return MU_EUSAGE;
    }
    if (v->out && !mu_extract_can_save(v->out)) return mu_extract_save(&(mu_extract){0}, v->out, err);
    if (v->group && !v->recall) return MU_FAIL(err, MU_EUSAGE, "`--group` is for `--recall`");
    return MU_OK;
}

// ---- recall ----

typedef struct result { const char *from, *to; mu_recall r; } result;

static mu_status groups_of(const mu_extract *x, const wanted *w, int32_t **out, mu_err *err) {
    if (!w->group[0]) return MU_OK;
    const mu_tensor *t = mu_extract_find(x, w->group);
    *out = mu_alloc_array((size_t)x->rows, sizeof **out, "extract");
    if (!*out) return MU_FAIL_NOMEM(err, "the groups");
    return mu_group_rows(t->data, x->rows, (size_t)mu_shape_inner(&t->shape, 1) * sizeof(float), *out, err);
}

static mu_status measure(const mu_extract *x, const wanted *w, mu_distance distance, result both[2],
                         mu_err *err) {
    const mu_tensor *code[2];
    int32_t *group = NULL;
    for (int i = 0; i < 2; i++) {
        code[i] = mu_extract_find(x, w->code[i]);
        if (code[i]->dtype != MU_F32) return MU_FAIL(err, MU_EUSAGE, "`%s` holds no codes", w->code[i]);
    }
    int64_t d[2] = {mu_shape_inner(&code[0]->shape, 1), mu_shape_inner(&code[1]->shape, 1)};
    if (d[0] != d[1])
        return MU_FAIL(err, MU_EUSAGE, "`%s` has %" PRId64 " values a sample, `%s` %" PRId64, w->code[0],
                       d[0], w->code[1], d[1]);
    mu_status st = groups_of(x, w, &group, err);
    for (int i = 0; i < 2 && st == MU_OK; i++) {
        mu_retrieval *r = NULL;
        st = mu_retrieval_create(code[i]->f, code[1 - i]->f, x->rows, d[0], distance, group, &r, err);
        if (st == MU_OK) st = mu_retrieval_score(r, NULL, &both[i].r, err);
        both[i].from = w->code[i];
        both[i].to = w->code[1 - i];
        mu_retrieval_destroy(r);
    }
    mu_free(group);
    return st;
}

static void print_recall(const mu_args *a, const result both[2]) {
    json_t *list = json_array();
    for (int i = 0; i < 2; i++) {
        const mu_recall *r = &both[i].r;
        if (a->json) {
            json_t *o = json_pack("{s:s, s:s, s:I, s:I, s:f, s:f, s:f, s:f, s:f}", "from", both[i].from, "to",
                                  both[i].to, "queries", (json_int_t)r->queries, "groups",
                                  (json_int_t)r->groups, "recall_at_1", r->at1, "recall_at_5", r->at5,
                                  "recall_at_10", r->at10, "median_rank", r->median_rank, "mean_rank",
                                  r->mean_rank);
            json_array_append_new(list, o);
            continue;
        }
        printf("%s -> %s: recall@1 %.4f  recall@5 %.4f  recall@10 %.4f  median rank %g of %" PRId64
               " (%" PRId64 " queries)\n", both[i].from, both[i].to, r->at1, r->at5, r->at10, r->median_rank,
               r->groups, r->queries);
    }
    if (a->json) mu_cli_print_json(json_pack("{s:o}", "recall", list));
    else json_decref(list);
}

// ---- the verb ----

static mu_status extract(const mu_args *a, mu_session *s, const struct extract *v, mu_err *err) {
    wanted w = {0};
    result both[2];
    mu_extract x = {0};
    MU_TRY(choose(&w, v, s->predict.net, err));
    mu_status st = mu_extract_run(&s->predict, w.name, w.n, &x, err);
    if (st == MU_OK && v->out) {
        size_t all = x.n;
        x.n = w.n_out;          // the rest was collected for --recall
        st = mu_extract_save(&x, v->out, err);
        x.n = all;
    }
    mu_distance distance = MU_COSINE;
    if (v->distance) distance = (mu_distance)mu_choice_find(MU_DISTANCE_CHOICES, v->distance);
    if (st == MU_OK && v->recall) st = measure(&x, &w, distance, both, err);
    if (st == MU_OK && v->recall) print_recall(a, both);
    mu_extract_fini(&x);
    return st;
}

static mu_status run(mu_args *a, void *values, mu_err *err) {
    struct extract *v = values;
    MU_TRY(check_options(v, err));
    mu_job *job = NULL;
    mu_session *s = NULL;
    const char *block = v->data ? v->data : "test";
    mu_session_opts o = {.phases = MU_PREDICT, .predict_on = block, .keep_all = true};
    mu_status st = mu_cli_open(a, a->word[0], &o, &job, &s, err);
    if (st == MU_OK && !s->predict.net) {
        st = MU_FAIL_AT(err, MU_EJOB, job->data ? job->data->pos : MU_NOPOS, "the job has no `data.%s`",
                        block);
        mu_err_hint(err, "Add it, or choose other data with `--data`.");
    }
    if (st == MU_OK) st = mu_cli_load_model(s, a->word[0], v->model, v->best, err);
    if (st == MU_OK) st = extract(a, s, v, err);
    mu_cli_close(job, s, err);
    return st;
}

const mu_verb_class mu_verb_extract = {
    .name = "extract",
    .help = "outputs of layers as arrays; recall between two layers",
    .state_size = sizeof(struct extract),
    .usage = "RUN|JOB [options]",
    .example = "muster extract runs/lenet-0abc12 --layer ip1 --out features.npy\n"
               "muster extract runs/mdnn-12ab --recall image_code:text_code --group emoji",
    .args = {.options = options,
             .common = MU_COMMON_SET | MU_COMMON_JSON,
             .min_words = 1,
             .max_words = 1,
             .words_are = "a run folder or a job file"},
    .run = run,
};
