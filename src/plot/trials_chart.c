// SPDX-License-Identifier: Apache-2.0
// trials_chart.c - see trials_chart.h. Rows become cells, cells become series: a dashed line for each product
// mu * lambda of a protocol, then the marks of each protocol, so that marks lie on top.
#include "plot/trials_chart.h"

#include "base/alloc.h"
#include "plot/chart.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TAG "trials"

// A cell: what rows that differ by their seeds alone have in common.
typedef struct cell {
    const mu_trial *row;
    double time, y;
    int n, look;
    char label[40], tip[120];
} cell;

typedef struct trials_drawing { // one allocation each, as large as the table
    cell *cells;
    size_t n, n_points;
    mu_chart_point *point;
    mu_chart_series *series;
    size_t n_series;
} trials_drawing;

static double y_of(const mu_trial *t, bool by_error) { return by_error ? t->test_error : t->test_loss; }

static void add_to_cells(trials_drawing *d, const mu_trial *t, double y, int *n_looks) {
    cell *c = NULL;
    int look = -1;
    for (size_t i = 0; i < d->n; i++) {
        if (mu_trial_same_cell(d->cells[i].row, t)) c = &d->cells[i];
        if (!strcmp(d->cells[i].row->protocol, t->protocol)) look = d->cells[i].look;
    }
    if (!c) {
        c = &d->cells[d->n++];
        *c = (cell){.row = t, .look = look < 0 ? (*n_looks)++ : look};
        snprintf(c->label, sizeof c->label, "(%" PRId64 ", %" PRId64 ")", t->mu, t->lambda);
    }
    c->n++;
    c->time += (t->wall_s - c->time) / c->n;
    c->y += (y - c->y) / c->n;
    snprintf(c->tip, sizeof c->tip, "%s, mu %" PRId64 ", lambda %" PRId64 ": %.4g in %.4g s", t->protocol,
             t->mu, t->lambda, c->y, c->time);
}

// By protocol as they first came, then product, then lambda: marks of one line stand side by side.
static int by_line(const void *a, const void *b) {
    const cell *x = a, *y = b;
    int64_t p = x->row->mu * x->row->lambda, q = y->row->mu * y->row->lambda;
    if (x->look != y->look) return x->look < y->look ? -1 : 1;
    if (p != q) return p < q ? -1 : 1;
    return (x->row->lambda > y->row->lambda) - (x->row->lambda < y->row->lambda);
}

static bool one_line(const cell *a, const cell *b) {
    return a->look == b->look && a->row->mu * a->row->lambda == b->row->mu * b->row->lambda;
}

static void add_series(trials_drawing *d, size_t from, size_t to, mu_chart_series s) {
    s.look = d->cells[from].look;
    s.point = d->point + d->n_points;
    s.n = to - from;
    for (size_t i = from; i < to; i++) {
        const cell *c = &d->cells[i];
        mu_chart_point p = {.x = c->time, .y = c->y};
        if (s.marks) p.label = c->label, p.tip = c->tip;
        d->point[d->n_points++] = p;
    }
    d->series[d->n_series++] = s;
}

static void make_series(trials_drawing *d) {
    qsort(d->cells, d->n, sizeof *d->cells, by_line);
    for (size_t i = 0, j; i < d->n; i = j) { // lines first: marks lie on top
        for (j = i + 1; j < d->n && one_line(&d->cells[i], &d->cells[j]); j++) {}
        if (j > i + 1) add_series(d, i, j, (mu_chart_series){.line = MU_LINE_DASHED});
    }
    for (size_t i = 0, j; i < d->n; i = j) {
        for (j = i + 1; j < d->n && d->cells[i].look == d->cells[j].look; j++) {}
        add_series(d, i, j, (mu_chart_series){.name = d->cells[i].row->protocol, .marks = true});
    }
}

static bool has_error(const mu_trials *t) {
    for (size_t i = 0; i < t->n; i++)
        if (mu_trial_ok(&t->v[i]) && isfinite(t->v[i].test_error)) return true;
    return false;
}

static mu_status draw(const mu_trials *t, trials_drawing *d, const char *job_name, mu_text *out,
                      mu_err *err) {
    bool by_error = has_error(t);
    double least = INFINITY, most = 0;
    int n_looks = 0;
    for (size_t i = 0; i < t->n; i++) {
        const mu_trial *row = &t->v[i];
        double y = y_of(row, by_error);
        if (!mu_trial_ok(row) || !isfinite(y) || !(row->wall_s > 0)) continue;
        add_to_cells(d, row, y, &n_looks);
        least = fmin(least, row->wall_s);
        most = fmax(most, row->wall_s);
    }
    make_series(d);
    char title[120];
    snprintf(title, sizeof title, "%.80s: test %s against time", job_name, by_error ? "error" : "loss");
    mu_chart c = {.title = title,
                  .note = "labels: (mu, lambda); dashed: equal mu x lambda",
                  .x_name = "training time, s",
                  .y_name = by_error ? "test error" : "test loss",
                  .x_log = most > 8 * least,
                  .series = d->series,
                  .n = d->n_series};
    return mu_chart_write(&c, out, err);
}

mu_status mu_trials_chart(const mu_trials *t, const char *job_name, mu_text *out, mu_err *err) {
    trials_drawing d = {
        .cells = mu_alloc_array(t->n + 1, sizeof *d.cells, TAG),
        .point = mu_alloc_array(2 * t->n + 1, sizeof *d.point, TAG),
        .series = mu_alloc_array(2 * t->n + 1, sizeof *d.series, TAG),
    };
    mu_status st =
        d.cells && d.point && d.series ? draw(t, &d, job_name, out, err) : MU_FAIL_NOMEM(err, "the chart");
    mu_free(d.cells);
    mu_free(d.point);
    mu_free(d.series);
    return st;
}
