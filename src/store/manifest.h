// SPDX-License-Identifier: Apache-2.0
// manifest.h - manifest.json, the commit record of a checkpoint: what was saved, when in the training,
// and the checksums that decide whether the files beside it are still what was written.
//
// The last key is a checksum of the manifest itself (of its text with the 32 digits taken as zeros), so
// that a changed bit anywhere in a checkpoint is found. Format 1; a newer format is refused with a
// message that says so, an older one would be converted here.
#ifndef MU_STORE_MANIFEST_H
#define MU_STORE_MANIFEST_H

#include "base/alloc.h"
#include "base/err.h"
#include "data/finished.h"
#include "file/digest.h"

#include <stdint.h>

#define MU_MANIFEST_FORMAT 1
#define MU_MANIFEST_NAME "manifest.json"
#define MU_MANIFEST_MAX_BYTES ((size_t)16 << 20)
#define MU_MANIFEST_MAX_FILES 64

typedef struct mu_ckpt_number { const char *key; double value; } mu_ckpt_number;

typedef struct mu_ckpt_meta {   // the state of training that is not an array
    int64_t     step;           // done, >= 0
    int64_t     version;        // changes of the weights, >= 0: it names the checkpoint
    int64_t     epoch;          // whole passes done
    int64_t     sample;         // samples used of the current pass: the data cursor
    const mu_range *finished;   // samples finished beyond the cursor, numbered through all passes: rising,
    size_t      n_finished;     // apart from each other, at most MU_FINISHED_MAX
    int64_t     seed;
    uint64_t    job_hash;       // mu_job_hash of the job it was trained with
    const char *job_name;       // UTF-8
    double      wall_s;         // training time so far, over all resumes
    const mu_ckpt_number *numbers;      // anything else: best accuracy, patience left, ... Exact through a
    size_t      n_numbers;              // save and load, infinities and NaN included
} mu_ckpt_meta;

typedef struct mu_manifest_file {
    const char *name;           // plain file name inside the checkpoint's folder
    mu_digest   digest;         // of a loaded manifest: chunks belong to the manifest
} mu_manifest_file;

typedef struct mu_manifest {
    mu_arena     arena;         // owns everything below of a loaded manifest
    mu_ckpt_meta meta;
    int64_t      serial;        // grows by one with every save into the same folder: orders the checkpoints
    const char  *saved_at;      // RFC 3339
    mu_manifest_file *files;
    size_t       n_files;
} mu_manifest;

// Text of the manifest (owned, mu_free). MU_EUSAGE for texts that are not UTF-8.
MU_MUST_CHECK mu_status mu_manifest_format(const mu_manifest *m, char **out, size_t *size, mu_err *err);
// `path` names it in messages. MU_EMODEL for anything that mu_manifest_format would not write.
MU_MUST_CHECK mu_status mu_manifest_parse(const char *text, size_t size, const char *path, mu_manifest **out,
                                          mu_err *err);
MU_MUST_CHECK mu_status mu_manifest_load(const char *path, mu_manifest **out, mu_err *err);
void mu_manifest_destroy(mu_manifest *m);

const mu_manifest_file *mu_manifest_find(const mu_manifest *m, const char *file);       // NULL = not listed
// The caller's number, or `otherwise` when it was not saved.
double mu_ckpt_meta_number(const mu_ckpt_meta *m, const char *key, double otherwise);

#endif
