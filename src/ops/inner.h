// SPDX-License-Identifier: Apache-2.0
// inner.h - what the fully connected implementations share: gradients block by block.
#ifndef MU_OPS_INNER_H
#define MU_OPS_INNER_H

#include "base/level.h"
#include "ops/op.h"

#define mu_inner_padded MU_LEVELLED(mu_inner_padded)
#define mu_inner_add_dsrc MU_LEVELLED(mu_inner_add_dsrc)
#define mu_inner_copy_dsrc MU_LEVELLED(mu_inner_copy_dsrc)
#define mu_inner_dbias MU_LEVELLED(mu_inner_dbias)

#define MU_INNER_STRIP 64
// Width of a row of i floats in the buffer dx of mu_inner_add_dsrc: whole vectors.
MU_AT_LEVELS(int64_t, mu_inner_padded, (int64_t i));

// dx += dy[:, row0..row0+rows) * w[row0..row0+rows), from the weights as they are now. dx is a buffer of n
// rows of mu_inner_padded(i) floats; strip, rows * MU_INNER_STRIP floats, is for some columns of the weights.
MU_AT_LEVELS(void, mu_inner_add_dsrc, (const mu_inner_desc *d, const mu_op_args *a, int64_t row0,
                                       int64_t rows, float *dx, float *strip));
// Out of that buffer.
MU_AT_LEVELS(void, mu_inner_copy_dsrc, (const mu_inner_desc *d, const float *dx, float *dsrc));

// Column sums of dy; =, or += when accumulate.
MU_AT_LEVELS(void, mu_inner_dbias, (const mu_inner_desc *d, const mu_op_args *a));

#endif
