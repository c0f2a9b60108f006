// SPDX-License-Identifier: Apache-2.0
// journal.h - which gradients went into which update: a ring in the shared memory of a run that is recorded.
//
// The executor that commits an update appends its entries, under the lock of the core, before the core is
// switched over; the parent takes them out and writes them to the log (learners/record.h). A death between
// the two leaves entries of updates that are committed again by another executor: they are recognised by
// their version and not appended twice. So nothing is lost and nothing is there twice, whichever process
// dies. A full ring makes the executor wait, not forget.
#ifndef MU_PS_JOURNAL_H
#define MU_PS_JOURNAL_H

#include "ps/core.h"

#include <stdatomic.h>

typedef struct mu_journal_update {
    int64_t version;            // the update makes; one more than the one before
    double  rate;
    int32_t n_parts;
    int32_t skip;               // a part was not finite: the weights stayed as they were
} mu_journal_update;

typedef struct mu_journal_part {        // in the order in which an update adds them
    mu_gradient_id id;
    int64_t global_rows;        // what its loss was divided by
    double  loss;               // as the learner saw it, so that a replay can tell the first difference
    float   weight;             // in the update, the learner's scale included
    float   scale;              // by norm clipping
    int32_t bad;
} mu_journal_part;

typedef struct mu_journal_entry {       // one for each part
    _Alignas(64) mu_journal_update update;
    mu_journal_part part;
} mu_journal_entry;

typedef struct mu_journal {
    _Alignas(64) _Atomic uint64_t written;      // entries so far; by the holder of the lock
    _Alignas(64) _Atomic uint64_t read;         // entries taken out; by the parent
    uint64_t n;                                 // room
    mu_journal_entry entry[];
} mu_journal;

uint64_t mu_journal_room(int learners); // entries of a ring for so many
static inline size_t mu_journal_size(uint64_t room) {
    return sizeof(mu_journal) + room * sizeof(mu_journal_entry);
}

// The writer's side: is the update in the journal already, how many entries fit, the i-th new one, done.
bool              mu_journal_has(const mu_journal *j, int64_t version);
uint64_t          mu_journal_free(const mu_journal *j);
mu_journal_entry *mu_journal_next(mu_journal *j, int i);
void              mu_journal_publish(mu_journal *j, int n);

// The reader's: the oldest entry, NULL when there is none; and giving up the oldest.
const mu_journal_entry *mu_journal_peek(const mu_journal *j);
void mu_journal_take(mu_journal *j);

#endif
