// SPDX-License-Identifier: Apache-2.0
// guess.c - see guess.h.
#include "recipe/guess.h"

#include "file/fs.h"
#include "file/infile.h"
#include "file/dates.h"

#include <stdio.h>
#include <string.h>

enum { LOOKED_AT = 1 << 15, LINES = 200 };

typedef struct line {
    const char *s;
    size_t n;
} line;

static size_t split_lines(const char *text, size_t n, bool whole, line out[LINES]) {
    size_t n_lines = 0;
    const char *end = text + n;
    while (text < end && n_lines < LINES) {
        const char *stop = memchr(text, '\n', (size_t)(end - text));
        if (!stop && !whole) break; // cut by the end of what was read
        size_t size = (size_t)((stop ? stop : end) - text);
        const char *next = text + size + 1;
        if (size && text[size - 1] == '\r') size--;
        if (size) out[n_lines++] = (line){text, size};
        text = next;
    }
    return n_lines;
}

static size_t count(line l, char c) {
    size_t n = 0;
    for (size_t i = 0; i < l.n; i++) n += l.s[i] == c;
    return n;
}

// label TAB words: one tab, several words on one side of it.
static bool is_text(const line *l, size_t n) {
    size_t fits = 0, wordy = 0;
    for (size_t i = 0; i < n; i++) {
        const char *tab = memchr(l[i].s, '\t', l[i].n);
        const bool one = tab && count(l[i], '\t') == 1;
        fits += one;
        wordy += one && count(l[i], ' ') >= 1;
    }
    return n && 10 * fits >= 9 * n && 2 * wordy > n;
}

// The separator that splits nearly all lines into as many columns; '\0' = none does. Lines of many words are
// prose, even if each has its comma.
static char find_separator(const line *l, size_t n) {
    for (const char *mark = ",;\t|"; *mark && n > 1; mark++) {
        size_t fits = 0, blanks = 0;
        const size_t first = count(l[0], *mark);
        for (size_t i = 0; i < n; i++) {
            fits += count(l[i], *mark) == first;
            blanks += count(l[i], ' ');
        }
        if (first && 10 * fits >= 9 * n && blanks < 3 * (first + 1) * n) return *mark;
    }
    return '\0';
}

// Does the first column hold dates that ascend?
static bool has_dates(const line *l, size_t n, char separator) {
    size_t dates = 0, rising = 0;
    double before = 0, now;
    for (size_t i = 1; i < n; i++) {
        char cell[64];
        const char *end = memchr(l[i].s, separator, l[i].n);
        size_t size = end ? (size_t)(end - l[i].s) : l[i].n;
        const char *s = l[i].s;
        if (size >= 2 && s[0] == '"') s++, size -= 2;
        snprintf(cell, sizeof cell, "%.*s", size < sizeof cell ? (int)size : (int)sizeof cell - 1, s);
        if (!mu_date_parse(cell, &now)) continue;
        rising += !dates || now > before;
        dates++;
        before = now;
    }
    return n > 8 && 10 * dates >= 9 * (n - 1) && rising == dates;
}

static const char *guess_text(const char *text, size_t n, bool whole) {
    line l[LINES];
    if (!n || memchr(text, '\0', n)) return NULL;
    const size_t n_lines = split_lines(text, n, whole, l);
    if (is_text(l, n_lines)) return "text";
    const char separator = find_separator(l, n_lines);
    if (!separator) return "char";
    return has_dates(l, n_lines, separator) ? "timeseries" : "table";
}

const char *mu_recipe_guess(const char *path) {
    if (mu_fs_is_folder(path)) return "images";
    mu_infile f = {0};
    mu_err unheard = {0};
    const char *guess = NULL;
    static _Thread_local char block[LOOKED_AT];
    const void *p = NULL;
    if (mu_infile_open(&f, path, &unheard) == MU_OK) {
        const size_t n = f.size < sizeof block ? (size_t)f.size : sizeof block;
        if (mu_infile_read(&f, 0, n, block, &p, &unheard) == MU_OK) guess = guess_text(p, n, n == f.size);
    }
    mu_infile_close(&f);
    return guess;
}
