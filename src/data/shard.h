// SPDX-License-Identifier: Apache-2.0
// shard.h - training data of which each rank has a part of its own (`muster data shard`).
//
// Samples are numbered, dealt and counted as ever: of each step of all ranks, W samples a rank, rank r
// computes those from r * W on. What changes is which record a sample is. With two ranks and W = 3, and
// records of rank 0 in capitals:
//
//     sample   0 1 2   3 4 5   6 7 8   9 ...
//     rank       0       1       0     1
//     record   C A E   b f a   D B F   e ...      each rank goes through its own in an order of its own
//
// So a record is a function of the sample's number alone, as it is without shards, and nothing else has to
// know of them. Two things follow. A rank begins its records anew when it has used all: an epoch of the
// training has every record once where it is a whole number of steps and shards are equally large; else some
// of its last step come from the next. And a run has to begin between two steps.
#ifndef MU_DATA_SHARD_H
#define MU_DATA_SHARD_H

#include "data/source.h"
#include "data/stripe.h"

typedef struct mu_own_records {         // zeroed: the data is whole
    int64_t   n;                        // of the shard
    mu_stripe stripe;                   // of samples, from 0 on; width 0 = not known yet
} mu_own_records;

// Does the reader have what this phase reads on this rank? Fills `out`.
MU_MUST_CHECK mu_status mu_shard_open(const mu_source_spec *spec, const mu_source_opts *o,
                                      const mu_reader *reader, mu_own_records *out, mu_err *err);
// Which of the own records a sample is: the epoch of the shard, and the place in it.
MU_MUST_CHECK mu_status mu_shard_place(const mu_own_records *own, int64_t sample, int64_t *epoch,
                                       int64_t *position, mu_err *err);

#endif
