// SPDX-License-Identifier: Apache-2.0
// joint.h - one server group on all ranks: each rank has all learners' rows, makes every update itself, and
// so has the same weights and histories as all others.
//
// Learners of other ranks are far: here they have a row and queue slots, and the parent is their process. It
// sends the gradients of its own learners to all, puts those that come into the slots of far learners, and
// gives these to the core when all of a step are there. For executors an update is like any other.
//
//     own learners ── push ──> core                     ┌──> rank 1: slots of far learners ──> core
//                       └── parent: each, or summed up ─┤    (wire_forms.h)
//                                                       └──> rank 2 ...
//
// A step, seen by a parent:
//     sums     dense gradients of own learners are added up as they compute them, and with those of others
//              (sums.h)
//     own      its learners push; what is not summed of each gradient goes out as it comes
//     given    everything is there: far gradients are pushed, and the update forms
// Where learners have several workers, what they give goes to all ranks part by part, and nothing is summed
// (parts.h).
//
// Memory that a frame was sent from is written again only when it is sent: far gradients of
// step k wait until the frames of step k - 1 are out, and no learner begins step k + 1 before.
//
// The end. All ranks stop at the same version: rank 0 names one that none can have reached.
#ifndef MU_LEARNERS_JOINT_H
#define MU_LEARNERS_JOINT_H

#include "learners/gathering.h"
#include "learners/parts.h"
#include "learners/server_group.h"
#include "learners/sums.h"

typedef struct mu_joint {               // zeroed: the training is on one rank, or has groups of its own
    mu_nodes *nodes;                    // NULL = so
    mu_server_group *group;
    const mu_wire_forms *forms;
    int       first, own, all;          // own learners are [first, first + own) of all
    int64_t   step;                     // under way, of this run
    bool      begun, given_up;          // the step; nothing more comes
    bool     *takes_part;               // (all) in this step; owned
    mu_gradient_id *found;              // (own) room; owned
    int64_t  *arrived;                  // (all) gradients that came, or own ones that were sent; owned
    mu_sums   sums;
    mu_parts  parts;                    // of learners with several workers; then the two above are not used
    int64_t   sent_ns;                  // when own gradients went out last
    bool      crowded;                  // ranks share a host
    uint64_t  seen;                     // what is waiting in the core, at the last look
    int64_t   moved;                    // bytes that came until then
    int64_t   stop_at;                  // version; 0 = not known
    bool      halts;                    // the core knows
    bool      asked, due, said_stop;    // as in mu_spread
    mu_server server;                   // the parent applies when no learner is left to do it
    bool      serves;
    mu_role   role;                     // of it
    mu_gathering gathering;             // at the end
} mu_joint;

// nodes NULL, or groups that are not joint: leaves it zeroed. From now on it takes what comes.
MU_MUST_CHECK mu_status mu_joint_open(mu_joint *j, mu_nodes *n, mu_server_group *group, mu_err *err);
void mu_joint_close(mu_joint *j);
static inline bool mu_joint_leads(const mu_joint *j) { return j->nodes->rank == 0; }

// Sends, takes and gives what it can, for at most so long while nothing rings.
MU_MUST_CHECK mu_status mu_joint_look(mu_joint *j, mu_bell *bell, int64_t limit_ns, mu_err *err);
// Rank 0: all are to end. Others: this rank was asked to stop. Once.
MU_MUST_CHECK mu_status mu_joint_say_stop(mu_joint *j, bool due, mu_err *err);
// Own learners have ended: has everything, of all ranks?
bool mu_joint_has_ended(const mu_joint *j);
// At the very end: others give their counts and wait until rank 0 has them; rank 0 adds them up, and checks
// that all have the same weights.
MU_MUST_CHECK mu_status mu_joint_gather(mu_joint *j, mu_learners_result *r, mu_err *err);

#endif
