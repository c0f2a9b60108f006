// SPDX-License-Identifier: Apache-2.0
// core.h - the protocol core: who may begin, what is applied, what is refused. It does no I/O.
//
// A state machine over plain data: no clock, thread, lock, random number or pointer inside, so the same
// code runs in shared memory (under one lock, crash-safe by group.c), in the simulator with thousands
// of learners (test/sim), and later over MPI. core.pml is the model of it that Spin checks.
//
// One gradient's way:
//   lease   samples are promised to a learner, a few batches ahead so that it can prefetch
//   ask     may it begin its next gradient?   GO (with the clock of the weights), HOLD, END
//   push    the gradient is complete in a queue slot: accepted, or refused by the fence
//   form    enough gradients for an update? then they are taken from the queues, oldest first
//   applied the update is in the weights: the clock ticks, slots are free again
//   lost    a learner died: the gradient it was computing is lost, its samples stay promised to the
//           next incarnation; what it had pushed completely stays valid
//
// Invariants (mu_core_check): begun = applied + rejected + lost + waiting + computing for every learner;
// a learner never has more than MU_CORE_SLOTS gradients waiting or being applied; every sample is in
// exactly one gradient that was applied or is still promised; the clock never goes back; staleness of an
// accepted gradient never exceeds the bound; a gradient of an old incarnation is never accepted.
#ifndef MU_PS_CORE_H
#define MU_PS_CORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    MU_CORE_SLOTS = 2,          // gradients of one learner that wait or are being applied
    MU_CORE_LEASES = 8,         // leases a learner may hold
};

typedef struct mu_core_config {
    int32_t learners;           // lambda
    int32_t protocol;           // index into mu_protocols
    int32_t splits;             // n of n-softsync: an update takes floor(lambda / n) gradients; async: lambda
    int32_t bound;              // ssp: clocks the fastest may be ahead; others: largest staleness, 0 = no bound
    int32_t rate_rule;          // mu_rate_rule
    int32_t lease_batches;      // gradients per lease
    int64_t global_batch;       // mu * lambda
    int64_t rows;               // mu; hardsync spreads an uneven global batch itself
    int64_t first_version;      // of a resumed run
    int64_t first_sample;
    int64_t end_sample;         // no sample from here on is leased; INT64_MAX = open end
    int64_t end_version;        // no update beyond this one; INT64_MAX = open end
    int64_t warm_versions;      // this many updates by hardsync first
} mu_core_config;

typedef enum mu_rate_rule {     // SPEC D3: the weight of a gradient in its update
    MU_RATE_PLAIN,              // 1 / number of gradients in the update
    MU_RATE_MEAN,               // and divided by the expected staleness, n
    MU_RATE_EACH,               // and divided by the gradient's own staleness, at least 1
} mu_rate_rule;

typedef enum mu_answer { MU_GO, MU_HOLD, MU_END } mu_answer;
typedef enum mu_verdict { MU_ACCEPTED, MU_FENCED, MU_TOO_STALE, MU_UNEXPECTED } mu_verdict;

typedef struct mu_gradient_id { // what every gradient carries
    int32_t  learner;
    uint32_t incarnation;
    int64_t  step;              // the learner's n-th gradient, over all incarnations
    int64_t  version;           // clock of the weights it was computed on
    int64_t  first;             // its samples [first, first + rows)
    int64_t  rows;
} mu_gradient_id;

typedef struct mu_lease { int64_t first; int32_t batches, rows; int64_t stride; } mu_lease;
// batch k of a lease begins at sample first + k * stride

typedef struct mu_core_learner {
    uint32_t incarnation;       // of the present or last process; 0 = none yet
    uint8_t  present;           // joined and not lost
    uint8_t  computing;         // between GO and push
    uint8_t  n_leases, handed;  // leases held; of these handed to the present incarnation
    int64_t  version;           // of the weights it computes on
    int64_t  begun, accepted, applied, rejected, lost;          // gradients: the ledger
    int32_t  used;              // batches of lease[0] whose gradients were accepted
    mu_lease lease[MU_CORE_LEASES];     // oldest first
} mu_core_learner;

typedef struct mu_core_part {   // one gradient of the update in progress
    mu_gradient_id id;
    int32_t        slot;        // of its learner's queue: accepted number modulo MU_CORE_SLOTS
    float          weight;      // by the rate rule
} mu_core_part;

typedef struct mu_core {
    mu_core_config  config;
    int32_t         protocol;   // now: hardsync while warming up
    int64_t         version;    // updates applied, counted from first_version
    int64_t         next_sample;
    int64_t         samples_applied;
    uint8_t         stopping;   // nothing new begins
    uint8_t         applying;   // part[0..n_parts) makes version + 1
    int32_t         n_parts;
    int32_t         fifo_head, fifo_n;          // waiting gradients in order of arrival
    // after the struct: mu_core_learner[learners], mu_core_part[learners], fifo of mu_core_part[2 * learners]
} mu_core;

size_t mu_core_size(int learners);
void   mu_core_init(mu_core *c, const mu_core_config *config);  // c: mu_core_size bytes

const mu_core_learner *mu_core_learner_at(const mu_core *c, int learner);
const mu_core_part    *mu_core_parts(const mu_core *c);         // of the update in progress

const mu_core_part    *mu_core_waiting(const mu_core *c, int i);        // i-th of fifo_n, in order of arrival
// What a gradient of this staleness counts in an update of `parts`.
float mu_core_weight(const mu_core *c, int64_t staleness, int parts);

// A learner's process has started (again); returns its incarnation, from 1.
uint32_t mu_core_join(mu_core *c, int learner);
void     mu_core_lost(mu_core *c, int learner);
// The next samples to prefetch. False: none now (as many as allowed are held) or none left (*ended).
bool      mu_core_lease(mu_core *c, int learner, mu_lease *out, bool *ended);
typedef struct mu_grant { int64_t step, version, first, rows, global_rows; } mu_grant;
mu_answer  mu_core_ask(mu_core *c, int learner, uint32_t incarnation, mu_grant *out);
mu_verdict mu_core_push(mu_core *c, const mu_gradient_id *id);
// A gradient that will not be pushed (not finite and to be skipped): counted as rejected, its samples as used.
void       mu_core_drop(mu_core *c, const mu_gradient_id *id);
bool       mu_core_form(mu_core *c);            // true: an update is in progress now
void       mu_core_applied(mu_core *c);         // it is in the weights
void       mu_core_stop(mu_core *c);            // asks are answered END from now on
bool       mu_core_idle(const mu_core *c);      // nothing waiting, computing or applying

// Staleness of a part of the update in progress: (version it makes - 1) - version of its weights.
static inline int64_t mu_core_staleness(const mu_core *c, const mu_core_part *p) {
    return c->version - p->id.version;
}
typedef struct mu_ledger { int64_t produced, applied, rejected, lost, in_flight; } mu_ledger;
mu_ledger mu_core_ledger(const mu_core *c);     // produced = applied + rejected + lost + in_flight
bool      mu_core_check(const mu_core *c, char *why, size_t size);      // every invariant; false names one

#endif
