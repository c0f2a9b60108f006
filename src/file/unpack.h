// SPDX-License-Identifier: Apache-2.0
// unpack.h - compressed streams, taken in pieces (unpack_<format>.c); file/infile.h reads files with them.
//
// A format only moves bytes from `in` to `out`. Reading, room, the cap of growth and messages are the
// caller's.
#ifndef MU_FILE_UNPACK_H
#define MU_FILE_UNPACK_H

#include "base/alloc.h"
#include "base/err.h"

#include <stdint.h>

#define MU_UNPACK_MAGIC 6       // bytes, at most

typedef struct mu_unpack {
    const uint8_t *in;          // not yet read
    size_t         n_in;
    bool           is_last;     // nothing follows `in`
    uint8_t       *out;         // not yet written
    size_t         n_out;
    uint64_t       limit;       // bytes that the content may have; set before start
    bool           ended;       // the stream is whole up to here; another one may follow
    const char    *why;         // what is wrong, where the status is MU_EDATA or MU_EUNSUPPORTED
    void          *state;       // of the format
} mu_unpack;

typedef struct mu_unpack_class {
    const char *name;           // of the format and of its program
    const char *package;        // to install where this build cannot read the format
    uint8_t     magic[MU_UNPACK_MAGIC];
    size_t      n_magic;
    mu_status (*start)(mu_unpack *u);   // MU_ENOMEM; NULL = this build cannot read the format
    // Moves what it can, so progress is seen in n_in and n_out. MU_EDATA: the stream is damaged;
    // MU_EUNSUPPORTED: it is not, but cannot be unpacked here; MU_ENOMEM.
    mu_status (*some)(mu_unpack *u);
    void (*stop)(mu_unpack *u);
} mu_unpack_class;

extern const mu_unpack_class mu_unpack_gzip, mu_unpack_xz, mu_unpack_zstd;

#endif
