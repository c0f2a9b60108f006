// SPDX-License-Identifier: Apache-2.0
// outfile.h - the one writer of files that appear whole or not at all.
//
// Written beside its place under a temporary name; commit flushes, syncs, renames and syncs the
// folder. Without commit nothing is left behind. A write error is kept and reported by commit, so
// that callers need to check once. What is there already and no plain file (a pipe, a terminal,
// /dev/null) is written as it is.
#ifndef MU_FILE_OUTFILE_H
#define MU_FILE_OUTFILE_H

#include "base/err.h"
#include "file/digest.h"

#include <stdint.h>
#include <stdio.h>

typedef struct mu_outfile mu_outfile;

MU_MUST_CHECK mu_status mu_outfile_create(const char *path, mu_outfile **out, mu_err *err);
// A file of a folder that will be renamed as a whole (store/checkpoint.h): it must not exist, has its own
// name from the start, and its folder is synced by the caller. commit fills *digest (fini it).
MU_MUST_CHECK mu_status mu_outfile_create_part(const char *path, mu_digest *digest, mu_outfile **out,
                                               mu_err *err);
void     mu_outfile_write(mu_outfile *f, const void *p, size_t n);
FILE    *mu_outfile_stream(mu_outfile *f);                      // to print into; fclose before commit
uint64_t mu_outfile_size(const mu_outfile *f);                  // bytes written so far
bool     mu_outfile_ok(const mu_outfile *f);                    // no write has failed yet
MU_MUST_CHECK mu_status mu_outfile_commit(mu_outfile *f, mu_err *err);  // takes f, also on failure
void     mu_outfile_abandon(mu_outfile *f);                     // takes f; NULL is fine

// Replaces dir/name by `size` bytes: afterwards, also after a power cut, the old or the new content is there.
MU_MUST_CHECK mu_status mu_outfile_replace(const char *dir, const char *name, const void *data, size_t size,
                                           mu_err *err);

#endif
