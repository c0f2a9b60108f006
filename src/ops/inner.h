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

// Width of a row of i floats in the buffers of mu_inner_add_dsrc: whole tiles.
MU_AT_LEVELS(int64_t, mu_inner_padded, (int64_t i));

// dx += dy[:, row0..row0+rows) * w[row0..row0+rows), from the weights as they are now. dx is a buffer of n
// rows of mu_inner_padded(i) floats. copy holds rows * mu_inner_padded(i) floats; the last rows of the
// weights go through it, because tiles read past the end of a row.
MU_AT_LEVELS(void, mu_inner_add_dsrc, (const mu_inner_desc *d, const mu_op_args *a, int64_t row0,
                                       int64_t rows, float *dx, float *copy));
// Out of that buffer.
MU_AT_LEVELS(void, mu_inner_copy_dsrc, (const mu_inner_desc *d, const float *dx, float *dsrc));

// Column sums of dy; =, or += when accumulate.
MU_AT_LEVELS(void, mu_inner_dbias, (const mu_inner_desc *d, const mu_op_args *a));

#endif
