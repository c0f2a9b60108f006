// SPDX-License-Identifier: Apache-2.0
// c_plot.c - `muster plot`: pictures of runs as one HTML, SVG or PNG file.
//
// Words and options become a list of figures (plot/plot.h); nothing is computed here. One run without options
// is a report of everything that applies to it.
#include "cli/cli.h"
#include "cli/jobs.h"

#include "base/log.h"
#include "file/fs.h"
#include "plot/plot.h"

#include <inttypes.h>
#include <string.h>

enum { RUNS_MOST = 16 };

struct plot {
    const char *out, *x, *curves, *title, *filters, *scatter, *images, *text, *order, *on, *model;
    double smooth;
    int64_t count;
    bool log, confusion, best;
};

static const mu_opt options[] = {
    MU_OPT(struct plot, out, "out", MU_OPT_FILE, "FILE",
           "file to write, .html, .svg or .png; when not given RUN/report.html, RUN/plot.html of what "
           "options choose, ./plot.html of several runs"),
    MU_OPT(struct plot, curves, "curves", MU_OPT_TEXT, "LIST",
           "curves to draw: loss, accuracy, error, rate, speed or a key of metrics.jsonl"),
    MU_OPT_ONE_OF(struct plot, x, "x", "epoch|step|time",
                  "what curves are drawn against; epoch when not given"),
    MU_OPT(struct plot, log, "log", MU_OPT_FLAG, NULL, "logarithmic loss and rate"),
    MU_OPT(struct plot, smooth, "smooth", MU_OPT_NUMBER, "S",
           "smooth training curves, 0 to 1; 0.9 averages about 10 points"),
    MU_OPT(struct plot, title, "title", MU_OPT_TEXT, "TEXT", "title of page and curves"),
    MU_OPT(struct plot, filters, "filters", MU_OPT_TEXT, "LAYER", "weights of a layer as images"),
    MU_OPT(struct plot, images, "images", MU_OPT_TEXT, "LAYERS",
           "inputs and the outputs of layers as images"),
    MU_OPT(struct plot, scatter, "scatter", MU_OPT_TEXT, "LAYER",
           "samples as points by two values of a layer, or its principal axes"),
    MU_OPT(struct plot, confusion, "confusion", MU_OPT_FLAG, NULL, "true classes against predicted ones"),
    MU_OPT(struct plot, text, "text", MU_OPT_FILE, "FILE",
           "a block of text for the page, such as samples of a text model"),
    MU_OPT(struct plot, count, "count", MU_OPT_INT, "N", "filters, images or points at most"),
    MU_OPT_ONE_OF(struct plot, order, "order", "index|norm", "filters as they are, or largest first"),
    MU_OPT_ONE_OF(struct plot, on, "on", "test|validation|train|predict",
                  "which data of the job; test when it has any"),
    MU_OPT_MODEL(struct plot),
    MU_OPT_BEST(struct plot),
    {0},
};

typedef struct runs {
    mu_plot_run v[RUNS_MOST];
    size_t n;
} runs;

// `NAME=FOLDER` names a run; a folder with such a name is itself.
static mu_status name_runs(mu_args *a, runs *r, mu_err *err) {
    const char *path[RUNS_MOST], *name[RUNS_MOST], *given[RUNS_MOST] = {0};
    if (a->n_words > RUNS_MOST)
        return MU_FAIL(err, MU_EUSAGE, "%d runs are too many for one chart, at most %d", a->n_words,
                       RUNS_MOST);
    r->n = (size_t)a->n_words;
    for (size_t i = 0; i < r->n; i++) {
        const char *equal = strchr(a->word[i], '=');
        path[i] = a->word[i];
        if (!equal || equal == a->word[i] || mu_fs_is_folder(a->word[i])) continue;
        path[i] = equal + 1;
        given[i] = mu_arena_strndup(&a->arena, a->word[i], (size_t)(equal - a->word[i]));
        if (!given[i]) return MU_FAIL_NOMEM(err, "a name");
    }
    MU_TRY(mu_plot_names(&a->arena, path, r->n, name, err));
    for (size_t i = 0; i < r->n; i++)
        r->v[i] = (mu_plot_run){.name = given[i] ? given[i] : name[i], .path = path[i]};
    return MU_OK;
}

static mu_status load_runs(runs *r, bool report, mu_err *err) {
    for (size_t i = 0; i < r->n; i++) {
        mu_curves *c = &r->v[i].curves;
        mu_status st = mu_curves_load(c, r->v[i].path, err);
        if (st == MU_EDATA && report) { // a run that was only begun still has a net
            mu_warn("%s", err->msg);
            mu_err_clear(err);
            st = MU_OK;
        }
        MU_TRY(st);
        if (c->n_bad)
            mu_warn("%s: %zu of %zu lines of metrics cannot be read", r->v[i].path, c->n_bad, c->n_lines);
    }
    return MU_OK;
}

static bool wants_net(const struct plot *v) { return v->filters || v->scatter || v->images || v->confusion; }
static bool wants_some(const struct plot *v) { return wants_net(v) || v->curves || v->text; }

static mu_status add_pictures(mu_page *p, mu_inspect *in, const struct plot *v, const mu_plot_opts *o,
                              mu_err *err) {
    bool found;
    if (v->filters) MU_TRY(mu_plot_filters(p, in, v->filters, o, &found, err));
    if (v->images) MU_TRY(mu_plot_images(p, in, v->images, o, &found, err));
    if (v->scatter) MU_TRY(mu_plot_scatter(p, in, v->scatter, o, &found, err));
    return v->confusion ? mu_plot_confusion(p, in, false, &found, err) : MU_OK;
}

static mu_status look_inside(mu_page *p, const char *run, const struct plot *v, const mu_inspect_opts *io,
                             const mu_plot_opts *o, mu_err *err) {
    mu_inspect in = {0};
    mu_status st = mu_inspect_open(&in, run, io, err);
    if (st == MU_OK) st = add_pictures(p, &in, v, o, err);
    mu_cli_show_placed(err);
    mu_inspect_close(&in);
    return st;
}

static mu_status draw(mu_page *p, const mu_args *a, const struct plot *v, runs *r, mu_err *err) {
    mu_plot_opts o = {.title = v->title,
                      .curves = v->curves,
                      .log = v->log,
                      .smooth = v->smooth,
                      .count = v->count,
                      .x = !v->x || !strcmp(v->x, "epoch") ? MU_PLOT_EPOCH
                           : !strcmp(v->x, "step")         ? MU_PLOT_STEP
                                                           : MU_PLOT_TIME,
                      .by_norm = v->order && !strcmp(v->order, "norm")};
    mu_inspect_opts io = {.on = v->on,
                          .model = v->model,
                          .which = v->best ? MU_CKPT_BEST : MU_CKPT_NEWEST,
                          .sets = a->set,
                          .n_sets = a->n_sets};
    if (!wants_some(v) && r->n == 1 && (!v->out || mu_page_is_html(v->out))) {
        MU_TRY(load_runs(r, true, err));
        return mu_plot_report(p, &r->v[0], &io, &o, err);
    }
    if (v->curves || !wants_some(v)) {
        MU_TRY(load_runs(r, false, err));
        MU_TRY(mu_plot_curves(p, r->v, r->n, &o, err));
    }
    for (size_t i = 0; wants_net(v) && i < r->n; i++) {
        p->heading = r->n > 1 ? r->v[i].name : NULL;
        MU_TRY(look_inside(p, r->v[i].path, v, &io, &o, err));
    }
    p->heading = NULL;
    return v->text ? mu_page_add_text(p, v->text, err) : MU_OK;
}

static mu_status default_out(const struct plot *v, const runs *r, char out[MU_FS_PATH], mu_err *err) {
    if (r->n > 1) return mu_fs_join(out, ".", "plot.html", err);
    return mu_fs_join(out, r->v[0].path, wants_some(v) ? "plot.html" : "report.html", err);
}

static void tell(const mu_args *a, const mu_page *p, const char *out) {
    if (!a->json) {
        mu_info("%s: %zu figure%s", out, p->n, p->n == 1 ? "" : "s");
        return;
    }
    json_t *names = json_array();
    for (size_t i = 0; i < p->n; i++) json_array_append_new(names, json_string(p->v[i].title));
    mu_cli_print_json(json_pack("{s:s s:o}", "out", out, "figures", names));
}

static mu_status run(mu_args *a, void *values, mu_err *err) {
    const struct plot *v = values;
    char path[MU_FS_PATH];
    runs r = {0};
    mu_page page;
    mu_json_init();
    if (v->smooth < 0 || v->smooth >= 1)
        return MU_FAIL(err, MU_EUSAGE, "`--smooth` is %g, not from 0 to below 1", v->smooth);
    if (v->out) MU_TRY(mu_page_check_name(v->out, err));
    MU_TRY(name_runs(a, &r, err));
    if (!v->out) MU_TRY(default_out(v, &r, path, err));
    const char *out = v->out ? v->out : path;
    mu_page_init(&page, v->title ? v->title : r.n == 1 ? r.v[0].name : "runs compared");
    mu_status st = draw(&page, a, v, &r, err);
    if (st == MU_OK) st = mu_page_save(&page, out, err);
    if (st == MU_OK) tell(a, &page, out);
    for (size_t i = 0; i < r.n; i++) mu_curves_fini(&r.v[i].curves);
    mu_page_fini(&page);
    return st;
}

const mu_verb_class mu_verb_plot = {
    .name = "plot",
    .help = "pictures of runs: curves, filters, images, scatter, confusion",
    .state_size = sizeof(struct plot),
    .usage = "RUN... [options]",
    .example = "muster plot runs/lenet-0abc12\n"
               "muster plot runs/plain runs/momentum --curves loss,error --out curves.svg\n"
               "muster plot runs/rbm1 --filters rbm1 --out filters.png",
    .about = "One run without options becomes a report of everything that applies to it. Several runs become "
             "one chart "
             "for each quantity; NAME=RUN gives a run another name in the legend.\n\n"
             "The file needs no network and no scripts. An .html holds everything, an .svg all pictures in a "
             "column, "
             "a .png one picture of filters or images.",
    .args = {.options = options,
             .common = MU_COMMON_SET | MU_COMMON_JSON,
             .min_words = 1,
             .max_words = -1,
             .words_are = "a run folder"},
    .run = run,
};
