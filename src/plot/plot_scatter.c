// SPDX-License-Identifier: Apache-2.0
// plot_scatter.c - see plot.h: samples as points, coloured by their class.
//
// Two values of a layer are the place of a point; of more values the two principal axes are taken
// (look/project.h). Where there are few classes, each name stands at the median of its points.
#include "plot/plot.h"

#include "base/alloc.h"
#include "plot/chart.h"
#include "look/project.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TAG "plot"
enum {
    POINTS = 4000,
    LEGEND_MOST = 20,
    NAMES_MOST = 30,
    WORDS_MOST = 60,
    CLASSES_MOST = 400,
    WIDTH = 860,
    HEIGHT = 640
};
#define MAX_FLOATS ((int64_t)256 << 20)

typedef struct cloud {
    const mu_blob *blob, *label; // label NULL = one colour
    int64_t n, most, d;
    int64_t rows;   // of a parameter
    float *v;       // (most, d)
    int32_t *class; // (most)
    double *xy;     // (n, 2)
} cloud;

static mu_status collect(void *ctx, MU_UNUSED mu_net *net, const mu_batch *batch, MU_UNUSED mu_err *err) {
    cloud *c = ctx;
    for (int64_t i = 0; i < batch->n && c->n < c->most; i++, c->n++) {
        mu_inspect_row(&c->blob->value, i, c->v + c->n * c->d);
        c->class[c->n] = c->label ? c->label->value.i[i] : 0;
    }
    return MU_OK;
}

static mu_status place(cloud *c, double share[2], mu_err *err) {
    if (!(c->xy = mu_alloc_array((size_t)(2 * c->n) + 1, sizeof(double), TAG)))
        return MU_FAIL_NOMEM(err, "the points");
    if (c->d > 2) return mu_project_pca(c->v, c->n, c->d, 2, c->xy, share, err);
    for (int64_t i = 0; i < 2 * c->n; i++) c->xy[i] = (double)c->v[i];
    return MU_OK;
}

static double median(const mu_chart_point *p, size_t n, bool of_y, double *room) {
    for (size_t i = 0; i < n; i++) room[i] = of_y ? p[i].y : p[i].x;
    qsort(room, n, sizeof *room, mu_plot_by_value);
    return room[n / 2];
}

// The words behind the rows of an embedding; NULL.
static const char *const *words_of(const mu_inspect *in, const cloud *c) {
    for (int i = 0; !c->blob && i < mu_source_n_fields(in->at->source); i++) {
        const mu_data_field *f = mu_source_field(in->at->source, i);
        if (f->names && f->n_classes >= c->n && f->n_classes == c->rows) return f->names;
    }
    return NULL;
}

// Names the points that lie farthest out: what lies in the middle says little and would hide itself.
static void name_words(const char *const *word, mu_chart_point *p, int64_t n, double *room) {
    for (int64_t i = 0; word && i < n; i++) room[i] = -hypot(p[i].x, p[i].y);
    if (word) qsort(room, (size_t)n, sizeof *room, mu_plot_by_value);
    for (int64_t i = 0; word && i < n; i++)
        if (n <= WORDS_MOST || -hypot(p[i].x, p[i].y) < room[WORDS_MOST]) p[i].label = word[i];
}

typedef struct scatter {
    mu_chart_point *point, *name;
    mu_chart_series *series;
    double *room;
    size_t n_series, n_names;
} scatter;

static mu_status add_class(mu_page *p, const mu_inspect *in, const cloud *c, int64_t k, int64_t n_classes,
                           size_t *at, scatter *d, mu_err *err) {
    size_t first = *at;
    char number[32];
    for (int64_t i = 0; i < c->n; i++)
        if (c->class[i] == k) d->point[(*at)++] = (mu_chart_point){.x = c->xy[2 * i], .y = c->xy[2 * i + 1]};
    if (*at == first) return MU_OK;
    mu_chart_series *s = &d->series[d->n_series++];
    *s = (mu_chart_series){.look = (int)k, .dots = true, .point = d->point + first, .n = *at - first};
    name_words(words_of(in, c), d->point, c->n, d->room);
    s->pale = !c->label && c->n > POINTS / 2;
    if (!c->label) return MU_OK;
    const char *name = mu_arena_strdup(&p->arena, mu_plot_class_name(in, k, number));
    if (!name) return MU_FAIL_NOMEM(err, "a name");
    if (n_classes <= LEGEND_MOST) s->name = name;
    if (n_classes <= NAMES_MOST)
        d->name[d->n_names++] = (mu_chart_point){.x = median(s->point, s->n, false, d->room),
                                                 .y = median(s->point, s->n, true, d->room),
                                                 .label = name};
    return MU_OK;
}

static mu_status draw(mu_page *p, const mu_inspect *in, const cloud *c, const char *what, const double *share,
                      scatter *d, int64_t n_classes, mu_err *err) {
    size_t at = 0;
    for (int64_t k = 0; k < n_classes; k++) MU_TRY(add_class(p, in, c, k, n_classes, &at, d, err));
    if (d->n_names) d->series[d->n_series++] = (mu_chart_series){.point = d->name, .n = d->n_names};
    char title[200], note[160], x[60] = "value 0", y[60] = "value 1";
    snprintf(title, sizeof title, c->d > 2 ? "%.150s along its principal axes" : "the two values of %.150s",
             what);
    if (c->blob) snprintf(note, sizeof note, "%" PRId64 " samples of data.%s", c->n, in->on);
    else snprintf(note, sizeof note, "%" PRId64 " rows of %" PRId64 " values", c->n, c->d);
    if (c->d > 2) {
        snprintf(x, sizeof x, "axis 1, %.1f %% of the variance", 100 * share[0]);
        snprintf(y, sizeof y, "axis 2, %.1f %% of the variance", 100 * share[1]);
    }
    mu_figure *f;
    MU_TRY(mu_page_add(p, title, &f, err));
    f->width = WIDTH, f->height = HEIGHT;
    mu_chart chart = {.title = f->title,
                      .note = note,
                      .x_name = x,
                      .y_name = y,
                      .width = WIDTH,
                      .height = HEIGHT,
                      .series = d->series,
                      .n = d->n_series};
    return mu_chart_write(&chart, &f->svg, err);
}

static mu_status show(mu_page *p, const mu_inspect *in, cloud *c, const char *what, mu_err *err) {
    double share[2] = {0};
    int64_t n_classes = 1;
    MU_TRY(place(c, share, err));
    for (int64_t i = 0; i < c->n; i++) {
        if (c->class[i] < 0 || c->class[i] >= CLASSES_MOST)
            c->class[i] = CLASSES_MOST - 1; // one colour for the rest
        if (c->class[i] >= n_classes) n_classes = c->class[i] + 1;
    }
    scatter d = {
        .point = mu_alloc_array((size_t)c->n + 1, sizeof *d.point, TAG),
        .name = mu_alloc_array((size_t)n_classes, sizeof *d.name, TAG),
        .series = mu_alloc_array((size_t)n_classes + 1, sizeof *d.series, TAG),
        .room = mu_alloc_array((size_t)c->n + 1, sizeof *d.room, TAG),
    };
    mu_status st = d.point && d.name && d.series && d.room ? draw(p, in, c, what, share, &d, n_classes, err)
                                                           : MU_FAIL_NOMEM(err, "the points");
    mu_free(d.point);
    mu_free(d.name);
    mu_free(d.series);
    mu_free(d.room);
    return st;
}

// ---- choosing ----

// The first layer of two values that is not what a loss takes: a code.
static const mu_blob *find_code(const mu_net *net) {
    for (int i = 1; i < net->n_layers; i++) {
        const mu_layer *l = net->layer[i];
        const mu_tensor *t = l->n_out ? &l->out[0].value : NULL;
        if (!t || !l->node || t->dtype != MU_F32 || t->shape.n < 2 || mu_shape_inner(&t->shape, 1) != 2)
            continue;
        if (!mu_net_is_end(net, &l->out[0])) return &l->out[0];
    }
    return NULL;
}

static mu_status check(const cloud *c, const char *what, mu_err *err) {
    if (c->d >= 2 && c->most * c->d <= MAX_FLOATS) return MU_OK;
    if (c->d < 2)
        return MU_FAIL(err, MU_EUSAGE, "`%s` has %" PRId64 " value a sample, a scatter needs 2 or more", what,
                       c->d);
    MU_FAIL(err, MU_EUSAGE, "%" PRId64 " points of %" PRId64 " values of `%s` are too many", c->most, c->d,
            what);
    mu_err_hint(err, "Take fewer with `--count`.");
    return MU_EUSAGE;
}

static mu_status show_layer(mu_page *p, mu_inspect *in, cloud *c, const char *what, mu_err *err) {
    int field = mu_plot_label_field(in);
    c->d = mu_shape_inner(&c->blob->value.shape, 1);
    c->label = field < 0 ? NULL : &in->at->net->layer[0]->out[field];
    int64_t records = mu_source_n_records(in->at->source);
    if (c->most > records) c->most = records;
    MU_TRY(check(c, what, err));
    c->v = mu_alloc_array((size_t)(c->most * c->d) + 1, sizeof *c->v, TAG);
    c->class = mu_alloc_array((size_t)c->most + 1, sizeof *c->class, TAG);
    if (!c->v || !c->class) return MU_FAIL_NOMEM(err, "the points");
    MU_TRY(mu_inspect_visit(in, c->most, collect, c, NULL, err));
    return show(p, in, c, what, err);
}

static mu_status show_param(mu_page *p, const mu_inspect *in, cloud *c, const mu_param *w, mu_err *err) {
    c->d = w->shape.n == 2 ? w->shape.d[1] : 0;
    c->rows = w->shape.n == 2 ? w->shape.d[0] : 0;
    if (c->most > c->rows) c->most = c->rows;
    MU_TRY(check(c, w->name, err));
    c->n = c->most;
    c->v = mu_alloc_array((size_t)(c->n * c->d), sizeof *c->v, TAG);
    c->class = mu_alloc_array((size_t)c->n, sizeof *c->class, TAG);
    if (!c->v || !c->class) return MU_FAIL_NOMEM(err, "the points");
    memcpy(c->v, w->value, (size_t)(c->n * c->d) * sizeof *c->v);
    return show(p, in, c, w->name, err);
}

mu_status mu_plot_scatter(mu_page *p, mu_inspect *in, const char *what, const mu_plot_opts *o, bool *found,
                          mu_err *err) {
    cloud c = {.most = o->count ? o->count : POINTS};
    const mu_param *w = what ? mu_params_find(in->session->params, what) : NULL;
    *found = false;
    if (!what) c.blob = find_code(in->at->net);
    else if (!w) MU_TRY(mu_inspect_find(in, what, &c.blob, err));
    if (!c.blob && !w) return MU_OK;
    *found = true;
    mu_status st =
        w ? show_param(p, in, &c, w, err) : show_layer(p, in, &c, what ? what : c.blob->producer->name, err);
    mu_free(c.v);
    mu_free(c.class);
    mu_free(c.xy);
    return st;
}
