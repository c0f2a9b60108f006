// SPDX-License-Identifier: Apache-2.0
// reader.h - a reader turns one data format into numbered records (r_<format>.c).
//
// A reader gives random access: read(index) delivers record `index` of 0..n_records-1. Order,
// shuffling, sharding over learners, transformation and batching are built on top once
// (data/source.h), so a format is only open, read, close.
//
// A record has one or more fields (image, label, ...). What net layers see as `data.<field>`.
// Images are delivered height x width x channel (HWC) bytes or floats.
// Thread: open and close on the owner's thread; read only from one thread at a time (the prefetcher).
#ifndef MU_DATA_READER_H
#define MU_DATA_READER_H

#include "base/alloc.h"
#include "base/err.h"
#include "base/plugin.h"
#include "file/json.h"
#include "tensor/tensor.h"

#define MU_MAX_FIELDS 8
#define MU_WARMUP_MAX 1024      // records of a stream that an evaluation reads before the first that counts

typedef enum mu_store { MU_STORE_U8, MU_STORE_F32, MU_STORE_I32 } mu_store;

typedef struct mu_data_field {
    const char *name;           // "image", "label", "features", ...
    mu_shape    shape;          // of one record, no batch axis, logical order: (C, H, W), (F), () for a label
    mu_store    store;          // how read() delivers it
    bool        is_image;       // 3-D, transformed (scale, mean, crop, mirror); delivered HWC
    int64_t     n_classes;      // labels and words: classes seen or declared, 0 = unknown
    const char *const *names;   // [n_classes] what they are called, as long as the reader lives; or NULL
    const char *top_from;       // where the largest label stands, for messages; NULL = not known
    int64_t     streams;        // > 0: record i continues record i - streams, so the order is kept
    bool        is_begin;       // int32, of streams: 1 where a sequence begins; training may begin more
    bool        one_text;       // of is_begin: the streams are parts of one text, in order
} mu_data_field;

typedef struct mu_record {      // filled by read(); pointers stay valid until the next read()
    const void *field[MU_MAX_FIELDS];
} mu_record;

// What the training data of a model gave (data/inputs.h). A reader that has it takes numbers and names from
// there and learns nothing from its own file.
typedef struct mu_known {
    const json_t      *learnt;          // what a reader of the same class told; NULL = nothing
    const char *const *labels;          // [n_labels] class names; NULL = none
    int64_t            n_labels;
    const char        *told_by;         // class of the reader that told, whatever this one's; NULL = unknown
    const json_t      *told;            // what it told
} mu_known;

// Of records that another reader read before they were packed (read/record.h): what a model must know of it,
// so that it can be asked as if it had been trained on the original.
typedef struct mu_origin {
    const char   *reader;               // its class; NULL = the records are this reader's own
    const json_t *learnt;               // what it told; NULL = nothing
    const json_t *keys;                 // keys of its block besides names of files; NULL = none
} mu_origin;

// Field `target` is (number - mean) / deviation, so an answer is mean + deviation * value; deviation 0 = it
// is not.
typedef struct mu_data_unit { float mean, deviation; } mu_data_unit;

// Of records that are a part of a data set: every `of`-th of it, from number `index` on (record_write.c).
typedef struct mu_shard {
    int      index, of;                 // of 0: they are the whole
    int64_t  records;                   // of the whole
    uint64_t whole;                     // hash of it
} mu_shard;

typedef struct mu_reader {
    const struct mu_reader_class *class;
    void          *state;               // class->state_size bytes; fields bound before open
    mu_srcpos      pos;                 // of the block in the job file
    mu_arena      *arena;               // for what lives as long as the reader
    const mu_known *known;              // for open only; NULL = this is training data, or stands for itself
    int64_t        n_records;           // set by open
    int            n_fields;            // set by open
    mu_data_field  field[MU_MAX_FIELDS];
    const char *const *label_names;     // [n_labels] also when no record has a label; NULL = unknown
    int64_t        n_labels;
    mu_data_unit        target_unit;         // also when no record has a target
    mu_origin      origin;              // of packed records; as long as the reader lives
    mu_shard       shard;
} mu_reader;

// How a block of this reader is asked about other data than its own (look/question.h): keys of the block.
typedef struct mu_reader_ask {
    const char *file;                   // takes a file like the training file; NULL = none does
    const char *folder;                 // takes a folder
    const char *files;                  // takes a list of image files
    bool        typed;                  // a line that is typed makes a file
    const char *unlabelled, *unlabelled_value;  // key and value for data without labels; NULL = there is none
    bool        answers_beyond;         // it is asked without labels: the last answers lie beyond the file
    const char *const *names_training;  // further keys that belong to the training data only; NULL-terminated
} mu_reader_ask;

typedef struct mu_reader_class {
    MU_PLUGIN_HEAD;
    mu_status (*open)(mu_reader *r, mu_err *err);       // MU_EDATA/MU_EIO with the file named
    // MU_EDATA = this record is bad (err says file, record and why); the source counts and skips it.
    mu_status (*read)(mu_reader *r, int64_t index, mu_record *out, mu_err *err);
    // (optional, "record N") a name for messages: the file of an image, the line of a CSV.
    void (*describe)(const mu_reader *r, int64_t index, char *out, size_t size);
    // (optional, the field `label` of the record) what would cost much to read otherwise
    int64_t (*label_of)(const mu_reader *r, int64_t index);
    void (*close)(mu_reader *r);                        // accepts a half-open reader
    // (optional, nothing) What open learnt from the file besides class names, as members of the object `out`:
    // the `learnt` of readers for the same model.
    mu_status (*tell)(const mu_reader *r, json_t *out, mu_err *err);
    const mu_reader_ask *ask;                           // (optional, it cannot be asked)
} mu_reader_class;

extern const mu_registry mu_readers;

// Opens a reader whose fields are bound into `bound` (state_size bytes, private part zero). The bytes are
// copied, so one binding may be opened many times; what they point to must outlive the reader. Errors
// without a place of their own get `pos`. The reader has an arena of its own. known: NULL = nothing is known.
MU_MUST_CHECK mu_status mu_reader_open(const mu_reader_class *class, const void *bound, mu_srcpos pos,
                                       const mu_known *known, mu_reader **out, mu_err *err);
void mu_reader_close(mu_reader *r);             // NULL is fine

// class->read with the index checked.
MU_MUST_CHECK mu_status mu_reader_read(mu_reader *r, int64_t index, mu_record *out, mu_err *err);
void mu_reader_describe(const mu_reader *r, int64_t index, char *out, size_t size);
void mu_reader_describe_file(const mu_reader *r, char *out, size_t size);       // packed records: "`a.rec`"

// Takes a copy of the names as r->label_names and r->n_labels.
MU_MUST_CHECK mu_status mu_reader_keep_names(mu_reader *r, const char *const *names, size_t n, mu_err *err);

size_t mu_data_field_bytes(const mu_data_field *f);     // of one record as read() delivers it; 0 on overflow
mu_data_field mu_label_field(int64_t n_classes);        // the usual scalar int32 field `label`

#endif
