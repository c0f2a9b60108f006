// SPDX-License-Identifier: Apache-2.0
// plot_filters.c - see plot.h: weights as a sheet of images, and what of a net is an image at all.
//
// Each filter is scaled by itself, with zero in the middle of the grey scale: signs stay visible, and weak
// filters are as clear as strong ones. A few outliers are cut rather than let pale the rest. Convolutions of
// many channels show a row for each filter with one image for each channel.
#include "plot/plot.h"

#include "base/alloc.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TAG "plot"
enum { FILTERS = 100, CHANNELS_MOST = 16, CELL = 64, GAP = 4, WIDTH = 820, FILTERS_MOST = 10000 };
static const double outlier = 3.5; // beyond so many root mean squares

// ---- what is an image ----

static bool is_picture(int64_t c) { return c == 1 || c == 3; }

int mu_plot_image_field(const mu_inspect *in) {
    for (int i = 0; i < mu_source_n_fields(in->at->source); i++) {
        const mu_data_field *f = mu_source_field(in->at->source, i);
        if (f->is_image && f->shape.n == 3 && is_picture(f->shape.d[0])) return i;
    }
    return -1;
}

int mu_plot_label_field(const mu_inspect *in) {
    for (int i = 0; i < mu_source_n_fields(in->at->source); i++) {
        const mu_data_field *f = mu_source_field(in->at->source, i);
        if (f->store == MU_STORE_I32 && mu_shape_count(&f->shape) == 1) return i;
    }
    return -1;
}

bool mu_plot_image_shape(const mu_inspect *in, const mu_shape *blob, int64_t count, bool guess,
                         int64_t chw[3]) {
    if (blob && blob->n == 4 && mu_shape_inner(blob, 1) == count && is_picture(blob->d[1])) {
        memcpy(chw, blob->d + 1, 3 * sizeof *chw);
        return true;
    }
    int k = mu_plot_image_field(in);
    const mu_data_field *f = k < 0 ? NULL : mu_source_field(in->at->source, k);
    if (f && mu_shape_count(&f->shape) == count) {
        memcpy(chw, f->shape.d, 3 * sizeof *chw);
        return true;
    }
    for (int64_t c = 1; guess && c <= 3; c += 2) {
        int64_t side = llround(sqrt((double)count / (double)c));
        if (side < 2 || c * side * side != count) continue;
        chw[0] = c, chw[1] = chw[2] = side;
        return true;
    }
    return false;
}

// Readers that learn their labels know the words; others are told them by the job.
const char *mu_plot_class_name(const mu_inspect *in, int64_t k, char out[32]) {
    const mu_reader *r = mu_source_reader(in->at->source);
    if (r->label_names && k >= 0 && k < r->n_labels) return r->label_names[k];
    const mu_node *list = mu_node_find(mu_node_find(in->job->data, in->on), "classes");
    bool listed = list && list->kind == MU_LIST && k >= 0 && (size_t)k < list->n;
    const char *name = listed ? mu_node_text(list->item[k]) : NULL;
    if (name) return name;
    snprintf(out, 32, "%" PRId64, k);
    return out;
}

// ---- a parameter as planes ----

typedef struct sheet {
    const mu_param *param;
    int64_t n, planes; // filters, images of each
    int64_t c, h, w;   // of an image
    bool by_column;    // filter j is column j of the matrix
} sheet;

static const float *plane(const sheet *s, int64_t filter, int64_t k, float *room) {
    int64_t size = s->c * s->h * s->w;
    if (!s->by_column) return s->param->value + (filter * s->planes + k) * size;
    for (int64_t i = 0; i < size; i++) room[i] = s->param->value[i * s->n + filter];
    return room;
}

// The source shape of the layer that owns the parameter; NULL.
static const mu_shape *source_shape(const mu_net *net, const mu_param *p) {
    for (int i = 1; i < net->n_layers; i++)
        for (int k = 0; k < net->layer[i]->n_param; k++)
            if (net->layer[i]->param[k] == p && net->layer[i]->n_src)
                return mu_layer_src_shape(net->layer[i], 0);
    return NULL;
}

static bool lay_out(const mu_inspect *in, const mu_param *p, bool guess, sheet *s) {
    const mu_shape *w = &p->shape;
    *s = (sheet){.param = p, .planes = 1};
    if (w->n == 4) {
        bool colour = w->d[1] == 3;
        s->n = w->d[0], s->c = colour ? 3 : 1, s->planes = colour ? 1 : w->d[1], s->h = w->d[2],
        s->w = w->d[3];
        return s->h * s->w > 1;
    }
    if (w->n != 2) return false;
    const mu_shape *src = source_shape(in->at->net, p);
    int64_t chw[3] = {0};
    for (int guessed = 0; guessed < (guess ? 2 : 1); guessed++) // a size that fits beats a square that might
        for (int columns = 0; columns < 2; columns++)
            if (mu_plot_image_shape(in, columns ? NULL : src, w->d[!columns], guessed, chw)) {
                s->n = w->d[columns], s->c = chw[0], s->h = chw[1], s->w = chw[2], s->by_column = columns;
                return true;
            }
    return false;
}

// ---- choosing ----

static const mu_param *find_param(const mu_inspect *in, const char *what, mu_err *err) {
    const mu_params *ps = in->session->params;
    char name[300];
    const mu_param *p = mu_params_find(ps, what);
    if (p) return p;
    snprintf(name, sizeof name, "%s.weight", what);
    if ((p = mu_params_find(ps, name))) return p;
    const mu_layer *l = mu_net_find(in->at->net, what); // a layer that shares another's weights
    if (l && l->n_param) return l->param[0];
    const char *names[256];
    size_t n = 0;
    for (int i = 0; i < ps->n && n < MU_COUNT(names); i++) names[n++] = ps->list[i]->name;
    MU_FAIL(err, MU_EUSAGE, "no layer or parameter `%s` has weights", what);
    mu_err_suggest(MU_EUSAGE, err, "", mu_nearest(name, names, n));
    return NULL;
}

static bool find_first(const mu_inspect *in, sheet *s) {
    const mu_net *net = in->at->net;
    for (int i = 1; i < net->n_layers; i++)
        for (int k = 0; k < net->layer[i]->n_param; k++)
            if (lay_out(in, net->layer[i]->param[k], false, s)) return true;
    return false;
}

static double norm_of(const sheet *s, int64_t filter, float *room) {
    double sum = 0;
    for (int64_t k = 0; k < s->planes; k++) {
        const float *v = plane(s, filter, k, room);
        for (int64_t i = 0; i < s->c * s->h * s->w; i++) sum += (double)v[i] * (double)v[i];
    }
    return sum;
}

typedef struct ranked {
    double norm;
    int64_t filter;
} ranked;

static int by_norm(const void *a, const void *b) {
    const ranked *x = a, *y = b;
    if (x->norm != y->norm) return x->norm > y->norm ? -1 : 1;
    return (x->filter > y->filter) - (x->filter < y->filter);
}

// ---- drawing ----

static void draw_filter(mu_raster *r, const sheet *s, int64_t filter, int64_t x, int64_t y, int64_t scale,
                        int64_t planes, float *room) {
    double most = 0, size = (double)(s->planes * s->c * s->h * s->w);
    for (int64_t k = 0; k < s->planes; k++) {
        const float *v = plane(s, filter, k, room);
        for (int64_t i = 0; i < s->c * s->h * s->w; i++) most = fmax(most, fabs((double)v[i]));
    }
    most = fmin(most, outlier * sqrt(norm_of(s, filter, room) / size));
    for (int64_t k = 0; k < planes; k++) {
        mu_planes p = {plane(s, filter, k, room), s->c, s->h, s->w};
        mu_raster_draw(r, x + k * (s->w * scale + 1), y, scale, &p, -most, most);
    }
}

static mu_status draw_sheet(mu_page *page, const sheet *s, const ranked *order, int64_t n, bool sorted,
                            float *room, mu_err *err) {
    int64_t side = s->w > s->h ? s->w : s->h, planes = s->planes < CHANNELS_MOST ? s->planes : CHANNELS_MOST;
    int64_t scale = side >= CELL ? 1 : (planes > 1 ? CELL / 2 : CELL) / side;
    if (scale < 1) scale = 1;
    int64_t cell_w = planes * (s->w * scale + 1) - 1 + GAP, cell_h = s->h * scale + GAP;
    int64_t cols = WIDTH / cell_w < 1 ? 1 : WIDTH / cell_w, square = (int64_t)ceil(sqrt(1.6 * (double)n));
    if (cols > square) cols = square;
    if (cols > n) cols = n;
    int64_t rows = (n + cols - 1) / cols;
    mu_raster r = {0};
    MU_TRY(mu_raster_create(cols * cell_w - GAP, rows * cell_h - GAP, &r, err));
    for (int64_t i = 0; i < n; i++)
        draw_filter(&r, s, order[i].filter, i % cols * cell_w, i / cols * cell_h, scale, planes, room);
    char title[200], note[240], more[80] = "";
    snprintf(title, sizeof title, "filters of %.150s", s->param->name);
    if (s->planes > planes)
        snprintf(more, sizeof more, ", the first %" PRId64 " of %" PRId64 " channels", planes, s->planes);
    snprintf(note, sizeof note,
             "%" PRId64 " of %" PRId64 "%s, %" PRId64 " x %" PRId64 "%s; grey is zero, each scaled by itself",
             n, s->n, sorted ? ", largest norm first" : "", s->w, s->h, more);
    mu_status st = mu_page_add_picture(page, title, note, &r, NULL, 0, 0, err);
    mu_raster_fini(&r);
    return st;
}

static mu_status draw_some(mu_page *page, const sheet *s, const mu_plot_opts *o, mu_err *err) {
    int64_t wanted = o->count ? o->count : FILTERS / (s->planes > 4 ? 4 : 1);
    int64_t n = s->n < wanted ? s->n : wanted;
    if (n > FILTERS_MOST) n = FILTERS_MOST;
    ranked *order = mu_alloc_array((size_t)s->n, sizeof *order, TAG);
    float *room = mu_alloc_array((size_t)(s->c * s->h * s->w), sizeof *room, TAG);
    mu_status st = order && room ? MU_OK : MU_FAIL_NOMEM(err, "the filters");
    if (st == MU_OK) {
        for (int64_t i = 0; i < s->n; i++) order[i] = (ranked){o->by_norm ? norm_of(s, i, room) : 0, i};
        if (o->by_norm) qsort(order, (size_t)s->n, sizeof *order, by_norm);
        st = draw_sheet(page, s, order, n, o->by_norm, room, err);
    }
    mu_free(order);
    mu_free(room);
    return st;
}

mu_status mu_plot_filters(mu_page *p, const mu_inspect *in, const char *what, const mu_plot_opts *o,
                          bool *found, mu_err *err) {
    sheet s;
    char text[96];
    *found = false;
    if (!what) {
        if (!find_first(in, &s)) return MU_OK;
    } else {
        const mu_param *param = find_param(in, what, err);
        if (!param) return MU_EUSAGE;
        if (!lay_out(in, param, true, &s))
            return mu_err_hinted(
                MU_FAIL(err, MU_EUSAGE, "`%s` of shape %s cannot be shown as images", param->name,
                        mu_shape_text(&param->shape, text)),
                err, "Rows of a matrix must have as many values as an input image, or a square number.");
    }
    *found = true;
    return draw_some(p, &s, o, err);
}
