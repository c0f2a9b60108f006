// SPDX-License-Identifier: Apache-2.0
// rnn_gates.h - everything between the matrix products of a recurrent step, in one vectorised pass each way.
//
// One time step of n sequences. Arrays named (n,h) have rows of h floats one after the other. The formulas
// are those of rnn.h and o_rnn_ref.c.
#ifndef MU_OPS_RNN_GATES_H
#define MU_OPS_RNN_GATES_H

#include "base/level.h"
#include "ops/op.h"

#define mu_rnn_gates_forward MU_LEVELLED(mu_rnn_gates_forward)
#define mu_rnn_gates_backward MU_LEVELLED(mu_rnn_gates_backward)

typedef struct mu_rnn_step {
    int64_t      n, h;
    const float *pre;                   // U p without bias: unit u0 of gate 0 of sequence 0
    int64_t      pre_row, pre_gate;     // floats from one sequence, one gate to the next
    const float *const *x;              // (n) W x, each (gates*h)
    const float *bias;                  // (gates*h) b + d, of a gru's n only b; then of a gru dn (h)
    const float *p, *c;                 // (n,h) state before; c: lstm
    float       *gate;                  // (n, gates*h) values of the gates; not rnn
    float       *extra;                 // (n,h) gru: Un p + dn. lstm: tanh(c)
    float       *c_out, *out;           // (n,h) state after
    float       *y;                     // out once more, rows y_row apart
    int64_t      y_row;
} mu_rnn_step;

// Units [u0, u0 + units) of all sequences.
MU_AT_LEVELS(void, mu_rnn_gates_forward, (mu_cell cell, const mu_rnn_step *s, int64_t u0, int64_t units));

typedef struct mu_rnn_back {
    int64_t      n, h;
    const float *gate;                  // as forward left it; rnn: out
    const float *extra, *p, *c;
    const float *dy;                    // rows dy_row apart
    int64_t      dy_row;
    float       *dh;                    // rows dh_row apart; in: from the step after. out, gru only: dh z
    int64_t      dh_row;
    float       *dc;                    // (n,h) lstm: in: from the step after. out: for the step before
    float       *g;                     // (n, mu_rnn_grad_row) gradients of the gates' inputs
    float       *sum;                   // (mu_rnn_grad_row) += their sums over the sequences
} mu_rnn_back;

// A row of g holds what p gets (gates*h) from column mu_rnn_grad_p on. That is also what x gets, but for
// the n of a gru, whose gradient for x stands in the first h columns. Rows are never whole kilobytes apart:
// such rows lie in the same few lines of the cache, which costs the products over them a tenth.
static inline int64_t mu_rnn_grad_p(mu_cell cell, int64_t h) { return cell == MU_CELL_GRU ? h : 0; }
static inline int64_t mu_rnn_grad_row(mu_cell cell, int64_t h) {
    const int64_t columns = cell == MU_CELL_RNN ? h : 4 * h;
    return columns % 256 ? columns : columns + 16;
}

MU_AT_LEVELS(void, mu_rnn_gates_backward, (mu_cell cell, const mu_rnn_back *s));

#endif
