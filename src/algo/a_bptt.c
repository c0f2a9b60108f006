// SPDX-License-Identifier: Apache-2.0
// a_bptt.c - back-propagation through time, for recurrent nets.
//
// Unrolled in time a recurrent net is a feed-forward one whose layers share parameters: all time steps
// forward, all backward, and the gradient of a parameter is the sum over the steps, which the copies of a
// layer (or the time loop inside a fused one) add up. So one batch gives one update. Time is cut at the ends
// of the batch: states go on into the next one where the layers carry them, gradients do not go back.
//
// That is what `bp` does with such a net, too. This algorithm adds a promise: it refuses a net in which
// nothing is recurrent, a mistake in the job (a forgotten `shift`) that would train silently.
#include "algo/algo.h"

// A layer with a loop over time inside, or a copy that takes something of an earlier time step.
static bool is_recurrent(const mu_layer *l) {
    if (l->class->flags & MU_LAYER_LOOPS) return true;
    for (int k = 0; l->n_copies && k < l->n_src; k++) {
        const mu_layer *from = l->src[k]->producer;
        while (!from->node && from->n_src) from = from->src[0]->producer; // behind an inserted split
        if (from->n_copies == l->n_copies && from->copy < l->copy) return true;
    }
    return false;
}

static mu_status check(const mu_net *net, mu_err *err) {
    for (int i = 1; i < net->n_layers; i++)
        if (is_recurrent(net->layer[i])) return MU_OK;
    MU_FAIL(err, MU_EJOB, "`bptt` is for recurrent nets, and nothing in this net is recurrent");
    mu_err_hint(err, "Let an unrolled layer take `{layer: NAME, shift: 1}`, or write `algorithm: bp`.");
    return MU_EJOB;
}

static mu_status step(MU_UNUSED void *state, mu_net *net, const mu_step *s, mu_err *err) {
    MU_TRY(mu_net_forward(net, s, err));
    return mu_net_backward(net, s, err);
}

const mu_algo_class mu_algo_bptt = {
    .name = "bptt",
    .help = "back-propagation through time for recurrent nets",
    .check = check,
    .step = step,
};
