// SPDX-License-Identifier: Apache-2.0
// parts.h - gradients of learners that have several workers, put together by the parents of all ranks in step
// (joint.h).
//
// A process is worker w of learner l; each rank has as many of them as any other, in their order: so learners
// are whole on ranks, or, where there are fewer than ranks, each is on several. Every rank has a slot for
// each gradient with room for what every worker gives to it (part_forms.h). What its own workers have
// completed a parent sends to all ranks; where the parts of all workers of all learners are, they are handed
// to the core, and the update forms as any other.
//
//     rank 0: workers 0, 1 of learner 0         rank 1: workers 2, 3 of learner 0
//     core 0 ─ grant ─► 0, 1 ◄═ bridges.h ═► 2, 3 ◄─ grant ─ core 1
//                       parts of 0, 1 ═════════► slot
//                       slot ◄═══════════════════ parts of 2, 3
//     all are here: push to core 0, update      all are here: push to core 1, the same update
//
// Dense gradients of a piece that several workers here have are added up in the slot before they are sent:
// the first of these workers gives the sum, the others nothing. The sum is kept, too: workers that make a
// part once more (below) write over it.
//
// In step cores are functions of the job: all grant a learner the same samples and weights, so nobody is
// asked across ranks.
//
// A lost worker. Its rank ends the other workers that are here. Then their part of the gradient decides:
//     none is in hand      they begin the next one, here alone
//     it is complete       it is sent, and others may have it in their weights already: nobody here begins
//                          until the parent has handed it over
//     it is not complete   the learner begins again, on all its ranks (bridges.h). When all have ended their
//                          workers each knows what each had sent. Whose part of this gradient was sent, and
//                          others' was not, makes it once more, for the values that these need; it has the
//                          same bits, and is not sent again. Where all were sent, as above
// So what a learner ends with has the same bits whoever dies.
#ifndef MU_LEARNERS_PARTS_H
#define MU_LEARNERS_PARTS_H

#include "learners/bridges.h"
#include "learners/server_group.h"

typedef struct mu_part_here {           // of a process
    int64_t  arrived;                   // parts that are here: behind the step of the last one
    int64_t  sent;                      // of an own process: the same, to all ranks
    int64_t  global_rows;
    int32_t  bad;
    float    scale;
    double   loss;
} mu_part_here;

typedef struct mu_parts {               // zeroed: learners have one worker
    mu_nodes *nodes;                    // NULL = so
    mu_server_group *group;
    mu_partners partners;               // of the watchdog
    mu_part_here *part;                 // (processes) owned
    bool     *waits;                    // (learners) dead here, its part complete and not handed over; owned
    float    *sum[2];                   // (own learners x sum_floats) of even and odd steps; owned
    int      *gives;                    // (2 x own learners x n_sums) which of the workers; -1 = none; owned
    int64_t   again;                    // the step that workers here make once more, + 1; 0 = none
    bool      gathers;                  // the learner begins again, and not all its ranks have said so
    mu_bridges bridges;
} mu_parts;

MU_MUST_CHECK mu_status mu_parts_open(mu_parts *p, mu_nodes *n, mu_server_group *group, mu_err *err);
void mu_parts_close(mu_parts *p);

// Steps are of this run; `version` is that of the weights they are of.
// A PUSH that came; its slot is free.
MU_MUST_CHECK mu_status mu_parts_take(mu_parts *p, int peer, const mu_wire_push *w, int64_t version,
                                      mu_err *err);
// Sends the parts of own workers that are complete. *moved: some were.
MU_MUST_CHECK mu_status mu_parts_look(mu_parts *p, int64_t step, const bool *takes_part, bool *moved,
                                      mu_err *err);
bool mu_parts_are_sent(const mu_parts *p, int64_t step, const bool *takes_part);       // own ones
bool mu_parts_are_here(const mu_parts *p, int64_t step, const bool *takes_part);       // all
// The gradient of a learner is complete, and is about to be handed to the core.
void mu_parts_settle(mu_parts *p, int learner, int64_t step);
// A LOST of a learner.
MU_MUST_CHECK mu_status mu_parts_take_lost(mu_parts *p, int peer, const mu_wire_lost *w, mu_err *err);
// The parent has to apply: learners that would are dead until it has.
bool mu_parts_want_turns(const mu_parts *p);

#endif
