// SPDX-License-Identifier: Apache-2.0
// pieces.h - any form of gradient as a series of dense pieces (inside updater/ only).
#ifndef MU_UPDATER_PIECES_H
#define MU_UPDATER_PIECES_H

#include "layer/param.h"

// n values of the gradient whose first belongs to element `offset` of the parameter. `grad` may be a
// buffer that is reused after the call.
typedef void (*mu_piece_visit)(void *ctx, size_t offset, size_t n, const float *grad);

// Visits every element that the gradient has exactly once, in an order that depends only on the gradient:
//   dense     one piece
//   rows      each named row once, by rising id; values of repeated ids are added in the order given
//   factors   blocks of rows, multiplied out
// Allocates nothing; needs up to 64 KiB of stack.
void mu_grad_pieces(const mu_param *p, const mu_grad *g, mu_piece_visit visit, void *ctx);

#endif
