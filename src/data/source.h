// SPDX-License-Identifier: Apache-2.0
// source.h - station 2: an ordered, transformed stream of batches over a reader.
//
// The stream is a function of (seed, position): sample number g of the run is record
// permute(seed, epoch = g / n, g mod n). Training batches run on over epoch ends, so every record is
// used exactly once per epoch and no batch is short. Evaluation reads records 0..n-1 in order once;
// its last batch may be short (batch->n < batch size).
//
// A bad record is counted, named in the log and replaced by the next good record in the same
// permutation; more than max_bad of them stop the run with MU_EDATA.
//
// Transformation of image fields, in this order: crop (random in training, centre otherwise), mirror
// (random, training only), minus mean (image or per channel), times scale. Random choices are keyed
// by (seed, sample number). Batches hold images as NHWC floats.
//
// Prefetch: mu_source_start runs one thread that fills a ring of batches; mu_source_next hands out the
// oldest and takes back the one before it. Without start, next fills inline: same batches, same order.
#ifndef MU_DATA_SOURCE_H
#define MU_DATA_SOURCE_H

#include "data/reader.h"
#include "job/job.h"

typedef struct mu_batch {
    int64_t     first;                  // sample number of row 0
    int64_t     n;                      // valid rows; rows beyond are stale
    mu_tensor   field[MU_MAX_FIELDS];   // (batch, ...) as the reader's fields after transformation
} mu_batch;

typedef struct mu_source mu_source;

typedef struct mu_source_opts {
    int64_t  batch;
    uint64_t seed;
    mu_phase phase;                     // training shuffles (if asked), augments and never ends
    bool     shuffle;
    int64_t  first_row, n_rows;         // rows of each global batch this learner takes; n_rows 0 = all
} mu_source_opts;

// Binds and opens one block of `data:` (reader class by key `reader`, plus the transformation fields
// scale, mean, mean_file, crop, mirror, limit, max_bad). Problems go to the binder's diags (MU_EJOB
// returned); failures of the files go to err.
mu_status mu_source_open(mu_binder *b, const mu_node *block, const mu_source_opts *o, mu_source **out, mu_err *err);
void      mu_source_close(mu_source *s);        // stops the thread; NULL is fine

const mu_reader *mu_source_reader(const mu_source *s);
int              mu_source_n_fields(const mu_source *s);
// Field after transformation (cropped shape); shape has no batch axis.
const mu_data_field *mu_source_field(const mu_source *s, int i);
int64_t          mu_source_n_records(const mu_source *s);       // after `limit`

mu_status mu_source_seek(mu_source *s, int64_t sample, mu_err *err);    // next batch starts there; not while started
mu_status mu_source_start(mu_source *s, mu_err *err);                   // starts the prefetch thread
void      mu_source_stop(mu_source *s);                                 // joins it; next() works inline again
// The next batch; valid until the following call. Evaluation past the end: *out = NULL.
mu_status mu_source_next(mu_source *s, const mu_batch **out, mu_err *err);

typedef struct mu_source_stats { int64_t n_bad; double wait_s; } mu_source_stats;
mu_source_stats mu_source_get_stats(const mu_source *s);        // wait_s: time next() waited for the prefetcher

extern const mu_field mu_source_fields[];       // the transformation keys, for help and the reference

#endif
