// SPDX-License-Identifier: Apache-2.0
// finished.h - which samples of a job are finished: all below a cursor, and some ranges beyond it.
//
//     0 ....... cursor ~~~~~ [first, end) ~~~~~~~ [first, end) ~~~~~~~~~~~ ...       . finished   ~ open
//
// Learners finish samples out of order: while one of them is slow or stopped, the others go on beyond the
// samples it holds. A checkpoint keeps this list, and a resumed run uses what is open first.
//
// Numbers. A resumed run counts on from mu_finished_count, as if everything before had been finished in
// order, and number v stands for the (v - count)-th open sample. Behind the last range number and sample are
// the same. So who hands out numbers (the protocol core, a loop over batches) knows nothing of ranges; the
// source of batches alone asks which sample a number stands for.
//
// The list is bounded. When it is full the range with the fewest samples is given up: they count as open
// again, and as `dropped`.
#ifndef MU_DATA_FINISHED_H
#define MU_DATA_FINISHED_H

#include <stdint.h>

enum { MU_FINISHED_MAX = 1024 };

typedef struct mu_range { int64_t first, end; } mu_range;       // [first, end)

typedef struct mu_finished {            // zero: nothing is finished
    int64_t  cursor;                    // below it all is
    int64_t  dropped;                   // finished samples that the list has given up
    int32_t  n;
    // rising, none empty, none touches another or the cursor; one place more than are used, for adding
    mu_range range[MU_FINISHED_MAX + 1];
} mu_finished;

int64_t mu_finished_count(const mu_finished *f);                // samples: the first number not used
void    mu_finished_add(mu_finished *f, mu_range samples);      // what is finished already may be among them
// The sample that a number stands for, number >= mu_finished_count.
int64_t mu_finished_sample(const mu_finished *f, int64_t number);
// Of the numbers [mu_finished_count, next) those are finished now that lie in none of `open`, which is sorted
// here.
void    mu_finished_extend(mu_finished *f, mu_range *open, int n_open, int64_t next);

#endif
