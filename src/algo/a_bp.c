// SPDX-License-Identifier: Apache-2.0
// a_bp.c - back-propagation: all layers forward, then all backward. For feed-forward nets.
#include "algo/algo.h"

static mu_status step(MU_UNUSED void *state, mu_net *net, const mu_step *s, mu_err *err) {
    MU_TRY(mu_net_forward(net, s, err));
    return mu_net_backward(net, s, err);
}

const mu_algo_class mu_algo_bp = {
    .name = "bp", .help = "back-propagation for feed-forward nets", .step = step};
