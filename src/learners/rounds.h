// SPDX-License-Identifier: Apache-2.0
// rounds.h - server groups of several ranks show each other some of their weights: one round a merge.
//
// In a round each rank sends the same stretch of floats of each of its groups to all other ranks. It is
// complete when those of all groups have come, and its own are out: until then nobody may change these. Then
// every rank has the same floats of all groups, and computes the same merge of them (merging.h).
//
// Rounds are numbered, and a rank is at most one ahead of another: what comes of the next round waits.
#ifndef MU_LEARNERS_ROUNDS_H
#define MU_LEARNERS_ROUNDS_H

#include "learners/nodes.h"

typedef struct mu_rounds {
    mu_nodes *nodes;
    int       own, first, all;          // groups of this rank are first to first + own - 1 of all
    float   **theirs;                   // (all) blocks of the groups of others, NULL for own; owned
    int64_t  *got;                      // (all) floats that came in this round; owned
    int64_t   round;
    bool      begun;                    // own floats are being sent
    bool      asked;                    // another rank has begun
    int64_t   begin, end;               // of this round, when it is begun
} mu_rounds;

MU_MUST_CHECK mu_status mu_rounds_init(mu_rounds *r, mu_nodes *n, int own, int all, mu_err *err);
void mu_rounds_fini(mu_rounds *r);
// weights: (own) blocks, which stay as they are until the round is complete.
MU_MUST_CHECK mu_status mu_rounds_begin(mu_rounds *r, int64_t begin, int64_t end, float *const *weights,
                                        mu_err *err);
// An EXCHANGE that came.
MU_MUST_CHECK mu_status mu_rounds_take(mu_rounds *r, int peer, const mu_wire_exchange *x, bool *later,
                                       mu_err *err);
bool mu_rounds_is_complete(const mu_rounds *r);
void mu_rounds_next(mu_rounds *r);

#endif
