// SPDX-License-Identifier: Apache-2.0
// l_gru_cell.c - one time step of `gru` (formulas: ops/rnn.h; everything else: cell.h).
#include "layer/cell.h"

static const mu_field fields[] = {
    MU_RECURRENT_CELL_FIELDS,
    {0},
};

static mu_status infer(mu_layer *l, mu_err *err) { return mu_cell_infer(l, MU_CELL_GRU, err); }

const mu_layer_class mu_layer_gru_cell = {
    .name = "gru_cell",
    .help = "one time step of `gru`, for unrolling; sources: input, {layer: NAME, shift: 1}",
    .fields = fields,
    MU_CELL_CLASS(infer),
};
