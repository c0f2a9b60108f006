// SPDX-License-Identifier: Apache-2.0
// lines.c - see lines.h.
#include "file/lines.h"

#include "base/utf8.h"

#include <string.h>

const char *mu_line_fault_text(mu_line_fault f) {
    switch (f) {
    case MU_LINE_GOOD: break;
    case MU_LINE_LONG: return "is longer than 65536 bytes";
    case MU_LINE_NUL: return "holds a NUL byte";
    case MU_LINE_UTF8: return "is not valid UTF-8";
    case MU_LINE_QUOTE: return "has a quote that does not end its column";
    case MU_LINE_WIDE: return "has more than 64 columns";
    }
    return "is good";
}

void mu_lines_init(mu_lines *l, const void *text, size_t size) {
    const char *at = text;
    *l = (mu_lines){.at = at, .end = size ? at + size : at};
    if (size >= 3 && !memcmp(at, "\xef\xbb\xbf", 3)) l->at += 3;
}

bool mu_lines_next(mu_lines *l, const char **line, size_t *size) {
    if (l->at >= l->end) return false;
    const char *end = memchr(l->at, '\n', (size_t)(l->end - l->at));
    const char *stop = end ? end : l->end;
    *line = l->at;
    *size = (size_t)(stop - l->at);
    if (*size && stop[-1] == '\r') --*size;
    l->at = end ? end + 1 : l->end;
    l->number++;
    return true;
}

mu_line_fault mu_line_check(const char *line, size_t size) {
    if (size > MU_LINE_MAX) return MU_LINE_LONG;
    if (size && memchr(line, 0, size)) return MU_LINE_NUL;
    return mu_utf8_valid(line, size) ? MU_LINE_GOOD : MU_LINE_UTF8;
}

// A column that begins with a quote at `from`: its text moves one byte down. NULL when it does not end.
static char *unquote(char *from, const char *end, char separator, mu_column *out) {
    char *to = from, *at = from + 1;
    for (; at < end; at++) {
        if (*at == '"' && (at + 1 == end || at[1] != '"')) break;
        if (*at == '"') at++;
        *to++ = *at;
    }
    if (at >= end || (at + 1 < end && at[1] != separator)) return NULL;
    *out = (mu_column){from, (size_t)(to - from)};
    return at + 1;
}

mu_line_fault mu_line_split(char *line, size_t size, char separator, bool quotes,
                            mu_column column[MU_LINE_COLUMNS], int *n) {
    char *at = line, *end = line + size;
    *n = 0;
    for (;;) {
        if (*n == MU_LINE_COLUMNS) return MU_LINE_WIDE;
        char *stop;
        if (quotes && at < end && *at == '"') {
            stop = unquote(at, end, separator, &column[*n]);
            if (!stop) return MU_LINE_QUOTE;
        } else {
            stop = at < end ? memchr(at, separator, (size_t)(end - at)) : NULL;
            if (!stop) stop = end;
            column[*n] = (mu_column){at, (size_t)(stop - at)};
        }
        ++*n;
        if (stop == end) return MU_LINE_GOOD;
        at = stop + 1;
    }
}
