// SPDX-License-Identifier: Apache-2.0
// record.h - Muster's packed record file: written by record_write.c, read by r_record.c.
//
// One file holds a whole data set with fixed fields. All numbers are little-endian.
//
//     header   0   8  magic "MUSTREC1"
//              8   4  bytes of the header, checksum included
//             12   4  number of fields, 1..8
//             16  80  field, once each:
//                      0  24  name, padded with zeros
//                     24   4  store: 0 unsigned byte, 1 float32, 2 int32
//                     28   4  1 = image (dimensions C, H, W; elements in H, W, C order), 2 = says where
//                             sequences begin, 3 = the same of streams that are parts of one text
//                     32   4  number of dimensions, 0..4
//                     36   4  streams: record i continues record i - streams, 0 = it does not
//                     40  32  four dimensions, int64, unused ones 0
//                     72   8  number of classes, int64, 0 = none or unknown
//              ..   8  XXH3-64 of the header before it
//     record  ...     fields one after the other, each padded with zeros to a multiple of 8
//              ..   8  XXH3-64 of the padded fields, seeded with the record's number
//     notes    0   8  magic "MUNOTES1"; files of old have none
//              8   8  bytes of the text
//             16  ..  JSON text, padded with zeros to a multiple of 8
//              ..   8  XXH3-64 of the notes before it, seeded with the header's checksum
//     index   ...   8  offset of record i in the file, for each record
//     footer   0   8  number of records
//              8   8  offset of the index
//             16   8  XXH3-64 of the index
//             24   8  XXH3-64 of the 24 bytes before, seeded with the header's checksum
//             32   8  magic "MURECEND"
//
// The footer comes last, so a file that was cut short has none and is refused at once. Seeding with
// the record number makes a swapped record as visible as a damaged one. Records have one size today;
// the index is there so that a reader never has to assume it.
//
// The notes lie between the last record and the index, where older versions of Muster look at nothing: they
// read new files, and this one reads theirs. They hold what the packing reader knew besides its records
// (record_notes.c), so that a packed text trains and is asked as the text was:
//
//     {"format": 1, "labels": ["ABBR", ...],               class names; absent = they have none
//      "names": {"words": ["good", ...]},                   of the classes of a field; bytes as numbers
//      "target": {"mean": 22.5, "deviation": 9.1},          unit of the field `target`
//      "reader": "sentences", "learnt": {...}, "keys": {"separator": "tab", ...},   see mu_origin
//      "shard": {"index": 1, "of": 3, "records": 810, "whole": "0123456789abcdef"}}  see mu_shard
//
// Shards are record files of their own. Record j of shard k is record j * of + k of the whole.
#ifndef MU_DATA_RECORD_H
#define MU_DATA_RECORD_H

#include "read/reader.h"

#define MU_RECORD_MAGIC "MUSTREC1"
#define MU_RECORD_END "MURECEND"
#define MU_RECORD_NOTES "MUNOTES1"
#define MU_RECORD_NOTES_MAX ((size_t)64 << 20)  // of the text; more is left out with a warning
enum {
    MU_RECORD_NOTES_HEAD = 16,
    MU_RECORD_HEAD = 16, MU_RECORD_FIELD = 80, MU_RECORD_NAME = 24, MU_RECORD_DIMS = 4, MU_RECORD_FOOTER = 40,
    MU_RECORD_HEAD_MAX = MU_RECORD_HEAD + MU_MAX_FIELDS * MU_RECORD_FIELD + 8,
    MU_RECORD_SHARDS = 256,             // at most; all are open while they are written
};

static inline size_t mu_record_pad(size_t n) { return (n + 7) & ~(size_t)7; }

// What the reader knows, as the text of the notes; owned (mu_free). *out = NULL: nothing, or too much. shard:
// whose file it is for; NULL = the whole.
MU_MUST_CHECK mu_status mu_record_notes_make(const mu_reader *r, const mu_shard *shard, char **out,
                                             mu_err *err);
// Gives the reader, whose fields are set, what the notes say; *root stays alive as long as it. `what` names
// the file. MU_EDATA where they are damaged, or contradict r->known.
MU_MUST_CHECK mu_status mu_record_notes_take(mu_reader *r, const char *text, size_t size, const char *what,
                                             json_t **root, mu_err *err);

typedef struct mu_record_progress {
    void   (*report)(void *ctx, int64_t done, int64_t total);   // (optional, silent) now and then
    mu_status (*stop)(void *ctx);       // (optional, never) before each record: not MU_OK ends the writing
    void    *ctx;
    int64_t  max_bad;                   // bad records left out before giving up
    int64_t  n_written, n_bad;          // set by mu_record_write
} mu_record_progress;

// Writes all good records of an open reader. The file appears complete or not at all, also after `stop`,
// whose status is then returned.
MU_MUST_CHECK mu_status mu_record_write(mu_reader *r, const char *path, mu_record_progress *p, mu_err *err);
// The same, dealt to `n` files in turn. Each appears complete or not at all.
MU_MUST_CHECK mu_status mu_record_write_shards(mu_reader *r, const char *const *path, int n,
                                               mu_record_progress *p, mu_err *err);

#endif
