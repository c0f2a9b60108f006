// SPDX-License-Identifier: Apache-2.0
// r_table.c - a table as people have it: numbers, categories, gaps, names and texts in between.
//
//   features   = columns of numbers and categories in the order of the training file, as read/table.h says
//   categories = word numbers of the columns in `embed`, one a column
//   words      = word numbers of the columns in `text`, as one text; 0 fills it up
//   label      = the class, or target (1) = the number to be predicted, standardised like the features
//
// The file is read twice: the first pass learns kinds and statistics (or a model gives them), the second
// turns rows into numbers. A row is kept as one number a column, and spread over its places when it is read.
// Data of a model is matched by the names of its columns where it has a header, otherwise by their places.
//
// Training rows without a label are left out. For a model they are bad records, because a prediction must not
// lose rows. So are rows with another number of columns and words where the model has numbers.
#include "read/reader.h"
#include "base/log.h"
#include "read/table.h"
#include "file/infile.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

typedef enum fault { GOOD, FAULT_COLUMNS, FAULT_NUMBER, FAULT_NO_LABEL, FAULT_LABEL } fault;

typedef struct table_row {
    int64_t line;          // in the file, from 1
    int64_t first;         // its values start at values[first]
    int32_t fault, column; // why it is bad; of FAULT_NUMBER the index in the table's columns
    int32_t label;         // class
    float target;          // standardised
    int64_t first_word;    // of its text, in words
    int32_t n_words;
} table_row;

struct table {
    const char *file, *separator, *label;
    int header, target; // 0 auto
    mu_strings ignore, categorical, missing, embed, text;
    int64_t text_length, text_words, pieces;
    // private
    mu_table t;
    bool from_model, matched; // matched: the first row was looked at
    bool labelled;            // records have a label
    size_t n_columns;         // of a row of this file
    int64_t *at;              // [t.n_known] place of each column in this file
    float *values;  // of the good rows: standardised, NAN = gap; or place of the category; or word number
    int32_t *words; // of the good rows: their texts
    table_row *rows;
    size_t n_cells; // values of a row
    size_t n_rows, n_values, n_words, cap_rows, cap_values, cap_words, n_unlabelled;
    size_t n_unknown; // cells with a category that the training data does not have
    const char *unknown, *unknown_in; // the first one, and its column
    float *now; // one record
    int32_t *codes_now, *words_now;
    int32_t label_now;
    float target_now;
};

static const mu_field fields[] = {
    MU_FIELD(struct table, file, MU_PATH, NULL, NULL, "the file, plain or compressed"),
    MU_FIELD(struct table, label, MU_STRING, "last", NULL,
             "column that is to be predicted: its name, its number from 0, last, or none"),
    MU_FIELD_ENUM(struct table, target, "auto", "auto|class|number",
                  "what the label is; auto: words and up to 20 different whole numbers are classes"),
    MU_FIELD(struct table, separator, MU_STRING, "auto", NULL,
             "one character, tab, or auto: the one of , ; tab | that splits the first lines"),
    MU_FIELD_ENUM(struct table, header, "auto", "auto|yes|no", "whether the first row names the columns"),
    MU_FIELD(struct table, ignore, MU_STRINGS, "[]", NULL,
             "columns that are left out, by name or number from 0"),
    MU_FIELD(struct table, categorical, MU_STRINGS, "[]", NULL,
             "columns of categories, also where they are numbers or have many words"),
    MU_FIELD(struct table, pieces, MU_INT, "0", "[0,64]",
             "further places of a column of numbers: its range in pieces of equally many rows, for nets that "
             "predict numbers from few rows"),
    MU_FIELD(struct table, embed, MU_STRINGS, "[]", NULL,
             "columns of many words, given as word numbers in data.categories for the layer embedding"),
    MU_FIELD(struct table, text, MU_STRINGS, "[]", NULL,
             "columns of text, given as word numbers of one text in data.words; others are left out"),
    MU_FIELD(struct table, text_length, MU_INT, "0", "[0,65536]",
             "words of a text that are kept; 0 = as many as the longest of the training data has"),
    MU_FIELD(struct table, text_words, MU_INT, "20000", "[0,16M]",
             "words of texts that get a number, the most frequent ones; 0 = all"),
    MU_FIELD(
        struct table, missing, MU_STRINGS, "[]", NULL,
        "words for a missing value; left out: NA, N/A, nan, NaN, null, NULL, ?, - (an empty one always is)"),
    {0},
};

// ---- columns of this file ----

// Place of `name` in the row; -1 = none, -2 = two of them.
static int64_t find_name(const mu_csv_row *row, const char *name) {
    int64_t at = -1;
    char word[MU_TABLE_WORD_SIZE];
    for (size_t i = 0; i < row->n; i++) {
        mu_table_word(mu_csv_column(row, i), word);
        if (!strcmp(word, name)) at = at == -1 ? (int64_t)i : -2;
    }
    return at;
}

static bool names_columns(const struct table *s, const mu_csv_row *row) {
    if (s->header || !s->from_model) return s->header ? s->header == 1 : s->t.header;
    for (size_t i = 0; s->t.header && i < s->t.n_known; i++)
        if (find_name(row, s->t.column[i].name) != -1) return true;
    return false;
}

// A block with a label of its own means that one; `last` and numbers mean that of the training file.
static const char *label_name(const struct table *s, const mu_csv_row *row) {
    return find_name(row, s->label) >= 0 ? s->label : s->t.column[s->t.label].name;
}

static mu_status match_names(struct table *s, const mu_csv_row *row, mu_err *err) {
    for (size_t i = 0; i < s->t.n_known; i++) {
        const bool label = (int64_t)i == s->t.label;
        if (label && !s->labelled) continue;
        const char *name = label ? label_name(s, row) : s->t.column[i].name;
        s->at[i] = find_name(row, name);
        if (s->at[i] == -2)
            return MU_FAIL(err, MU_EDATA, "two columns of `%s` are called `%s`", s->file, name);
        if (s->at[i] >= 0) continue;
        return mu_err_hinted(
            MU_FAIL(err, MU_EDATA, "`%s` has no column `%s`, which the model %s", s->file, name,
                    label ? "predicts" : "reads"),
            err, label ? "Without it: `label: none`." : "Add it; cells that are not known stay empty.");
    }
    return MU_OK;
}

static mu_status match_places(struct table *s, const mu_csv_row *row, mu_err *err) {
    const int64_t n = (int64_t)s->t.n_columns, have = (int64_t)row->n, label = s->t.label;
    const int64_t gone = label >= 0 && !s->labelled && have == n - 1 ? s->t.column[label].place : n;
    if (have != n && gone == n)
        return mu_err_hinted(
            MU_FAIL(err, MU_EDATA, "`%s` has %" PRId64 " columns, the model's table %" PRId64, s->file, have,
                    n),
            err,
            s->t.header ? "Its first row names none of the model's columns."
                        : "Without names in a first row columns are told apart by their places.");
    for (size_t i = 0; i < s->t.n_known; i++) {
        const int64_t place = s->t.column[i].place;
        s->at[i] = place == gone ? -1 : place - (place > gone);
    }
    return MU_OK;
}

// ---- rows ----

static bool put_number(const mu_table_column *c, const char *text, float *out) {
    double v;
    if (!mu_table_number(text, &v)) return false;
    *out = c->deviation > 0 ? (float)((v - (double)c->mean) / (double)c->deviation) : 0;
    return isfinite(*out);
}

static float category_of(struct table *s, const mu_table_column *c, const char *text) {
    char word[MU_TABLE_WORD_SIZE];
    if (mu_table_missing(&s->t, text)) return NAN;
    mu_table_word(text, word);
    const int32_t place = mu_table_find(c, word);
    if (place >= 0) return (float)place;
    if (!s->n_unknown++) s->unknown = mu_arena_strdup(s->t.arena, word), s->unknown_in = c->name;
    return NAN;
}

static void put_label(struct table *s, const char *text, table_row *r) {
    const mu_table_column *c = &s->t.column[s->t.label];
    char word[MU_TABLE_WORD_SIZE];
    if (mu_table_missing(&s->t, text)) r->fault = FAULT_NO_LABEL;
    else if (s->t.target == MU_TABLE_TARGET_NUMBER) {
        if (!put_number(c, text, &r->target)) r->fault = FAULT_LABEL;
    } else {
        mu_table_word(text, word);
        r->label = mu_table_find(c, word);
        if (r->label < 0) r->fault = FAULT_LABEL;
    }
}

static void put_cell(struct table *s, const mu_table_column *c, const char *text, float **to, table_row *r) {
    if (c->kind == MU_TABLE_CATEGORY) *(*to)++ = category_of(s, c, text);
    else if (c->kind == MU_TABLE_EMBEDDED) *(*to)++ = (float)mu_table_code(&s->t, c, text);
    else if (mu_table_missing(&s->t, text)) *(*to)++ = NAN;
    else if (!put_number(c, text, (*to)++)) r->fault = FAULT_NUMBER;
}

static void put_row(struct table *s, const mu_csv_row *row, table_row *r) {
    float *to = s->values ? s->values + s->n_values : NULL; // without columns there is no memory
    int64_t n_words = 0;
    if (row->n != s->n_columns) r->fault = FAULT_COLUMNS;
    else if (s->labelled) put_label(s, mu_csv_column(row, (size_t)s->at[s->t.label]), r);
    for (size_t i = 0; !r->fault && i < s->t.n_known; i++) {
        const mu_table_column *c = &s->t.column[i];
        if (!mu_table_kept(c) || c->kind == MU_TABLE_LABEL) continue;
        const char *text = mu_csv_column(row, (size_t)s->at[i]);
        r->column = (int32_t)i;
        if (c->kind == MU_TABLE_SENTENCES) mu_table_sentence(&s->t, text, s->words + s->n_words, &n_words);
        else put_cell(s, c, text, &to, r);
    }
    if (r->fault) return;
    s->n_values += s->n_cells;
    r->first_word = (int64_t)s->n_words;
    r->n_words = (int32_t)n_words;
    s->n_words += (size_t)n_words;
}

static bool room_for_row(struct table *s) {
    return mu_csv_reserve((void **)&s->rows, &s->cap_rows, s->n_rows + 1, sizeof *s->rows) &&
           mu_csv_reserve((void **)&s->values, &s->cap_values, s->n_values + s->n_cells, sizeof *s->values) &&
           mu_csv_reserve((void **)&s->words, &s->cap_words, s->n_words + (size_t)s->t.text_length,
                          sizeof *s->words);
}

static mu_status use_row(void *ctx, const mu_csv_row *row, mu_err *err) {
    struct table *s = ctx;
    if (!s->matched) {
        const bool names = names_columns(s, row);
        s->matched = true;
        s->n_columns = row->n;
        MU_TRY(names && s->from_model && s->t.header ? match_names(s, row, err) : match_places(s, row, err));
        if (names) return MU_OK;
    }
    if (!room_for_row(s)) return MU_FAIL_NOMEM(err, s->file);
    table_row r = {.line = row->line, .first = (int64_t)s->n_values};
    put_row(s, row, &r);
    if (r.fault == FAULT_NO_LABEL && !s->from_model) s->n_unlabelled++;
    else s->rows[s->n_rows++] = r;
    return MU_OK;
}

// ---- the reader ----

// What a person should know of the training data, once it is learnt.
static void say_columns(const struct table *s) {
    const mu_table *t = &s->t;
    for (size_t i = 0; i < t->n_known; i++) {
        const mu_table_column *c = &t->column[i];
        if (c->kind == MU_TABLE_EMPTY) mu_info("column `%s` is left out: it is empty", c->name);
        if (c->kind != MU_TABLE_TEXT) continue;
        if (2 * c->n_numbers > c->n_values)
            mu_warn("column `%s` is left out: most of it is numbers, but not `%s` in line %" PRId64
                    "; `missing` names words for missing values",
                    c->name, c->odd, c->odd_line);
        else if (!t->header)
            mu_info("column `%s` is left out: it is text; `text: [%zu]` reads it", c->name, i);
        else mu_info("column `%s` is left out: it is text; `text: [%s]` reads it", c->name, c->name);
    }
    if (s->n_unlabelled) mu_warn("%zu rows of `%s` have no label and are left out", s->n_unlabelled, s->file);
}

static void say_unknown(const struct table *s) {
    if (!s->n_unknown) return;
    const char *first = s->unknown ? s->unknown : "";
    mu_info("`%s`: %zu %s a word that the training data does not have, first `%s` in column `%s`; it counts "
            "as a gap",
            s->file, s->n_unknown, s->n_unknown == 1 ? "cell has" : "cells have", first, s->unknown_in);
}

static mu_status check_separator(const mu_reader *r, const char *sep, mu_err *err) {
    if (!strcmp(sep, "auto") || !strcmp(sep, "tab") || (strlen(sep) == 1 && !strchr("\"\r\n", sep[0])))
        return MU_OK;
    return MU_FAIL_AT(err, MU_EJOB, r->pos,
                      "`separator` must be one character or one of the words tab and auto, "
                      "not `%s`",
                      sep);
}

static mu_status learn(mu_reader *r, struct table *s, const mu_infile *in, char separator, mu_err *err) {
    s->t.missing = s->missing;
    if (r->known && r->known->learnt) {
        s->from_model = true;
        return mu_table_take(&s->t, r->known->learnt, err);
    }
    const mu_table_options o = {.label = s->label,
                                .header = s->header,
                                .target = (mu_table_target)s->target,
                                .ignore = s->ignore,
                                .categorical = s->categorical,
                                .embed = s->embed,
                                .text = s->text,
                                .pieces = s->pieces,
                                .text_length = s->text_length,
                                .text_words = s->text_words};
    return mu_table_learn(&s->t, in, separator, &o, err);
}

static mu_status read_rows(mu_reader *r, struct table *s, mu_err *err) {
    mu_infile in = {0};
    MU_TRY(mu_infile_open(&in, s->file, err));
    mu_status st = mu_infile_load(&in, err);
    const char *sep = s->separator;
    const char separator =
        st != MU_OK || strcmp(sep, "auto") ? (!strcmp(sep, "tab") ? '\t' : sep[0]) : mu_table_separator(&in);
    if (st == MU_OK) st = learn(r, s, &in, separator, err);
    for (size_t i = 0; i < s->t.n_known; i++) s->n_cells += mu_table_used(&s->t.column[i]);
    s->n_cells += s->t.n_embedded;
    s->labelled = s->t.label >= 0 && strcmp(s->label, "none") != 0;
    if (st == MU_OK && !(s->at = mu_arena_array(r->arena, s->t.n_known, sizeof *s->at)))
        st = MU_FAIL_NOMEM(err, s->file);
    if (st == MU_OK) st = mu_csv_parse(&in, separator, use_row, s, err);
    mu_infile_close(&in);
    if (st == MU_OK && !s->n_rows) st = MU_FAIL(err, MU_EDATA, "`%s` holds no rows", s->file);
    return st;
}

// Room for one record, and the fields of the inputs.
static mu_status add_inputs(mu_reader *r, struct table *s, mu_err *err) {
    int64_t width = 0;
    for (size_t i = 0; i < s->t.n_known; i++) width += mu_table_width(&s->t.column[i]);
    if (width > MU_TABLE_PLACES || (!width && !s->t.n_embedded && !s->t.n_sentences))
        return MU_FAIL(err, MU_EMODEL, "the model's table has no features");
    s->now = mu_arena_array(r->arena, (size_t)width + 1, sizeof *s->now);
    s->codes_now = mu_arena_array(r->arena, s->t.n_embedded + 1, sizeof *s->codes_now);
    s->words_now = mu_arena_array(r->arena, (size_t)s->t.text_length + 1, sizeof *s->words_now);
    if (!s->now || !s->codes_now || !s->words_now) return MU_FAIL_NOMEM(err, "one record");
    if (width)
        r->field[r->n_fields++] =
            (mu_data_field){.name = "features", .shape = MU_SHAPE(width), .store = MU_STORE_F32};
    if (s->t.n_embedded)
        r->field[r->n_fields++] = (mu_data_field){.name = "categories",
                                                  .shape = MU_SHAPE((int64_t)s->t.n_embedded),
                                                  .store = MU_STORE_I32,
                                                  .n_classes = s->t.n_codes};
    if (s->t.n_sentences)
        r->field[r->n_fields++] = (mu_data_field){.name = "words",
                                                  .shape = MU_SHAPE(s->t.text_length),
                                                  .store = MU_STORE_I32,
                                                  .n_classes = s->t.text.n,
                                                  .names = s->t.text.text};
    return MU_OK;
}

static void add_label(mu_reader *r, const struct table *s) {
    const mu_table_column *label = s->t.label >= 0 ? &s->t.column[s->t.label] : NULL;
    const bool number = label && s->t.target == MU_TABLE_TARGET_NUMBER;
    if (label && !number) r->label_names = label->word, r->n_labels = (int64_t)label->n_words;
    if (number) r->target_unit = (mu_data_unit){label->mean, label->deviation};
    if (s->labelled && number)
        r->field[r->n_fields++] =
            (mu_data_field){.name = "target", .shape = MU_SHAPE(1), .store = MU_STORE_F32};
    else if (s->labelled) {
        r->field[r->n_fields] = mu_label_field(r->n_labels);
        r->field[r->n_fields++].names = r->label_names;
    }
}

static mu_status open_table(mu_reader *r, mu_err *err) {
    struct table *s = r->state;
    if (!s->separator) s->separator = "auto";
    if (!s->label) s->label = "last";
    MU_TRY(check_separator(r, s->separator, err));
    mu_table_init(&s->t, r->arena, s->file);
    MU_TRY(read_rows(r, s, err));
    if (!s->from_model) say_columns(s);
    else say_unknown(s);
    MU_TRY(add_inputs(r, s, err));
    add_label(r, s);
    r->n_records = (int64_t)s->n_rows;
    return MU_OK;
}

static mu_status fail_row(const struct table *s, const table_row *w, mu_err *err) {
    if (w->fault == FAULT_COLUMNS)
        return MU_FAIL(err, MU_EDATA,
                       "`%s` line %" PRId64 " has another number of columns than the first row, %zu", s->file,
                       w->line, s->n_columns);
    if (w->fault == FAULT_NUMBER)
        return mu_err_hinted(MU_FAIL(err, MU_EDATA, "`%s` line %" PRId64 ": column `%s` is no finite number",
                                     s->file, w->line, s->t.column[w->column].name),
                             err, "A cell that is not known stays empty.");
    const char *name = s->t.column[s->t.label].name;
    if (w->fault == FAULT_NO_LABEL)
        return mu_err_hinted(
            MU_FAIL(err, MU_EDATA, "`%s` line %" PRId64 ": label `%s` is missing", s->file, w->line, name),
            err, "With `label: none` rows are answered without their labels.");
    return MU_FAIL(err, MU_EDATA, "`%s` line %" PRId64 ": column `%s` is %s", s->file, w->line, name,
                   s->t.target == MU_TABLE_TARGET_NUMBER ? "no finite number" : "no known label");
}

// A category that is not known, where training had no gaps: the mean of the training rows.
static void spread_mean(const mu_table_column *c, float *to) {
    if (c->kind == MU_TABLE_CATEGORY && c->share) memcpy(to, c->share, c->n_words * sizeof *to);
}

// Each column's number over its places.
static void spread(const struct table *s, const float *from, float *to) {
    int32_t *code = s->codes_now;
    for (size_t i = 0; i < s->t.n_known; i++) {
        const mu_table_column *c = &s->t.column[i];
        if (c->kind == MU_TABLE_EMBEDDED) *code++ = (int32_t)*from++;
        if (!mu_table_used(c)) continue;
        const int64_t width = mu_table_width(c);
        const bool gap = isnan(*from);
        memset(to, 0, (size_t)width * sizeof *to);
        if (gap && c->n_gaps) to[width - 1] = 1;
        else if (gap) spread_mean(c, to);
        else if (c->kind == MU_TABLE_CATEGORY) to[(int64_t)*from] = 1;
        else mu_table_spread_pieces(c, to[0] = *from, to + 1);
        from++;
        to += width;
    }
}

static void spread_text(const struct table *s, const table_row *w) {
    const size_t n = (size_t)w->n_words;
    if (n) memcpy(s->words_now, s->words + w->first_word, n * sizeof *s->words);
    memset(s->words_now + n, 0, ((size_t)s->t.text_length - n) * sizeof *s->words);
}

static mu_status read_table(mu_reader *r, int64_t index, mu_record *out, mu_err *err) {
    struct table *s = r->state;
    const table_row *w = &s->rows[index];
    if (w->fault) return fail_row(s, w, err);
    if (s->values) spread(s, s->values + w->first, s->now); // else there is no column of them
    spread_text(s, w);
    s->label_now = w->label;
    s->target_now = w->target;
    int n = 0;
    if (!strcmp(r->field[0].name, "features")) out->field[n++] = s->now;
    if (s->t.n_embedded) out->field[n++] = s->codes_now;
    if (s->t.n_sentences) out->field[n++] = s->words_now;
    if (s->labelled)
        out->field[n] = s->t.target == MU_TABLE_TARGET_NUMBER ? (void *)&s->target_now : &s->label_now;
    return MU_OK;
}

static void describe(const mu_reader *r, int64_t index, char *out, size_t size) {
    const struct table *s = r->state;
    snprintf(out, size, "`%s` line %" PRId64, s->file, s->rows[index].line);
}

static mu_status tell(const mu_reader *r, json_t *out, mu_err *err) {
    const struct table *s = r->state;
    return mu_table_tell(&s->t, out, err);
}

static void close_table(mu_reader *r) {
    struct table *s = r->state;
    mu_table_fini(&s->t);
    mu_free(s->rows);
    mu_free(s->values);
    mu_free(s->words);
    s->rows = NULL, s->values = NULL, s->words = NULL;
}

static const mu_reader_ask ask = {.file = "file", .unlabelled = "label", .unlabelled_value = "none"};

const mu_reader_class mu_reader_table = {
    .name = "table",
    .help = "tables with numbers, categories, gaps and texts; fields: features, label (a class) or target "
            "(a number), and categories and words where they are asked for",
    .fields = fields,
    .state_size = sizeof(struct table),
    .open = open_table,
    .read = read_table,
    .describe = describe,
    .close = close_table,
    .tell = tell,
    .ask = &ask,
};

const mu_table *mu_table_of(const mu_reader *r) {
    return r->class == &mu_reader_table ? &((const struct table *)r->state)->t : NULL;
}
