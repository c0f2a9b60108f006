// SPDX-License-Identifier: Apache-2.0
// build.h - the steps of mu_net_create, in order; private to net/.
#ifndef MU_NET_BUILD_H
#define MU_NET_BUILD_H

#include "net/net.h"

typedef struct mu_net_builder {         // lives only during mu_net_create
    mu_binder         *b;
    const mu_net_opts *o;
    mu_net            *net;
    int                cap;             // of net->layer
    const char       **absent;          // names of layers left out of this phase
    int                n_absent;
} mu_net_builder;

mu_status mu_build_layers(mu_net_builder *nb, mu_err *err);     // bind.c: blocks to layers, src resolved
mu_status mu_build_splits(mu_net_builder *nb, mu_err *err); // graph.c: who needs gradients, split(x) inserted
mu_status mu_build_infer(mu_net_builder *nb, mu_err *err);      // bind.c: shapes and parameters
mu_status mu_build_plan(mu_net_builder *nb, mu_err *err); // graph.c: in place, lifetimes, offsets, pointers

mu_layer *mu_build_new_layer(mu_net_builder *nb, int at,
                             mu_err *err); // inserted at position `at`; NULL after reporting
extern const mu_layer_class mu_input_class;                     // the node `data`

#endif
