// SPDX-License-Identifier: Apache-2.0
// k_timeseries.c - the next value of columns over time: a naive answer and what a small net adds to it.
//
// The naive answer (the last value, or that of one season before) is part of the net, so training begins with
// it and can only improve on it. A linear path over the window and its steps does most of the work; a small
// curved one beside it needs many rows, else it learns them by heart. Season, window and decay are chosen by
// linear fits judged on later rows (recipe/series_fit.h). The split is one in time: the last fifth is held
// back.
#include "recipe/recipe.h"

#include "job/job.h"
#include "recipe/series_fit.h"

#include <inttypes.h>
#include <math.h>

enum { ROWS_FOR_CURVES = 2000 };
static const double held_back_from = 0.8;

static void put_source(const char *phase, const char *file, const char *target, const mu_series_fit *f,
                       const char *part, FILE *out) {
    fprintf(out, "  %s: {reader: series, file: ", phase);
    mu_job_put_text(file, out);
    fputs(", target: ", out);
    mu_job_put_text(target, out);
    fprintf(out, ", window: %" PRId64 ", season: %" PRId64 "%s}\n", f->window, f->season, part);
}

static void put_head(const mu_recipe_ask *a, const mu_series_fit *f, FILE *out) {
    fprintf(out,
            "# What comes next in a series: the value %s, and what a net learns to add to it.\n#\n"
            "# command   muster train JOB\n"
            "#           muster predict RUN FILE     an answer for each window; the last one lies in the "
            "future\n#\n",
            f->season ? "of one season before" : "before");
    if (f->found)
        fprintf(out,
                "# Things repeat after %" PRId64
                " rows: steps correlate by %.2f with those one season before.\n",
                f->found, f->correlation);
    else fputs("# No season shows in the autocorrelation of the steps.\n", out);
    fprintf(out,
            "# Of linear fits to the first rows, judged on later ones, a window of %" PRId64
            " was the best: error\n"
            "# %.4g (RMSE); the last value alone has %.4g",
            f->window, f->rmse, f->last_rmse);
    if (f->found) fprintf(out, ", that of one season before %.4g", f->season_rmse);
    fputs(".\nname: ", out);
    mu_job_put_text(a->name, out);
    fputs("\nseed: 1\n\ndata:                                   # split in time, never at random\n", out);
}

static void put_net(bool curves, FILE *out) {
    static const char zero[] = "init: {type: constant, value: 0}";
    fprintf(
        out,
        "\nnet:                                    # begins as the naive answer: the rest starts at zero\n"
        "  - {name: level, type: inner_product, src: data.series, outputs: auto, %s}\n"
        "  - {name: steps, type: inner_product, src: data.change, outputs: auto, %s}\n",
        zero, zero);
    if (curves)
        fprintf(out,
                "  - {name: hidden, type: inner_product, src: data.change, outputs: 16}\n"
                "  - {name: bent, type: tanh}\n"
                "  - {name: drop, type: dropout, ratio: 0.2}\n"
                "  - {name: curve, type: inner_product, outputs: auto, %s}\n",
                zero);
    fprintf(out,
            "  - {name: answer, type: add, src: [data.naive, level, steps%s]}\n"
            "  - {name: loss, type: euclidean_loss, src: [answer, data.target]}\n\n",
            curves ? ", curve" : "");
}

static void write_job(const mu_recipe_ask *a, const mu_series *s, const char *target, const mu_series_fit *f,
                      FILE *out) {
    const int64_t n_train = (int64_t)(held_back_from * (double)s->n_rows) - f->window;
    const int64_t batch = n_train < 32 ? n_train : n_train > 3200 ? 128 : 32;
    int64_t steps =
        3 * n_train * 20 / batch; // passes that a large series needs, updates that a small one does
    if (steps < 3000) steps = 3000;
    if (steps > 20000) steps = 20000;
    put_head(a, f, out);
    put_source("train", a->file, target, f, ", to: 0.8", out);
    put_source("validation", a->file, target, f, ", from: 0.8", out);
    if (a->test_file) put_source("test", a->test_file, target, f, "", out);
    put_net(n_train >= ROWS_FOR_CURVES, out);
    fprintf(out,
            "train: {batch: %" PRId64 ", steps: %" PRId64 "}\n"
            "updater: {type: adam, decay: %g, rate: {type: cosine, base: 0.003}}\n"
            "test: {every: %" PRId64 " steps}\ncheckpoint: {every: 10m, keep: 1}\n",
            batch, steps, f->decay, steps / 10);
}

static mu_status make_job(const mu_recipe_ask *a, const mu_series *s, const size_t *column, size_t n,
                          int64_t target, FILE *out, char *found, size_t found_size, mu_err *err) {
    mu_series_fit f;
    size_t at = 0;
    while (at < n && (int64_t)column[at] != target) at++;
    MU_TRY(mu_series_fit_choose(s, column, n, at, (int64_t)(held_back_from * (double)s->n_rows), &f, err));
    char number[24];
    snprintf(number, sizeof number, "%" PRId64, target);
    write_job(a, s, s->header ? s->column[target].name : number, &f, out);
    int64_t gaps = 0;
    for (size_t i = 0; i < n; i++) gaps += s->column[column[i]].n_gaps;
    char season[64] = "no season";
    if (f.found) snprintf(season, sizeof season, "season of %" PRId64, f.found);
    snprintf(found, found_size,
             "%zu rows, %zu column%s of numbers, %" PRId64 " gaps, %s; predicts `%.60s` from "
             "windows of %" PRId64,
             s->n_rows, n, n == 1 ? "" : "s", gaps, season, s->column[target].name, f.window);
    return MU_OK;
}

static mu_status use_series(const mu_recipe_ask *a, mu_series *s, mu_arena *arena, FILE *out, char *found,
                            size_t found_size, mu_err *err) {
    MU_TRY(mu_series_load(s, arena, a->path, (mu_strings){0}, err));
    const char *word = a->label ? a->label : "last";
    const int64_t target = mu_series_find(s, word);
    if (target < 0 || s->column[target].kind != MU_SERIES_NUMBER)
        return mu_series_no_column(s, "--label", word, err);
    size_t *column = mu_arena_array(arena, s->n_columns, sizeof *column), n = 0;
    if (!column) return MU_FAIL_NOMEM(err, a->path);
    for (size_t i = 0; i < s->n_columns; i++)
        if (s->column[i].kind == MU_SERIES_NUMBER) column[n++] = i;
    return make_job(a, s, column, n, target, out, found, found_size, err);
}

static mu_status make_timeseries(const mu_recipe_ask *a, FILE *out, char *found, size_t found_size,
                                 mu_err *err) {
    mu_arena arena;
    mu_arena_init(&arena, "recipe/timeseries");
    mu_series s = {0};
    mu_status st = use_series(a, &s, &arena, out, found, found_size, err);
    mu_series_fini(&s);
    mu_arena_fini(&arena);
    return st;
}

const mu_recipe_class mu_recipe_timeseries = {
    .name = "timeseries",
    .help = "the next value of your own columns over time (CSV)",
    .write = make_timeseries,
};
