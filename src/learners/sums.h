// SPDX-License-Identifier: Apache-2.0
// sums.h - dense gradients of learners on all ranks, added up (ps/wire_forms.h says which parameters).
//
// Each rank adds up those of its own learners, parameter by parameter, as soon as all have put it into their
// slots: while they still compute the gradients of the layers below. Of each it sends every other rank what
// lies in that one's stretch. Where the floats of all ranks have come, the owner of a stretch adds them up in
// the order of ranks and sends the total to all.
//
//     floats    [ stretch of rank 0 | stretch of rank 1 | ... ]     a piece: where a parameter and the
//     rank 0      adds up              goes to rank 1               stretch of this rank meet, or a part
//     rank 1      goes to rank 0       adds up
//     totals      go to all            go to all                    of that; frames are of pieces
//
// In half width (halves.h) what a rank sends of its sums is rounded, and so is each total, before its owner
// takes it as all others do. What it adds up itself of its own sums is not.
//
// The totals lie in slots of the first far learner, its keeper: no learner of this rank writes there. What
// came of other ranks for the own stretch lies in slots of their first learners.
#ifndef MU_LEARNERS_SUMS_H
#define MU_LEARNERS_SUMS_H

#include "learners/halves.h"
#include "ps/shared.h"

typedef struct mu_sums_piece {
    int      param;
    size_t   from, n;                   // floats of the parameter
    int64_t  at;                        // among the summed ones
    int64_t  came;                      // floats of this step, of all other ranks
    bool     added;                     // the total is on its way
} mu_sums_piece;

typedef struct mu_sums {                // zeroed: nothing is summed
    mu_nodes *nodes;
    mu_shared *shared;
    const mu_wire_forms *forms;         // NULL = so
    int       first, own, keeper;       // learners
    int64_t   step, version;            // under way, and of its weights
    // Of even and odd steps: own learners, totals of own pieces; owned. In half width only the first, of
    // which nothing is lent
    float    *sum[2];
    mu_halves halves;
    bool     *sent;                     // (params) own learners' part of this step; owned
    mu_sums_piece *piece;               // (n_pieces) owned
    int       n_pieces;
    int64_t  *totals;                   // (ranks) floats that came of others' totals; owned
} mu_sums;

// What the owner of the sums knows of a step.
typedef struct mu_sums_step {
    const bool *takes_part;             // (learners)
    const int64_t *done;                // (learners) gradients that are complete
} mu_sums_step;

// Leaves it zeroed where nothing is to be summed.
MU_MUST_CHECK mu_status mu_sums_init(mu_sums *s, mu_nodes *n, mu_shared *shared, mu_err *err);
void mu_sums_fini(mu_sums *s);          // what frames may still be sent from stays with the nodes
void mu_sums_begin(mu_sums *s, int64_t step, int64_t version);
// A SUM that came, of the step under way or the one before; its slots are free.
MU_MUST_CHECK mu_status mu_sums_take(mu_sums *s, int peer, const mu_wire_sum *w, mu_err *err);
// Sends what can be sent. *moved: something was.
MU_MUST_CHECK mu_status mu_sums_look(mu_sums *s, const mu_sums_step *now, bool *moved, mu_err *err);
bool mu_sums_are_complete(const mu_sums *s);
// All own gradients are complete, and the totals: from now on they are part of the gradient of one learner,
// and all others have none of it.
void mu_sums_settle(mu_sums *s, const mu_sums_step *now, int learners);

#endif
