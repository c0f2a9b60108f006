// SPDX-License-Identifier: Apache-2.0
// a_cd.c - contrastive divergence (Hinton 2002) for energy models, and its persistent form (Tieleman 2008).
//
// All layers go forward; the output of an energy layer is its hidden units' mean, so stacks work. Then each
// energy layer that learns leaves (negative - positive statistics) / batch in its parameters. Layers whose
// parameters all have lr 0 go forward only: greedy training of a stack is one job a layer, with the values
// of those below from `train.init_from`.
//
// Contrast runs from the top down, the order in which the memory plan expects layers to come back. Rows that
// the step's sink takes are applied at once and must not be before the loss is known; that of a layer is
// known after its Gibbs chain, so only the lowest one, whose chain is the last, may use the sink.
#include "algo/algo.h"

struct cd {
    int64_t k;
    bool persistent;
};

static const mu_field fields[] = {
    MU_FIELD(struct cd, k, MU_INT, "1", "[1,100k]", "steps of the Gibbs chain"),
    MU_FIELD(struct cd, persistent, MU_BOOL, "false", NULL,
             "chains go on from batch to batch instead of beginning at the data"),
    {0},
};

static void contrast(const void *state, mu_contrast *out) {
    const struct cd *c = state;
    out->k = c->k;
    out->persistent = c->persistent;
}

static int lowest(const mu_net *net) {
    int i = 1;
    while (i < net->n_layers && !net->layer[i]->in_contrast) i++;
    return i;
}

static mu_status step(void *state, mu_net *net, const mu_step *s, mu_err *err) {
    (void)state; // the layers know it: mu_layer.contrast
    const int last = lowest(net);
    MU_TRY(mu_net_forward(net, s, err));
    mu_net_begin_grads(net, s);
    for (int i = net->n_layers - 1; i > 0; i--) {
        mu_step own = *s;
        if (i != last) own.sink = NULL;
        MU_TRY(mu_net_pass(net->layer[i], MU_PASS_BACK, &own, err));
    }
    return MU_OK;
}

const mu_algo_class mu_algo_cd = {
    .name = "cd",
    .help = "contrastive divergence for energy layers (rbm, dbm)",
    .fields = fields,
    .state_size = sizeof(struct cd),
    .step = step,
    .contrast = contrast,
};
