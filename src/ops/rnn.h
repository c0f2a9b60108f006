// SPDX-License-Identifier: Apache-2.0
// rnn.h - the recurrent cells: definitions and sizes that every implementation of MU_PRIM_RNN shares.
//
// As PyTorch has them, with W = weight (gates*h, i), U = weight_h (gates*h, h), b = bias, d = bias_h, and
// p = h of the step before; s is the logistic function:
//
//     rnn     h = tanh(Wx + b + Up + d)
//     gru     r = s(Wr x + br + Ur p + dr)     z = s(Wz x + bz + Uz p + dz)
//             n = tanh(Wn x + bn + r * (Un p + dn))                 h = (1 - z) n + z p
//     lstm    i, f, o = s(..)     g = tanh(..)     c = f * c of before + i * g     h = o * tanh(c)
//
// The state after a step is h, in an lstm h followed by c. What enters `begin` and leaves at `end` is that
// state; of the arrays begin, end, dend and dbegin each entry, or the array itself, may be NULL: the state is
// zero, goes nowhere, has no gradient from elsewhere. Numbers of one-hot rows beyond args.rows are not read
// and count as 0.
#ifndef MU_OPS_RNN_H
#define MU_OPS_RNN_H

#include "ops/op.h"

static inline int64_t mu_rnn_gates(mu_cell cell) {
    return cell == MU_CELL_RNN ? 1 : cell == MU_CELL_GRU ? 3 : 4;
}
// Floats of the state of one sequence.
static inline int64_t mu_rnn_state(mu_cell cell, int64_t h) { return cell == MU_CELL_LSTM ? 2 * h : h; }

static inline int64_t mu_rnn_word(const mu_rnn_desc *d, const mu_op_args *a, int64_t b, int64_t s) {
    return a->rows && b >= a->rows ? 0 : a->words[b * d->t + s];
}

#endif
