// SPDX-License-Identifier: Apache-2.0
// client.h - a learner's side: samples, permission, weights, gradient.
//
//   mu_client_lease     (prefetch thread) which samples next
//   mu_client_begin     waits for permission and a free queue slot; helps applying while it waits (beside)
//   mu_client_collect   waits until a layer's weights are of the version granted
//   mu_client_push      a layer's backward has ended: its gradient goes into the slot
//   mu_client_end       the gradient is complete: hands it over
#ifndef MU_PS_CLIENT_H
#define MU_PS_CLIENT_H

#include "ps/mirror.h"
#include "ps/server.h"

typedef struct mu_client {
    mu_shared  *shared;
    int        learner;
    uint32_t   incarnation;
    mu_server *server;                  // the learner's own, when the server is beside; else NULL
    mu_mirror *mirror;                  // its own weights in protocols that mirror; else NULL
    mu_pace  (*pace_at)(void *ctx, int64_t version, int64_t samples);   // for mirrors, as mu_server has it
    void      *pace_ctx;
    int64_t    accepted;                // its gradients, over all incarnations
    bool       queued;                  // the gradient in hand goes into the queue: always, except where
                                        // learners apply themselves and the warm start is over
    float     *copy;                    // private weights; NULL = works on the shared ones
    int64_t    copy_version;
    mu_grant   grant;                   // of the gradient in hand
    int        slot;
    int64_t    spin_ns;                 // before sleeping; 0 when there are more learners than cores
    int64_t    pulls, pulls_skipped;    // copies made; not made because the copy was current
    float      weight;                  // hogwild: what its gradient counts
    double     loss;                    // of the gradient in hand, for the journal; set before the end
} mu_client;

// copy: room for params->count floats when the learner works on a copy of the weights, else NULL.
MU_MUST_CHECK mu_status mu_client_init(mu_client *c, mu_shared *g, int learner, mu_server *beside, float *copy,
                                       mu_err *err);
// The next samples, for the prefetch thread. False: none left, or nothing moved for too long. `stop` is
// looked at while waiting; NULL = nobody stops it.
bool      mu_client_lease(mu_client *c, mu_lease *out, bool (*stop)(void *), void *ctx);
// GO: grant and slot are set. END: nothing more to do. Never HOLD. MU_EBACKEND: nothing moved for too long.
MU_MUST_CHECK mu_status mu_client_begin(mu_client *c, mu_answer *out, mu_err *err);
void       mu_client_collect(mu_client *c, int param);
void       mu_client_push(mu_client *c, int param, const mu_param *p);
// Hands the gradient over and, beside, applies what is there to apply. bad: it is not finite, the update it
// is part of will change nothing. scale: multiplies it.
mu_verdict mu_client_end(mu_client *c, bool bad, float scale);
void       mu_client_drain(mu_client *c);       // after END, beside: applies what still waits

static inline void mu_client_pulse(mu_client *c) {
    atomic_fetch_add_explicit(&c->shared->learner[c->learner].pulse, 1, memory_order_relaxed);
}

#endif
