// SPDX-License-Identifier: Apache-2.0
// series.h - a file of columns over time: which columns are numbers, which say the time, and what is missing.
//
//   number   all values are finite numbers. A gap has the value before it (the first ones that after them)
//   time     all values are dates (file/dates.h), or the first column and numbers that rise by even steps
//   text     anything else
//   empty    no value at all
//
// Rows are in the order of time: a file that begins with the newest date is turned round.
#ifndef MU_READ_SERIES_H
#define MU_READ_SERIES_H

#include "file/csv_rows.h"
#include "read/reader.h"

enum { MU_SERIES_COLUMNS = 1 << 12 };

typedef enum mu_series_kind {
    MU_SERIES_NUMBER,
    MU_SERIES_TIME,
    MU_SERIES_TEXT,
    MU_SERIES_EMPTY
} mu_series_kind;

typedef struct mu_series_column {
    const char *name; // of the header, else `column N`
    mu_series_kind kind;
    int64_t n_values, n_numbers, n_dates;
    int64_t n_gaps;  // rows without a value, filled
    const char *odd; // the first value that is neither number nor date; NULL = none
    int64_t odd_line;
} mu_series_column;

typedef struct mu_series {
    mu_arena *arena;
    const char *file;   // for messages
    mu_strings missing; // words that mean a gap; none = those of tables
    bool header;        // the first row names the columns
    bool turned;        // the file begins with the newest row
    int64_t disorder;   // line of the first row that is not after the one before; 0 = none
    size_t n_columns, n_rows;
    mu_series_column *column; // [n_columns]
    double *value;            // [n_rows x n_columns] heap; NAN in columns of text
    int64_t *line;            // [n_rows] in the file, from 1; heap
    // private
    const char **first; // [n_columns] the first row
    int64_t first_line;
    size_t cap_values, cap_lines;
} mu_series;

// Reads the whole file, plain or compressed. MU_EDATA for a file without rows, and for rows with another
// number of columns than the first: nobody knows which time they belong to. Always ended by mu_series_fini.
MU_MUST_CHECK mu_status mu_series_load(mu_series *s, mu_arena *arena, const char *file, mu_strings missing,
                                       mu_err *err);
void mu_series_fini(mu_series *s);

static inline double mu_series_at(const mu_series *s, size_t row, size_t column) {
    return s->value[row * s->n_columns + column];
}

// By name, else by number from 0, else `last`: the last column of numbers. -1 = there is none.
int64_t mu_series_find(const mu_series *s, const char *word);
// MU_EDATA: there is no column of numbers called `word`, which `key` asks for.
mu_status mu_series_no_column(const mu_series *s, const char *key, const char *word, mu_err *err);

#endif
