// SPDX-License-Identifier: Apache-2.0
// lines.h - text files line by line: ends, checks, columns.
//
// Lines end with LF or CR LF; a byte-order mark at the start is no text. What is wrong with a line is a fault
// of that line alone, so that one damaged line costs one record.
#ifndef MU_FILE_LINES_H
#define MU_FILE_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MU_LINE_MAX ((size_t)1 << 16)   // bytes of a line
#define MU_LINE_COLUMNS 64

typedef enum mu_line_fault {
    MU_LINE_GOOD,
    MU_LINE_LONG,               // longer than MU_LINE_MAX
    MU_LINE_NUL,                // holds a NUL byte
    MU_LINE_UTF8,               // is not valid UTF-8
    MU_LINE_QUOTE,              // a quote is not closed, or something follows it
    MU_LINE_WIDE,               // more than MU_LINE_COLUMNS columns
} mu_line_fault;

const char *mu_line_fault_text(mu_line_fault f);        // "is not valid UTF-8"

typedef struct mu_lines {
    const char *at, *end;
    int64_t number;
} mu_lines; // number: of the line last given

void mu_lines_init(mu_lines *l, const void *text, size_t size);
bool mu_lines_next(mu_lines *l, const char **line, size_t *size);       // without its end
mu_line_fault mu_line_check(const char *line, size_t size);

typedef struct mu_column { const char *text; size_t size; } mu_column;

// Cuts a line at `separator`. With `quotes` a column may stand in "double quotes", which hold separators and
// doubled quotes; these are undone in place, hence the line is the caller's copy.
mu_line_fault mu_line_split(char *line, size_t size, char separator, bool quotes,
                            mu_column column[MU_LINE_COLUMNS], int *n);

#endif
