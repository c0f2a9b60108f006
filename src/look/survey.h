// SPDX-License-Identifier: Apache-2.0
// survey.h - what is in a data set, before anything is trained: values, classes, and the kind of a file.
//
// Reads records one after the other; of a large set evenly spaced ones, as many as MU_SURVEY_BYTES hold and
// at least MU_SURVEY_LEAST. Bad records are counted and left out. Thread: the reader's owner.
#ifndef MU_LOOK_SURVEY_H
#define MU_LOOK_SURVEY_H

#include "read/reader.h"

enum { MU_SURVEY_BYTES = 256 << 20, MU_SURVEY_LEAST = 1000 };

typedef struct mu_survey_field {
    int64_t  n;                 // values seen
    double   least, most, mean; // of bytes and floats; of word numbers and labels nothing
    int64_t *count;             // [n_classes] records of each class, of a single label; NULL = it is none
} mu_survey_field;

typedef struct mu_survey {
    int64_t         n_read, n_bad;
    mu_survey_field field[MU_MAX_FIELDS];       // as in the reader
} mu_survey;

// stop: asked between records, anything but MU_OK ends it with that status; NULL = never. Ended by fini, also
// after a failure.
MU_MUST_CHECK mu_status mu_survey_take(mu_survey *s, mu_reader *r, mu_status (*stop)(void *ctx), void *ctx,
                                       mu_err *err);
void mu_survey_fini(mu_survey *s);

// Places of the `k` largest of count[n], largest first, of equals the first one. Returns how many there are.
size_t mu_survey_largest(const int64_t *count, size_t n, size_t k, size_t *place);

typedef enum mu_file_kind {
    MU_FILE_RECORDS,            // a record file, and whatever is none of the others
    MU_FILE_TABLE,              // named .csv or .tsv, also compressed
    MU_FILE_SENTENCES,          // lines `label <tab> text`
    MU_FILE_IMAGES,             // a folder
} mu_file_kind;

// What a file or folder named alone is. MU_EIO when it cannot be opened.
MU_MUST_CHECK mu_status mu_survey_file(const char *path, mu_file_kind *out, mu_err *err);

#endif
