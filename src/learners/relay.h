// SPDX-License-Identifier: Apache-2.0
// relay.h - ranks that train one copy of the weights by any protocol: rank 0 applies, all others send.
//
// Learners are dealt to groups, which compute in step like any server group by hardsync. But its updates are
// not made here: the parent, here the relay, adds up the gradients of a step while they are computed, sends
// them to rank 0 (root.h), and gives the learners the weights that come back. They never see the difference.
//
//     own learners ── push ──> core of the group            rank 0: root ── core of all groups
//                    └─ parent: sums, messages ──────────────────>  │
//                    <─ parent: slices of the weights ────────────  ┘
//
// A step of a group, k:
//     begun      its learners compute; sums are made of what is ready (adding.h)
//     sent       when rank 0 has granted gradient k: sums, messages, and that it is complete
//     formed     all have pushed: nobody reads the weights any more
//     given      the weights for step k + 1 are there, slice by slice, and learners go on
//     committed  nothing of k is lent to the transport: its slots are free
//
// architectures (ps/protocol.h)
//     base   a group is one learner
//     adv    a group is a rank. As with base, weights for k + 1 come with the grant of k + 1, from rank 0
//     adv*   a group is a rank. It goes on at once, with the newest weights that it has. These come down a
//            tree of ranks: each asks the one above for newer ones when it has passed on those it has. Steps
//            that all groups make in step are as with adv
//
// The end. Groups leave when their samples are used; when all have, rank 0 closes the training.
#ifndef MU_LEARNERS_RELAY_H
#define MU_LEARNERS_RELAY_H

#include "learners/adding.h"
#include "learners/gathering.h"
#include "learners/halves.h"
#include "learners/root.h"

typedef struct mu_relay_group {
    mu_server_group *group;
    int       number;                   // among those of all ranks
    mu_adding adding;
    int64_t   step;                     // under way, of this run
    bool      begun, complete, formed, given, left;
    int64_t   may;                      // steps that its learners may begin, as its core knows
    bool      stopped;                  // its learners were told to end
    bool     *takes_part;               // (own) in this step; owned
    int64_t  *done;                     // (own) gradients that are in the core; owned
    mu_gradient_id *found;              // (own) of this step; owned
    int       n_found, n_sent;
    bool     *added, *sent;             // (params) sums; owned
    float    *sum[MU_CORE_SLOTS];       // of even and odd steps; owned
    mu_deal  *deal;                     // its samples
    mu_halves halves;                   // of ranks that send them
    int64_t   granted;                  // gradients that may be sent
    bool      last;                     // no more will be granted
    int64_t   version;                  // the root's, of the weights its learners have
    int64_t   used[MU_CORE_SLOTS];      // the same of those that a step was computed on
    int64_t   coming, came;             // version and floats of weights on their way; 0 = none are
    int       slice;                    // of the group's, that have them
} mu_relay_group;

typedef struct mu_relay_tree {          // adv*: weights on their way down
    float    *block[2];                 // owned
    int       ready;                    // of these, that holds the newest whole ones
    int64_t   version, coming, came;    // of these; of those that come into the other one, and floats
    int64_t   wanted[2];                // versions that the ranks below have; -1 = they do not ask
    bool      asked;                    // the rank above
} mu_relay_tree;

typedef struct mu_relay {               // zeroed: the training is none of several ranks with a root
    mu_nodes *nodes;                    // NULL = so
    mu_training *t;
    mu_relay_group *group;              // (n) of this rank; owned
    int       n, own;                   // learners of each
    bool      goes_on;                  // adv*
    int64_t   in_step;                  // steps
    int64_t   first_version;
    mu_root   root;                     // rank 0; else zeroed
    float   **out;                      // (groups of other ranks) weights on their way; owned
    mu_grant *pending;                  // (all groups) of other ranks, to be told; rows 0 = none; owned
    mu_relay_tree tree;
    mu_gathering gathering;
    int64_t   sent_ns;                  // when something of a step went out last
    int64_t   moved;                    // bytes that came until the last look
    bool      crowded;                  // ranks share a host
    bool      asked, due, said_stop;    // as in mu_spread
    int64_t   stop_at;                  // where groups are in step: the step that all end before; 0 = at once
    bool      stops;                    // groups are to end
    bool      closed;                   // rank 0 has said that nothing more comes
} mu_relay;

// nodes NULL, or a setup without a root: leaves it zeroed. group: (own groups) opened. From now on it takes
// what comes. hold: no update before mu_root_copy_out.
MU_MUST_CHECK mu_status mu_relay_open(mu_relay *r, mu_nodes *n, mu_server_group *group, bool hold,
                                      mu_err *err);
void mu_relay_close(mu_relay *r);
static inline bool mu_relay_leads(const mu_relay *r) { return r->nodes->rank == 0; }

// Sends, takes and gives what it can, for at most so long while nothing rings.
MU_MUST_CHECK mu_status mu_relay_look(mu_relay *r, mu_bell *bell, int64_t limit_ns, mu_err *err);
// Rank 0: all are to end. Others: this rank was asked to stop. Once.
MU_MUST_CHECK mu_status mu_relay_say_stop(mu_relay *r, bool due, mu_err *err);
// Own learners have ended. *all: everything has, of all ranks.
MU_MUST_CHECK mu_status mu_relay_has_ended(mu_relay *r, bool *all, mu_err *err);
// At the very end: others give their counts and wait until rank 0 has them; rank 0 adds them up. *used:
// samples.
MU_MUST_CHECK mu_status mu_relay_gather(mu_relay *r, mu_learners_result *result, int64_t *used, mu_err *err);

#endif
