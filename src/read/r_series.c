// SPDX-License-Identifier: Apache-2.0
// r_series.c - columns over time, cut into windows: what was, and what comes `ahead` steps later.
//
//     row   0 ... i ... i + window - 1        i + window - 1 + ahead
//                 |<---- window ---->|                   t
//     series  the window, (window, columns), each column (x - mean) / deviation
//     change  its steps, (window - 1, columns): (x[k] - x[k - 1]) / deviation of all steps
//     naive   (1) what needs no model: the value of the target one season before t, or the last of the window
//     target  (1) the value of column `target` at t; naive and target are standardised as the target in
//     series
//
// A record belongs to a part of the file by the place of t, so a part has a record for each of its rows; its
// first windows reach back into the rows before it, which are known by then. Mean and deviation are those of
// the rows of the training part, and a model keeps them. With `target: none` there is a record for each
// window, also for those at the end whose answer lies in the future.
#include "base/log.h"
#include "read/learnt.h"
#include "read/reader.h"
#include "read/series.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct used_column {
    const char *name;
    int64_t place;               // in the training file, from 0
    size_t at;                   // in this file
    float mean, deviation, step; // deviation and step: 1 where nothing ever changes
} used_column;

struct series {
    const char *file, *target;
    int64_t window, ahead, season;
    double from, to;
    mu_strings missing, ignore;
    // private
    mu_series s;
    used_column *column;               // [n_used]
    size_t n_used, target_at;          // target_at: in column
    bool from_model, header, labelled; // header: the training file names its columns
    int64_t first_end;                 // last row of the window of record 0
    float *value;                      // [rows x n_used] standardised; heap
    float *change, naive, answer;      // of the record that is read
};

static const mu_field fields[] = {
    MU_FIELD(struct series, file, MU_PATH, NULL, NULL, "rows in the order of time, plain or compressed"),
    MU_FIELD(
        struct series, target, MU_STRING, "last", NULL,
        "column that is to be predicted: its name, its number from 0, last (of those with numbers), or none"),
    MU_FIELD(struct series, window, MU_INT, "12", "[2,100k]", "rows that are known for an answer"),
    MU_FIELD(struct series, ahead, MU_INT, "1", "[1,100k]", "steps from the last known row to the answer"),
    MU_FIELD(struct series, season, MU_INT, "0", "[0,100k]",
             "rows after which things repeat, for field naive; 0 = the last known value"),
    MU_FIELD(struct series, from, MU_DOUBLE, "0", "[0,1]", "where the part begins, as a share of the rows"),
    MU_FIELD(struct series, to, MU_DOUBLE, "1", "[0,1]", "where it ends"),
    MU_FIELD(struct series, ignore, MU_STRINGS, "[]", NULL,
             "columns that are left out, by name or number from 0"),
    MU_FIELD(
        struct series, missing, MU_STRINGS, "[]", NULL,
        "words for a missing value; left out: NA, N/A, nan, NaN, null, NULL, ?, - (an empty one always is); "
        "the value before takes its place"),
    {0},
};

// ---- columns ----

static bool is_ignored(const struct series *s, size_t column) {
    for (size_t i = 0; i < s->ignore.n; i++)
        if (mu_series_find(&s->s, s->ignore.v[i]) == (int64_t)column) return true;
    return false;
}

static mu_status find_columns(mu_reader *r, struct series *s, mu_err *err) {
    const char *word = s->target;
    for (size_t i = 0; i < s->ignore.n; i++)
        if (mu_series_find(&s->s, s->ignore.v[i]) < 0)
            return mu_series_no_column(&s->s, "ignore", s->ignore.v[i], err);
    s->column = mu_arena_array(r->arena, s->s.n_columns, sizeof *s->column);
    if (!s->column) return MU_FAIL_NOMEM(err, s->file);
    const int64_t target = mu_series_find(&s->s, strcmp(word, "none") ? word : "last");
    if (target < 0 || s->s.column[target].kind != MU_SERIES_NUMBER || is_ignored(s, (size_t)target))
        return mu_series_no_column(&s->s, "target", word, err);
    for (size_t i = 0; i < s->s.n_columns; i++) {
        if (s->s.column[i].kind != MU_SERIES_NUMBER || is_ignored(s, i)) continue;
        for (size_t k = 0; s->s.header && k < s->n_used; k++)
            if (!strcmp(s->column[k].name, s->s.column[i].name))
                return mu_err_hinted(
                    MU_FAIL(err, MU_EDATA, "two columns of `%s` are called `%s`", s->file, s->column[k].name),
                    err, "Rename one of them, or leave it out by its number: `ignore: [%zu]`.", i);
        if ((int64_t)i == target) s->target_at = s->n_used;
        s->column[s->n_used++] = (used_column){.name = s->s.column[i].name, .place = (int64_t)i, .at = i};
    }
    s->header = s->s.header;
    return MU_OK;
}

// Mean, deviation of the values and of their steps, of the rows [first, last) of the training data.
static mu_status learn_column(const struct series *s, used_column *c, int64_t first, int64_t last,
                              mu_err *err) {
    double sum = 0, squares = 0, steps = 0;
    const double n = (double)(last - first);
    for (int64_t i = first; i < last; i++) sum += mu_series_at(&s->s, (size_t)i, c->at) / n;
    for (int64_t i = first; i < last; i++) {
        const double off = mu_series_at(&s->s, (size_t)i, c->at) - sum;
        const double step = i > first ? off + sum - mu_series_at(&s->s, (size_t)i - 1, c->at) : 0;
        squares += off * off / n;
        steps += step * step / n;
    }
    c->mean = (float)sum;
    c->deviation = squares > 0 ? (float)sqrt(squares) : 1;
    c->step = steps > 0 ? (float)sqrt(steps) : 1;
    if (isfinite(c->mean) && isfinite(c->deviation) && isfinite(c->step) && c->deviation > 0 && c->step > 0)
        return MU_OK;
    return MU_FAIL(err, MU_EDATA, "column `%s` of `%s` has too large or too small numbers", c->name, s->file);
}

static mu_status damaged(mu_err *err) { return mu_learnt_damaged("the columns of a series", err); }

// The columns of the model in this file: by name where both have names, otherwise by place.
static mu_status match(const struct series *s, used_column *c, mu_err *err) {
    const bool named = s->header && s->s.header;
    int64_t at = named ? mu_series_find(&s->s, c->name) : c->place;
    if (named && at >= 0 && strcmp(s->s.column[at].name, c->name)) at = -1;
    if (at < 0 || at >= (int64_t)s->s.n_columns)
        return mu_err_hinted(
            MU_FAIL(err, MU_EDATA, "`%s` has no column `%s`, which the model reads", s->file, c->name), err,
            "The model knows the series by the columns of its training file.");
    c->at = (size_t)at;
    const mu_series_column *own = &s->s.column[at];
    if (own->kind == MU_SERIES_NUMBER || (own->kind == MU_SERIES_TIME && !own->n_dates)) return MU_OK;
    return mu_series_no_column(&s->s, "the model", c->name, err);
}

static mu_status take_column(mu_reader *r, const struct series *s, used_column *c, const json_t *o,
                             mu_err *err) {
    const char *name = json_string_value(json_object_get(o, "name"));
    const json_t *mean = json_object_get(o, "mean"), *deviation = json_object_get(o, "deviation");
    const json_t *place = json_object_get(o, "place"), *step = json_object_get(o, "step");
    if (!name || !json_is_integer(place) || !json_is_number(mean) || !json_is_number(deviation) ||
        !json_is_number(step))
        return damaged(err);
    *c = (used_column){.name = mu_arena_strdup(r->arena, name),
                       .place = json_integer_value(place),
                       .mean = (float)json_number_value(mean),
                       .deviation = (float)json_number_value(deviation),
                       .step = (float)json_number_value(step)};
    if (!c->name) return MU_FAIL_NOMEM(err, s->file);
    if (!isfinite(c->mean) || !isfinite(c->deviation) || !isfinite(c->step) || c->deviation <= 0 ||
        c->step <= 0)
        return damaged(err);
    return match(s, c, err);
}

static mu_status take_columns(mu_reader *r, struct series *s, const json_t *learnt, mu_err *err) {
    const json_t *list = json_object_get(learnt, "columns"), *target = json_object_get(learnt, "target");
    const size_t n = json_array_size(list);
    if (!n || n > MU_SERIES_COLUMNS || !json_is_integer(target) || json_integer_value(target) < 0 ||
        json_integer_value(target) >= (json_int_t)n)
        return damaged(err);
    s->header = json_is_true(json_object_get(learnt, "header"));
    s->target_at = (size_t)json_integer_value(target);
    s->column = mu_arena_array(r->arena, n, sizeof *s->column);
    if (!s->column) return MU_FAIL_NOMEM(err, s->file);
    for (; s->n_used < n; s->n_used++)
        MU_TRY(take_column(r, s, &s->column[s->n_used], json_array_get(list, s->n_used), err));
    return MU_OK;
}

static mu_status tell(const mu_reader *r, json_t *out, mu_err *err) {
    const struct series *s = r->state;
    json_t *list = json_array();
    int wrong = json_object_set_new(out, "columns", list);
    wrong |= json_object_set_new(out, "target", json_integer((json_int_t)s->target_at)) |
             json_object_set_new(out, "header", json_boolean(s->header));
    for (size_t i = 0; !wrong && i < s->n_used; i++) {
        const used_column *c = &s->column[i];
        wrong |=
            json_array_append_new(list, json_pack("{s:s, s:I, s:f, s:f, s:f}", "name", c->name, "place",
                                                  (json_int_t)c->place, "mean", (double)c->mean, "deviation",
                                                  (double)c->deviation, "step", (double)c->step));
    }
    return wrong ? MU_FAIL_NOMEM(err, "the columns of the series") : MU_OK;
}

// ---- records ----

// Turns all rows into standardised numbers: a record is then a copy.
static mu_status standardise(mu_reader *r, struct series *s, mu_err *err) {
    const size_t n = s->s.n_rows;
    s->value = mu_alloc_array(n, s->n_used * sizeof *s->value, "read/series");
    s->change = mu_arena_array(r->arena, ((size_t)s->window - 1) * s->n_used, sizeof *s->change);
    if (!s->value || !s->change) return MU_FAIL_NOMEM(err, s->file);
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < s->n_used; k++) {
            const used_column *c = &s->column[k];
            const double v = (mu_series_at(&s->s, i, c->at) - (double)c->mean) / (double)c->deviation;
            float *to = &s->value[i * s->n_used + k];
            *to = (float)v;
            if (!isfinite(*to))
                return MU_FAIL(err, MU_EDATA, "`%s` line %" PRId64 ": column `%s` has a too large number",
                               s->file, s->s.line[i], c->name);
        }
    mu_free(s->s.value);
    s->s.value = NULL;
    return MU_OK;
}

// Which windows: those whose answers (without a target: whose last rows) are rows [first, last) of the file.
static mu_status lay_out(mu_reader *r, struct series *s, int64_t first, int64_t last, mu_err *err) {
    const int64_t reach = s->labelled ? s->ahead : 0, least = s->window - 1;
    s->first_end = first - reach > least ? first - reach : least;
    r->n_records = last - reach - s->first_end;
    if (r->n_records > 0) return MU_OK;
    r->n_records = 0;
    return mu_err_hinted(MU_FAIL(err, MU_EDATA,
                                 "`%s` is too short: %" PRId64 " rows from %g to %g, and a window "
                                 "of %" PRId64 " with the answer %" PRId64 " ahead needs %" PRId64,
                                 s->file, last > first ? last - first : 0, s->from, s->to, s->window,
                                 s->ahead, s->window + reach),
                         err, "Use a smaller `window`, or more rows.");
}

// What a person should know of the training data.
static void say(const struct series *s) {
    const mu_series *f = &s->s;
    if (f->turned) mu_info("`%s` begins with its newest row: it is read from the end", s->file);
    if (f->disorder)
        mu_warn("`%s` line %" PRId64
                ": its date is not after the one before; rows count in the order of the file",
                s->file, f->disorder);
    for (size_t i = 0; i < f->n_columns; i++) {
        const mu_series_column *c = &f->column[i];
        if (c->kind == MU_SERIES_TEXT)
            mu_info("column `%s` is left out: `%s` in line %" PRId64 " is no number", c->name,
                    c->odd ? c->odd : "", c->odd_line);
        if (c->kind == MU_SERIES_TIME) mu_debug("column `%s` is the time", c->name);
        if (c->kind == MU_SERIES_NUMBER && c->n_gaps)
            mu_info("%" PRId64 " gaps in column `%s` are filled by the value before", c->n_gaps, c->name);
    }
}

static mu_status learn(mu_reader *r, struct series *s, int64_t first, int64_t last, mu_err *err) {
    if (r->known && r->known->learnt) {
        s->from_model = true;
        return take_columns(r, s, r->known->learnt, err);
    }
    MU_TRY(find_columns(r, s, err));
    if (last - first < 2) return lay_out(r, s, first, first, err);
    for (size_t i = 0; i < s->n_used; i++) MU_TRY(learn_column(s, &s->column[i], first, last, err));
    say(s);
    return MU_OK;
}

// Rows from an answer back to the last one known at the same time of a season.
static int64_t seasons(const struct series *s) {
    return s->season ? (s->ahead + s->season - 1) / s->season * s->season : s->ahead;
}

static mu_status check_keys(const mu_reader *r, const struct series *s, mu_err *err) {
    if (s->to <= s->from)
        return MU_FAIL_AT(err, MU_EJOB, r->pos, "`from` %g is not before `to` %g", s->from, s->to);
    if (seasons(s) > s->window - 1 + s->ahead)
        return MU_FAIL_AT(err, MU_EJOB, r->pos,
                          "`season` %" PRId64 " is longer than `window` %" PRId64 " reaches back", s->season,
                          s->window);
    return MU_OK;
}

static mu_status open_series(mu_reader *r, mu_err *err) {
    struct series *s = r->state;
    if (!s->target) s->target = "last";
    MU_TRY(check_keys(r, s, err));
    MU_TRY(mu_series_load(&s->s, r->arena, s->file, s->missing, err));
    const double rows = (double)s->s.n_rows;
    const int64_t first = (int64_t)(s->from * rows), last = (int64_t)(s->to * rows);
    s->labelled = strcmp(s->target, "none") != 0;
    MU_TRY(learn(r, s, first, last, err));
    MU_TRY(lay_out(r, s, first, last, err));
    MU_TRY(standardise(r, s, err));
    const int64_t n = (int64_t)s->n_used;
    r->target_unit = (mu_data_unit){s->column[s->target_at].mean, s->column[s->target_at].deviation};
    r->field[r->n_fields++] =
        (mu_data_field){.name = "series", .shape = MU_SHAPE(s->window, n), .store = MU_STORE_F32};
    r->field[r->n_fields++] =
        (mu_data_field){.name = "change", .shape = MU_SHAPE(s->window - 1, n), .store = MU_STORE_F32};
    r->field[r->n_fields++] = (mu_data_field){.name = "naive", .shape = MU_SHAPE(1), .store = MU_STORE_F32};
    if (s->labelled)
        r->field[r->n_fields++] =
            (mu_data_field){.name = "target", .shape = MU_SHAPE(1), .store = MU_STORE_F32};
    return MU_OK;
}

static mu_status read_series(mu_reader *r, int64_t index, mu_record *out, MU_UNUSED mu_err *err) {
    struct series *s = r->state;
    const size_t n = s->n_used;
    const int64_t end = s->first_end + index, t = end + s->ahead;
    const float *window = s->value + (size_t)(end - s->window + 1) * n;
    for (size_t i = 0; i < ((size_t)s->window - 1) * n; i++) {
        const used_column *c = &s->column[i % n];
        s->change[i] = (window[i + n] - window[i]) * (c->deviation / c->step);
    }
    s->naive = s->value[(size_t)(t - seasons(s)) * n + s->target_at];
    out->field[0] = window;
    out->field[1] = s->change;
    out->field[2] = &s->naive;
    if (!s->labelled) return MU_OK;
    s->answer = s->value[(size_t)t * n + s->target_at];
    out->field[3] = &s->answer;
    return MU_OK;
}

static void describe(const mu_reader *r, int64_t index, char *out, size_t size) {
    const struct series *s = r->state;
    snprintf(out, size, "`%s`, %" PRId64 " after line %" PRId64, s->file, s->ahead,
             s->s.line[s->first_end + index]);
}

static void close_series(mu_reader *r) {
    struct series *s = r->state;
    mu_series_fini(&s->s);
    mu_free(s->value);
    s->value = NULL;
}

static const char *const names_training[] = {"from", "to", NULL};
static const mu_reader_ask ask = {.file = "file",
                                  .unlabelled = "target",
                                  .unlabelled_value = "none",
                                  .answers_beyond = true,
                                  .names_training = names_training};

const mu_reader_class mu_reader_series = {
    .name = "series",
    .help = "columns over time, in windows; fields: series, change, naive, target (a number)",
    .fields = fields,
    .state_size = sizeof(struct series),
    .open = open_series,
    .read = read_series,
    .describe = describe,
    .close = close_series,
    .tell = tell,
    .ask = &ask,
};
