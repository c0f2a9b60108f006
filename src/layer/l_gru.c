// SPDX-License-Identifier: Apache-2.0
// l_gru.c - gated recurrent units (formulas: ops/rnn.h; everything else: recurrent.h).
#include "layer/recurrent.h"

static const mu_field fields[] = {
    MU_RECURRENT_FIELDS,
    {0},
};

static mu_status infer(mu_layer *l, mu_err *err) { return mu_recurrent_infer(l, MU_CELL_GRU, err); }

const mu_layer_class mu_layer_gru = {
    .name = "gru",
    .help = "gated recurrent units, gates r, z, n as in PyTorch",
    .fields = fields,
    MU_RECURRENT_CLASS(infer),
};
