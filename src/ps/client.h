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

#include "ps/server.h"

typedef struct mu_client {
    mu_group *group;
    int       learner;
    uint32_t  incarnation;
    mu_server *server;                  // the learner's own, when the server is beside; else NULL
    bool      own_weights;              // works on a copy
    int64_t   own_version;              // of the copy
    mu_grant  grant;                    // of the gradient in hand
    int       slot;
    int64_t   wait_ns, apply_ns;
    int64_t   pulls, pulls_skipped;     // copies made; not made because the copy was current
} mu_client;

MU_MUST_CHECK mu_status mu_client_init(mu_client *c, mu_group *g, int learner, mu_server *beside, mu_err *err);
bool      mu_client_lease(mu_client *c, mu_lease *out, bool *ended);
// GO: c->grant and c->slot are set. END: nothing more to do. Never returns HOLD. MU_EBACKEND when nothing
// moved for ten times the hang timeout.
MU_MUST_CHECK mu_status mu_client_begin(mu_client *c, mu_answer *out, mu_err *err);
void      mu_client_collect(mu_client *c, const mu_param *p);
void      mu_client_push(mu_client *c, int param, const mu_param *p);
mu_verdict mu_client_end(mu_client *c);
void      mu_client_drop(mu_client *c); // this gradient is not finite: it is not handed over

static inline void mu_client_pulse(mu_client *c) {
    atomic_fetch_add_explicit(&c->group->learner[c->learner].pulse, 1, memory_order_relaxed);
}

#endif
