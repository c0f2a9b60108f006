// SPDX-License-Identifier: Apache-2.0
// plot_curves.c - see plot.h: the metrics of runs as line charts, one chart for each quantity.
//
// Keys of metrics.jsonl are a phase and a quantity (`val_loss`), or a quantity alone (`lr`). One run: phases
// have colours. Several runs: runs have colours, training is pale behind its evaluation.
#include "plot/plot.h"

#include "plot/chart.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define TAG "plot"
enum { WIDTH = 860, HEIGHT = 400, LEGEND = 180, MARKS_MOST = 24, QUANTITIES = MU_CURVES_MAX, WORD = 64 };

static const struct {
    const char *prefix, *name;
} phases[] = {{"train_", "training"}, {"val_", "validation"}, {"test_", "test"}};
enum { TRAINING, VALIDATION, TEST, PHASES, NO_PHASE = PHASES };

// ---- names of runs ----

static bool is_separator(char c) { return strchr("-_./ ", c) != NULL; }

static const char *base_name(mu_arena *a, const char *path) {
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/') n--;
    size_t from = n;
    while (from && path[from - 1] != '/') from--;
    return mu_arena_strndup(a, path + (from < n ? from : 0), n - (from < n ? from : 0));
}

static bool all_differ(const char *const *name, size_t n) {
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < i; j++)
            if (!strcmp(name[i], name[j])) return false;
    return true;
}

// Letters that all names have in common at an end, up to a separator, and never a whole name.
static size_t common(const char **name, size_t n, bool at_end) {
    size_t k = 0, kept = 0;
    for (;; k++) {
        size_t len0 = strlen(name[0]);
        if (k >= len0) break;
        char c = at_end ? name[0][len0 - 1 - k] : name[0][k];
        bool same = true;
        for (size_t i = 0; i < n && same; i++) {
            size_t len = strlen(name[i]);
            same = k + 1 < len && (at_end ? name[i][len - 1 - k] : name[i][k]) == c;
        }
        if (!same) break;
        if (is_separator(c)) kept = k + 1;
    }
    return kept;
}

mu_status mu_plot_names(mu_arena *a, const char *const *path, size_t n, const char **out, mu_err *err) {
    for (size_t i = 0; i < n; i++)
        if (!(out[i] = base_name(a, path[i]))) return MU_FAIL_NOMEM(err, "names");
    if (n < 2) return MU_OK;
    if (!all_differ(out, n))
        for (size_t i = 0; i < n; i++) out[i] = path[i];
    if (!all_differ(out, n)) return MU_OK; // the same run twice
    size_t head = common(out, n, false);
    for (size_t i = 0; i < n; i++) out[i] += head;
    size_t tail = common(out, n, true);
    for (size_t i = 0; i < n; i++)
        if (!(out[i] = mu_arena_strndup(a, out[i], strlen(out[i]) - tail)))
            return MU_FAIL_NOMEM(err, "names");
    return MU_OK;
}

// ---- quantities ----

typedef struct quantity {
    char key[WORD]; // without the phase
    bool is_error;  // 100 - accuracy, made here
} quantity;

static int phase_of(const char *key, const char **rest) {
    for (int i = 0; i < PHASES; i++) {
        size_t n = strlen(phases[i].prefix);
        if (strncmp(key, phases[i].prefix, n)) continue;
        *rest = key + n;
        return i;
    }
    *rest = key;
    return NO_PHASE;
}

// Results first, circumstances last, others as they came.
static int rank(const char *key) {
    return !strcmp(key, "loss")            ? 0
           : !strcmp(key, "accuracy")      ? 1
           : !strcmp(key, "lr")            ? 3
           : !strcmp(key, "samples_per_s") ? 4
                                           : 2;
}

static size_t list_quantities(const mu_plot_run *run, size_t n, quantity *out) {
    size_t found = 0;
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < run[i].curves.n; k++) {
            const char *rest;
            bool known = false;
            phase_of(run[i].curves.v[k].key, &rest);
            for (size_t j = 0; j < found; j++) known |= !strcmp(out[j].key, rest);
            if (known || found == QUANTITIES || strlen(rest) >= WORD) continue;
            size_t at = found++;
            for (; at && rank(out[at - 1].key) > rank(rest); at--) out[at] = out[at - 1];
            out[at] = (quantity){0};
            memcpy(out[at].key, rest, strlen(rest) + 1);
        }
    return found;
}

static mu_status unknown_curve(const char *word, const quantity *have, size_t n, mu_err *err) {
    char all[200] = "";
    for (size_t i = 0; i < n; i++) {
        size_t at = strlen(all);
        const char *name = !strcmp(have[i].key, "lr")              ? "rate"
                           : !strcmp(have[i].key, "samples_per_s") ? "speed"
                                                                   : have[i].key;
        snprintf(all + at, sizeof all - at, "%s%s", at ? ", " : "", name);
    }
    return mu_err_hinted(MU_FAIL(err, MU_EUSAGE, "no run has a curve `%s`", word), err, "There are %s.", all);
}

// The words of --curves, in their order.
static mu_status choose(const char *words, const quantity *have, size_t n_have, quantity *out, size_t *n,
                        mu_err *err) {
    *n = 0;
    while (*(words += strspn(words, ", "))) {
        char word[WORD];
        size_t len = strcspn(words, ", ");
        snprintf(word, sizeof word, "%.*s", (int)len, words);
        words += len;
        bool is_error = !strcmp(word, "error");
        const char *key = !strcmp(word, "rate")    ? "lr"
                          : !strcmp(word, "speed") ? "samples_per_s"
                          : is_error               ? "accuracy"
                                                   : word;
        size_t i = 0;
        while (i < n_have && strcmp(have[i].key, key)) i++;
        if (i == n_have || *n == QUANTITIES) return unknown_curve(word, have, n_have, err);
        out[*n] = have[i];
        out[(*n)++].is_error = is_error;
    }
    return *n ? MU_OK : MU_FAIL(err, MU_EUSAGE, "no curve is wanted");
}

// ---- one chart ----

typedef struct curve_panel {
    const quantity *q;
    const mu_plot_opts *o;
    const mu_plot_run *run;
    size_t n_runs;
    double time_unit;
    mu_arena *arena;
    mu_chart_series series[2 * PHASES * 16]; // raw and smooth of each phase and run
    size_t n;
    bool positive; // all values: a logarithm can be taken
    bool has_raw, has_pale, has_dashed;
} curve_panel;

static double value_of(const curve_panel *p, double v) {
    if (!strcmp(p->q->key, "accuracy")) return p->q->is_error ? 100 * (1 - v) : 100 * v;
    return v;
}

static mu_chart_point *make_points(curve_panel *p, const mu_curve *c, double smooth, mu_err *err) {
    mu_chart_point *q = mu_arena_array(p->arena, c->n + 1, sizeof *q);
    if (!q) {
        (void)MU_FAIL_NOMEM(err, "a curve");
        return NULL;
    }
    double mean = 0, weight = 0;
    for (size_t i = 0; i < c->n; i++) {
        double v = value_of(p, c->v[i].value);
        if (isfinite(v) && smooth > 0) { // of the values so far, each counting `smooth` of the one after it
            mean = smooth * mean + (1 - smooth) * v;
            weight = smooth * weight + (1 - smooth);
            v = mean / weight;
        }
        q[i].x = p->o->x == MU_PLOT_STEP    ? c->v[i].step
                 : p->o->x == MU_PLOT_EPOCH ? c->v[i].epoch
                                            : c->v[i].time_s / p->time_unit;
        q[i].y = v;
        if (!isfinite(v)) continue;
        p->positive &= v > 0;
    }
    return q;
}

static const char *label_of(curve_panel *p, const char *name, const mu_curve *c) {
    double last = value_of(p, mu_curve_last(c));
    bool percent = !strcmp(p->q->key, "accuracy");
    return isnan(last) ? name : mu_arena_printf(p->arena, percent ? "%s: %.2f %%" : "%s: %.4g", name, last);
}

static mu_status add_series(curve_panel *p, const mu_curve *c, mu_chart_series s, bool evaluated,
                            mu_err *err) {
    if (!c->n || p->n + 2 > MU_COUNT(p->series)) return MU_OK;
    bool smooth = p->o->smooth > 0 && !evaluated && c->n > 2 && strcmp(p->q->key, "lr"); // a rate is no noise
    s.n = c->n;
    s.line = s.line == MU_LINE_NONE ? MU_LINE_SOLID : s.line;
    s.marks = c->n == 1 || (evaluated && c->n <= MARKS_MOST && !s.pale);
    if (smooth && !s.pale) {
        mu_chart_series raw = s;
        raw.name = NULL, raw.pale = true, raw.marks = false;
        if (!(raw.point = make_points(p, c, 0, err))) return MU_ENOMEM;
        p->series[p->n++] = raw;
        p->has_raw = true;
    }
    if (!(s.point = make_points(p, c, smooth ? p->o->smooth : 0, err))) return MU_ENOMEM;
    p->series[p->n++] = s;
    p->has_pale |= s.pale;
    p->has_dashed |= s.line == MU_LINE_DASHED;
    return MU_OK;
}

static const mu_curve *curve(const curve_panel *p, size_t run, int phase) {
    char key[WORD + 16];
    snprintf(key, sizeof key, "%s%s", phase < PHASES ? phases[phase].prefix : "", p->q->key);
    return mu_curves_find(&p->run[run].curves, key);
}

static mu_status add_run(curve_panel *p, size_t r, mu_err *err) {
    const mu_curve *c[PHASES + 1];
    int shown = -1; // the evaluation with the name and the full colour
    for (int i = 0; i <= PHASES; i++) c[i] = curve(p, r, i);
    for (int i = VALIDATION; i <= TEST; i++)
        if (c[i] && shown < 0) shown = i;
    for (int i = 0; i <= PHASES; i++) {
        if (!c[i]) continue;
        bool evaluated = i == VALIDATION || i == TEST;
        mu_chart_series s = {.look = p->n_runs > 1 ? (int)r : i == shown ? 1 : i < PHASES ? i : 0};
        if (p->n_runs == 1 && i < PHASES) s.name = label_of(p, phases[i].name, c[i]);
        if (p->n_runs > 1) {
            s.pale = i == TRAINING && shown >= 0;
            if (i == shown || (shown < 0 && !s.pale)) s.name = label_of(p, p->run[r].name, c[i]);
            if (evaluated && i != shown) s.line = MU_LINE_DASHED;
        }
        MU_TRY(add_series(p, c[i], s, evaluated, err));
    }
    return MU_OK;
}

static const char *y_name(const quantity *q) {
    return q->is_error                        ? "error, %"
           : !strcmp(q->key, "accuracy")      ? "accuracy, %"
           : !strcmp(q->key, "lr")            ? "learning rate"
           : !strcmp(q->key, "samples_per_s") ? "speed, samples/s"
                                              : q->key;
}

// What pale and dashed lines are; NULL = there are none.
static const char *note_of(const curve_panel *p) {
    const char *pale = p->has_raw ? "pale: before smoothing" : p->has_pale ? "pale: training" : NULL;
    if (pale && p->has_dashed) return mu_arena_printf(p->arena, "%s; dashed: test", pale);
    return pale ? pale : p->has_dashed ? "dashed: test" : NULL;
}

static mu_status draw(curve_panel *p, mu_page *page, mu_err *err) {
    const char *unit = p->time_unit == 1 ? "time, s" : p->time_unit == 60 ? "time, min" : "time, h";
    const char *quantity_name = p->q->is_error                        ? "error"
                                : !strcmp(p->q->key, "lr")            ? "learning rate"
                                : !strcmp(p->q->key, "samples_per_s") ? "speed"
                                                                      : p->q->key;
    const char *of = p->o->title ? p->o->title : p->n_runs == 1 ? p->run[0].name : NULL;
    const char *title = of ? mu_arena_printf(p->arena, "%s: %s", of, quantity_name) : quantity_name;
    mu_figure *f;
    if (!title) return MU_FAIL_NOMEM(err, "a chart");
    mu_chart c = {.title = title,
                  .note = note_of(p),
                  .y_name = y_name(p->q),
                  .x_name = p->o->x == MU_PLOT_EPOCH  ? "epoch"
                            : p->o->x == MU_PLOT_STEP ? "step"
                                                      : unit,
                  .y_log =
                      p->o->log && p->positive && (!strcmp(p->q->key, "loss") || !strcmp(p->q->key, "lr")),
                  .width = WIDTH,
                  .height = HEIGHT,
                  .legend = LEGEND,
                  .series = p->series,
                  .n = p->n};
    MU_TRY(mu_page_add(page, title, &f, err));
    f->width = WIDTH, f->height = HEIGHT;
    return mu_chart_write(&c, &f->svg, err);
}

static double time_unit(const mu_plot_run *run, size_t n) {
    double most = 0;
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < run[i].curves.n; k++) {
            const mu_curve *c = &run[i].curves.v[k];
            if (c->n) most = fmax(most, c->v[c->n - 1].time_s);
        }
    return most < 300 ? 1 : most < 3 * 3600 ? 60 : 3600;
}

static mu_status draw_all(mu_page *page, const mu_plot_run *run, size_t n, const mu_plot_opts *o,
                          quantity *have, quantity *want, mu_err *err) {
    size_t n_have = list_quantities(run, n, have), n_want = n_have;
    if (o->curves) MU_TRY(choose(o->curves, have, n_have, want, &n_want, err));
    for (size_t i = 0; i < n_want; i++) {
        curve_panel *p = mu_arena_alloc(&page->arena, sizeof *p);
        if (!p) return MU_FAIL_NOMEM(err, "a chart");
        *p = (curve_panel){.q = o->curves ? &want[i] : &have[i],
                     .o = o,
                     .run = run,
                     .n_runs = n,
                     .time_unit = time_unit(run, n),
                     .arena = &page->arena,
                     .positive = true};
        for (size_t r = 0; r < n; r++) MU_TRY(add_run(p, r, err));
        MU_TRY(draw(p, page, err));
    }
    return MU_OK;
}

mu_status mu_plot_curves(mu_page *p, const mu_plot_run *run, size_t n, const mu_plot_opts *o, mu_err *err) {
    quantity *have = mu_arena_array(&p->arena, QUANTITIES, sizeof *have);
    quantity *want = mu_arena_array(&p->arena, QUANTITIES, sizeof *want);
    if (!have || !want) return MU_FAIL_NOMEM(err, "the charts");
    return draw_all(p, run, n, o, have, want, err);
}
