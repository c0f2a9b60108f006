// SPDX-License-Identifier: Apache-2.0
// digest.h - what the manifest remembers of a file: its length, one strong checksum, and one small
// checksum per 4 MiB, so that damage is not only detected but located.
#ifndef MU_FILE_DIGEST_H
#define MU_FILE_DIGEST_H

#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

#define MU_DIGEST_CHUNK ((size_t)4 << 20)

typedef struct mu_digest {
    uint64_t  size_bytes;
    uint64_t  xxh3[2];          // XXH3-128 of the whole file: high, low
    uint64_t *chunks;           // XXH64 of each 4 MiB (the last may be shorter); owned, mu_free
    size_t    n_chunks;
} mu_digest;

void mu_digest_fini(mu_digest *d);

// Text form of a 128-bit sum: 32 lower-case hexadecimal digits and a NUL.
void mu_digest_hex(const uint64_t sum[2], char out[33]);
void mu_digest_bytes(const void *data, size_t size, uint64_t sum[2]);   // XXH3-128

// Streaming: feed the bytes in order, then finish once.
typedef struct mu_digester mu_digester;

mu_digester *mu_digester_create(void);          // NULL when out of memory
void         mu_digester_destroy(mu_digester *g);
MU_MUST_CHECK mu_status mu_digester_feed(mu_digester *g, const void *data, size_t size, mu_err *err);
void         mu_digester_finish(mu_digester *g, mu_digest *out);        // hands the chunk list over

// Reads the file and compares. MU_EMODEL names the file and the first damaged byte range.
MU_MUST_CHECK mu_status mu_digest_verify(const mu_digest *d, const char *path, mu_err *err);

#endif
