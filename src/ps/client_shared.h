// SPDX-License-Identifier: Apache-2.0
// client_shared.h - the client of a learner that shares memory with the others (shared.h).
//
// What is the same for all protocols is here: the lock, asking, waiting, handing over. How gradients get into
// the weights is the exchange in force (exchange.h): that of the queue during a warm start, that of the
// protocol from then on.
#ifndef MU_PS_CLIENT_SHARED_H
#define MU_PS_CLIENT_SHARED_H

#include "comm/stall_timer.h"
#include "ps/client.h"
#include "ps/exchange.h"
#include "ps/server.h"

struct mu_shared_client;

// How a process talks to the core: for itself, as the first worker of its learner, or through that
// (workers.h).
typedef struct mu_side {
    bool (*lease)(struct mu_shared_client *c, mu_lease *out, bool *ended); // false: none now
    // GO: the gradient in hand is set, *in_force is the exchange for it.
    mu_answer (*ask)(struct mu_shared_client *c, const mu_exchange **in_force);
    mu_status (*hand_over)(struct mu_shared_client *c, bool bad, float scale, mu_push_result *out,
                           mu_err *err);
    mu_status (*join)(struct mu_shared_client *c, mu_err *err); // NULL: as a learner of the core
} mu_side;

extern const mu_side mu_side_alone;

typedef struct mu_shared_client {
    mu_client  base;
    const mu_side *side;
    int process, worker; // row of the table; which of its learner's
    mu_shared *shared;
    mu_params *params;                  // the learner's own set; NULL = it reads the weights by itself
    mu_step_rate (*rate_at)(void *ctx, int64_t version, int64_t samples);       // as mu_server has it
    void      *rate_ctx;
    const mu_exchange *exchange;        // in force
    void      *exchange_state;          // of the exchange; by enter
    int64_t    accepted;                // its gradients, over all incarnations
    int64_t    version;                 // of the weights that the gradient in hand is computed on
    int64_t    held_until;              // it may not begin before the clock shows this
    int64_t heard, leases_heard;        // of several workers: gradients announced, leases taken from the ring
    int        slot;                    // where it goes
    bool       has_loss;                // as last noted
    bool       bad;                     // of the gradient in hand, at its end
    float      scale;
    float      rate_share;              // of a gradient of staleness 1
    int64_t    spin_ns;                 // before sleeping; 0 when there are more learners than cores
    // of the queue
    mu_server  server;                  // its own, when the server is beside
    bool       serves;
    uint64_t  *seen;                    // (slices) what it has read of them (moved.h)
    float     *copy;                    // private weights; NULL = works on the shared ones
    int64_t    copy_version, copy_merges;
    float     *stats;                   // private running statistics; NULL = none, or with the weights
} mu_shared_client;

typedef struct mu_shared_client_opts {
    mu_shared *shared;
    int learner, worker;
    mu_params *params;
    mu_step_rate (*rate_at)(void *ctx, int64_t version, int64_t samples);
    void      *rate_ctx;
} mu_shared_client_opts;

// Joins. close frees; the process may as well end.
MU_MUST_CHECK mu_status mu_shared_client_open(mu_shared_client *c, const mu_shared_client_opts *o,
                                              mu_err *err);
void mu_shared_client_close(mu_shared_client *c);

// For waits that end when others have done something: over when nothing was done since the last time it was.
// Others may be slow; which of them hangs is the watchdog's business.
typedef struct mu_others {
    mu_stall_timer t;
    uint64_t done;
} mu_others;
static inline mu_others mu_others_new(void) { return (mu_others){.t = mu_stall_timer_new()}; }
bool mu_others_have_stopped(mu_others *o, const mu_shared_client *c);

// For exchanges.
// Over: nothing moved while the caller waited for so long.
bool mu_shared_client_is_over(const mu_shared_client *c, mu_stall_timer *t);
void mu_shared_client_wait(mu_shared_client *c, mu_bell *bell, uint32_t seen); // once; counts the time
bool mu_shared_client_serve(mu_shared_client *c);       // a turn of its own server; true: it did something
void mu_shared_client_note_staleness(const mu_shared_client *c, int64_t sigma);

#endif
