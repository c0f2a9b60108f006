// SPDX-License-Identifier: Apache-2.0
// l_lstm.c - long short-term memory (formulas: ops/rnn.h; everything but `forget_bias`: recurrent.h).
//
// PyTorch has no such option: there, as here by default, a forget gate begins about half open. `forget_bias`
// is added to the initial values of the forget gate's part of bias_ih, whatever initialiser draws them, so
// the parameter holds it from then on and a model means the same in both programs.
#include "layer/recurrent.h"

static const mu_field fields[] = {
    MU_RECURRENT_FIELDS,
    MU_RECURRENT_FORGET_BIAS,
    {0},
};

static mu_status infer(mu_layer *l, mu_err *err) {
    MU_TRY(mu_recurrent_infer(l, MU_CELL_LSTM, err));
    return mu_recurrent_open_forget_gate(l, err);
}

const mu_layer_class mu_layer_lstm = {
    .name = "lstm",
    .help = "long short-term memory, gates i, f, g, o as in PyTorch",
    .fields = fields,
    MU_RECURRENT_CLASS(infer),
};
