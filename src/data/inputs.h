// SPDX-License-Identifier: Apache-2.0
// inputs.h - what a model must know of its training data, in order to read other data in the same way.
//
// Every saved model carries it as one JSON text (train/model.h), so the training files may go:
//
//   {"format": 1, "reader": "sentences",
//    "fields": [{"name": "words", "shape": [37], "store": "i32", "classes": 5954}, ...],
//    "labels": ["ABBR", "DESC", ...],                 class names; absent = they have none
//    "mean": {"field": 0, "values": [...]},           what `mean` or `mean_file` came to; absent = none
//    "learnt": {...},                                 what the reader's class tells (mu_reader_class.tell)
//    "keys": {"separator": "tab", ...}}               absent = the job has them: see below
//
// The keys of the data block itself (scale, crop, how a line looks) are in the job, which is saved beside it.
// Where the training data was packed, `reader` is the one that read it before, and `keys` are of its block
// (mu_origin): the model knows its data as if it had been trained on the original.
#ifndef MU_DATA_INPUTS_H
#define MU_DATA_INPUTS_H

#include "read/reader.h"

#define MU_INPUTS_MAX_BYTES ((size_t)64 << 20)  // of the text; a safetensors header has at most 100 MB
void mu_inputs_set_max(size_t bytes);           // another limit, for tests; not while sources are written

typedef struct mu_source mu_source;

typedef struct mu_inputs {
    mu_arena           arena;
    json_t            *root;            // owned
    const char        *reader;          // class of the training data's reader
    const json_t      *learnt;          // in root; NULL = nothing
    const json_t      *keys;            // in root; NULL = the job has them
    int                n_fields;
    mu_data_field      field[MU_MAX_FIELDS];    // of the reader, before transformation
    const char *const *labels;          // [n_labels]; NULL = the classes have no names
    int64_t            n_labels;
    int                mean_field;      // whose mean; -1 = none
    const float       *mean;
    size_t             n_mean;
} mu_inputs;

// The text of the training data that is open as `train`; owned (free it with mu_free). *out = NULL where it
// would be larger than a model's header may be.
MU_MUST_CHECK mu_status mu_inputs_write(const mu_source *train, char **out, mu_err *err);

// `what` names the text in messages. MU_EMODEL where it is damaged.
MU_MUST_CHECK mu_status mu_inputs_read(const char *text, size_t size, const char *what, mu_inputs **out,
                                       mu_err *err);
void mu_inputs_destroy(mu_inputs *in);          // NULL is fine

#endif
