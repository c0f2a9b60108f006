// SPDX-License-Identifier: Apache-2.0
// l_rnn.c - the plain recurrent layer (formula: ops/rnn.h; everything else: recurrent.h).
#include "layer/recurrent.h"

static const mu_field fields[] = {
    MU_RECURRENT_FIELDS,
    {0},
};

static mu_status infer(mu_layer *l, mu_err *err) { return mu_recurrent_infer(l, MU_CELL_RNN, err); }

const mu_layer_class mu_layer_rnn = {
    .name = "rnn",
    .help = "plain recurrent layer, h = tanh(W x + U h + b)",
    .fields = fields,
    MU_RECURRENT_CLASS(infer),
};
