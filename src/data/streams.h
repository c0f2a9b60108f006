// SPDX-License-Identifier: Apache-2.0
// streams.h - where texts that are read side by side begin anew in training, and what stands before them in
// an evaluation.
//
// Record i continues record i - streams, and a net carries its state along. Trained on nothing but states
// that are thousands of records old it learns these alone, and fails where a text begins: it need not learn
// to find out where it is. So training begins streams anew now and then, and an evaluation reads some records
// before those that count.
// All functions depend on their arguments alone, so whoever asks gets the same answer.
#ifndef MU_DATA_STREAMS_H
#define MU_DATA_STREAMS_H

#include "base/rng.h"

#include <stdbool.h>

typedef enum mu_reset { MU_RESET_NEVER, MU_RESET_RANDOM, MU_RESET_COUNTED } mu_reset;
#define MU_RESET_WORDS "never|random|counted"

typedef struct mu_streams {
    int64_t    n;               // streams; 0 = records do not continue each other
    int64_t    per_stream;      // records of each
    mu_reset   reset;           // training
    int64_t    every;           // records of a stream from one reset to the next; with random ones on average
    mu_rng_key key;             // of the random ones
    int64_t    warmup;          // evaluation: records of each stream before the first one; 0 = none
} mu_streams;

// Does training begin stream g % n anew with sample g, apart from where the data says so?
// random: with the chance 1/every, by (seed, g). counted: with every `every`th record of the stream; the
// streams take turns, so that they begin anew as evenly in time as they can.
bool mu_streams_reset(const mu_streams *s, int64_t g);

// The record that stands at place g < 0 of an evaluation, g >= -warmup * n: each of the streams, parts of one
// text, follows the end of the one before it, and the first one, for want of a better, that of the last.
int64_t mu_streams_record_before(const mu_streams *s, int64_t g);

#endif
