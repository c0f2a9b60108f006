// SPDX-License-Identifier: Apache-2.0
// outfile.h - a data file that appears whole or not at all.
//
// Written beside its place under a temporary name; commit flushes, syncs, renames and syncs the
// folder. Without commit nothing is left behind. A write error is kept and reported by commit, so
// that callers need to check once.
#ifndef MU_FILE_OUTFILE_H
#define MU_FILE_OUTFILE_H

#include "base/err.h"

#include <stdint.h>

typedef struct mu_outfile mu_outfile;

MU_MUST_CHECK mu_status mu_outfile_create(const char *path, mu_outfile **out, mu_err *err);
void     mu_outfile_write(mu_outfile *f, const void *p, size_t n);
uint64_t mu_outfile_size(const mu_outfile *f);                  // bytes written so far
bool     mu_outfile_ok(const mu_outfile *f);                    // no write has failed yet
MU_MUST_CHECK mu_status mu_outfile_commit(mu_outfile *f, mu_err *err);  // takes f, also on failure
void     mu_outfile_abandon(mu_outfile *f);                     // takes f; NULL is fine

#endif
