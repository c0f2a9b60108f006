// SPDX-License-Identifier: Apache-2.0
// series.c - see series.h. One pass over the rows; what a column is shows at the end.
#include "read/series.h"

#include "file/dates.h"
#include "read/table.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

// ---- rows ----

static mu_status start_columns(mu_series *s, const mu_csv_row *row, mu_err *err) {
    if (row->n > MU_SERIES_COLUMNS)
        return MU_FAIL(err, MU_EDATA, "`%s` has %zu columns, a series at most %d", s->file, row->n,
                       MU_SERIES_COLUMNS);
    s->column = mu_arena_array(s->arena, row->n, sizeof *s->column);
    s->first = mu_arena_array(s->arena, row->n, sizeof *s->first);
    if (!s->column || !s->first) return MU_FAIL_NOMEM(err, s->file);
    s->n_columns = row->n;
    s->first_line = row->line;
    for (size_t i = 0; i < row->n; i++)
        if (!(s->first[i] = mu_arena_strdup(s->arena, mu_csv_column(row, i))))
            return MU_FAIL_NOMEM(err, s->file);
    return MU_OK;
}

static bool is_missing(const mu_series *s, const char *text) {
    return mu_table_missing(&(mu_table){.missing = s->missing}, text);
}

static mu_status add_value(mu_series *s, mu_series_column *c, const char *text, int64_t line, double *out,
                           mu_err *err) {
    *out = NAN;
    if (is_missing(s, text)) {
        c->n_gaps++;
        return MU_OK;
    }
    c->n_values++;
    if (mu_table_number(text, out)) c->n_numbers++;
    else if (mu_date_parse(text, out)) c->n_dates++;
    else if (!c->odd) {
        char word[MU_TABLE_WORD_SIZE];
        mu_table_word(text, word);
        c->odd_line = line;
        if (!(c->odd = mu_arena_strdup(s->arena, word))) return MU_FAIL_NOMEM(err, s->file);
    }
    return MU_OK;
}

// text: of each column of the row.
static mu_status add_row(mu_series *s, const char *const *text, const mu_csv_row *row, int64_t line,
                         mu_err *err) {
    const size_t n = s->n_columns;
    if (!mu_csv_reserve((void **)&s->value, &s->cap_values, (s->n_rows + 1) * n, sizeof *s->value) ||
        !mu_csv_reserve((void **)&s->line, &s->cap_lines, s->n_rows + 1, sizeof *s->line))
        return MU_FAIL_NOMEM(err, s->file);
    for (size_t i = 0; i < n; i++)
        MU_TRY(add_value(s, &s->column[i], text ? text[i] : mu_csv_column(row, i), line,
                         &s->value[s->n_rows * n + i], err));
    s->line[s->n_rows++] = line;
    return MU_OK;
}

// Names are words where the rows below have numbers; a first row with a number or a date in it is no header.
static bool is_header(const mu_series *s) {
    bool words = false;
    for (size_t i = 0; i < s->n_columns; i++) {
        double v;
        if (mu_table_number(s->first[i], &v) || mu_date_parse(s->first[i], &v)) return false;
        words |= !is_missing(s, s->first[i]);
    }
    return words;
}

static mu_status use_row(void *ctx, const mu_csv_row *row, mu_err *err) {
    mu_series *s = ctx;
    if (!s->n_columns) {
        MU_TRY(start_columns(s, row, err));
        s->header = is_header(s);
        return s->header ? MU_OK : add_row(s, s->first, NULL, s->first_line, err);
    }
    if (row->n != s->n_columns)
        return mu_err_hinted(MU_FAIL(err, MU_EDATA,
                                     "`%s` line %" PRId64 " has %zu columns, the first row %zu", s->file,
                                     row->line, row->n, s->n_columns),
                             err, "A value that is not known is an empty cell.");
    return add_row(s, NULL, row, row->line, err);
}

// ---- columns ----

static mu_status name_columns(mu_series *s, mu_err *err) {
    for (size_t i = 0; i < s->n_columns; i++) {
        char word[MU_TABLE_WORD_SIZE] = "";
        if (s->header) mu_table_word(s->first[i], word);
        s->column[i].name =
            word[0] ? mu_arena_strdup(s->arena, word) : mu_arena_printf(s->arena, "column %zu", i);
        if (!s->column[i].name) return MU_FAIL_NOMEM(err, s->file);
    }
    return MU_OK;
}

// Rounded numbers, such as 1949.083 for a month, have nearly even steps.
static bool rises_evenly(const mu_series *s, size_t column) {
    if (s->n_rows < 4 || s->column[column].n_gaps) return false;
    const double step =
        (mu_series_at(s, s->n_rows - 1, column) - mu_series_at(s, 0, column)) / (double)(s->n_rows - 1);
    for (size_t i = 1; i < s->n_rows; i++) {
        const double own = mu_series_at(s, i, column) - mu_series_at(s, i - 1, column);
        if (step <= 0 || fabs(own - step) > 0.1 * step) return false;
    }
    return true;
}

static size_t decide_kinds(mu_series *s) {
    size_t n_numbers = 0;
    for (size_t i = 0; i < s->n_columns; i++) {
        mu_series_column *c = &s->column[i];
        c->kind = !c->n_values                  ? MU_SERIES_EMPTY
                  : c->n_numbers == c->n_values ? MU_SERIES_NUMBER
                  : c->n_dates == c->n_values   ? MU_SERIES_TIME
                                                : MU_SERIES_TEXT;
        n_numbers += c->kind == MU_SERIES_NUMBER;
    }
    if (n_numbers > 1 && s->column[0].kind == MU_SERIES_NUMBER && rises_evenly(s, 0))
        s->column[0].kind = MU_SERIES_TIME, n_numbers--;
    return n_numbers;
}

static void swap_rows(mu_series *s, size_t a, size_t b) {
    const int64_t line = s->line[a];
    s->line[a] = s->line[b], s->line[b] = line;
    for (size_t i = 0; i < s->n_columns; i++) {
        double *x = &s->value[a * s->n_columns + i], *y = &s->value[b * s->n_columns + i], keep = *x;
        *x = *y, *y = keep;
    }
}

// The first column of dates says which end is the beginning.
static void order_rows(mu_series *s) {
    size_t at = 0, falls = 0, first_fall = 0;
    while (at < s->n_columns && !(s->column[at].kind == MU_SERIES_TIME && s->column[at].n_dates)) at++;
    if (at == s->n_columns || s->column[at].n_gaps) return;
    for (size_t i = 1; i < s->n_rows; i++) {
        const bool fall = mu_series_at(s, i, at) <= mu_series_at(s, i - 1, at);
        if (fall && !falls++) first_fall = i;
    }
    s->turned = s->n_rows > 1 && falls == s->n_rows - 1;
    if (!s->turned && falls) s->disorder = s->line[first_fall];
    for (size_t i = 0; s->turned && i < s->n_rows / 2; i++) swap_rows(s, i, s->n_rows - 1 - i);
}

static void fill_gaps(mu_series *s, size_t column) {
    double now = NAN;
    for (size_t i = 0; i < s->n_rows && isnan(now); i++) now = mu_series_at(s, i, column);
    for (size_t i = 0; i < s->n_rows; i++) {
        double *v = &s->value[i * s->n_columns + column];
        if (isnan(*v)) *v = now;
        now = *v;
    }
}

mu_status mu_series_load(mu_series *s, mu_arena *arena, const char *file, mu_strings missing, mu_err *err) {
    *s = (mu_series){.arena = arena, .file = file, .missing = missing};
    mu_infile in = {0};
    MU_TRY(mu_infile_open(&in, file, err));
    mu_status st = mu_infile_load(&in, err);
    if (st == MU_OK) st = mu_csv_parse(&in, mu_table_separator(&in), use_row, s, err);
    mu_infile_close(&in);
    MU_TRY(st);
    if (!s->n_rows) return MU_FAIL(err, MU_EDATA, "`%s` holds no rows", file);
    MU_TRY(name_columns(s, err));
    if (!decide_kinds(s))
        return mu_err_hinted(MU_FAIL(err, MU_EDATA, "`%s` has no column of numbers", file), err,
                             "Words that mean a missing value stand in `missing`.");
    order_rows(s);
    for (size_t i = 0; i < s->n_columns; i++)
        if (s->column[i].kind == MU_SERIES_NUMBER) fill_gaps(s, i);
    return MU_OK;
}

void mu_series_fini(mu_series *s) {
    mu_free(s->value);
    mu_free(s->line);
    s->value = NULL, s->line = NULL;
}

int64_t mu_series_find(const mu_series *s, const char *word) {
    for (size_t i = 0; s->header && i < s->n_columns; i++)
        if (!strcmp(s->column[i].name, word)) return (int64_t)i;
    char *end;
    const long number = strtol(word, &end, 10);
    if (word[0] >= '0' && word[0] <= '9' && !*end && number < (long)s->n_columns) return number;
    for (size_t i = s->n_columns; !strcmp(word, "last") && i-- > 0;)
        if (s->column[i].kind == MU_SERIES_NUMBER) return (int64_t)i;
    return -1;
}

mu_status mu_series_no_column(const mu_series *s, const char *key, const char *word, mu_err *err) {
    const int64_t at = mu_series_find(s, word);
    const mu_series_column *c = at >= 0 ? &s->column[at] : NULL;
    if (c && c->odd)
        return mu_err_hinted(MU_FAIL(err, MU_EDATA,
                                     "`%s` line %" PRId64 ": `%s` in column `%s` is no number, as "
                                     "`%s` needs",
                                     s->file, c->odd_line, c->odd, c->name, key),
                             err, "Words that mean a missing value stand in `missing`.");
    if (c)
        return MU_FAIL(err, MU_EDATA, "column `%s` of `%s` has no numbers for `%s`", c->name, s->file, key);
    const char *names[256];
    size_t n = 0;
    for (; n < s->n_columns && n < MU_COUNT(names); n++) names[n] = s->column[n].name;
    MU_FAIL(err, MU_EDATA, "`%s` has no column `%s` for `%s`", s->file, word, key);
    const char *near = s->header ? mu_nearest(word, names, n) : NULL;
    if (near) return mu_err_suggest(MU_EDATA, err, "", near);
    return mu_err_hinted(MU_EDATA, err,
                         "A column is asked for by its name in the first row, its number from 0, "
                         "or `last`.");
}
