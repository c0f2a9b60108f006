// SPDX-License-Identifier: Apache-2.0
// infile.h - one data file as random-access bytes, plain or compressed (gzip, xz, zstd).
//
// A plain file is read with pread, not mapped: a file that is cut short or a disk that fails while a
// run is on then gives an error instead of SIGBUS, and the page cache is shared between learners all
// the same. A compressed file (found by its magic, not its name) is inflated into memory once; growth is
// capped at 64 MiB + 100 times the compressed size, so a crafted file cannot exhaust memory.
#ifndef MU_FILE_INFILE_H
#define MU_FILE_INFILE_H

#include "base/alloc.h"
#include "base/err.h"

#include <stdint.h>

typedef struct mu_infile {
    const char    *path;        // borrowed, for messages
    bool           is_open;
    int            fd;          // -1 once the content is in memory
    const uint8_t *mem;         // whole content (inflated or loaded), owned; NULL = read through fd
    uint64_t       size;        // of the content, after inflation
} mu_infile;

// MU_EIO when the file cannot be opened, MU_EDATA when its compressed stream is damaged, MU_EUNSUPPORTED
// when this build cannot unpack it. *f may be zeroed or closed before.
MU_MUST_CHECK mu_status mu_infile_open(mu_infile *f, const char *path, mu_err *err);
void mu_infile_close(mu_infile *f);             // a zeroed or half-open file is fine

// n bytes at offset: *out points into the content in memory or to scratch (n bytes), filled.
// MU_EDATA when the range reaches beyond the end.
MU_MUST_CHECK mu_status mu_infile_read(const mu_infile *f, uint64_t offset, size_t n, void *scratch,
                                       const void **out, mu_err *err);
// Brings the whole content into memory (f->mem, f->size).
MU_MUST_CHECK mu_status mu_infile_load(mu_infile *f, mu_err *err);

// Fixed-order integers of file formats.
static inline uint32_t mu_be32(const uint8_t *p) {
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}
static inline uint64_t mu_le64(const uint8_t *p) {
    uint64_t v = 0;
    for (int i = 7; i >= 0; i--) v = v << 8 | p[i];
    return v;
}
static inline uint32_t mu_le32(const uint8_t *p) {
    return (uint32_t)p[3] << 24 | (uint32_t)p[2] << 16 | (uint32_t)p[1] << 8 | p[0];
}
static inline void mu_put_le64(uint8_t *p, uint64_t v) {
    for (int i = 0; i < 8; i++, v >>= 8) p[i] = (uint8_t)v;
}
static inline void mu_put_le32(uint8_t *p, uint32_t v) {
    for (int i = 0; i < 4; i++, v >>= 8) p[i] = (uint8_t)v;
}

#endif
