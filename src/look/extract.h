// SPDX-License-Identifier: Apache-2.0
// extract.h - what layers say about every record of a data set, as arrays to look at or to go on with.
//
// Row i of each array is record i: a bad record is an error here. Arrays are in logical order, whatever the
// layout of the net.
#ifndef MU_LOOK_EXTRACT_H
#define MU_LOOK_EXTRACT_H

#include "look/inspect.h"

typedef struct mu_extract_classes { // of whole numbers that stand for something
    int64_t            n;       // 0 = they are just numbers
    const char *const *names;   // [n], as long as the inspected data is open; NULL = none
} mu_extract_classes;

typedef struct mu_extract {
    mu_arena     arena;
    int64_t      rows;          // records
    size_t       n;
    const char **name;          // [n] layer, or data.<field>
    mu_tensor   *array;         // [n] (rows, ...); memory owned
    mu_extract_classes *classes; // [n]
} mu_extract;

typedef enum mu_extract_format {
    MU_EXTRACT_BY_NAME,         // what the file's name ends in
    MU_EXTRACT_NPY, MU_EXTRACT_CSV, MU_EXTRACT_SAFETENSORS, MU_EXTRACT_RECORD
} mu_extract_format;
#define MU_EXTRACT_CHOICES "npy|csv|safetensors|record"

// Runs the data through the net once and collects the outputs called `name`: layers, further outputs of a
// layer (`slice1.1`), fields of the data (`data.label`). MU_EUSAGE for a name that is not there, MU_EDATA
// when records are bad. mu_extract_fini is due in any case.
MU_MUST_CHECK mu_status mu_extract_run(mu_inspect *in, const char *const *name, size_t n, mu_extract *out,
                                       mu_err *err);
void mu_extract_fini(mu_extract *x);            // a zeroed one is fine
const mu_tensor *mu_extract_find(const mu_extract *x, const char *name); // NULL = not there

// Writes all arrays. The files appear complete or not at all.
//   .safetensors   one file, arrays by their names
//   .npy           the first array in `path`, each other one beside it: codes.npy, codes.label.npy
//   .csv           one line a record: its number, then every value
//   .rec           packed records (read/record.h), which `reader: record` of any job reads: a field for each
//                  array, called like it with _ for every character that a name in a job cannot have
// MU_EUSAGE for other endings.
MU_MUST_CHECK mu_status mu_extract_save(const mu_extract *x, const char *path, mu_extract_format format,
                                        mu_err *err);
// The format that `format` and `path` mean; MU_EXTRACT_BY_NAME = none.
mu_extract_format mu_extract_format_of(mu_extract_format format, const char *path);
MU_MUST_CHECK mu_status mu_extract_save_record(const mu_extract *x, const char *path, mu_err *err);

typedef struct mu_extract_file {
    char    path[MU_FS_PATH];
    size_t  first, n;           // the arrays in it: x->name[first .. first + n)
    int64_t rows, columns;      // columns: values of a record in all of them; in a .csv its number as well
} mu_extract_file;

// File i of those that mu_extract_save writes; false = there are fewer.
bool mu_extract_file_at(const mu_extract *x, const char *path, mu_extract_format format, size_t i,
                        mu_extract_file *out);

#endif
