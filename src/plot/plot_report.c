// SPDX-License-Identifier: Apache-2.0
// plot_report.c - see plot.h: a page of everything that applies to one run.
//
// A report must come out of whatever is left of a run: curves need metrics.jsonl alone; what needs the net
// (its job, a checkpoint, the data) is left out with a sentence when that is gone.
#include "plot/plot.h"

#include "base/alloc.h"
#include "plot/markup.h"
#include "store/rundir.h"

#include <dirent.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TAG "plot"
enum { TEXTS_MOST = 5, TYPES_MOST = 12 };

// ---- the table ----

static void put_row(mu_text *t, const char *name, const char *value) {
    mu_markup_put(t, "<tr><th>");
    mu_markup_escape(t, name);
    mu_markup_put(t, "</th><td>");
    mu_markup_escape(t, value);
    mu_markup_put(t, "</td></tr>\n");
}

static void put_note(mu_text *t, const char *words, const mu_err *err) {
    mu_markup_put(t, "<p class=\"soft\">");
    mu_markup_escape(t, words);
    mu_markup_put(t, ": ");
    mu_markup_escape(t, err->msg[0] ? err->msg : mu_status_text(err->status));
    mu_markup_put(t, ".</p>\n");
}

// 431080 as "431,080".
static const char *with_commas(int64_t v, char out[32]) {
    char digits[24];
    int n = snprintf(digits, sizeof digits, "%" PRId64, v), k = 0;
    for (int i = 0; i < n; i++) {
        out[k++] = digits[i];
        if (digits[i] != '-' && i + 1 < n && (n - 1 - i) % 3 == 0) out[k++] = ',';
    }
    out[k] = '\0';
    return out;
}

// The whole number that is meant, within the range of the type.
static int64_t whole(double v) {
    if (isnan(v)) return 0;
    return v >= 9e18 ? INT64_MAX : v <= -9e18 ? INT64_MIN : llround(v);
}

static const char *duration(double s, char out[32]) {
    if (s < 120) snprintf(out, 32, "%.3g s", s);
    else if (s < 2 * 3600) snprintf(out, 32, "%.0f min %02.0f s", floor(s / 60), fmod(floor(s), 60));
    else snprintf(out, 32, "%.0f h %02.0f min", floor(s / 3600), fmod(floor(s / 60), 60));
    return out;
}

// At most two digits after the point, and no zeros there: batches run over the end of an epoch by a little.
static const char *rounded(double v, char out[32]) {
    if (!(fabs(v) < 1e15)) { // no epoch, but metrics.jsonl may hold any number
        snprintf(out, 32, "%.3g", v);
        return out;
    }
    int n = snprintf(out, 32, "%.2f", v);
    while (n > 1 && out[n - 1] == '0') out[--n] = '\0';
    if (n > 1 && out[n - 1] == '.') out[n - 1] = '\0';
    return out;
}

// Types in their order, each once.
static void put_net(mu_text *t, const mu_inspect *in) {
    char text[400];
    const mu_net *net = in->at->net;
    const char *seen[TYPES_MOST];
    int layers = 0, types = 0;
    size_t n = 0;
    for (int i = 1; i < net->n_layers; i++) {
        const mu_layer *l = net->layer[i];
        bool known = !l->node;
        layers += l->node != NULL;
        for (int k = 0; k < types; k++) known |= !strcmp(seen[k], l->class->name);
        if (!known && types < TYPES_MOST) seen[types++] = l->class->name;
    }
    n = (size_t)snprintf(text, sizeof text, "%d layers:", layers);
    for (int k = 0; k < types && n < sizeof text - 40; k++)
        n += (size_t)snprintf(text + n, sizeof text - n, "%s %.30s", k ? "," : "", seen[k]);
    put_row(t, "net", text);
    put_row(t, "parameters", with_commas(mu_params_n_trained(in->session->params), text));
}

static void put_training(mu_text *t, const mu_curves *c) {
    char text[160], room[3][32];
    double steps = 0, epochs = 0, time_s = 0;
    for (size_t i = 0; i < c->n; i++) {
        const mu_curve_point *p = c->v[i].n ? &c->v[i].v[c->v[i].n - 1] : NULL;
        if (!p) continue;
        steps = fmax(steps, p->step);
        epochs = fmax(epochs, p->epoch);
        time_s = fmax(time_s, p->time_s);
    }
    snprintf(text, sizeof text, "%s epochs, %s steps in %s", rounded(epochs, room[0]),
             with_commas(whole(steps), room[1]), duration(time_s, room[2]));
    put_row(t, "training", text);
}

int mu_plot_by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static mu_status put_speed(mu_text *t, const mu_curves *c, mu_err *err) {
    const mu_curve *s = mu_curves_find(c, "samples_per_s");
    char text[64], room[32];
    size_t n = 0;
    if (!s || !s->n) return MU_OK;
    double *v = mu_alloc_array(s->n, sizeof *v, TAG);
    if (!v) return MU_FAIL_NOMEM(err, "the report");
    for (size_t i = 0; i < s->n; i++)
        if (isfinite(s->v[i].value)) v[n++] = s->v[i].value;
    qsort(v, n, sizeof *v, mu_plot_by_value);
    if (n) {
        snprintf(text, sizeof text, "%s samples/s (median)", with_commas(whole(v[n / 2]), room));
        put_row(t, "speed", text);
    }
    mu_free(v);
    return MU_OK;
}

// The name of a score for people, "" for what is none: `val_loss` is "validation loss".
static const char *score_name(const char *key, char out[100]) {
    static const char *const prefix[][2] = {{"val_", "validation"}, {"test_", "test"}};
    out[0] = '\0';
    if (!strcmp(key, "train_loss")) snprintf(out, 100, "training loss");
    for (size_t i = 0; i < MU_COUNT(prefix); i++) {
        size_t n = strlen(prefix[i][0]);
        if (!strncmp(key, prefix[i][0], n)) snprintf(out, 100, "%s %.80s", prefix[i][1], key + n);
    }
    for (char *c = out; *c; c++)
        if (*c == '_') *c = ' ';
    return out;
}

static bool ends(const char *s, const char *end) {
    size_t n = strlen(s), m = strlen(end);
    return n >= m && !strcmp(s + n - m, end);
}

// NULL where neither is better.
static const mu_curve_point *best_of(const mu_curve *c) {
    bool loss = ends(c->key, "_loss"), accuracy = ends(c->key, "_accuracy");
    const mu_curve_point *best = NULL;
    for (size_t i = 0; (loss || accuracy) && i < c->n; i++) {
        double v = c->v[i].value;
        if (isfinite(v) && (!best || (loss ? v < best->value : v > best->value))) best = &c->v[i];
    }
    return best;
}

// "test accuracy: 90.77 %, best 90.91 % in epoch 4".
static void put_scores(mu_text *t, const mu_curves *c) {
    for (size_t i = 0; i < c->n; i++) {
        const mu_curve *k = &c->v[i];
        char text[160], room[32], name[100];
        double last = mu_curve_last(k);
        bool percent = ends(k->key, "_accuracy");
        if (isnan(last) || !score_name(k->key, name)[0]) continue;
        percent = percent && fabs(last) < 1e6;
        int n = snprintf(text, sizeof text, percent ? "%.2f %%" : "%.5g", percent ? 100 * last : last);
        const mu_curve_point *best =
            strcmp(k->key, "train_loss") ? best_of(k) : NULL; // of one window: chance
        if (best && best->value != last)
            snprintf(text + n, sizeof text - (size_t)n,
                     percent ? ", best %.2f %% in epoch %s" : ", best %.5g in epoch %s",
                     percent ? 100 * best->value : best->value, rounded(best->epoch, room));
        put_row(t, name, text);
    }
}

static mu_status put_summary(mu_page *p, const mu_plot_run *run, const mu_inspect *in, mu_err *err) {
    mu_text *t = &p->head;
    mu_markup_put(t, "<table>\n");
    if (in->job && in->job->name) put_row(t, "job", in->job->name);
    put_row(t, "run", run->path);
    if (in->at && in->at->net) put_net(t, in);
    if (run->curves.n) put_training(t, &run->curves);
    put_scores(t, &run->curves);
    mu_status st = put_speed(t, &run->curves, err);
    mu_markup_put(t, "</table>\n");
    return st == MU_OK && t->failed ? MU_FAIL_NOMEM(err, "the report") : st;
}

// ---- what looks inside the net ----

// What cannot be drawn is said on the page; only memory ends the report.
static mu_status tolerate(mu_page *p, const char *words, mu_status st, const mu_err *own, mu_err *err) {
    if (st == MU_ENOMEM) {
        *err = *own;
        return st;
    }
    if (st != MU_OK) put_note(&p->head, words, own);
    return MU_OK;
}

static mu_status add_inner(mu_page *p, mu_inspect *in, const mu_plot_opts *o, mu_err *err) {
    bool found;
    mu_err own = {0};
    MU_TRY(tolerate(p, "No filters", mu_plot_filters(p, in, NULL, o, &found, &own), &own, err));
    mu_err_clear(&own);
    MU_TRY(tolerate(p, "No images", mu_plot_images(p, in, NULL, o, &found, &own), &own, err));
    mu_err_clear(&own);
    MU_TRY(tolerate(p, "No scatter", mu_plot_scatter(p, in, NULL, o, &found, &own), &own, err));
    mu_err_clear(&own);
    return tolerate(p, "No confusion matrix", mu_plot_confusion(p, in, true, &found, &own), &own, err);
}

// ---- texts ----

static int by_name(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

static bool is_sample(const char *name) {
    size_t n = strlen(name);
    return n > 4 && !strcmp(name + n - 4, ".txt") && strcmp(name, MU_RUN_LOG);
}

typedef struct class_labels {
    char **v; // texts in the page's arena
    size_t n, cap;
} class_labels;

static mu_status add_name(class_labels *l, mu_arena *a, const char *name, mu_err *err) {
    char **v = mu_grow(l->v, l->n, &l->cap, sizeof *v, 16, TAG);
    if (!v) return MU_FAIL_NOMEM(err, "the report");
    l->v = v;
    if (!(l->v[l->n] = mu_arena_strdup(a, name))) return MU_FAIL_NOMEM(err, "the report");
    l->n++;
    return MU_OK;
}

// All of them: the order of a folder is chance, so it may not choose.
static mu_status list_texts(class_labels *l, mu_arena *a, const char *run, mu_err *err) {
    mu_status st = MU_OK;
    DIR *dir = opendir(run);
    for (struct dirent *e; st == MU_OK && dir && (e = readdir(dir));)
        if (is_sample(e->d_name)) st = add_name(l, a, e->d_name, err);
    if (dir) closedir(dir);
    if (l->n) qsort(l->v, l->n, sizeof *l->v, by_name);
    return st;
}

// Samples of text lie in the run's folder as .txt files.
static mu_status add_texts(mu_page *p, const char *run, mu_err *err) {
    char path[MU_FS_PATH];
    class_labels l = {0};
    mu_status st = list_texts(&l, &p->arena, run, err);
    for (size_t i = 0; st == MU_OK && i < l.n && i < TEXTS_MOST; i++) {
        mu_err own = {0};
        st = mu_fs_join(path, run, l.v[i], err);
        if (st == MU_OK) st = tolerate(p, l.v[i], mu_page_add_text(p, path, &own), &own, err);
    }
    if (l.n > TEXTS_MOST)
        mu_text_printf(&p->head, "<p class=\"soft\">The first %d of %zu texts in the folder are shown.</p>\n",
                       TEXTS_MOST, l.n);
    mu_free(l.v);
    return st;
}

mu_status mu_plot_report(mu_page *p, const mu_plot_run *run, const mu_inspect_opts *io, const mu_plot_opts *o,
                         mu_err *err) {
    mu_inspect in = {0};
    mu_err own = {0};
    mu_plot_opts pictures = *o;
    pictures.count = 0;
    mu_status opened = mu_inspect_open(&in, run->path, io, &own);
    mu_status st = put_summary(p, run, &in, err);
    if (st == MU_OK) st = tolerate(p, "The net is not shown", opened, &own, err);
    if (st == MU_OK && run->curves.n) st = mu_plot_curves(p, run, 1, o, err);
    if (st == MU_OK && opened == MU_OK) st = add_inner(p, &in, &pictures, err);
    if (st == MU_OK) st = add_texts(p, run->path, err);
    mu_inspect_close(&in);
    return st;
}
