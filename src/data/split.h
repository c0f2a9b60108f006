// SPDX-License-Identifier: Apache-2.0
// split.h - some records of the training data are held back, to evaluate on while training.
//
// `data.validation: {fraction: 0.1, seed: 1}` says it in a job. It is written out in the job's tree before
// data is opened: the block of validation becomes a copy of that of training, and each says which part of the
// records it has (keys `part`, `fraction`, `split_seed` of every data block). So all that follows, saved jobs
// and models included, knows two ordinary blocks. Readers of records in order (those with the keys `from` and
// `to`) hold back the end of the file by these keys.
//
// A share of every class is held back, chosen by the seed; never the only record of a class. What a reader
// learns from the file (vocabulary, means) is of the whole file.
#ifndef MU_DATA_SPLIT_H
#define MU_DATA_SPLIT_H

#include "job/job.h"
#include "read/reader.h"

typedef enum mu_split_part { MU_PART_ALL, MU_PART_REST, MU_PART_HELD } mu_split_part;
#define MU_SPLIT_PARTS "all|rest|held"
#define MU_SPLIT_FRACTION "0.1"         // where a job does not say how much

// Writes out `data.validation` if it is such a block. Problems go to the job's diags. MU_ENOMEM.
MU_MUST_CHECK mu_status mu_split_write_out(mu_job *job, mu_err *err);
// Adds a block to be written out, of a job that has no validation data and needs some.
MU_MUST_CHECK mu_status mu_split_add(mu_job *job, mu_err *err);

// The records of `part` among the first n, in ascending order, in `arena`.
MU_MUST_CHECK mu_status mu_split_choose(mu_reader *r, int64_t n, mu_split_part part, double fraction,
                                        uint64_t seed, mu_arena *arena, int64_t **record, int64_t *count,
                                        mu_err *err);

#endif
