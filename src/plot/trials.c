// SPDX-License-Identifier: Apache-2.0
// trials.c - see trials.h.
#include "plot/trials.h"

#include "base/alloc.h"
#include "file/fs.h"
#include "file/outfile.h"
#include "plot/chart.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TAG "trials"
enum { MAX_FILE = 16 << 20, COLUMNS = 14 };

static const char header[] =
    "protocol,mu,lambda,mu*lambda,seed,epochs,wall_s,samples_per_s,test_error,test_loss,"
    "staleness_mean,staleness_max,overlap,status";

// The measured columns, 5 to 12, in their order.
static const size_t measured[] = {
    offsetof(mu_trial, epochs),        offsetof(mu_trial, wall_s),    offsetof(mu_trial, samples_per_s),
    offsetof(mu_trial, test_error),    offsetof(mu_trial, test_loss), offsetof(mu_trial, staleness_mean),
    offsetof(mu_trial, staleness_max), offsetof(mu_trial, overlap),
};

static double *value(mu_trial *t, size_t i) { return (double *)(void *)((char *)t + measured[i]); }

// ---- rows ---------------------------------------------------------------------------------------

mu_trial mu_trial_make(const char *protocol, int64_t mu, int64_t lambda, int64_t seed) {
    mu_trial t = {.mu = mu, .lambda = lambda, .seed = seed};
    snprintf(t.protocol, sizeof t.protocol, "%s", protocol);
    for (size_t i = 0; i < MU_COUNT(measured); i++) *value(&t, i) = NAN;
    return t;
}

bool mu_trial_ok(const mu_trial *t) { return !strcmp(t->status, "ok"); }
bool mu_trial_settled(const mu_trial *t) { return mu_trial_ok(t) || !strncmp(t->status, "diverged", 8); }

static bool same_cell(const mu_trial *a, const mu_trial *b) {
    return a->mu == b->mu && a->lambda == b->lambda && !strcmp(a->protocol, b->protocol);
}

const mu_trial *mu_trials_find(const mu_trials *t, const mu_trial *asked) {
    for (size_t i = 0; i < t->n; i++)
        if (same_cell(&t->v[i], asked) && t->v[i].seed == asked->seed) return &t->v[i];
    return NULL;
}

mu_status mu_trials_put(mu_trials *t, const mu_trial *row, mu_err *err) {
    const mu_trial *old = mu_trials_find(t, row);
    if (old) {
        t->v[old - t->v] = *row;
        return MU_OK;
    }
    if (t->n == t->cap) {
        size_t cap = t->cap ? 2 * t->cap : 64;
        mu_trial *v = mu_realloc(t->v, cap * sizeof *v, TAG);
        if (!v) return MU_FAIL_NOMEM(err, "the table");
        t->v = v;
        t->cap = cap;
    }
    t->v[t->n++] = *row;
    return MU_OK;
}

void mu_trials_fini(mu_trials *t) {
    mu_free(t->v);
    *t = (mu_trials){0};
}

// ---- CSV ----------------------------------------------------------------------------------------

static void put_field(mu_text *out, const char *s) {
    if (!strpbrk(s, ",\"\r\n")) {
        mu_text_put(out, s, strlen(s));
        return;
    }
    mu_text_put(out, "\"", 1);
    for (; *s; s++) {
        if (*s == '"') mu_text_put(out, "\"", 1);
        mu_text_put(out, *s == '\n' || *s == '\r' ? " " : s, 1); // a row is one line
    }
    mu_text_put(out, "\"", 1);
}

static void put_row(mu_text *out, const mu_trial *row) {
    mu_trial t = *row;
    put_field(out, t.protocol);
    mu_text_printf(out, ",%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64, t.mu, t.lambda, t.mu * t.lambda,
                   t.seed);
    for (size_t i = 0; i < MU_COUNT(measured); i++) {
        mu_text_put(out, ",", 1);
        if (isfinite(*value(&t, i))) mu_text_printf(out, "%.7g", *value(&t, i));
    }
    mu_text_put(out, ",", 1);
    put_field(out, t.status);
    mu_text_put(out, "\n", 1);
}

mu_status mu_trials_save(const mu_trials *t, const char *folder, mu_err *err) {
    mu_text out = {0};
    mu_text_printf(&out, "%s\n", header);
    for (size_t i = 0; i < t->n; i++) put_row(&out, &t->v[i]);
    mu_status st = out.failed ? MU_FAIL_NOMEM(err, "the table")
                              : mu_outfile_replace(folder, MU_TRIALS_CSV, out.s, out.n, err);
    mu_text_fini(&out);
    return st;
}

// Cuts a line into fields in place; quotes as RFC 4180 has them. Returns how many, -1 for torn quotes.
static int split(char *line, char *field[COLUMNS + 1]) {
    int n = 0;
    for (char *in = line;; in++) {
        char *to = in;
        if (n > COLUMNS) return n;
        field[n++] = to;
        if (*in == '"') {
            for (in++; *in && (*in != '"' || in[1] == '"'); in++) {
                if (*in == '"') in++;
                *to++ = *in;
            }
            if (*in++ != '"') return -1;
        } else {
            in += strcspn(in, ",");
            to = in;
        }
        char end = *in;
        *to = '\0';
        if (!end) return n;
        if (end != ',') return -1;
    }
}

static bool whole(const char *s, int64_t *out) {
    char *end;
    errno = 0;
    *out = strtoll(s, &end, 10);
    return *s && !*end && !errno;
}

static bool parse_row(char *line, mu_trial *out) {
    char *f[COLUMNS + 1], *end;
    int64_t mu, lambda, product, seed;
    if (split(line, f) != COLUMNS || strlen(f[0]) >= sizeof out->protocol) return false;
    if (!whole(f[1], &mu) || !whole(f[2], &lambda) || !whole(f[3], &product) || !whole(f[4], &seed))
        return false;
    if (mu < 1 || lambda < 1 || mu > INT32_MAX || lambda > INT32_MAX || product != mu * lambda) return false;
    *out = mu_trial_make(f[0], mu, lambda, seed);
    for (size_t i = 0; i < MU_COUNT(measured); i++) {
        if (*f[5 + i]) *value(out, i) = strtod(f[5 + i], &end);
        if (*f[5 + i] && (*end || !isfinite(*value(out, i)))) return false;
    }
    snprintf(out->status, sizeof out->status, "%s", f[COLUMNS - 1]);
    return *out->status != '\0';
}

static mu_status bad_line(const char *path, int line, mu_err *err) {
    MU_FAIL(err, MU_EDATA, "%s:%d: not a row of a trade-off table", path, line);
    mu_err_hint(err, "Repair or remove the file, or give another --out.");
    return MU_EDATA;
}

mu_status mu_trials_load(mu_trials *t, const char *folder, mu_err *err) {
    char path[MU_FS_PATH], *text;
    size_t size;
    MU_TRY(mu_fs_join(path, folder, MU_TRIALS_CSV, err));
    MU_TRY(mu_fs_read(path, MAX_FILE, &text, &size, err));
    mu_status st = strlen(text) == size ? MU_OK : bad_line(path, 1, err);
    int number = 1;
    for (char *line = text, *next; st == MU_OK && *line; line = next, number++) {
        mu_trial row;
        size_t n = strcspn(line, "\n");
        next = line + n + (line[n] == '\n');
        line[n > 0 && line[n - 1] == '\r' ? n - 1 : n] = '\0';
        if (number == 1) st = strcmp(line, header) ? bad_line(path, number, err) : MU_OK;
        else if (*line)
            st = parse_row(line, &row) ? mu_trials_put(t, &row, err) : bad_line(path, number, err);
    }
    mu_free(text);
    return st;
}

// ---- chart --------------------------------------------------------------------------------------

// A cell: what rows that differ by their seeds alone have in common.
typedef struct cell {
    const mu_trial *row;
    double time, y;
    int n, look;
    char label[40], tip[120];
} cell;

typedef struct drawing { // one allocation each, as large as the table
    cell *cells;
    size_t n, n_points;
    mu_chart_point *point;
    mu_chart_series *series;
    size_t n_series;
} drawing;

static double y_of(const mu_trial *t, bool by_error) { return by_error ? t->test_error : t->test_loss; }

static void add_to_cells(drawing *d, const mu_trial *t, double y, int *n_looks) {
    cell *c = NULL;
    int look = -1;
    for (size_t i = 0; i < d->n; i++) {
        if (same_cell(d->cells[i].row, t)) c = &d->cells[i];
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

static void add_series(drawing *d, size_t from, size_t to, mu_chart_series s) {
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

static void make_series(drawing *d) {
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

static mu_status draw(const mu_trials *t, drawing *d, const char *job_name, mu_text *out, mu_err *err) {
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
    drawing d = {
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
