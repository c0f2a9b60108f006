// SPDX-License-Identifier: Apache-2.0
// recurrent.h - what the recurrent layers (l_rnn.c, l_gru.c, l_lstm.c) share: all but the cell.
//
// Sources
//   0   sequences: numbers (n, t, i), or integers (n, t), each of which stands for the vector of `vocab`
//       zeros with a 1 at that place; for these nothing is multiplied, rows of the weight are looked up
//   1   (optional) the data's integer field `begin` (n), 1 where a record begins a sequence. Then the state
//       after a record is remembered for its successor in the stream (rowstate.h); gradients do not go back
//       so far.
//
// Parameters, named and laid out as PyTorch does: weight_ih (gates*hidden, i), weight_hh (gates*hidden,
// hidden), bias_ih and bias_hh (gates*hidden), all uniform in +-1/sqrt(hidden) at first; the states are
// `state`.
#ifndef MU_LAYER_RECURRENT_H
#define MU_LAYER_RECURRENT_H

#include "layer/rowstate.h"

typedef struct mu_recurrent { // state of the layers
    int64_t hidden, vocab;
    bool    bias_term;
    int     outputs;            // of mu_recurrent_outputs
    float   forget_bias;        // lstm
    // derived
    mu_rnn_desc d;
    bool        carries;        // states go from batch to batch
    mu_rowstate memory;
    const float **begin;        // (n) of a step
    float        *carried;      // (n, state) copies of what was remembered, for begin to point at
    float       **end;
    size_t      op_keep, op_scratch;    // bytes of the op at the start of keep and scratch; ours follow
} mu_recurrent;

enum { MU_OUTPUTS_ALL, MU_OUTPUTS_LAST };

#define MU_RECURRENT_CELL_FIELDS                                                                             \
    MU_FIELD(mu_recurrent, hidden, MU_INT, NULL, "[1,1M]", "values of the hidden state"),                    \
    MU_FIELD(mu_recurrent, vocab, MU_INT, "0", "[0,2147483647]",                                             \
             "integers in the source are below it; 0 takes what the data says"),                             \
    MU_FIELD(mu_recurrent, bias_term, MU_BOOL, "true", NULL, "add learned constants to the gates")
#define MU_RECURRENT_FIELDS                                                                                  \
    MU_RECURRENT_CELL_FIELDS,                                                                                \
    MU_FIELD_ENUM(mu_recurrent, outputs, "all", "all|last",                                                  \
                  "the state after every time step (n, t, hidden), or after the last one (n, hidden)")

#define MU_RECURRENT_FORGET_BIAS                                                                             \
    MU_FIELD(mu_recurrent, forget_bias, MU_FLOAT, "0", NULL,                                                 \
             "added to the initial bias_ih of the forget gate; 1 lets gradients pass from the start")

extern const char *const mu_recurrent_params[];

// The entries of the classes; infer is told which cell.
mu_status mu_recurrent_infer(mu_layer *l, mu_cell cell, mu_err *err);
mu_status mu_recurrent_setup(mu_layer *l, mu_err *err);
mu_status mu_recurrent_forward(mu_layer *l, const mu_step *step, mu_err *err);
mu_status mu_recurrent_backward(mu_layer *l, const mu_step *step, mu_err *err);
void      mu_recurrent_cost(const mu_layer *l, mu_cost *out);

// ---- their parts, which layers of a single time step (cell.h) use as well ----
mu_status mu_recurrent_add_params(mu_layer *l, mu_err *err);            // after d is known
mu_status mu_recurrent_open_forget_gate(mu_layer *l, mu_err *err);      // of an lstm, after its parameters
// States are remembered for each stream of source `src`, the field `begin`.
mu_status mu_recurrent_add_memory(mu_layer *l, int src, mu_err *err);
// Fills begin with what the predecessors left; NULL where a sequence begins and beyond the valid rows.
void      mu_recurrent_find_begin(mu_layer *l, int src, const mu_step *step);
mu_status mu_recurrent_check_words(const mu_layer *l, const mu_step *step, mu_err *err);
mu_op_args mu_recurrent_args(const mu_layer *l, const mu_step *step);   // without states and gradients
void      mu_recurrent_begin_gradients(mu_layer *l, mu_op_args *a);     // of the parameters

#define MU_RECURRENT_CLASS(infer_)                                                                           \
    .state_size = sizeof(mu_recurrent), .params = mu_recurrent_params, .n_src_max = 2,                       \
    .flags = MU_BACK_NEEDS_SRC | MU_BACK_NEEDS_DST | MU_LAYER_LOOPS, .cuts = MU_CUT_BATCH,                   \
    .uncut = "every gate sees the whole state", .infer = infer_,                                             \
    .setup = mu_recurrent_setup,                                                                             \
    .forward = mu_recurrent_forward, .backward = mu_recurrent_backward, .cost = mu_recurrent_cost

#endif
