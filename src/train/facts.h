// SPDX-License-Identifier: Apache-2.0
// facts.h - what the first batches of a training tell about its data, for advice (advice.h).
//
// The process that computes looks at batches it has anyway: once at the numbers of one batch, and during the
// first epoch at the labels. Learners do so together, in shared memory; the parent reads.
#ifndef MU_TRAIN_FACTS_H
#define MU_TRAIN_FACTS_H

#include "train/session.h"

#include <stdatomic.h>

enum { MU_FACTS_CLASSES = 4096 };       // more are not counted

typedef struct mu_field_facts {         // of the numbers of one field, after scaling
    double least, most, mean, deviation;
    bool   whole;                       // all of them are whole numbers
} mu_field_facts;

typedef struct mu_facts {               // no pointers: it may lie in shared memory
    // by mu_facts_begin
    int32_t  label_field;               // of the classes; -1 = none
    int64_t  n_classes;                 // that the reader knows; 0 = it does not
    int64_t  n_outputs;                 // scores of the layer that compares them; 0 = there is none
    uint32_t numbers;                   // bit i: field i has numbers that the net reads
    // by those that compute
    _Atomic int32_t looked;             // 0 no batch yet, 1 being looked at, 2 `field` is filled
    mu_field_facts  field[MU_MAX_FIELDS];
    _Atomic int32_t counting;           // labels are wanted; taken back after the first epoch
    _Atomic uint64_t seen[MU_FACTS_CLASSES / 64];       // bit k: a record of class k was used
} mu_facts;

void    mu_facts_begin(mu_facts *f, const mu_session *s);
void    mu_facts_add(mu_facts *f, const mu_batch *batch);
int64_t mu_facts_missing(const mu_facts *f, int64_t *first);    // classes not seen, and the first of them

#endif
