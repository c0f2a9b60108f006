// SPDX-License-Identifier: Apache-2.0
// csv_rows.c - see csv_rows.h. libcsv gives columns, which are gathered here until their row is complete.
#include "file/csv_rows.h"

#include <csv.h>
#include <inttypes.h>
#include <string.h>

typedef struct parse {
    const char *path;
    mu_csv_row_fn use;
    void *ctx;
    mu_err *err;
    mu_status status;       // the first failure; callbacks then do nothing
    int64_t line, row_line; // being read; where the row began
    char *text;             // columns of the row, each with its '\0'
    size_t *start;          // [n_columns] where each begins in text
    size_t used, cap_text, n_columns, cap_start;
} parse;

bool mu_csv_reserve(void **p, size_t *cap, size_t need, size_t size) {
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

static void on_field(void *text, size_t size, void *ctx) {
    parse *p = ctx;
    if (p->status != MU_OK) return;
    if (p->n_columns >= MU_CSV_MAX_COLUMNS) {
        p->status = MU_FAIL(p->err, MU_EDATA, "`%s` line %" PRId64 " has more than %d columns", p->path,
                            p->line, MU_CSV_MAX_COLUMNS);
    } else if (!mu_csv_reserve((void **)&p->text, &p->cap_text, p->used + size + 1, 1) ||
               !mu_csv_reserve((void **)&p->start, &p->cap_start, p->n_columns + 1, sizeof *p->start)) {
        p->status = MU_FAIL_NOMEM(p->err, p->path);
    } else {
        p->start[p->n_columns++] = p->used;
        if (size) memcpy(p->text + p->used, text, size);
        p->used += size;
        p->text[p->used++] = '\0';
    }
}

static void on_row(MU_UNUSED int ch, void *ctx) {
    parse *p = ctx;
    if (p->status == MU_OK && p->n_columns)
        p->status = p->use(p->ctx, &(mu_csv_row){p->row_line, p->n_columns, p->text, p->start}, p->err);
    p->n_columns = p->used = 0;
}

static void *csv_grow(void *q, size_t size) { return mu_realloc(q, size, "data/csv"); }

enum { COLUMN_FIRST = 128 }; // bytes; libcsv grows its buffer by the block we set

// A quote that is never closed would take the rest of the file for one column.
static mu_status check_column(parse *p, struct csv_parser *c) {
    size_t have = c->entry_size;
    csv_set_blk_size(c, have > COLUMN_FIRST ? have : COLUMN_FIRST);
    if (c->entry_pos <= MU_CSV_MAX_COLUMN_BYTES) return MU_OK;
    return mu_err_hinted(MU_FAIL(p->err, MU_EDATA, "`%s` line %" PRId64 ": a field is longer than %d bytes",
                                 p->path, p->row_line, MU_CSV_MAX_COLUMN_BYTES),
                         p->err, "Is a quote not closed there?");
}

// Behind the end of the line at `at`: LF, CR LF, or CR alone as libcsv also takes it.
static const char *next_line(const char *at, const char *end) {
    while (at < end && *at != '\n' && *at != '\r') at++;
    if (at + 1 < end && at[0] == '\r' && at[1] == '\n') at++;
    return at < end ? at + 1 : end;
}

// Line by line, so that rows know their line.
static void parse_lines(parse *p, struct csv_parser *c, const char *at, const char *end) {
    for (p->line = 1; at < end && p->status == MU_OK; p->line++) {
        size_t n = (size_t)(next_line(at, end) - at);
        if (!p->n_columns && !c->entry_pos && !c->quoted) p->row_line = p->line; // no row is under way
        if (csv_parse(c, at, n, on_field, on_row, p) != n && p->status == MU_OK)
            p->status = csv_error(c) == CSV_ENOMEM ? MU_FAIL_NOMEM(p->err, p->path)
                                                   : MU_FAIL(p->err, MU_EDATA, "`%s` line %" PRId64 ": %s",
                                                             p->path, p->line, csv_strerror(csv_error(c)));
        at += n;
        if (p->status == MU_OK) p->status = check_column(p, c);
    }
    csv_set_opts(c, CSV_APPEND_NULL | CSV_STRICT | CSV_STRICT_FINI); // an open quote at the end is refused
    if (p->status == MU_OK && csv_fini(c, on_field, on_row, p) && p->status == MU_OK)
        p->status = mu_err_hinted(
            MU_FAIL(p->err, MU_EDATA, "`%s` line %" PRId64 ": the row never ends", p->path, p->row_line),
            p->err, "Is a quote not closed there?");
}

mu_status mu_csv_parse(const mu_infile *in, char separator, mu_csv_row_fn use, void *ctx, mu_err *err) {
    parse p = {.path = in->path, .use = use, .ctx = ctx, .err = err};
    struct csv_parser c;
    if (csv_init(&c, CSV_APPEND_NULL)) return MU_FAIL(err, MU_EBACKEND, "libcsv does not start");
    csv_set_delim(&c, (unsigned char)separator);
    csv_set_realloc_func(&c, csv_grow);
    csv_set_free_func(&c, mu_free);
    const char *at = (const char *)in->mem, *end = at + in->size;
    if (in->size >= 3 && !memcmp(at, "\xef\xbb\xbf", 3)) at += 3; // a byte-order mark is no text
    parse_lines(&p, &c, at, end);
    csv_free(&c);
    mu_free(p.text);
    mu_free(p.start);
    return p.status;
}
