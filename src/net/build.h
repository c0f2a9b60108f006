// SPDX-License-Identifier: Apache-2.0
// build.h - the steps of mu_net_shape and mu_net_ready, in order; private to net/.
#ifndef MU_NET_BUILD_H
#define MU_NET_BUILD_H

#include "net/memplan.h"
#include "net/net.h"

typedef struct mu_net_builder {         // lives only during mu_net_shape
    mu_binder         *b;
    const mu_net_opts *o;
    mu_net            *net;
    int                cap;             // of net->layer
    mu_layer         **by_name;         // hash table of the layers so far; by_name_cap is a power of two
    size_t             by_name_cap;
    const char       **absent;          // names of layers left out of this phase
    int                n_absent;
} mu_net_builder;

typedef struct mu_net_plan {
    bool          reuse, keep_factors;  // as mu_net_opts says
    size_t        n;
    mu_plan_item *item;                 // room for what every layer keeps is there
    void       ***target;               // [n] pointers to set to activations + offset
} mu_net_plan;

mu_status mu_build_layers(mu_net_builder *nb, mu_err *err);     // bind.c: blocks to layers, src resolved
mu_status mu_build_splits(mu_net_builder *nb, mu_err *err); // graph.c: who needs gradients, split(x) inserted
mu_status mu_build_infer(mu_net_builder *nb, mu_err *err);      // bind.c: shapes and parameters
mu_status mu_build_add_param(mu_layer *l, mu_param *proto, const char *what, const char *init,
                             mu_err *err);                      // bind_params.c: mu_layer.add_param
mu_status mu_build_plan(mu_net_builder *nb, mu_err *err);       // graph.c: in place, lifetimes, sizes
mu_status mu_build_memory(mu_net *net, mu_err *err); // graph.c: with what ops keep: blocks and pointers

mu_layer *mu_build_new_layer(mu_net_builder *nb, mu_err *err); // the next of the list; NULL after reporting
// Problems in the blocks of a layer's parameters.
void      mu_build_check_params(mu_net_builder *nb, const mu_node *block, const mu_layer_class *c,
                                const char *name);             // bind_params.c
// Writes the keys of a block into l->state again; what is wrong with it has been said.
void      mu_build_bind_quietly(mu_net_builder *nb, const mu_node *block, const mu_layer *l);
mu_status mu_build_append(mu_net_builder *nb, mu_layer *l, mu_err *err);
// Is the layer of this block left out of the net's phase? Problems with its phases are reported.
bool      mu_build_is_absent(mu_net_builder *nb, const mu_node *block, const char *name);
// Layer `layer` names a source that is none: says why and what was probably meant.
void      mu_build_report_src(mu_net_builder *nb, const char *layer, const char *src, mu_srcpos pos);
extern const mu_layer_class mu_input_class;                     // the node `data`

#endif
