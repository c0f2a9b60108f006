// SPDX-License-Identifier: Apache-2.0
// table_learn.c - see table.h: one pass over a file tells the kind of each column and its statistics.
//
// Whether the first row names the columns shows only when the others are known: it does if none of its values
// is a number, and it differs from its columns (one of them holds numbers, or none has the word of the first
// row again).
#include "read/table.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- the separator ----

enum { LOOKED_AT = 20 }; // lines

// How often each separator stands in the line at `at`, outside of quotes; returns where the next line begins.
static const char *count_in_line(const char *at, const char *end, const char *marks, size_t count[]) {
    bool quoted = false;
    for (; at < end && (quoted || (*at != '\n' && *at != '\r')); at++) {
        const char *mark = *at ? strchr(marks, *at) : NULL;
        quoted ^= *at == '"';
        if (mark && !quoted) count[mark - marks]++;
    }
    while (at < end && (*at == '\n' || *at == '\r')) at++;
    return at;
}

char mu_table_separator(const mu_infile *in) {
    static const char marks[] = ",;\t|";
    size_t first[4] = {0}, best = 0;
    bool even[4] = {true, true, true, true};
    const char *at = (const char *)in->mem, *end = at + in->size;
    at = count_in_line(at, end, marks, first);
    for (int line = 1; line < LOOKED_AT && at < end; line++) {
        size_t count[4] = {0};
        at = count_in_line(at, end, marks, count);
        for (size_t i = 0; i < 4; i++) even[i] &= count[i] == first[i];
    }
    for (size_t i = 1; i < 4; i++) {
        const bool better =
            even[i] == even[best] || !first[i] || !first[best] ? first[i] > first[best] : even[i];
        if (better) best = i;
    }
    return marks[best];
}

// ---- one value ----

static void learn_number(mu_table_column *c, double v) {
    if (!c->n_numbers++) c->least = c->most = v;
    if (v < c->least) c->least = v;
    if (v > c->most) c->most = v;
    c->n_whole += v == nearbyint(v);
    const double off = v - c->sum_mean;
    c->sum_mean += off / (double)c->n_numbers;
    c->sum_squares += off * (v - c->sum_mean);
}

static mu_status learn_word(mu_table_column *c, const char *text, mu_err *err) {
    char word[MU_TABLE_WORD_SIZE];
    int32_t id;
    c->long_words |= strlen(text) > MU_TABLE_WORD_BYTES;
    mu_table_word(text, word);
    if (c->words.n > MU_TABLE_WORDS) return MU_OK;
    MU_TRY(mu_labels_add(&c->words, word, strlen(word), &id, err));
    const size_t cap = c->cap_count;
    if (!mu_csv_reserve((void **)&c->count, &c->cap_count, c->words.n, sizeof *c->count))
        return MU_FAIL_NOMEM(err, "the words of a column");
    if (c->cap_count > cap) memset(c->count + cap, 0, (c->cap_count - cap) * sizeof *c->count);
    c->count[id]++;
    return MU_OK;
}

static mu_status learn_value(mu_table *t, mu_table_column *c, const char *text, int64_t line, mu_err *err) {
    if (mu_table_missing(t, text)) {
        c->n_gaps++;
        return MU_OK;
    }
    double v;
    c->n_values++;
    if (mu_table_number(text, &v)) learn_number(c, v);
    else if (!c->odd) {
        char word[MU_TABLE_WORD_SIZE];
        mu_table_word(text, word);
        c->odd = mu_arena_strdup(t->arena, word);
        c->odd_line = line;
        if (!c->odd) return MU_FAIL_NOMEM(err, t->file);
    }
    return learn_word(c, text, err);
}

// ---- rows ----

static mu_status start_columns(mu_table *t, const mu_csv_row *row, mu_err *err) {
    if (row->n > MU_TABLE_COLUMNS)
        return mu_err_hinted(MU_FAIL(err, MU_EDATA, "`%s` has %zu columns, a table at most %d", t->file,
                                     row->n, MU_TABLE_COLUMNS),
                             err, "Reader `csv` takes more, if all of them are numbers.");
    t->first = mu_arena_array(t->arena, row->n, sizeof *t->first);
    t->column = mu_arena_array(t->arena, row->n, sizeof *t->column);
    if (!t->first || !t->column) return MU_FAIL_NOMEM(err, t->file);
    t->n_columns = t->n_known = row->n;
    t->first_line = row->line;
    for (size_t i = 0; i < row->n; i++) {
        t->column[i].place = (int64_t)i;
        mu_labels_init(&t->column[i].words, t->arena);
        mu_vocab_init(&t->column[i].vocab, t->arena);
        if (!(t->first[i] = mu_arena_strdup(t->arena, mu_csv_column(row, i))))
            return MU_FAIL_NOMEM(err, t->file);
    }
    return MU_OK;
}

static mu_status learn_row(void *ctx, const mu_csv_row *row, mu_err *err) {
    mu_table *t = ctx;
    if (!t->n_columns) return start_columns(t, row, err);
    if (row->n != t->n_columns) return MU_OK;
    t->n_rows++;
    for (size_t i = 0; i < row->n; i++)
        MU_TRY(learn_value(t, &t->column[i], mu_csv_column(row, i), row->line, err));
    return MU_OK;
}

static mu_status learn_first_row(mu_table *t, mu_err *err) {
    t->n_rows++;
    for (size_t i = 0; i < t->n_columns; i++)
        MU_TRY(learn_value(t, &t->column[i], t->first[i], t->first_line, err));
    return MU_OK;
}

static bool is_header(const mu_table *t, const mu_table_options *o) {
    if (o->header) return o->header == 1;
    bool numbers_below = false, again = false, words = false, by_name = false;
    for (size_t i = 0; i < t->n_columns; i++) {
        const mu_table_column *c = &t->column[i];
        double v;
        if (mu_table_number(t->first[i], &v)) return false;
        by_name |= !strcmp(t->first[i], o->label);
        char word[MU_TABLE_WORD_SIZE];
        mu_table_word(t->first[i], word);
        words |= word[0] != '\0';
        numbers_below |= c->n_values && c->n_numbers == c->n_values && !mu_table_missing(t, t->first[i]);
        again |= mu_labels_find(&c->words, word, strlen(word)) >= 0;
    }
    return by_name || (words && (numbers_below || !again));
}

// ---- columns that are asked for ----

static mu_status name_columns(mu_table *t, mu_err *err) {
    for (size_t i = 0; i < t->n_columns; i++) {
        char word[MU_TABLE_WORD_SIZE] = "";
        if (t->header) mu_table_word(t->first[i], word);
        t->column[i].name =
            word[0] ? mu_arena_strdup(t->arena, word) : mu_arena_printf(t->arena, "column %zu", i);
        if (!t->column[i].name) return MU_FAIL_NOMEM(err, t->file);
    }
    return MU_OK;
}

// By name, else by number; NULL = none.
static mu_table_column *find_column(mu_table *t, const char *word) {
    for (size_t i = 0; t->header && i < t->n_columns; i++)
        if (!strcmp(t->column[i].name, word)) return &t->column[i];
    char *end;
    const long number = strtol(word, &end, 10);
    return word[0] >= '0' && word[0] <= '9' && !*end && number < (long)t->n_columns ? &t->column[number]
                                                                                    : NULL;
}

static mu_status no_column(mu_table *t, const char *key, const char *word, mu_err *err) {
    const char *names[256];
    size_t n = 0;
    for (; n < t->n_columns && n < MU_COUNT(names); n++) names[n] = t->column[n].name;
    MU_FAIL(err, MU_EDATA, "`%s` has no column `%s` for `%s` in its %zu columns%s", t->file, word, key,
            t->n_columns, t->header ? "" : ", which have no names");
    const char *near = t->header ? mu_nearest(word, names, n) : NULL;
    if (near) return mu_err_suggest(MU_EDATA, err, "", near);
    return mu_err_hinted(MU_EDATA, err,
                         "A column is asked for by its name in the first row, or its number from 0.");
}

static mu_status find_label(mu_table *t, const mu_table_options *o, mu_err *err) {
    t->label = -1;
    if (!strcmp(o->label, "none")) return MU_OK;
    mu_table_column *c = find_column(t, o->label);
    if (!c && !strcmp(o->label, "last")) c = &t->column[t->n_columns - 1];
    if (!c) return no_column(t, "label", o->label, err);
    c->kind = MU_TABLE_LABEL;
    t->label = c->place;
    return MU_OK;
}

// ---- kinds ----

typedef struct entry {
    const char *text;
    double value;
    bool number;
    int32_t id;
} entry;

// Numbers by value before words by their bytes.
static int by_value(const void *a, const void *b) {
    const entry *x = a, *y = b;
    if (x->number != y->number) return x->number ? -1 : 1;
    if (x->number && x->value != y->value) return x->value < y->value ? -1 : 1;
    return strcmp(x->text, y->text);
}

static mu_status order_words(mu_table *t, mu_table_column *c, mu_err *err) {
    const size_t n = c->words.n;
    entry *list = mu_alloc_array(n + 1, sizeof *list, "read/table");
    const char **word = mu_arena_array(t->arena, n + 1, sizeof *word);
    c->rank = mu_arena_array(t->arena, n + 1, sizeof *c->rank);
    const bool room = list && word && c->rank;
    for (size_t i = 0; room && i < n; i++) {
        list[i] = (entry){.text = c->words.text[i], .id = (int32_t)i};
        list[i].number = mu_table_number(list[i].text, &list[i].value);
    }
    if (room) qsort(list, n, sizeof *list, by_value);
    for (size_t i = 0; room && i < n; i++) {
        word[i] = list[i].text;
        c->rank[list[i].id] = (int32_t)i;
    }
    mu_free(list);
    c->word = word;
    c->n_words = n;
    return room ? MU_OK : MU_FAIL_NOMEM(err, "the words of a column");
}

static mu_status learn_shares(mu_table *t, mu_table_column *c, mu_err *err) {
    c->share = mu_arena_array(t->arena, c->n_words, sizeof *c->share);
    if (!c->share) return MU_FAIL_NOMEM(err, "the words of a column");
    for (size_t i = 0; i < c->words.n; i++)
        c->share[c->rank[i]] = (float)((double)c->count[i] / (double)c->n_values);
    return MU_OK;
}

static mu_status too_many(const mu_table *t, const mu_table_column *c, mu_err *err) {
    return MU_FAIL(err, MU_EDATA, "column `%s` of `%s` has more than %d different words", c->name, t->file,
                   MU_TABLE_WORDS);
}

static mu_status decide_kind(mu_table *t, mu_table_column *c, bool forced, mu_err *err) {
    if (mu_table_kept(c) && c->kind != MU_TABLE_NUMBER) return MU_OK; // the label, and columns asked for
    if (c->kind == MU_TABLE_IGNORED) return MU_OK;
    if (forced && c->words.n > MU_TABLE_WORDS) return too_many(t, c, err);
    const int64_t words = (int64_t)c->words.n;
    if (!c->n_values) c->kind = MU_TABLE_EMPTY;
    else if (forced) c->kind = MU_TABLE_CATEGORY;
    else if (c->n_numbers == c->n_values) c->kind = MU_TABLE_NUMBER;
    else if (words <= MU_TABLE_CATEGORIES && 2 * words <= t->n_rows && !c->long_words)
        c->kind = MU_TABLE_CATEGORY;
    else c->kind = MU_TABLE_TEXT;
    if (c->kind != MU_TABLE_CATEGORY) return MU_OK;
    MU_TRY(order_words(t, c, err));
    return learn_shares(t, c, err);
}

// Floats, because a model keeps floats: training and prediction then compute the same.
static void finish_numbers(mu_table_column *c) {
    if (!c->n_numbers) return;
    c->mean = (float)c->sum_mean;
    c->deviation = c->least == c->most ? 0 : (float)sqrt(c->sum_squares / (double)c->n_numbers);
}

static mu_status decide_target(mu_table *t, const mu_table_options *o, mu_err *err) {
    if (t->label < 0) return MU_OK;
    mu_table_column *c = &t->column[t->label];
    if (!c->n_values) return MU_FAIL(err, MU_EDATA, "label column `%s` of `%s` is empty", c->name, t->file);
    const bool numbers = c->n_numbers == c->n_values;
    t->target = o->target;
    if (!t->target)
        t->target = numbers && (c->n_whole < c->n_numbers || c->words.n > MU_TABLE_CLASSES)
                        ? MU_TABLE_TARGET_NUMBER
                        : MU_TABLE_TARGET_CLASS;
    if (t->target == MU_TABLE_TARGET_NUMBER && !numbers)
        return mu_err_hinted(MU_FAIL(err, MU_EDATA,
                                     "`%s` line %" PRId64 ": `%s` in column `%s` is no finite number, "
                                     "as a target must be",
                                     t->file, c->odd_line, c->odd, c->name),
                             err, "Words that mean a missing value stand in `missing`.");
    if (t->target == MU_TABLE_TARGET_NUMBER) {
        if (c->deviation <= 0) c->deviation = 1; // the answer is then the mean
        return MU_OK;
    }
    if (c->words.n > MU_TABLE_WORDS) return too_many(t, c, err);
    return order_words(t, c, err);
}

static mu_status check_columns(const mu_table *t, const mu_table_options *o, mu_err *err) {
    int64_t width = 0;
    for (size_t i = 0; i < t->n_known; i++) {
        const mu_table_column *c = &t->column[i];
        width += mu_table_width(c) + (c->kind == MU_TABLE_NUMBER ? o->pieces : 0);
        if (!isfinite(c->mean) || !isfinite(c->deviation))
            return MU_FAIL(err, MU_EDATA, "column `%s` of `%s` has too large numbers", c->name, t->file);
        if (!t->header || !mu_table_kept(c)) continue;
        for (size_t k = 0; k < t->n_known; k++)
            if (k != i && !strcmp(t->column[k].name, c->name))
                return mu_err_hinted(
                    MU_FAIL(err, MU_EDATA, "two columns of `%s` are called `%s`", t->file, c->name), err,
                    "Rename one of them, or leave it out by its number: `ignore: [%zu]`.", k);
    }
    if (!width && !t->n_embedded && !t->n_sentences && !o->only_look)
        return mu_err_hinted(
            MU_FAIL(err, MU_EDATA, "`%s` has no columns of numbers or categories beside the label", t->file),
            err, "Columns of text are read where they are asked for: `text: [NAME]`.");
    if (width > MU_TABLE_PLACES)
        return MU_FAIL(err, MU_EDATA,
                       "the columns of `%s` make %" PRId64 " features, at most %d are possible", t->file,
                       width, MU_TABLE_PLACES);
    return MU_OK;
}

// Columns that are asked for by `key` become `kind`. `n` counts them; NULL = nobody asks.
static mu_status ask_for(mu_table *t, const char *key, mu_strings names, mu_table_kind kind, size_t *n,
                         mu_err *err) {
    for (size_t i = 0; i < names.n; i++) {
        mu_table_column *c = find_column(t, names.v[i]);
        if (!c) return no_column(t, key, names.v[i], err);
        if (c->kind == kind) continue; // named twice
        if (c->kind != MU_TABLE_NUMBER) // which is where every column begins
            return MU_FAIL(err, MU_EDATA, "column `%s` of `%s` is both %s and %s", c->name, t->file,
                           c->kind == MU_TABLE_LABEL ? "the label" : mu_table_kind_names[c->kind],
                           mu_table_kind_names[kind]);
        c->kind = kind;
        if (n) ++*n;
    }
    return MU_OK;
}

static mu_status decide(mu_table *t, const mu_table_options *o, mu_err *err) {
    MU_TRY(name_columns(t, err));
    MU_TRY(find_label(t, o, err));
    MU_TRY(ask_for(t, "ignore", o->ignore, MU_TABLE_IGNORED, NULL, err));
    MU_TRY(ask_for(t, "embed", o->embed, MU_TABLE_EMBEDDED, &t->n_embedded, err));
    MU_TRY(ask_for(t, "text", o->text, MU_TABLE_SENTENCES, &t->n_sentences, err));
    bool *forced = mu_arena_array(t->arena, t->n_columns, sizeof *forced);
    if (!forced) return MU_FAIL_NOMEM(err, t->file);
    for (size_t i = 0; i < o->categorical.n; i++) {
        const mu_table_column *c = find_column(t, o->categorical.v[i]);
        if (!c) return no_column(t, "categorical", o->categorical.v[i], err);
        forced[c->place] = true;
    }
    for (size_t i = 0; i < t->n_columns; i++) {
        finish_numbers(&t->column[i]);
        MU_TRY(decide_kind(t, &t->column[i], forced[i], err));
    }
    MU_TRY(decide_target(t, o, err));
    return check_columns(t, o, err);
}

mu_status mu_table_learn(mu_table *t, const mu_infile *in, char separator, const mu_table_options *o,
                         mu_err *err) {
    MU_TRY(mu_csv_parse(in, separator, learn_row, t, err));
    if (t->n_columns) t->header = is_header(t, o);
    if (t->n_columns && !t->header) MU_TRY(learn_first_row(t, err));
    if (!t->n_rows) return MU_FAIL(err, MU_EDATA, "`%s` holds no rows", t->file);
    MU_TRY(decide(t, o, err));
    MU_TRY(mu_table_learn_pieces(t, in, separator, o->pieces, err));
    return mu_table_learn_words(t, in, separator, o, err);
}
