// SPDX-License-Identifier: Apache-2.0
// pieces.h - gradients of any form, alone or added up, as a series of dense pieces (inside updater/ only).
#ifndef MU_UPDATER_PIECES_H
#define MU_UPDATER_PIECES_H

#include "base/level.h"
#include "updater/updater.h"

#define mu_grad_sum_pieces MU_LEVELLED(mu_grad_sum_pieces)
#define mu_grad_sum_pairs MU_LEVELLED(mu_grad_sum_pairs)
#define mu_grad_pieces MU_LEVELLED(mu_grad_pieces)

typedef struct mu_piece {               // consecutive elements of the gradient
    size_t       offset, n;             // in the parameter
    const float *grad;                  // (n) may be a buffer that is reused after the visit; NULL with terms
    float        scale;                 // the values are scale * grad; or, with terms, scale * their sum
    int          n_terms;               // 0, or 2 to MU_TERMS
    const mu_term *term;                // (n each)
} mu_piece;

typedef void (*mu_piece_visit)(void *ctx, const mu_piece *piece);

typedef struct mu_grad_sum {            // sum of weight[j] * grad[j] on the floats [begin, end)
    int                   n;
    const mu_grad *const *grad;
    const float          *weight;       // NULL = all 1
    size_t                begin, end;   // whole rows of the parameter, or a part of one row
    bool                  outer;        // the visitor takes any scale, and terms; else it is 1, and none
} mu_grad_sum;

// Visits every element that the sum has in [begin, end) exactly once, in pieces and an order that depend
// only on the gradients and the range. The value of an element does not depend on the range.
//   dense alone, weight NULL    one piece, the gradient itself
//   factors or gathered         with `outer` and few samples, each row: of every sample x, or its row of x,
//                               times its element of dy
//   rows alone                  each named row once, by rising id; values are added in the order given
//   anything else               blocks of rows, dense and gathered ones added, factors multiplied out
// Allocates nothing; needs up to 64 KiB of stack.
MU_AT_LEVELS(void, mu_grad_sum_pieces,
             (const mu_param *p, const mu_grad_sum *s, mu_piece_visit visit, void *ctx));
// Two sums over one range, both of equally few samples, as factors: visits both pieces of a row at once, as
// an array of two. False: they are not, and nothing was visited.
MU_AT_LEVELS(bool, mu_grad_sum_pairs,
             (const mu_param *p, const mu_grad_sum *s, mu_piece_visit visit, void *ctx));
// One whole gradient.
MU_AT_LEVELS(void, mu_grad_pieces, (const mu_param *p, const mu_grad *g, mu_piece_visit visit, void *ctx));

#endif
