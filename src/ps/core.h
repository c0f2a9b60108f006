// SPDX-License-Identifier: Apache-2.0
// core.h - the protocol core: who may begin, what is applied, what is refused. It does no I/O.
//
// A state machine over plain data: no clock, thread, lock, random number or pointer inside, so the same
// code runs in shared memory (under one lock, crash-safe by shared.c), in the simulator with thousands
// of learners (test/sim), and later over MPI. core.pml is the model of it that Spin checks.
//
// One gradient's way:
//   lease   samples are promised to a learner, a few batches ahead so that it can prefetch
//   ask     may it begin its next gradient?   GO (with the clock of the weights), HOLD, END
//   push    the gradient is complete in a queue slot: accepted, or refused by the fence
//   form    enough gradients for an update? then the oldest are taken. Updates that are possible at the same
//           time are formed together: a run, which executors apply slice by slice in one go
//   applied the run is in the weights: the clock ticks for each of its updates, slots are free again
//   lost    a learner died: the gradient it was computing is lost, its samples stay promised to the
//           next incarnation; what it had pushed completely stays valid
//
// Invariants (mu_core_check): begun = applied + rejected + lost + waiting + computing for every learner;
// a learner never has more than MU_CORE_SLOTS gradients waiting or being applied; every sample is in
// exactly one gradient that was applied or is still promised; the clock never goes back; staleness of an
// accepted gradient never exceeds the bound; a gradient of an old incarnation is never accepted.
//
// A core can be kept twice, so that a change that is not finished is never seen (shared.c): events are made
// in the spare copy, and mu_core_catch_up brings that to the state of the good one by copying what differs.
// For this an event notes every row of a learner before it changes it.
#ifndef MU_PS_CORE_H
#define MU_PS_CORE_H

#include "data/finished.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    MU_CORE_SLOTS = 2,          // gradients of one learner that wait or are being applied
    MU_CORE_LEASES = 8,         // leases a learner may hold
    MU_CORE_RUN = 32,           // updates of a run
    MU_CORE_PHASES = 4,         // protocols one after the other, behind the steps made in step
};

// What is different while one of several protocols is in force. The next follows at the end of the update by
// which so many samples are done, and what is waiting or being computed goes on under it: its bound holds for
// gradients that begin under it, and no learner is ahead of another then (mu_core_pace).
typedef struct mu_core_phase {
    int64_t until;              // samples, in the run's numbering; INT64_MAX = the end of the run
    int32_t protocol, splits, bound, own, rate_rule;    // as in the configuration
    float   gradient_scale;
} mu_core_phase;

typedef struct mu_core_config {
    int32_t learners;           // lambda
    int32_t protocol;           // index into mu_protocols
    int32_t splits;             // updates in the time of one gradient: an update takes floor(lambda / splits)
    int32_t bound;              // largest staleness of a gradient, 0 = any
    int32_t own;                // a number that the protocol alone reads
    int32_t rate_rule;          // mu_rate_rule
    int32_t scale_free;         // the rate is that of steps which do not follow the size of gradients
    float   gradient_scale;     // on every gradient that is not made in step; 0 = 1
    int32_t lease_batches;      // gradients per lease
    int32_t max_leases;         // a learner may hold; 0 = MU_CORE_LEASES
    int32_t longest_run;        // updates formed together, at most MU_CORE_RUN; 0 = 1, one by one
    int32_t pairs;              // two updates of one gradient each take little longer than one
    int64_t global_batch;       // mu * lambda
    int64_t rows;               // mu; hardsync spreads an uneven global batch itself
    int64_t first_version;      // of a resumed run
    int64_t first_sample;
    int64_t end_sample;         // no sample from here on is leased; INT64_MAX = open end
    int64_t warm_versions;      // this many updates in step first (mu_warm_protocol)
    // 0: what stands above, for the whole run. Else the core keeps that of the one in force there. Those of
    // several take gradients out of queues (mu_protocol_class.take), and none is made in step.
    int32_t n_phases;
    mu_core_phase phase[MU_CORE_PHASES];        // the first that is not over is in force
} mu_core_config;

typedef enum mu_rate_rule {     // SPEC D3: the weight of a gradient in its update
    MU_RATE_PLAIN,              // 1 / number of gradients in the update
    MU_RATE_MEAN,               // and divided by the expected staleness, n
    MU_RATE_EACH,               // and divided by the gradient's own staleness, at least 1
} mu_rate_rule;

typedef enum mu_answer { MU_GO, MU_HOLD, MU_END } mu_answer;
typedef enum mu_push_result { MU_ACCEPTED, MU_FENCED, MU_TOO_STALE, MU_UNEXPECTED } mu_push_result;

typedef struct mu_gradient_id { // what every gradient carries
    int32_t  learner;
    uint32_t incarnation;
    int64_t  step;              // the learner's n-th gradient, over all incarnations
    int64_t  version;           // clock of the weights it was computed on
    int64_t  first;             // its samples [first, first + rows)
    int64_t  rows;
} mu_gradient_id;

typedef struct mu_lease {       // batch k begins at sample first + k * stride
    int64_t first;
    int32_t batches, rows;
    int64_t stride;
    int32_t last_rows;          // of the last batch; fewer than rows only where the run's samples end
} mu_lease;

static inline int32_t mu_lease_rows(const mu_lease *l, int batch) {
    return batch == l->batches - 1 ? l->last_rows : l->rows;
}

typedef struct mu_core_learner {
    uint32_t incarnation;       // of the present or last process; 0 = none yet
    uint8_t  present;           // joined and not lost
    uint8_t  computing;         // between GO and push
    uint8_t  n_leases, handed;  // leases held; of these handed to the present incarnation
    uint8_t  waiting;           // its gradients in the queue, not yet taken
    uint8_t  working;           // is one of the core's `working`
    uint8_t  left;              // it brings no more gradients (mu_core_leave)
    int64_t  version;           // of the weights it computes on
    int64_t  begun, accepted, applied, rejected, lost;          // gradients: the ledger
    int64_t  sync_leased;       // steps made in step whose samples were leased
    int64_t  phase_step;        // its first gradient that began under the protocol in force
    int32_t  used;              // batches of lease[0] whose gradients were accepted or rejected
    mu_lease lease[MU_CORE_LEASES];     // oldest first
} mu_core_learner;

typedef struct mu_core_part {   // one gradient that waits or is part of the run in progress
    mu_gradient_id id;
    int32_t        slot;        // of its learner's queue: accepted number modulo MU_CORE_SLOTS
} mu_core_part;

typedef struct mu_core {
    mu_core_config  config;
    int64_t         version;    // updates applied, counted from first_version
    int64_t         next_sample;
    int64_t         samples_leased, samples_applied, samples_rejected;
    int64_t         sync_end;   // updates made in step, the first ones: all, those of the warm start, or none
    int64_t         pushed;     // gradients accepted or rejected
    int64_t         slowest;    // least pace of a learner that works
    int32_t         n_slowest;  // learners there
    int32_t         working;    // learners with work left, present or not
    int32_t         computing;  // learners between GO and push
    int32_t         n_left;     // learners that have left
    uint8_t         stopping;   // nothing new begins
    int64_t         halt;       // the clock does not pass it (mu_core_set_halt); INT64_MAX = there is none
    int64_t         given;      // steps of which an update may form (mu_core_set_given); INT64_MAX = all
    int32_t         phase;      // of the configuration, in force
    int64_t         phase_version;      // the clock when it came into force; -1: this run began under it
    int32_t         applying;   // updates of the run in progress, 0 = none: the oldest n_parts gradients make
    int32_t         n_parts;    // version + 1 to version + applying, in order
    uint16_t        run_end[MU_CORE_RUN];       // parts of the first i + 1 of them
    int32_t         ring_head;  // the oldest gradient; parts come first, then those that wait
    int32_t         fifo_n;     // waiting gradients, in order of arrival
    int32_t         n_touched;  // rows noted since mu_core_catch_up; more than learners: all
    int32_t         n_appended; // gradients added to the ring since then
    // after the struct: mu_core_learner[learners], the ring mu_core_part[most_parts], int32_t
    // touched[learners]
} mu_core;

// No update takes more, as a learner has so many slots: under a bound it may have to take all that waits.
static inline int mu_core_most_parts(int learners) { return learners * MU_CORE_SLOTS; }
size_t mu_core_size(int learners);
// c: mu_core_size bytes, aligned as int64_t. Needs 1 <= learners <= global_batch; rows, lease_batches >= 1.
void   mu_core_init(mu_core *c, const mu_core_config *config);

const mu_core_learner *mu_core_learner_at(const mu_core *c, int learner);
const mu_core_part    *mu_core_part_at(const mu_core *c, int i);        // i-th of n_parts
const mu_core_part    *mu_core_waiting(const mu_core *c, int i);        // i-th of fifo_n, in order of arrival

// The number of the gradient a learner computes now or next.
static inline int64_t mu_core_step(const mu_core_learner *l) { return l->accepted + l->rejected; }
// Gradients accepted or rejected that began under the protocol in force; -1: one of before is in hand.
static inline int64_t mu_core_pace(const mu_core_learner *l) { return mu_core_step(l) - l->phase_step; }
// Where that gradient goes in the learner's queue.
static inline int mu_core_slot(const mu_core_learner *l) { return (int)(l->accepted % MU_CORE_SLOTS); }

// A learner's process has started (again); returns its incarnation, from 1. One still present is lost first.
uint32_t mu_core_join(mu_core *c, int learner);
void     mu_core_lost(mu_core *c, int learner);
// The next samples to prefetch; after a join those that the incarnation before left over come first.
// False: none now (as many as allowed are held) or none left (*ended).
bool      mu_core_lease(mu_core *c, int learner, mu_lease *out, bool *ended);
typedef struct mu_grant { int64_t step, version, first, rows, global_rows; } mu_grant;
// GO: begin this gradient (asked again before the push: the same one). HOLD: ask again after the next tick,
// push, lease, loss or join; not before the clock shows out->version. END: nothing is left for this learner,
// or it is an old incarnation.
// The version granted is committed, except in step: there it may be the one in the making (version + 1), and
// the learner waits for each layer's weights. global_rows: what the loss is divided by.
mu_answer  mu_core_ask(mu_core *c, int learner, uint32_t incarnation, mu_grant *out);
// Of a learner that is far, and computes on weights which it has already, of version `has`: where the update
// is not made in step, GO grants these instead of the clock's.
mu_answer  mu_core_ask_with(mu_core *c, int learner, uint32_t incarnation, int64_t has, mu_grant *out);
// A learner, whose samples are dealt to it elsewhere, has used them up: no update waits for it any more. What
// it was computing is lost, what it has pushed stays valid.
void       mu_core_leave(mu_core *c, int learner);
// TOO_STALE: counted as rejected, its samples as used; never the fate of a gradient granted under the same
// bound. FENCED and UNEXPECTED change nothing: a fenced gradient was counted as lost when its process was.
mu_push_result mu_core_push(mu_core *c, const mu_gradient_id *id);
bool       mu_core_form(mu_core *c);            // true: a run was formed now and is in progress
void       mu_core_applied(mu_core *c);         // it is in the weights
// No update beyond this version is formed, and nothing begins that could change the weights behind it or that
// needs weights of it, until it is moved. Where learners change the weights themselves, gradients that were
// in hand may still take the clock a little further. From halt to halt the updates of a run are the same
// ones, whenever it is set or moved.
void       mu_core_set_halt(mu_core *c, int64_t version);
bool       mu_core_at_halt(const mu_core *c);          // it is reached, and nothing is being applied
// In step: no update of a later step than the first `steps` forms yet, though every gradient may wait for it:
// some are not what they will be. Nobody is kept from computing.
void       mu_core_set_given(mu_core *c, int64_t steps);
// Asks are answered END from now on; in step, after the step that some learner has already begun.
void       mu_core_stop(mu_core *c);
// For an end without waiting: stops, and counts what waits as rejected and what is computed as lost.
void       mu_core_abandon(mu_core *c);
bool       mu_core_idle(const mu_core *c);      // nothing waiting, computing or applying

// Makes spare, which was good until the last change or was changed since in vain, the same as good again:
// O(rows changed). A process that dies inside leaves a spare that can be brought up to date again. Returns
// the bytes copied.
size_t mu_core_catch_up(mu_core *spare, const mu_core *good);
// The copy that was good until now becomes the spare one: nothing is wrong in it yet.
static inline void mu_core_retire(mu_core *was_good) { was_good->n_touched = 0; }
const int32_t *mu_core_touched(const mu_core *c);       // (n_touched) rows noted

// The weight of a gradient of this staleness in an update of so many parts, by the protocol in force.
float mu_core_weight(const mu_core *c, int64_t staleness, int parts);
// The part of the rate that a gradient of this staleness is applied with, were it an update of its own.
float mu_core_rate_share(const mu_core *c, int64_t staleness);
// Samples behind the run, in the run's own numbering: applied, or rejected and counted.
static inline int64_t mu_core_samples(const mu_core *c) {
    return c->config.first_sample + c->samples_applied + c->samples_rejected;
}
// Parts of update i of the run in progress: [begin, end).
static inline int mu_core_update_begin(const mu_core *c, int i) { return i ? c->run_end[i - 1] : 0; }
static inline int mu_core_update_end(const mu_core *c, int i) { return c->run_end[i]; }
int mu_core_update_of(const mu_core *c, int part);      // which update of the run it belongs to
// Staleness of a part of the run in progress: (version its update makes - 1) - version of its weights.
int64_t mu_core_staleness(const mu_core *c, int part);

// Where a run resumed from the present weights would go on reading: below it every sample was applied.
int64_t mu_core_cursor(const mu_core *c);
// What is not finished of the samples below next_sample, in any order: promised, being computed, or waiting.
// out: mu_core_most_open ranges. Returns how many. In step nothing is finished beyond the cursor.
int     mu_core_open(const mu_core *c, mu_range *out);
static inline int mu_core_most_open(int learners) { return learners * (MU_CORE_SLOTS + MU_CORE_LEASES); }

// For protocols.
// Does the bound hold for this gradient of a learner? Not where it began under another protocol.
static inline bool mu_core_is_bound(const mu_core *c, int learner, int64_t step) {
    return c->config.bound > 0 && step >= mu_core_learner_at(c, learner)->phase_step;
}
// Is the next update made in step: of one gradient of every learner, whose samples follow from the step?
static inline bool mu_core_is_in_step(const mu_core *c) {
    return c->version - c->config.first_version < c->sync_end;
}
bool  mu_core_step_complete(const mu_core *c);  // every learner has pushed its gradient of the step
float mu_core_rate_weight(const mu_core *c, int64_t staleness, int parts);      // by the rate rule
// How many gradients, at most `wanted`, can still wait at the same time: fewer when learners run out of work.
int  mu_core_reachable(const mu_core *c, int wanted);

typedef struct mu_ledger { int64_t produced, applied, rejected, lost, in_flight; } mu_ledger;
mu_ledger mu_core_ledger(const mu_core *c);     // produced = applied + rejected + lost + in_flight
mu_ledger mu_core_ledger_of(const mu_core *c, int first, int n);        // of some learners, no in_flight
bool      mu_core_check(const mu_core *c, char *why, size_t size);      // every invariant; false names one

#endif
