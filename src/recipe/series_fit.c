// SPDX-License-Identifier: Apache-2.0
// series_fit.c - see series_fit.h. An x has the window and its steps, as reader `series` gives them to a net.
#include "recipe/series_fit.h"

#include "base/alloc.h"
#include "recipe/ridge.h"

#include <math.h>
#include <string.h>

enum { LEAST_ROWS = 16, MOST_WEIGHTS = 300, MOST_ROWS = 4000, MOST_SEASON = 400 };
static const double decays[] = {0.0001, 0.001, 0.01, 0.1, 1};

typedef struct fit {
    const mu_series *s;
    const size_t *column;
    size_t n, target; // columns used
    int64_t n_train;
    double *z, *step; // [n_train x n] standardised; [n] deviation of a step of z
    double *x;        // [2 * window * n] of one record
    double deviation; // of the target
    mu_series_fit best;
} fit;

// ---- numbers ----

static double at(const fit *f, int64_t row, size_t k) { return f->z[(size_t)row * f->n + k]; }

static void standardise(fit *f, size_t k) {
    const double n = (double)f->n_train;
    double mean = 0, squares = 0, steps = 0;
    for (int64_t i = 0; i < f->n_train; i++) mean += mu_series_at(f->s, (size_t)i, f->column[k]) / n;
    for (int64_t i = 0; i < f->n_train; i++) {
        const double off = mu_series_at(f->s, (size_t)i, f->column[k]) - mean;
        squares += off * off / n;
        f->z[(size_t)i * f->n + k] = off;
    }
    const double deviation = squares > 0 ? sqrt(squares) : 1;
    if (k == f->target) f->deviation = deviation;
    for (int64_t i = 0; i < f->n_train; i++) {
        f->z[(size_t)i * f->n + k] /= deviation;
        const double step = i ? at(f, i, k) - at(f, i - 1, k) : 0;
        steps += step * step / n;
    }
    f->step[k] = steps > 0 ? sqrt(steps) : 1;
}

static void put_record(fit *f, int64_t window, int64_t end) {
    size_t used = 0;
    for (int64_t row = end - window + 1; row <= end; row++)
        for (size_t k = 0; k < f->n; k++) f->x[used++] = at(f, row, k);
    for (int64_t row = end - window + 2; row <= end; row++)
        for (size_t k = 0; k < f->n; k++) f->x[used++] = (at(f, row, k) - at(f, row - 1, k)) / f->step[k];
}

static double naive(const fit *f, int64_t t, int64_t season) {
    return at(f, t - (season ? season : 1), f->target);
}

static int64_t first_held_back(const fit *f) { return f->n_train - f->n_train / 4; }

static double naive_rmse(const fit *f, int64_t season) {
    double sum = 0;
    const int64_t first = first_held_back(f);
    for (int64_t t = first; t < f->n_train; t++) sum += pow(at(f, t, f->target) - naive(f, t, season), 2);
    return f->deviation * sqrt(sum / (double)(f->n_train - first));
}

// ---- the season ----

// Rows of a season as the dates tell: days of a week, months and quarters of a year, hours of a day.
static int64_t natural_season(const mu_series *s, int64_t n_rows) {
    size_t c = 0;
    while (c < s->n_columns && s->column[c].kind != MU_SERIES_TIME) c++;
    if (c == s->n_columns || n_rows < 3) return 0;
    const double step =
        (mu_series_at(s, (size_t)n_rows - 1, c) - mu_series_at(s, 0, c)) / (double)(n_rows - 1);
    if (!s->column[c].n_dates) { // years as numbers: a step is a part of one
        const double parts = 1 / step;
        return parts > 1.5 && parts < MOST_SEASON && fabs(parts - nearbyint(parts)) < 0.05 * parts
                   ? (int64_t)nearbyint(parts)
                   : 0;
    }
    static const struct {
        double days;
        int64_t season;
    } usual[] = {{93, 4}, {31, 12}, {372.0 / 365, 7}, {1.0 / 24, 24}, {1.0 / 48, 48}, {1.0 / 96, 96}};
    for (size_t i = 0; i < MU_COUNT(usual); i++)
        if (fabs(step / usual[i].days - 1) < 0.05) return usual[i].season;
    return 0;
}

// Of the steps of the target with those `lag` rows before.
static double correlation(const fit *f, int64_t lag) {
    double xy = 0, xx = 0, yy = 0;
    for (int64_t i = lag + 1; i < f->n_train; i++) {
        const double x = at(f, i, f->target) - at(f, i - 1, f->target);
        const double y = at(f, i - lag, f->target) - at(f, i - lag - 1, f->target);
        xy += x * y, xx += x * x, yy += y * y;
    }
    return xx > 0 && yy > 0 ? xy / sqrt(xx * yy) : 0;
}

// A peak that is clearly higher than those before it; or the season of the dates, where values one season
// before are nearer than those before and than those of the peak.
static void find_season(fit *f) {
    mu_series_fit *b = &f->best;
    b->natural = natural_season(f->s, f->n_train);
    const int64_t most = f->n_train / 3 < MOST_SEASON ? f->n_train / 3 : MOST_SEASON;
    double top = 0.3, before = correlation(f, 1), now = correlation(f, 2);
    for (int64_t lag = 2; lag <= most; lag++) {
        const double after = correlation(f, lag + 1);
        if (now > before && now >= after && now > top) b->found = lag, b->correlation = now, top = now + 0.1;
        before = now, now = after;
    }
    if (!b->natural || b->natural > most || naive_rmse(f, b->natural) >= naive_rmse(f, 0)) return;
    if (b->found && naive_rmse(f, b->found) <= naive_rmse(f, b->natural)) return;
    b->found = b->natural;
    b->correlation = correlation(f, b->natural);
}

// ---- windows and decays ----

// Judges all decays for one window and season on the rows held back; better ones become the choice.
static void judge(fit *f, mu_ridge *r, int64_t window, int64_t season) {
    const int64_t first = first_held_back(f);
    for (size_t k = 0; k < MU_COUNT(decays); k++) {
        if (!mu_ridge_solve(r, decays[k])) continue;
        double sum = 0;
        for (int64_t t = first; t < f->n_train; t++) {
            put_record(f, window, t - 1);
            sum += pow(naive(f, t, season) + mu_ridge_answer(r, f->x) - at(f, t, f->target), 2);
        }
        const double rmse = f->deviation * sqrt(sum / (double)(f->n_train - first));
        if (!(rmse < 0.995 * f->best.rmse)) continue; // of equal ones the simpler: shorter, and first
        f->best.rmse = rmse;
        f->best.window = window;
        f->best.season = season;
        f->best.decay = decays[k];
    }
}

static mu_status try_window(fit *f, int64_t window, int64_t season, mu_err *err) {
    const size_t d = (size_t)(2 * window - 1) * f->n;
    const int64_t first = first_held_back(f);
    int64_t begin = window > season ? window : season;
    if (d > MOST_WEIGHTS || first - begin < 8) return MU_OK;
    if (first - begin > MOST_ROWS) begin = first - MOST_ROWS;
    mu_ridge r = {0};
    mu_status st = mu_ridge_init(&r, d, err);
    for (int64_t t = begin; st == MU_OK && t < first; t++) {
        put_record(f, window, t - 1);
        mu_ridge_add(&r, f->x, at(f, t, f->target) - naive(f, t, season));
    }
    if (st == MU_OK) judge(f, &r, window, season);
    mu_ridge_fini(&r);
    return st;
}

static mu_status choose(fit *f, mu_err *err) {
    mu_series_fit *b = &f->best;
    find_season(f);
    const int64_t s = b->found;
    b->last_rmse = naive_rmse(f, 0);
    b->season_rmse = s ? naive_rmse(f, s) : b->last_rmse;
    b->season = s && b->season_rmse < b->last_rmse ? s : 0;
    b->rmse = b->season ? b->season_rmse : b->last_rmse; // of the naive answer, until a fit is better
    b->window = s ? s + 1 : 4;
    b->decay = 10;
    const int64_t windows[] = {4, 8, 12, s + 1, s + 7, 2 * s + 1, 3 * s + 1};
    for (size_t i = 0; i < (s ? MU_COUNT(windows) : 3); i++)
        for (int by_season = 0; by_season <= (s > 0 ? 1 : 0); by_season++)
            if (!by_season || windows[i] >= s) MU_TRY(try_window(f, windows[i], by_season ? s : 0, err));
    return MU_OK;
}

mu_status mu_series_fit_choose(const mu_series *s, const size_t *column, size_t n, size_t target,
                               int64_t n_train, mu_series_fit *out, mu_err *err) {
    if (n_train < LEAST_ROWS)
        return MU_FAIL(err, MU_EDATA, "`%s` has %zu rows; a series to learn from has at least %d", s->file,
                       s->n_rows, LEAST_ROWS * 5 / 4);
    fit f = {.s = s, .column = column, .n = n, .target = target, .n_train = n_train};
    f.z = mu_alloc_array((size_t)n_train * n, sizeof *f.z, "recipe/series");
    f.step = mu_alloc_array(n, sizeof *f.step, "recipe/series");
    f.x = mu_alloc_array(MOST_WEIGHTS + 1, sizeof *f.x, "recipe/series");
    mu_status st = f.z && f.step && f.x ? MU_OK : MU_FAIL_NOMEM(err, s->file);
    for (size_t k = 0; st == MU_OK && k < n; k++) standardise(&f, k);
    if (st == MU_OK) st = choose(&f, err);
    mu_free(f.z);
    mu_free(f.step);
    mu_free(f.x);
    if (st == MU_OK) *out = f.best;
    return st;
}
