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
#ifndef MU_DATA_RECORD_H
#define MU_DATA_RECORD_H

#include "read/reader.h"

#define MU_RECORD_MAGIC "MUSTREC1"
#define MU_RECORD_END "MURECEND"
enum {
    MU_RECORD_HEAD = 16, MU_RECORD_FIELD = 80, MU_RECORD_NAME = 24, MU_RECORD_DIMS = 4, MU_RECORD_FOOTER = 40,
    MU_RECORD_HEAD_MAX = MU_RECORD_HEAD + MU_MAX_FIELDS * MU_RECORD_FIELD + 8,
};

static inline size_t mu_record_pad(size_t n) { return (n + 7) & ~(size_t)7; }

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

#endif
