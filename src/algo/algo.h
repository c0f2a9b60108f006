// SPDX-License-Identifier: Apache-2.0
// algo.h - station 5: TrainOneBatch (a_<name>.c).
//
// An algorithm runs one batch through a net and leaves a gradient in every trained parameter (or
// hands it to the step's sink). What happens to gradients then is not its business.
#ifndef MU_ALGO_ALGO_H
#define MU_ALGO_ALGO_H

#include "net/net.h"

typedef struct mu_algo_class {
    MU_PLUGIN_HEAD;
    // (optional, any net will do) MU_EJOB with a hint when it cannot train this net. Looks at layers and how
    // they are connected only: in a check the net has no memory.
    mu_status (*check)(const mu_net *net, mu_err *err);
    mu_status (*step)(void *state, mu_net *net, const mu_step *s, mu_err *err);
    // (optional, it needs losses) Says how it trains energy layers: sets k and persistent.
    void (*contrast)(const void *state, mu_contrast *out);
} mu_algo_class;

extern const mu_registry mu_algos;

#endif
