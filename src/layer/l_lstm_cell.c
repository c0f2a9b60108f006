// SPDX-License-Identifier: Apache-2.0
// l_lstm_cell.c - one time step of `lstm` (formulas: ops/rnn.h; everything else: cell.h).
//
// Two outputs: NAME or NAME.0 is h (n, hidden); NAME.1 is the whole state, h followed by c (n, 2*hidden).
#include "layer/cell.h"

static const mu_field fields[] = {
    MU_RECURRENT_CELL_FIELDS,
    MU_RECURRENT_FORGET_BIAS,
    {0},
};

static mu_status infer(mu_layer *l, mu_err *err) {
    MU_TRY(mu_cell_infer(l, MU_CELL_LSTM, err));
    return mu_recurrent_open_forget_gate(l, err);
}

const mu_layer_class mu_layer_lstm_cell = {
    .name = "lstm_cell",
    .help = "one time step of `lstm`, for unrolling; sources: input, {layer: NAME.1, shift: 1}",
    .fields = fields,
    MU_CELL_CLASS(infer),
};
