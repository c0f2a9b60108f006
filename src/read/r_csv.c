// SPDX-License-Identifier: Apache-2.0
// r_csv.c - comma-separated values: a row is a record of numbers and, usually, a label.
//
// The whole file is parsed at open into one float matrix, because rows have no fixed place in the
// file. A row that cannot be used (another number of columns, a field that is no number, an empty
// label) keeps its record number, takes no memory and fails when it is read, so that the source
// counts and skips it like any other bad record. Values must be finite.
//
// Label words become classes as read/labels.h says; `classes` fixes the words and their order, which
// is needed when train and test files do not hold the same set.
#include "file/infile.h"
#include "file/csv_rows.h"
#include "read/reader.h"
#include "read/labels.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct csv_row {
    int64_t first;              // its features start at values[first]; -1 = bad
    int64_t line;               // in the file, from 1
    int32_t label;              // word id, after open the class
    int32_t bad_column;         // of a bad row: column from 1, 0 = wrong number of columns
} csv_row;

struct csv {
    const char *file, *label, *separator;
    int         header;                 // 0 auto, 1 yes, 2 no
    mu_strings  classes;
    mu_ints     shape;
    // private
    float      *values;                 // features of the good rows, one after the other
    csv_row    *rows;
    size_t      n_values, cap_values, n_rows, cap_rows;
    size_t      n_columns;              // of the first row; 0 = not seen yet
    int64_t     label_column;           // -1 = none
    float      *cooked;                 // one record as HWC; NULL = delivered as stored
    int32_t     label_now;
};

static const mu_field fields[] = {
    MU_FIELD(struct csv, file, MU_PATH, NULL, NULL, "the file, plain or compressed (gzip, xz, zstd)"),
    MU_FIELD(struct csv, label, MU_STRING, "last", NULL,
             "label column: its name, its number from 0, last, or none"),
    MU_FIELD_ENUM(struct csv, header, "auto", "auto|yes|no", "whether the first row names the columns"),
    MU_FIELD(struct csv, separator, MU_STRING, ",", NULL, "one character, or tab"),
    MU_FIELD(struct csv, classes, MU_STRINGS, "[]", NULL,
             "label words in class order; left out: if the first label is a number, whole numbers from 0 are "
             "classes and other labels bad; if it is a word, all words found, sorted"),
    MU_FIELD(struct csv, shape, MU_INTS, "[]", "[1,65536]",
             "[channels, height, width] if the features are an image"),
    {0},
};

// ---- parsing ----

typedef struct parse { struct csv *s; mu_labels words; mu_err *err; } parse;

static bool to_float(const char *text, float *out) {
    char *end;
    *out = strtof(text, &end);
    while (*end == ' ' || *end == '\t') end++;
    return end != text && !*end && isfinite(*out);
}

static mu_status find_label(parse *p, const mu_csv_row *row, bool *by_name) {
    struct csv *s = p->s;
    const char *word = s->label ? s->label : "last";
    int64_t n = (int64_t)row->n;
    char *end;
    long number = strtol(word, &end, 10);
    *by_name = false;
    s->label_column = n;
    if (!strcmp(word, "none")) s->label_column = -1;
    else if (!strcmp(word, "last")) s->label_column = n - 1;
    else if (word[0] >= '0' && word[0] <= '9' && !*end) s->label_column = number;
    else {
        *by_name = true;
        for (size_t i = 0; i < row->n; i++)
            if (!strcmp(mu_csv_column(row, i), word)) s->label_column = (int64_t)i;
    }
    if (s->label_column < n) return MU_OK;
    MU_FAIL(p->err, MU_EDATA, "`%s` has no label column `%s` in its %" PRId64 " columns", s->file, word, n);
    mu_err_hint(p->err, "Columns count from 0; a name must be in the first row.");
    return MU_EDATA;
}

// The first row fixes the columns and may be the header. *skip = it is.
static mu_status first_row(parse *p, const mu_csv_row *row, bool *skip) {
    struct csv *s = p->s;
    bool by_name, numeric = true;
    MU_TRY(find_label(p, row, &by_name));
    s->n_columns = row->n;
    for (size_t i = 0; i < row->n; i++) {
        float v;
        if ((int64_t)i != s->label_column) numeric &= to_float(mu_csv_column(row, i), &v);
    }
    *skip = s->header == 1 || by_name || (s->header == 0 && !numeric);
    if (s->n_columns > (s->label_column >= 0)) return MU_OK;
    return MU_FAIL(p->err, MU_EDATA, "`%s` has no feature columns beside the label", s->file);
}

// Features go to values only if the whole row is good; *wrong = the column that is not, -1 = none.
static mu_status store_row(parse *p, const mu_csv_row *row, csv_row *r, int64_t *wrong) {
    struct csv *s = p->s;
    float *to = s->values + s->n_values;
    const char *label = NULL; // known only when the row is good: a bad row must not make a class
    for (size_t i = 0; i < row->n; i++) {
        const char *text = mu_csv_column(row, i);
        if ((int64_t)i == s->label_column) label = text;
        *wrong = (int64_t)i;
        if (label == text ? !text[0] : !to_float(text, to++)) return MU_OK;
    }
    *wrong = -1;
    r->first = (int64_t)s->n_values;
    s->n_values = (size_t)(to - s->values);
    return label ? mu_labels_add(&p->words, label, strlen(label), &r->label, p->err) : MU_OK;
}

static mu_status use_row(void *ctx, const mu_csv_row *row, mu_err *err) {
    parse *p = ctx;
    struct csv *s = p->s;
    csv_row r = {.first = -1, .line = row->line, .label = -1};
    if (!s->n_columns) {
        bool skip;
        MU_TRY(first_row(p, row, &skip));
        if (skip) return MU_OK;
    }
    if (!mu_csv_reserve((void **)&s->rows, &s->cap_rows, s->n_rows + 1, sizeof *s->rows)
        || !mu_csv_reserve((void **)&s->values, &s->cap_values, s->n_values + s->n_columns,
                           sizeof *s->values))
        return MU_FAIL_NOMEM(err, s->file);
    if (row->n == s->n_columns) {
        int64_t wrong;
        MU_TRY(store_row(p, row, &r, &wrong));
        r.bad_column = (int32_t)(wrong + 1);
    }
    s->rows[s->n_rows++] = r;
    return MU_OK;
}

// ---- labels ----

// The classes of the model that reads, as if they stood in the job.
static mu_status take_labels(mu_reader *r, struct csv *s, mu_err *err) {
    MU_TRY(mu_reader_keep_names(r, r->known->labels, (size_t)r->known->n_labels, err));
    s->classes = (mu_strings){(size_t)r->n_labels, r->label_names};
    return MU_OK;
}

static mu_status number_labels(mu_reader *r, parse *p, mu_err *err) {
    struct csv *s = r->state;
    size_t n = p->words.n;
    int32_t *class_of = mu_alloc_array(n + 1, sizeof *class_of, "read/csv");
    if (!class_of) return MU_FAIL_NOMEM(err, "labels");
    int64_t n_classes = (int64_t)s->classes.n;
    mu_status st = MU_OK;
    if (n_classes) r->label_names = s->classes.v;
    else {
        st = mu_labels_number(&p->words, class_of, &n_classes, err);
        if (st == MU_OK) st = mu_labels_names(&p->words, class_of, n_classes, &r->label_names, err);
    }
    for (size_t i = 0; s->classes.n && i < n; i++) {
        class_of[i] = -1;                       // not among `classes`: bad when read
        for (size_t k = 0; k < s->classes.n; k++)
            if (!strcmp(s->classes.v[k], p->words.text[i])) class_of[i] = (int32_t)k;
    }
    for (size_t i = 0; st == MU_OK && i < s->n_rows; i++) {
        csv_row *w = &s->rows[i];
        if (w->first < 0) continue;
        w->label = class_of[w->label];
        if (w->label < 0) w->first = -1, w->bad_column = (int32_t)s->label_column + 1;
    }
    mu_free(class_of);
    r->n_labels = n_classes;
    if (st != MU_OK) return st;
    mu_data_field *f = &r->field[r->n_fields++];
    *f = mu_label_field(n_classes);
    for (size_t i = 0; i < s->n_rows && !s->classes.n && !f->top_from; i++)
        if (s->rows[i].first >= 0 && s->rows[i].label == n_classes - 1)
            f->top_from = mu_arena_printf(r->arena, "`%.200s` line %" PRId64, s->file, s->rows[i].line);
    return MU_OK;
}

// ---- the reader ----

static mu_status set_shape(mu_reader *r, struct csv *s, mu_err *err) {
    int64_t n = (int64_t)s->n_columns - (s->label_column >= 0);
    mu_data_field f = {.name = "features", .shape = MU_SHAPE(n), .store = MU_STORE_F32};
    if (s->shape.n) {
        const int64_t *d = s->shape.v;
        if (s->shape.n != 3 || d[0] * d[1] * d[2] != n)
            return MU_FAIL_AT(err, MU_EJOB, r->pos, "`shape` must be [channels, height, width] with %" PRId64
                              " values, as many as `%s` has feature columns", n, s->file);
        f = (mu_data_field){.name = "image", .shape = MU_SHAPE(d[0], d[1], d[2]), .store = MU_STORE_F32,
                            .is_image = true};
        s->cooked = mu_arena_array(r->arena, (size_t)n, sizeof *s->cooked);
        if (!s->cooked) return MU_FAIL_NOMEM(err, "one record");
    }
    r->field[r->n_fields++] = f;
    return MU_OK;
}

static mu_status open_csv(mu_reader *r, mu_err *err) {
    struct csv *s = r->state;
    const char *sep = s->separator ? s->separator : ",";
    bool tab = !strcmp(sep, "tab");
    if ((strlen(sep) != 1 && !tab) || sep[0] == '"' || sep[0] == '\n')
        return MU_FAIL_AT(err, MU_EJOB, r->pos, "`separator` must be one character or the word tab, not `%s`",
                          sep);
    parse p = {.s = s, .err = err};
    mu_labels_init(&p.words, r->arena);
    mu_infile in = {0};
    mu_status st = mu_infile_open(&in, s->file, err);
    if (st == MU_OK) st = mu_infile_load(&in, err);
    if (st == MU_OK) st = mu_csv_parse(&in, tab ? '\t' : sep[0], use_row, &p, err);
    mu_infile_close(&in);
    if (st == MU_OK && !s->n_rows) st = MU_FAIL(err, MU_EDATA, "`%s` holds no rows", s->file);
    if (st == MU_OK) st = set_shape(r, s, err);
    if (st == MU_OK && !s->classes.n && r->known && r->known->labels) st = take_labels(r, s, err);
    if (st == MU_OK && s->label_column >= 0) st = number_labels(r, &p, err);
    else if (st == MU_OK && s->classes.n) r->label_names = s->classes.v, r->n_labels = (int64_t)s->classes.n;
    mu_labels_fini(&p.words);
    r->n_records = (int64_t)s->n_rows;
    return st;
}

static mu_status read_csv(mu_reader *r, int64_t index, mu_record *out, mu_err *err) {
    struct csv *s = r->state;
    const csv_row *w = &s->rows[index];
    if (w->first < 0) {
        if (w->bad_column)
            return MU_FAIL(err, MU_EDATA, "`%s` line %" PRId64 ": column %d is %s", s->file, w->line,
                           w->bad_column - 1,
                           w->bad_column - 1 != s->label_column ? "no finite number"
                           : s->classes.n                       ? "no known label"
                                                                : "no label: a whole number from 0");
        return MU_FAIL(err, MU_EDATA,
                       "`%s` line %" PRId64 " has another number of columns than the first, %zu", s->file,
                       w->line, s->n_columns);
    }
    const float *from = s->values + w->first;
    out->field[0] = from;
    if (s->cooked) {
        const mu_shape *d = &r->field[0].shape;
        mu_nchw_to_nhwc(s->cooked, from, 1, d->d[0], d->d[1] * d->d[2]);
        out->field[0] = s->cooked;
    }
    s->label_now = w->label;
    if (r->n_fields > 1) out->field[1] = &s->label_now;
    return MU_OK;
}

static void describe(const mu_reader *r, int64_t index, char *out, size_t size) {
    const struct csv *s = r->state;
    snprintf(out, size, "`%s` line %" PRId64, s->file, s->rows[index].line);
}

static void close_csv(mu_reader *r) {
    struct csv *s = r->state;
    mu_free(s->values);
    mu_free(s->rows);
    s->values = NULL, s->rows = NULL;
}

static const mu_reader_ask ask = {.file = "file", .unlabelled = "label", .unlabelled_value = "none"};

const mu_reader_class mu_reader_csv = {
    .name = "csv", .help = "rows of numbers with a label column; fields: features (or image), label",
    .fields = fields, .state_size = sizeof(struct csv),
    .open = open_csv, .read = read_csv, .describe = describe, .close = close_csv, .ask = &ask,
};
