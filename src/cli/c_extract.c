// SPDX-License-Identifier: Apache-2.0
// c_extract.c - `muster extract`: what layers of a trained net say about a data set, as arrays; and how well
// the codes of two layers find each other.
//
// Any block of `data:` is read in the order of its records and without augmentation (look/inspect.h). Fields
// with one integer a record (labels) come along.
#include "cli/cli.h"
#include "cli/jobs.h"

#include "base/log.h"
#include "look/extract.h"
#include "plot/sheet.h"

#include <inttypes.h>
#include <string.h>
#include <strings.h>

enum { SHEET_QUERIES = 12 };

struct extract {
    const char *model, *data, *out, *format, *recall, *group, *distance, *sheet, *captions;
    mu_strings  layer;
    bool        best;
};

static const mu_opt options[] = {
    MU_OPT_MODEL(struct extract),
    MU_OPT_BEST(struct extract),
    MU_OPT(struct extract, layer, "layer", MU_OPT_TEXTS, "NAME",
           "whose output, or a field such as data.label; repeatable"),
    MU_OPT_ONE_OF(struct extract, data, "data", "train|validation|test|predict",
                  "which data of the job; test when it has any"),
    MU_OPT(struct extract, out, "out", MU_OPT_FILE, "FILE",
           "write the arrays there: .npy, .csv, .safetensors, or .rec for `reader: record` of any job"),
    MU_OPT_ONE_OF(struct extract, format, "format", MU_EXTRACT_CHOICES,
                  "what to write; by the end of the file's name when not given"),
    MU_OPT(struct extract, recall, "recall", MU_OPT_TEXT, "A:B",
           "rank of the right answer when codes of layer A ask for those of B, and back"),
    MU_OPT_ONE_OF(struct extract, distance, "distance", MU_DISTANCE_CHOICES,
                  "what is near in --recall; cosine when not given"),
    MU_OPT(struct extract, group, "group", MU_OPT_TEXT, "FIELD",
           "records that are equal in this field are right answers for each other"),
    MU_OPT(struct extract, sheet, "sheet", MU_OPT_FILE, "FILE",
           "with --recall, A of images, B of texts: queries and answers as .svg or .html"),
    MU_OPT(struct extract, captions, "captions", MU_OPT_FILE, "FILE", "a line a record, for --sheet"),
    {0},
};

// ---- what to collect ----

typedef struct wanted_arrays { // names of arrays: --out takes the first n_out, --recall also needs the rest
    const char *name[64];
    size_t      n, n_out;
    char        code[2][160];   // A and B of --recall
    char        group[160];     // data.<field>, or "" for none
    const char *picture;        // data.<field> of images for --sheet; NULL = none
} wanted_arrays;

static mu_status want(wanted_arrays *w, const char *name, mu_err *err) {
    for (size_t i = 0; i < w->n; i++)
        if (!strcmp(w->name[i], name)) return MU_OK;
    if (w->n == MU_COUNT(w->name))
        return MU_FAIL(err, MU_EUSAGE, "more than %zu arrays are asked for", MU_COUNT(w->name));
    w->name[w->n++] = name;
    return MU_OK;
}

static mu_status split_recall(wanted_arrays *w, const struct extract *v, mu_err *err) {
    const char *colon = strchr(v->recall, ':');
    size_t n = colon ? (size_t)(colon - v->recall) : 0;
    if (!n || !colon[1] || n >= sizeof w->code[0] || strlen(colon + 1) >= sizeof w->code[1])
        return mu_err_hinted(MU_FAIL(err, MU_EUSAGE, "`--recall %s` is no pair of layers", v->recall), err,
                             "Write for example `--recall image_code:text_code`.");
    memcpy(w->code[0], v->recall, n);
    strcpy(w->code[1], colon + 1);
    for (int i = 0; i < 2; i++) MU_TRY(want(w, w->code[i], err));
    if (!v->group) return MU_OK;
    snprintf(w->group, sizeof w->group, strncmp(v->group, "data.", 5) ? "data.%s" : "%s", v->group);
    return want(w, w->group, err);
}

static mu_status want_pictures(wanted_arrays *w, const mu_inspect *in, mu_err *err) {
    int field = mu_plot_image_field(in);
    if (field < 0) return MU_FAIL(err, MU_EUSAGE, "`--sheet` shows images, and the data has none");
    w->picture = in->at->net->layer[0]->out[field].name;
    return want(w, w->picture, err);
}

static mu_status choose(wanted_arrays *w, const struct extract *v, const mu_inspect *in, mu_err *err) {
    for (size_t i = 0; i < v->layer.n; i++) MU_TRY(want(w, v->layer.v[i], err));
    const mu_layer *data = in->at->net->layer[0];
    for (int i = 0; v->out && i < data->n_out; i++) {
        const mu_tensor *t = &data->out[i].value;
        if (t->dtype == MU_I32 && t->shape.n == 1) MU_TRY(want(w, data->out[i].name, err));
    }
    w->n_out = w->n;
    if (v->recall) MU_TRY(split_recall(w, v, err));
    return v->sheet ? want_pictures(w, in, err) : MU_OK;
}

static mu_extract_format format_of(const struct extract *v) {
    return v->format ? (mu_extract_format)(mu_choice_find(MU_EXTRACT_CHOICES, v->format) + MU_EXTRACT_NPY)
                     : MU_EXTRACT_BY_NAME;
}

static mu_status check_options(const struct extract *v, mu_err *err) {
    if (!v->out && !v->recall)
        return mu_err_hinted(
            MU_FAIL(err, MU_EUSAGE, "nothing to do: neither `--out` nor `--recall` is given"), err,
            "Write for example `--layer fc1 --out features.npy`.");
    if (v->out && !v->layer.n)
        return mu_err_hinted(MU_FAIL(err, MU_EUSAGE, "`--out` needs `--layer`: whose output?"), err,
                             "`muster check JOB` lists the layers.");
    if (v->format && !v->out) return MU_FAIL(err, MU_EUSAGE, "`--format` is for `--out`");
    if (v->out && mu_extract_format_of(format_of(v), v->out) == MU_EXTRACT_BY_NAME)
        return mu_extract_save(&(mu_extract){0}, v->out, MU_EXTRACT_BY_NAME, err);
    if (!v->recall && (v->group || v->sheet))
        return MU_FAIL(err, MU_EUSAGE, "`--%s` is for `--recall`", v->group ? "group" : "sheet");
    if (v->captions && !v->sheet) return MU_FAIL(err, MU_EUSAGE, "`--captions` is for `--sheet`");
    if (!v->sheet) return MU_OK;
    MU_TRY(mu_page_check_name(v->sheet, err));
    const char *end = strrchr(v->sheet, '.');
    if (end && !strcasecmp(end, ".png")) { // it would be found out after the pass
        MU_FAIL(err, MU_EUSAGE, "`--sheet %s`: a sheet is no picture of pixels", v->sheet);
        mu_err_hint(err, "End the name with .svg or .html.");
        return MU_EUSAGE;
    }
    return MU_OK;
}

// ---- recall ----

typedef struct result {         // of both directions: A asks for B, B for A
    const char   *from[2], *to[2];
    mu_retrieval *retrieval[2];
    mu_recall     recall[2];
    int32_t      *group;        // [rows]; NULL = every record is its own
} result;

static void drop(result *r) {
    for (int i = 0; i < 2; i++) mu_retrieval_destroy(r->retrieval[i]);
    mu_free(r->group);
}

static mu_status find_groups(const mu_extract *x, const wanted_arrays *w, result *r, mu_err *err) {
    if (!w->group[0]) return MU_OK;
    const mu_tensor *t = mu_extract_find(x, w->group);
    r->group = mu_alloc_array((size_t)x->rows, sizeof *r->group, "extract");
    if (!r->group) return MU_FAIL_NOMEM(err, "the groups");
    size_t bytes = (size_t)mu_shape_inner(&t->shape, 1) * sizeof(float);
    return mu_shared_rows(t->data, x->rows, bytes, r->group, err);
}

static mu_status measure(const mu_extract *x, const wanted_arrays *w, mu_distance distance, result *r,
                         mu_err *err) {
    const mu_tensor *code[2];
    int64_t d[2];
    for (int i = 0; i < 2; i++) {
        code[i] = mu_extract_find(x, w->code[i]);
        d[i] = mu_shape_inner(&code[i]->shape, 1);
        if (code[i]->dtype != MU_F32) return MU_FAIL(err, MU_EUSAGE, "`%s` holds no codes", w->code[i]);
    }
    if (d[0] != d[1])
        return MU_FAIL(err, MU_EUSAGE, "`%s` has %" PRId64 " values a sample, `%s` %" PRId64, w->code[0],
                       d[0], w->code[1], d[1]);
    MU_TRY(find_groups(x, w, r, err));
    for (int i = 0; i < 2; i++) {
        r->from[i] = w->code[i];
        r->to[i] = w->code[1 - i];
        MU_TRY(mu_retrieval_create(code[i]->f, code[1 - i]->f, x->rows, d[0], distance, r->group,
                                   &r->retrieval[i], err));
        MU_TRY(mu_retrieval_score(r->retrieval[i], NULL, &r->recall[i], err));
    }
    return MU_OK;
}

static json_t *recall_json(const result *r, int i) {
    const mu_recall *c = &r->recall[i];
    return json_pack("{s:s, s:s, s:I, s:I, s:f, s:f, s:f, s:f, s:f}", "from", r->from[i], "to", r->to[i],
                     "queries", (json_int_t)c->queries, "groups", (json_int_t)c->groups, "recall_at_1",
                     c->at1, "recall_at_5", c->at5, "recall_at_10", c->at10, "median_rank", c->median_rank,
                     "mean_rank", c->mean_rank);
}

static void print_recall(const result *r) {
    for (int i = 0; i < 2; i++) {
        const mu_recall *c = &r->recall[i];
        printf("%s -> %s: recall@1 %.4f  recall@5 %.4f  recall@10 %.4f  median rank %g of %" PRId64
               " (%" PRId64 " queries)\n", r->from[i], r->to[i], c->at1, c->at5, c->at10, c->median_rank,
               c->groups, c->queries);
    }
}

static mu_status draw_sheet(mu_extract *x, const wanted_arrays *w, const result *r, const struct extract *v,
                            mu_err *err) {
    mu_page page;
    const char **caption = NULL;
    mu_page_init(&page, "Queries and answers");
    mu_status st = MU_OK;
    if (v->captions) st = mu_sheet_captions(&page.arena, v->captions, x->rows, &caption, err);
    else if (!(caption = mu_arena_array(&page.arena, (size_t)x->rows, sizeof *caption)))
        st = MU_FAIL_NOMEM(err, "captions");
    for (int64_t i = 0; st == MU_OK && !v->captions && i < x->rows; i++)
        if (!(caption[i] = mu_arena_printf(&page.arena, "record %" PRId64, i)))
            st = MU_FAIL_NOMEM(err, "captions");
    mu_sheet sheet = {.picture = mu_extract_find(x, w->picture),
                      .caption = caption,
                      .group = r->group,
                      .texts = r->retrieval[0],
                      .pictures = r->retrieval[1],
                      .queries = x->rows < SHEET_QUERIES ? x->rows : SHEET_QUERIES};
    if (st == MU_OK) st = mu_sheet_add(&page, &sheet, err);
    if (st == MU_OK) st = mu_page_save(&page, v->sheet, err);
    mu_page_fini(&page);
    return st;
}

// ---- the verb ----

static json_t *file_json(const mu_extract *x, const mu_extract_file *f) {
    json_t *arrays = json_array();
    for (size_t i = f->first; i < f->first + f->n; i++)
        json_array_append_new(arrays, json_string(x->name[i]));
    return json_pack("{s:s, s:I, s:I, s:o}", "file", f->path, "rows", (json_int_t)f->rows, "columns",
                     (json_int_t)f->columns, "arrays", arrays);
}

// "ip1 (500)": an array and the shape of a record in it.
static void put_array(const mu_extract *x, size_t k, mu_text *out) {
    mu_shape s = x->array[k].shape;
    char shape[96];
    s.n--;
    memmove(s.d, s.d + 1, (size_t)s.n * sizeof *s.d);
    mu_text_printf(out, "%s%s%s", x->name[k], s.n ? " " : "", s.n ? mu_shape_text(&s, shape) : "");
}

// Says what was written, and adds it to `files`.
static void tell_files(const mu_extract *x, const char *path, mu_extract_format format, json_t *files) {
    mu_extract_file f;
    const bool records = mu_extract_format_of(format, path) == MU_EXTRACT_RECORD;
    for (size_t i = 0; mu_extract_file_at(x, path, format, i, &f); i++) {
        mu_text names = {0};
        for (size_t k = f.first; k < f.first + f.n; k++) {
            if (k > f.first) mu_text_put(&names, ", ", 2);
            put_array(x, k, &names);
        }
        const char *of = names.failed ? "arrays" : names.s;
        if (records)
            mu_info("wrote %s: %" PRId64 " records of %s\nin a job: {reader: record, file: %s}", f.path,
                    f.rows, of, f.path);
        else
            mu_info("wrote %s: %" PRId64 " rows, %" PRId64 " column%s of %s", f.path, f.rows, f.columns,
                    f.columns == 1 ? "" : "s", of);
        mu_text_fini(&names);
        json_array_append_new(files, file_json(x, &f));
    }
}

static mu_status save(mu_extract *x, const wanted_arrays *w, const struct extract *v, json_t *files,
                      mu_err *err) {
    size_t all = x->n;
    x->n = w->n_out;            // the rest was collected for --recall
    mu_status st = mu_extract_save(x, v->out, format_of(v), err);
    if (st == MU_OK) tell_files(x, v->out, format_of(v), files);
    x->n = all;
    return st;
}

static void print(const mu_args *a, const struct extract *v, const result *r, json_t *files) {
    if (v->recall && !a->json) print_recall(r);
    json_t *o = json_object();
    if (v->recall)
        json_object_set_new(o, "recall", json_pack("[o, o]", recall_json(r, 0), recall_json(r, 1)));
    if (v->out) json_object_set(o, "files", files);
    if (a->json) mu_cli_print_json(o);
    else json_decref(o);
}

static mu_status extract(const mu_args *a, mu_inspect *in, const struct extract *v, mu_err *err) {
    wanted_arrays w = {0};
    result r = {0};
    mu_extract x = {0};
    mu_distance distance = MU_COSINE;
    if (v->distance) distance = (mu_distance)mu_choice_find(MU_DISTANCE_CHOICES, v->distance);
    MU_TRY(choose(&w, v, in, err));
    json_t *files = json_array();
    mu_status st = mu_extract_run(in, w.name, w.n, &x, err);
    if (st == MU_OK && v->out) st = save(&x, &w, v, files, err);
    if (st == MU_OK && v->recall) st = measure(&x, &w, distance, &r, err);
    if (st == MU_OK) print(a, v, &r, files);
    if (st == MU_OK && v->sheet) st = draw_sheet(&x, &w, &r, v, err);
    if (st == MU_OK && v->sheet) mu_info("wrote %s", v->sheet);
    json_decref(files);
    drop(&r);
    mu_extract_fini(&x);
    return st;
}

static mu_status run(mu_args *a, void *values, mu_err *err) {
    struct extract *v = values;
    MU_TRY(check_options(v, err));
    mu_inspect in = {0};
    mu_inspect_opts o = {.on = v->data, .model = v->model, .which = v->best ? MU_CKPT_BEST : MU_CKPT_NEWEST,
                         .sets = a->set, .n_sets = a->n_sets};
    mu_status st = mu_inspect_open(&in, a->word[0], &o, err);
    if (st == MU_OK) st = extract(a, &in, v, err);
    mu_cli_show_placed(err);
    mu_inspect_close(&in);
    return st;
}

const mu_verb_class mu_verb_extract = {
    .name = "extract",
    .help = "outputs of layers as arrays; recall between two layers",
    .state_size = sizeof(struct extract),
    .usage = "RUN|JOB [options]",
    .example = "muster extract runs/lenet-0abc12 --layer ip1 --out features.npy\n"
               "muster extract runs/lenet-0abc12 --data train --layer ip1 --out features.rec\n"
               "muster extract runs/mdnn-12ab --recall image_code:text_code --group emoji",
    .args = {.options = options, MU_ARGS_ONE_WORD("a run folder or a job file")},
    .run = run,
};
