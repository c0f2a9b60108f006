// SPDX-License-Identifier: Apache-2.0
// r_csv.c - comma-separated values: a row is a record of numbers and, usually, a label.
//
// The whole file is parsed at open into one float matrix, because rows have no fixed place in the
// file. A row that cannot be used (another number of columns, a field that is no number, an empty
// label) keeps its record number, takes no memory and fails when it is read, so that the source
// counts and skips it like any other bad record. Values must be finite.
//
// Label words become classes as data/labels.h says; `classes` fixes the words and their order, which
// is needed when train and test files do not hold the same set.
#include "file/infile.h"
#include "data/reader.h"
#include "data/labels.h"

#include <csv.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_COLUMNS = 1 << 20 };

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
             "label words in class order; left out: all words found, sorted"),
    MU_FIELD(struct csv, shape, MU_INTS, "[]", "[1,65536]",
             "[channels, height, width] if the features are an image"),
    {0},
};

static bool reserve(void **p, size_t *cap, size_t need, size_t size) {
    if (need <= *cap) return true;
    size_t to = *cap ? *cap : 256, bytes;
    while (to < need) to *= 2;
    if (__builtin_mul_overflow(to, size, &bytes)) return false;
    void *q = mu_realloc(*p, bytes, "data/csv");
    if (!q) return false;
    *p = q;
    *cap = to;
    return true;
}

// ---- parsing: libcsv gives fields, which are gathered here until their row is complete ----

typedef struct parse {
    struct csv *s;
    mu_labels    words;
    mu_err     *err;
    mu_status   status;         // the first failure; callbacks then do nothing
    int64_t     line, row_line; // being read; where the row began
    char       *text;           // fields of the row, each with its '\0'
    size_t     *start;          // [n_columns] where each begins in text
    size_t      used, cap_text, n_columns, cap_start;
} parse;

static const char *column_text(const parse *p, size_t i) { return p->text + p->start[i]; }

static void on_field(void *text, size_t size, void *ctx) {
    parse *p = ctx;
    if (p->status != MU_OK) return;
    if (!p->n_columns) p->row_line = p->line;
    if (p->n_columns >= MAX_COLUMNS) {
        p->status = MU_FAIL(p->err, MU_EDATA, "`%s` line %" PRId64 " has more than %d columns", p->s->file,
                            p->line, MAX_COLUMNS);
    } else if (!reserve((void **)&p->text, &p->cap_text, p->used + size + 1, 1)
               || !reserve((void **)&p->start, &p->cap_start, p->n_columns + 1, sizeof *p->start)) {
        p->status = MU_FAIL_NOMEM(p->err, p->s->file);
    } else {
        p->start[p->n_columns++] = p->used;
        if (size) memcpy(p->text + p->used, text, size);
        p->used += size;
        p->text[p->used++] = '\0';
    }
}

static bool to_float(const char *text, float *out) {
    char *end;
    *out = strtof(text, &end);
    while (*end == ' ' || *end == '\t') end++;
    return end != text && !*end && isfinite(*out);
}

static mu_status find_label(parse *p, bool *by_name) {
    struct csv *s = p->s;
    const char *word = s->label ? s->label : "last";
    int64_t n = (int64_t)p->n_columns;
    char *end;
    long number = strtol(word, &end, 10);
    *by_name = false;
    s->label_column = n;
    if (!strcmp(word, "none")) s->label_column = -1;
    else if (!strcmp(word, "last")) s->label_column = n - 1;
    else if (word[0] >= '0' && word[0] <= '9' && !*end) s->label_column = number;
    else {
        *by_name = true;
        for (size_t i = 0; i < p->n_columns; i++)
            if (!strcmp(column_text(p, i), word)) s->label_column = (int64_t)i;
    }
    if (s->label_column < n) return MU_OK;
    MU_FAIL(p->err, MU_EDATA, "`%s` has no label column `%s` in its %" PRId64 " columns", s->file, word, n);
    mu_err_hint(p->err, "Columns count from 0; a name must be in the first row.");
    return MU_EDATA;
}

// The first row fixes the columns and may be the header. *skip = it is.
static mu_status first_row(parse *p, bool *skip) {
    struct csv *s = p->s;
    bool by_name, numeric = true;
    MU_TRY(find_label(p, &by_name));
    s->n_columns = p->n_columns;
    for (size_t i = 0; i < p->n_columns; i++) {
        float v;
        if ((int64_t)i != s->label_column) numeric &= to_float(column_text(p, i), &v);
    }
    *skip = s->header == 1 || by_name || (s->header == 0 && !numeric);
    if (s->n_columns > (s->label_column >= 0)) return MU_OK;
    return MU_FAIL(p->err, MU_EDATA, "`%s` has no feature columns beside the label", s->file);
}

// Features go to values only if the whole row is good; returns the column that is not, -1 = none.
static int64_t store_row(parse *p, csv_row *r) {
    struct csv *s = p->s;
    float *to = s->values + s->n_values;
    const char *label = NULL; // known only when the row is good: a bad row must not make a class
    for (size_t i = 0; i < p->n_columns; i++) {
        const char *text = column_text(p, i);
        if ((int64_t)i == s->label_column) label = text;
        if (label == text ? !text[0] : !to_float(text, to++)) return (int64_t)i;
    }
    if (label && p->status == MU_OK)
        p->status = mu_labels_add(&p->words, label, strlen(label), &r->label, p->err);
    r->first = (int64_t)s->n_values;
    s->n_values = (size_t)(to - s->values);
    return -1;
}

static void use_row(parse *p) {
    struct csv *s = p->s;
    csv_row r = {.first = -1, .line = p->row_line, .label = -1};
    if (!s->n_columns) {
        bool skip;
        p->status = first_row(p, &skip);
        if (p->status != MU_OK || skip) return;
    }
    if (!reserve((void **)&s->rows, &s->cap_rows, s->n_rows + 1, sizeof *s->rows)
        || !reserve((void **)&s->values, &s->cap_values, s->n_values + s->n_columns, sizeof *s->values)) {
        p->status = MU_FAIL_NOMEM(p->err, s->file);
        return;
    }
    if (p->n_columns == s->n_columns) r.bad_column = (int32_t)(store_row(p, &r) + 1);
    s->rows[s->n_rows++] = r;
}

static void on_row(MU_UNUSED int ch, void *ctx) {
    parse *p = ctx;
    if (p->status == MU_OK && p->n_columns) use_row(p);
    p->n_columns = p->used = 0;
}

static void *csv_grow(void *q, size_t size) { return mu_realloc(q, size, "data/csv"); }

enum { FIELD_MAX = 1 << 16, FIELD_FIRST = 128 };      // bytes; libcsv grows its buffer by the block we set

// A quote that is never closed would take the rest of the file for one field.
static mu_status check_field(parse *p, struct csv_parser *c) {
    size_t have = c->entry_size;
    csv_set_blk_size(c, have > FIELD_FIRST ? have : FIELD_FIRST);
    if (c->entry_pos <= FIELD_MAX) return MU_OK;
    return mu_err_hinted(MU_FAIL(p->err, MU_EDATA, "`%s` line %" PRId64 ": a field is longer than %d bytes",
                                 p->s->file, p->row_line, FIELD_MAX),
                         p->err, "Is a quote not closed there?");
}

// Behind the end of the line at `at`: LF, CR LF, or CR alone as libcsv also takes it.
static const char *next_line(const char *at, const char *end) {
    while (at < end && *at != '\n' && *at != '\r') at++;
    if (at + 1 < end && at[0] == '\r' && at[1] == '\n') at++;
    return at < end ? at + 1 : end;
}

// Line by line, so that rows know their line.
static mu_status parse_text(parse *p, const mu_infile *in, unsigned char separator) {
    struct csv_parser c;
    if (csv_init(&c, CSV_APPEND_NULL))
        return MU_FAIL(p->err, MU_EBACKEND, "libcsv does not start");
    csv_set_delim(&c, separator);
    csv_set_realloc_func(&c, csv_grow);
    csv_set_free_func(&c, mu_free);
    const char *at = (const char *)in->mem, *end = at + in->size;
    if (in->size >= 3 && !memcmp(at, "\xef\xbb\xbf", 3)) at += 3; // a byte-order mark is no text
    for (p->line = 1; at < end && p->status == MU_OK; p->line++) {
        size_t n = (size_t)(next_line(at, end) - at);
        if (csv_parse(&c, at, n, on_field, on_row, p) != n && p->status == MU_OK)
            p->status = csv_error(&c) == CSV_ENOMEM
                            ? MU_FAIL_NOMEM(p->err, p->s->file)
                            : MU_FAIL(p->err, MU_EDATA, "`%s` line %" PRId64 ": %s", p->s->file, p->line,
                                      csv_strerror(csv_error(&c)));
        at += n;
        if (p->status == MU_OK) p->status = check_field(p, &c);
    }
    csv_set_opts(&c, CSV_APPEND_NULL | CSV_STRICT | CSV_STRICT_FINI); // an open quote at the end is refused
    if (p->status == MU_OK && csv_fini(&c, on_field, on_row, p) && p->status == MU_OK) {
        p->status =
            MU_FAIL(p->err, MU_EDATA, "`%s` line %" PRId64 ": the row never ends", p->s->file, p->row_line);
        mu_err_hint(p->err, "Is a quote not closed there?");
    }
    csv_free(&c);
    return p->status;
}

// ---- labels ----

// The classes of the model that reads, as if they stood in the job.
static mu_status take_labels(mu_reader *r, struct csv *s, mu_err *err) {
    const char **v = mu_arena_array(r->arena, (size_t)r->known->n_labels + 1, sizeof *v);
    if (!v) return MU_FAIL_NOMEM(err, "labels");
    for (int64_t i = 0; i < r->known->n_labels; i++)
        if (!(v[i] = mu_arena_strdup(r->arena, r->known->labels[i]))) return MU_FAIL_NOMEM(err, "labels");
    s->classes = (mu_strings){(size_t)r->known->n_labels, v};
    return MU_OK;
}

static mu_status number_labels(mu_reader *r, parse *p, mu_err *err) {
    struct csv *s = r->state;
    size_t n = p->words.n;
    if (!s->classes.n && r->known && r->known->labels) MU_TRY(take_labels(r, s, err));
    int32_t *class_of = mu_alloc_array(n + 1, sizeof *class_of, "data/csv");
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
    if (st == MU_OK) r->field[r->n_fields++] = mu_label_field(n_classes);
    return st;
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
    if (st == MU_OK) st = parse_text(&p, &in, tab ? '\t' : (unsigned char)sep[0]);
    mu_infile_close(&in);
    if (st == MU_OK && !s->n_rows) st = MU_FAIL(err, MU_EDATA, "`%s` holds no rows", s->file);
    if (st == MU_OK) st = set_shape(r, s, err);
    if (st == MU_OK && s->label_column >= 0) st = number_labels(r, &p, err);
    mu_labels_fini(&p.words);
    mu_free(p.text);
    mu_free(p.start);
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
                           w->bad_column - 1 == s->label_column ? "no known label" : "no finite number");
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
