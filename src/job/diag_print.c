// SPDX-License-Identifier: Apache-2.0
// diag_print.c - the picture of a problem: place, message, source line, caret, label, hint.
//
// Columns count characters, lines end where YAML ends them (\n, \r\n, \r, NEL, LS, PS), so that the
// caret stands under the same character the parser meant. Whatever came from a file is printed with
// its control characters replaced: a job must not be able to drive the terminal.
#include "job/diag.h"

#include <string.h>

#define WIDEST 120      // characters of a source line shown; longer ones are shown around the caret

typedef struct style { const char *bold, *error, *warning, *caret, *plain; } style;
static const style no_style = {"", "", "", "", ""};
static const style ansi = {"\x1b[1m", "\x1b[1;31m", "\x1b[1;35m", "\x1b[1;32m", "\x1b[0m"};

// Length in bytes of the character at p (one for a broken sequence); never passes a zero byte.
static size_t char_size(const char *p) {
    unsigned char c = (unsigned char)*p;
    size_t n = c < 0xc0 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
    for (size_t i = 1; i < n; i++)
        if (((unsigned char)p[i] & 0xc0) != 0x80) return 1;
    return n;
}

static size_t break_size(const char *p) {
    if (*p == '\r') return p[1] == '\n' ? 2 : 1;
    if (*p == '\n') return 1;
    if (!strncmp(p, "\xc2\x85", 2)) return 2;
    if (!strncmp(p, "\xe2\x80\xa8", 3) || !strncmp(p, "\xe2\x80\xa9", 3)) return 3;
    return 0;
}

static void put_char(const char *p, FILE *out) {
    unsigned char c = (unsigned char)*p;
    size_t n = char_size(p);
    bool broken = n == 1 && c >= 0x80, c1 = n == 2 && c == 0xc2 && (unsigned char)p[1] < 0xa0;
    if (c == '\t') fputc('\t', out);
    else if (c < 0x20 || c == 0x7f || broken || c1) fputc('?', out);
    else fwrite(p, 1, n, out);
}

static void put_text(const char *s, FILE *out) {
    for (; *s; s += char_size(s)) {
        if (*s == '\n') fputs("\\n", out);
        else put_char(s, out);
    }
}

// Start of line `line` in text, NULL if there are fewer lines.
static const char *find_line(const char *text, int line) {
    const char *p = text;
    while (line > 1 && *p) {
        size_t n = break_size(p);
        if (n) line--;
        p += n ? n : char_size(p);
    }
    return line == 1 ? p : NULL;
}

static const char *find_source(const mu_diags *d, const char *path) {
    for (size_t i = 0; path && i < d->n_sources; i++)
        if (!strcmp(d->source[i].path, path)) return d->source[i].text;
    return NULL;
}

// Prints characters [from, to) of the line; with `blank`, spaces in their place (a tab stays a tab).
static void put_columns(const char *line, int from, int to, bool blank, FILE *out) {
    int col = 0;
    for (const char *p = line; col < to && *p && !break_size(p); p += char_size(p), col++) {
        if (col < from) continue;
        if (blank && *p != '\t') fputc(' ', out);
        else put_char(p, out);
    }
    for (; blank && col < to; col++)
        if (col >= from) fputc(' ', out);
}

static int count_columns(const char *line) {
    int n = 0;
    for (const char *p = line; *p && !break_size(p); p += char_size(p)) n++;
    return n;
}

static void print_source(const char *text, mu_srcpos pos, const char *label, const style *st, FILE *out) {
    const char *line = text && pos.line > 0 && pos.col > 0 ? find_line(text, pos.line) : NULL;
    if (!line) {
        if (label) fputs("  ", out), put_text(label, out), fputc('\n', out);
        return;
    }
    int length = count_columns(line), at = pos.col - 1 < length ? pos.col - 1 : length;
    int from = length > WIDEST && at > WIDEST / 2 ? at - WIDEST / 2 : 0;
    int to = from + WIDEST < length ? from + WIDEST : length;
    const char *left = from ? "..." : "", *left_blank = from ? "   " : "";
    fprintf(out, "%4d | %s", pos.line, left);
    put_columns(line, from, to, false, out);
    fprintf(out, "%s\n     | %s", to < length ? "..." : "", left_blank);
    put_columns(line, from, at, true, out);
    int span = pos.span > 0 ? pos.span : 1;
    if (span > to - at) span = to > at ? to - at : 1;
    fputs(st->caret, out);
    for (int i = 0; i < span; i++) fputc('^', out);
    if (label) fputc(' ', out), put_text(label, out);
    fprintf(out, "%s\n", st->plain);
}

static void print_one(const mu_diag *g, const char *text, const style *st, FILE *out) {
    bool error = g->severity == MU_DIAG_ERROR;
    if (g->pos.path) {
        fputs(st->bold, out);
        put_text(g->pos.path, out);
        if (g->pos.line > 0) fprintf(out, ":%d:%d", g->pos.line, g->pos.col);
        fprintf(out, ":%s ", st->plain);
    }
    fprintf(out, "%s%s:%s ", error ? st->error : st->warning, error ? "error" : "warning", st->plain);
    put_text(g->msg, out);
    fputc('\n', out);
    print_source(text, g->pos, g->label, st, out);
    if (g->hint) {
        fprintf(out, "%shint:%s ", st->bold, st->plain);
        put_text(g->hint, out);
        fputc('\n', out);
    }
}

static int compare(const mu_diags *d, const mu_diag *a, const mu_diag *b) {
    size_t sa = 0, sb = 0;      // sources in the order they were added, other files after them
    while (sa < d->n_sources && !(a->pos.path && !strcmp(d->source[sa].path, a->pos.path))) sa++;
    while (sb < d->n_sources && !(b->pos.path && !strcmp(d->source[sb].path, b->pos.path))) sb++;
    if (sa != sb) return sa < sb ? -1 : 1;
    if (a->pos.line != b->pos.line) return a->pos.line < b->pos.line ? -1 : 1;
    return a->pos.col < b->pos.col ? -1 : a->pos.col > b->pos.col;
}

static void sort(const mu_diags *d, const mu_diag *sorted[MU_DIAGS_MAX]) {
    for (size_t i = 0; i < d->n; i++) {         // insertion keeps the order of problems at one place
        size_t j = i;
        for (; j > 0 && compare(d, &d->list[i], sorted[j - 1]) < 0; j--) sorted[j] = sorted[j - 1];
        sorted[j] = &d->list[i];
    }
}

static void print_count(const mu_diags *d, FILE *out) {
    size_t total = d->n_errors + d->n_warnings;
    if (!total) return;
    if (d->n_errors) fprintf(out, "%zu error%s", d->n_errors, d->n_errors == 1 ? "" : "s");
    if (d->n_errors && d->n_warnings) fputs(", ", out);
    if (d->n_warnings) fprintf(out, "%zu warning%s", d->n_warnings, d->n_warnings == 1 ? "" : "s");
    if (total > d->n && !d->no_memory) fprintf(out, " (the first %zu are shown)", d->n);
    fputc('\n', out);
}

void mu_diags_print(const mu_diags *d, FILE *out, bool colour) {
    const mu_diag *sorted[MU_DIAGS_MAX];
    sort(d, sorted);
    for (size_t i = 0; i < d->n; i++)
        print_one(sorted[i], find_source(d, sorted[i]->pos.path), colour ? &ansi : &no_style, out);
    if (d->no_memory) fputs("error: out of memory while checking the job\n", out);
    print_count(d, out);
}

static void put_json(const char *s, FILE *out) {
    if (!s) {
        fputs("null", out);
        return;
    }
    fputc('"', out);
    for (; *s; s += char_size(s)) {
        unsigned char c = (unsigned char)*s;
        size_t n = char_size(s);
        if (c == '"' || c == '\\') fprintf(out, "\\%c", c);
        else if (c < 0x20 || c == 0x7f) fprintf(out, "\\u%04x", c);
        else if (n == 1 && c >= 0x80) fputs("\\ufffd", out);
        else fwrite(s, 1, n, out);
    }
    fputc('"', out);
}

void mu_diags_print_json(const mu_diags *d, FILE *out) {
    const mu_diag *sorted[MU_DIAGS_MAX];
    sort(d, sorted);
    fputc('[', out);
    for (size_t i = 0; i < d->n; i++) {
        const mu_diag *g = sorted[i];
        fprintf(out, "%s{\"severity\": \"%s\", \"path\": ", i ? ",\n " : "",
                g->severity == MU_DIAG_ERROR ? "error" : "warning");
        put_json(g->pos.path, out);
        fprintf(out, ", \"line\": %d, \"col\": %d, \"span\": %d, \"message\": ", g->pos.line, g->pos.col,
                g->pos.span);
        put_json(g->msg, out);
        fputs(", \"label\": ", out);
        put_json(g->label, out);
        fputs(", \"hint\": ", out);
        put_json(g->hint, out);
        fputc('}', out);
    }
    fputs("]\n", out);
}

// Reads the beginning of the file up to and including the line, NULL if that cannot be done.
static char *read_until_line(const char *path, int line) {
    enum { MOST = 1 << 20 };
    FILE *f = path && line > 0 ? fopen(path, "r") : NULL;
    if (!f) return NULL;
    char *text = mu_alloc(MOST + 1, "error-source");
    size_t n = text ? fread(text, 1, MOST, f) : 0;
    if (text) text[n] = '\0';
    fclose(f);
    return text;
}

void mu_err_print(const mu_err *err, FILE *out, bool colour) {
    mu_diag g = {.severity = MU_DIAG_ERROR, .pos = err->pos, .hint = err->hint[0] ? err->hint : NULL};
    g.msg = err->msg[0] ? err->msg : mu_status_text(err->status);
    const style *st = colour ? &ansi : &no_style;
    char *text = read_until_line(err->pos.path, err->pos.line);
    const char *start = text && !strncmp(text, "\xef\xbb\xbf", 3) ? text + 3 : text;
    print_one(&g, start, st, out);
    mu_free(text);
    if (err->note[0]) {
        fprintf(out, "%snote:%s ", st->bold, st->plain);
        put_text(err->note, out);
        fputc('\n', out);
    }
}
