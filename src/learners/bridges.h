// SPDX-License-Identifier: Apache-2.0
// bridges.h - the channels between workers of a learner that are on different ranks, seen by the parent of
// one of these ranks: it carries their messages.
//
//     rank 0                                              rank 1
//     worker 0 ── send ─► memory ─► parent ═ BRIDGE ═► parent ─► memory ── receive ─► worker 2
//                                   parent ◄═ let go ═ parent ◄───────── release ─────┘
//
// Workers use channels in the memory of their rank (comm/channel.h) and never call a transport. On the
// writer's rank the parent is the reader: it copies a message and lets go of it, so the writer may make the
// next one. That stays where it is until the far reader has let go of the one before: one message of a
// channel is under way, so whoever gets one has room for it, and no frame waits for a worker. Parents never
// wait for each other; and as workers wait in the one global order alone (net/partition.h), somebody can
// always go on.
//
// Beginning again. When a rank has lost a worker in the middle of a gradient, the workers of the learner on
// all ranks are ended, and all messages under way are of no use any more. Each rank counts how often it was
// the one that began this, and tells all others (LOST, with its rank and count); each of these ends its
// workers and tells all, too. Workers begin when all ranks have told of the same beginnings. So a BRIDGE
// frame whose sender had told of fewer than are known here is of the dead, and thrown away.
#ifndef MU_LEARNERS_BRIDGES_H
#define MU_LEARNERS_BRIDGES_H

#include "learners/nodes.h"

typedef struct mu_far {                 // a channel whose one end is on this rank, the other on `peer`
    int      number;                    // of the channel, the same on both
    int      peer;
    bool     goes;                      // this rank has the writer
    void    *memory;                    // of this end; borrowed
    size_t   bytes;
    // by mu_bridges
    void    *copy;                      // of a message that is being sent
    int      owed;                      // frames of it that are not sent yet
    int64_t  passed;                    // messages sent to the peer, or that came from it
    int64_t  let_go;                    // of these: by the far reader, or the peer was told so
} mu_far;

typedef struct mu_bridges {             // zeroed: there are none
    mu_nodes *nodes;                    // NULL = so
    const struct mu_part_forms *forms;
    int       learner, first, n;        // ranks [first, first + n) have workers of it
    mu_far   *far;                      // (n_far) owned
    int       n_far;
    int      *at;                       // (channels) which of `far` it is; -1 = of other ranks; owned
    uint32_t *told;                     // (n x n) beginnings by rank o that rank p has told of; owned
    int64_t   sent, received;           // bytes of messages
} mu_bridges;

typedef struct mu_bridges_opts {
    mu_nodes *nodes;
    const struct mu_part_forms *forms;
    int       learner, first, n;
    const mu_far *far;                  // (n_far) the upper part of each
    int       n_far;
} mu_bridges_opts;

MU_MUST_CHECK mu_status mu_bridges_init(mu_bridges *b, const mu_bridges_opts *o, mu_err *err);
void mu_bridges_fini(mu_bridges *b);    // what frames may still be sent from stays with the nodes
// Carries what can be carried. *moved: something was.
MU_MUST_CHECK mu_status mu_bridges_look(mu_bridges *b, bool *moved, mu_err *err);
// A BRIDGE that came.
MU_MUST_CHECK mu_status mu_bridges_take(mu_bridges *b, int peer, const mu_wire_bridge *w, mu_err *err);

// The workers of this rank have ended, as one was lost in the middle of a gradient: tells the others.
MU_MUST_CHECK mu_status mu_bridges_begin_again(mu_bridges *b, mu_err *err);
// A LOST of the learner. *begins: this rank has to end its workers, too, and then to tell the others.
MU_MUST_CHECK mu_status mu_bridges_take_lost(mu_bridges *b, int peer, const mu_wire_lost *w, bool *begins,
                                             mu_err *err);
MU_MUST_CHECK mu_status mu_bridges_follow(mu_bridges *b, int peer, mu_err *err);
// All ranks have told of all beginnings that this one knows of.
bool mu_bridges_all_told(const mu_bridges *b);

#endif
