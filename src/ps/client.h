// SPDX-License-Identifier: Apache-2.0
// client.h - a learner's side: samples, permission, weights, gradient.
//
// A client is a table of functions, so that a learner does not know where the others are. The first is shared
// memory on one machine (client_shared.h).
//
//   lease     (prefetch thread) which samples next
//   begin     waits for permission; points the learner's parameters at the weights to compute on
//   collect   waits until the weights of one parameter are as granted
//   computed  forward and backward have ended, also in vain
//   push      the gradient of one parameter is complete
//   end       the whole gradient is: hands it over
#ifndef MU_PS_CLIENT_H
#define MU_PS_CLIENT_H

#include "layer/param.h"
#include "ps/core.h"
#include "updater/updater.h"

typedef enum mu_doing { MU_DOING_NOTHING, MU_DOING_WAIT, MU_DOING_COMPUTE, MU_DOING_APPLY } mu_doing;

typedef struct mu_gradient_note {       // what others may want to know of a gradient
    double  loss, accuracy;
    int64_t compute_ns, wait_ns;        // without any waiting; waiting for its samples and other workers
    int64_t bridge_ns;                  // of wait_ns: for other workers' values
    int64_t rows;                       // samples to be counted for this process
    uint64_t sent;                      // bytes, over bridges
    int64_t records;                    // read by this process since the last note
    bool    has_loss;                   // loss and accuracy are those of samples
} mu_gradient_note;

typedef struct mu_client {
    const struct mu_client_class *class;
    int      learner;
    uint32_t incarnation;
    // of the gradient in hand, set by begin
    mu_grant grant;
    bool     writes;                    // the learner is to apply it to its parameters itself, at this rate
    mu_step_rate step_rate;
    int32_t  slow_us;                   // `chaos`: pretend that computing takes so much longer
    // since the beginning, by all functions together: so much of the caller's time went into these
    int64_t  waited_ns, applied_ns;
    int64_t  bridged_ns;                // waiting for other workers' values; in no function
    double   loss;                      // of the gradient in hand, for the journal; set before end
} mu_client;

typedef struct mu_client_class {
    // False: none left, or nothing moved for too long. `stop` is looked at while waiting; NULL = never
    // stopped.
    bool      (*lease)(mu_client *c, mu_lease *out, bool (*stop)(void *), void *ctx);
    // GO: the gradient in hand is set. END: nothing more to do. Never HOLD. MU_EBACKEND: nothing moved for
    // too long.
    mu_status (*begin)(mu_client *c, mu_answer *out, mu_err *err);
    mu_status (*collect)(mu_client *c, int param, mu_err *err);
    void      (*computed)(mu_client *c);
    void      (*push)(mu_client *c, int param, const mu_param *p);
    // bad: it is not finite, the update it is part of will change nothing. scale: multiplies it.
    mu_status (*end)(mu_client *c, bool bad, float scale, mu_push_result *out, mu_err *err);
    void      (*drain)(mu_client *c);                           // after END: applies what still waits
    void      (*pulse)(mu_client *c);                           // a sign of life
    void      (*show)(mu_client *c, mu_doing doing);            // for `status`
    void      (*note)(mu_client *c, const mu_gradient_note *n); // a gradient is finished
} mu_client_class;

#endif
