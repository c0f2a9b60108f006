// SPDX-License-Identifier: Apache-2.0
// csv_rows.h - the rows of a CSV file, one after the other, with their lines.
//
// Columns may stand in double quotes, with separators and line ends inside. Blanks around unquoted columns,
// empty lines and a byte-order mark do not count. Lines end with LF, CR LF or CR.
#ifndef MU_FILE_CSV_ROWS_H
#define MU_FILE_CSV_ROWS_H

#include "base/err.h"
#include "file/infile.h"

#include <stdbool.h>
#include <stdint.h>

enum { MU_CSV_MAX_COLUMNS = 1 << 20, MU_CSV_MAX_COLUMN_BYTES = 1 << 16 };

typedef struct mu_csv_row { // valid during the call that gets it
    int64_t line;           // where it begins, from 1
    size_t n;               // columns
    const char *text;       // all of them, each with its '\0'
    const size_t *start;    // [n] where each begins in text
} mu_csv_row;

static inline const char *mu_csv_column(const mu_csv_row *r, size_t i) { return r->text + r->start[i]; }

typedef mu_status (*mu_csv_row_fn)(void *ctx, const mu_csv_row *row, mu_err *err);

// Calls `use` for each row of the loaded file; the first failure ends it. MU_EDATA with file and line where
// the text cannot be split into rows.
MU_MUST_CHECK mu_status mu_csv_parse(const mu_infile *in, char separator, mu_csv_row_fn use, void *ctx,
                                     mu_err *err);

// Room for `need` elements of `size` bytes in *p, which has room for *cap. False when out of memory.
bool mu_csv_reserve(void **p, size_t *cap, size_t need, size_t size);

#endif
