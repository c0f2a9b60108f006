// SPDX-License-Identifier: Apache-2.0
// cell.h - one time step of a recurrent layer as a layer of its own, for unrolled nets (net/unroll.h): what
// l_rnn_cell.c, l_gru_cell.c and l_lstm_cell.c share.
//
// Sources, in this order
//   input   numbers (n, i), or integers (n) that stand for one-hot vectors, as in recurrent.h
//   state   (optional) what the cell of the time step before left: (n, hidden), of an lstm its second output
//           (n, 2*hidden), h followed by c. Without one the cell begins with zeros.
//   begin   (optional) the data's integer field `begin` (n), given to every copy (`connect: one_to_all`): the
//           first copy then begins with the state that the last one left in the batch before (rowstate.h)
// Parameters are those of the fused layers, with the same names: one model fits both kinds of net.
#ifndef MU_LAYER_CELL_H
#define MU_LAYER_CELL_H

#include "layer/recurrent.h"

typedef struct mu_cell_layer {
    mu_recurrent  r;            // first: fields and helpers of the fused layers work on it; one step long
    int           state_src;    // place of the source `state`, 0 = none
    bool          reads, writes;        // the memory that lasts from batch to batch
    float       **dbegin;       // (n), filled in each call, as r.begin and r.end are
    const float **dend;
} mu_cell_layer;

mu_status mu_cell_infer(mu_layer *l, mu_cell cell, mu_err *err);
mu_status mu_cell_forward(mu_layer *l, const mu_step *step, mu_err *err);
mu_status mu_cell_backward(mu_layer *l, const mu_step *step, mu_err *err);

#define MU_CELL_CLASS(infer_)                                                                                \
    .state_size = sizeof(mu_cell_layer), .params = mu_recurrent_params, .n_src_max = 3,                      \
    .flags = MU_BACK_NEEDS_SRC | MU_BACK_NEEDS_DST | MU_LAYER_GAPS, .cuts = MU_CUT_BATCH,                    \
    .uncut = "every gate sees the whole state", .infer = infer_,                                             \
    .setup = mu_recurrent_setup,                                                                             \
    .forward = mu_cell_forward, .backward = mu_cell_backward, .cost = mu_recurrent_cost

#endif
