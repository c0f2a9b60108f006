// SPDX-License-Identifier: Apache-2.0
// exchange.h - how gradients get into the weights in shared memory: what a protocol may do differently there.
//
// mu_exchange_queue (exchange_queue.c) is the usual way: a gradient lies complete in a queue slot, a server
// makes updates of what is there (server.h), and learners read the shared weights, or a copy of them. Every
// warm start goes this way. Other protocols bring an exchange of their own (p_hogwild.c, mirror.c), by which
// learners change weights themselves, in blocks that belong to each of them.
//
// A hook that is NULL does nothing and says yes.
#ifndef MU_PS_EXCHANGE_H
#define MU_PS_EXCHANGE_H

#include "ps/shared.h"

struct mu_shared_client;

typedef struct mu_exchange {
    // ---- the region ----
    int     (*slots)(const mu_setup *p);        // of a learner: gradients that are not in the weights yet
    int     (*own_blocks)(int n_history);       // blocks of weights and history that each learner has
    size_t  (*room)(int learners);              // bytes for the exchange itself: mu_shared.exchange_room
    void    (*open)(mu_shared *g);              // before the first learner

    // ---- a learner ----
    // Its gradients go this way from now on: points its parameters at what it is to compute on.
    mu_status (*enter)(struct mu_shared_client *c, mu_err *err);
    bool      (*may_ask)(struct mu_shared_client *c);           // before the core is asked
    bool      (*is_held)(const mu_shared *g);                   // asked under the lock: nothing begins now
    mu_status (*begin)(struct mu_shared_client *c, mu_err *err);        // permission is given
    mu_status (*collect)(struct mu_shared_client *c, int param, mu_err *err);   // its weights are needed now
    void      (*computed)(struct mu_shared_client *c);          // also when the gradient is bad
    // The core has accepted the gradient; under the lock.
    void      (*accepted)(struct mu_shared_client *c, const mu_core *core, const mu_gradient_id *id);
    void      (*pushed)(struct mu_shared_client *c);            // behind the lock
    void      (*end)(struct mu_shared_client *c);               // it will begin no more
    void      (*close)(struct mu_shared_client *c);             // frees what enter took

    // ---- the parent ----
    void    (*lost)(mu_shared *g, int learner);                 // its process was reaped
    bool    (*is_quiet)(const mu_shared *g, const mu_core *c);  // while paused: nothing writes weights
    void    (*copy_out)(mu_shared *g, float *value, float *const *slot);        // as a checkpoint has them
    int64_t (*updates)(const mu_shared_head *h, int64_t version);       // whole ones; NULL: the version
} mu_exchange;

extern const mu_exchange mu_exchange_queue;

// That of the run's protocol, after the warm start.
static inline const mu_exchange *mu_exchange_of(const mu_setup *p) {
    return p->protocol->exchange ? p->protocol->exchange : &mu_exchange_queue;
}
// The one in force at this version.
static inline const mu_exchange *mu_exchange_at(const mu_shared *g, int64_t version) {
    return version < g->head->warm_end ? &mu_exchange_queue : mu_exchange_of(g->setup);
}

// ---- own blocks (exchange_own.c): for exchanges by which learners change weights themselves ----

float *mu_own_history(const mu_shared *g, int learner, int k);
float *mu_own_weights(const mu_shared *g, int learner);         // where the exchange has a block for them
// Fills a learner's own blocks from the shared ones, once: no process writes those any more. share: of the
// first history.
void   mu_own_fill(mu_shared *g, int learner, float share);
bool   mu_own_is_filled(const mu_shared *g, int learner);
bool   mu_own_is_held(const mu_shared *g);                      // while paused, and at a halt
bool   mu_own_is_quiet(const mu_shared *g, const mu_core *c);   // no learner is between permission and end
// There is no server, no lock, and no order that a record could keep.
bool   mu_own_objects(mu_choice choice, mu_objection *out);

#endif
