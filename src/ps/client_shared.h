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

typedef struct mu_shared_client {
    mu_client  base;
    mu_shared *shared;
    mu_params *params;                  // the learner's own set; NULL = it reads the weights by itself
    mu_step_rate (*rate_at)(void *ctx, int64_t version, int64_t samples);       // as mu_server has it
    void      *rate_ctx;
    const mu_exchange *exchange;        // in force
    void      *exchange_state;          // of the exchange; by enter
    int64_t    accepted;                // its gradients, over all incarnations
    int64_t    version;                 // of the weights that the gradient in hand is computed on
    int        slot;                    // where it goes
    bool       bad;                     // of the gradient in hand, at its end
    float      scale;
    float      rate_share;              // of a gradient of staleness 1
    int64_t    spin_ns;                 // before sleeping; 0 when there are more learners than cores
    // of the queue
    mu_server  server;                  // its own, when the server is beside
    bool       serves;
    float     *copy;                    // private weights; NULL = works on the shared ones
    int64_t    copy_version;
    float     *stats;                   // private running statistics; NULL = none, or with the weights
} mu_shared_client;

typedef struct mu_shared_client_opts {
    mu_shared *shared;
    int        learner;
    mu_params *params;
    mu_step_rate (*rate_at)(void *ctx, int64_t version, int64_t samples);
    void      *rate_ctx;
} mu_shared_client_opts;

// Joins. close frees; the process may as well end.
MU_MUST_CHECK mu_status mu_shared_client_open(mu_shared_client *c, const mu_shared_client_opts *o,
                                              mu_err *err);
void mu_shared_client_close(mu_shared_client *c);

// For exchanges.
// Over: nothing moved while the caller waited for so long.
bool mu_shared_client_is_over(const mu_shared_client *c, mu_stall_timer *t);
void mu_shared_client_wait(mu_shared_client *c, mu_bell *bell, uint32_t seen); // once; counts the time
bool mu_shared_client_serve(mu_shared_client *c);       // a turn of its own server; true: it did something
void mu_shared_client_note_staleness(const mu_shared_client *c, int64_t sigma);

#endif
