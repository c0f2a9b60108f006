// SPDX-License-Identifier: Apache-2.0
// workers.h - the workers of a learner: processes that compute its gradient together.
//
// To the core a learner is one, however many workers it has. Its first worker alone talks to the core: it
// takes leases, asks, and hands the gradient over when all have ended theirs. The others hear of it here:
//
//   first worker                              the others
//   lease    from the core, into the ring     out of the ring, in the same order
//   begin    asks the core, announces         waits for the announcement
//   push     each its own part of the slot (mu_share)
//   end      waits for the others, pushes     says that its part is complete
//
// Nothing is announced before the gradient before is complete, and a learner holds few leases, so nothing
// here is written over before all have read it. Workers of a learner live and die together: the parent ends
// all of them when one is lost, clears this row, and starts them again.
//
// Where learners are in step on several ranks (learners/parts.h), each rank has a core, a row and a first
// worker of its own: the first of those that are there. The cores of all ranks grant the same gradients.
// There the first worker, too, only says that its part is complete, and begins the next gradient when the
// parent, who has the parts of all ranks, has handed this one over.
#ifndef MU_PS_WORKERS_H
#define MU_PS_WORKERS_H

#include "ps/client_shared.h"

enum { MU_WORKERS_LEASES = 2 * MU_CORE_LEASES };        // of the ring: more than a learner may hold

typedef struct mu_worker_end {          // written by its worker
    _Alignas(64) _Atomic int64_t done;  // behind the step whose part it has completed
    int32_t bad;                        // the part is not finite
    float   scale;                      // multiplies it
    double  loss, accuracy;             // NaN: this worker has none
} mu_worker_end;

struct mu_workers_row {                 // of one learner; by its first worker except first_failed
    _Alignas(64) _Atomic int64_t granted;       // gradients announced, by this incarnation
    _Atomic int32_t over;               // no more will be
    _Atomic int32_t first_failed;       // worker + 1 that was the first to end in an error; 0 = none
    mu_grant  grant;                    // of the last one
    int32_t   slot;
    _Atomic int64_t leased;             // leases put into the ring
    _Atomic int32_t leases_over;
    mu_lease  lease[MU_WORKERS_LEASES];
    mu_worker_end worker[];             // (workers)
};

// How a worker talks to the core, by its place: the only one, the first, another.
const mu_side *mu_side_of(const mu_shared *g, int worker);

size_t mu_workers_row_bytes(int workers);
size_t mu_workers_channels_bytes(const mu_partition *p);        // of one learner; NULL: 0
// None of its processes is left. Bridges to other ranks stay as they are.
void   mu_workers_clear(mu_shared *g, int learner);
// Have all its workers that are on this rank completed their parts of this step?
bool   mu_workers_are_done(const mu_shared *g, int learner, int64_t step);
// Of a bridge of the partition, the memory of its channel, forward or back (comm/channel.h).
void  *mu_workers_channel(const mu_shared *g, int learner, int bridge, bool back);
// Opens the channels of the bridges of this worker's net, which closes them.
MU_MUST_CHECK mu_status mu_workers_connect(mu_shared_client *c, mu_net *net, mu_err *err);
// A worker ends in an error, which is in its row of the table: no other waits for it.
void   mu_workers_give_up(mu_shared *g, int learner, int worker);
// The process that was the first of its learner's to end so: errors of others may follow from it. -1 = none.
int    mu_workers_first_failed(const mu_shared *g, int learner);

#endif
