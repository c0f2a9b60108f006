// SPDX-License-Identifier: Apache-2.0
// inner.h - what the fully connected implementations share: gradients block by block.
#ifndef MU_OPS_INNER_H
#define MU_OPS_INNER_H

#include "ops/op.h"

// Width of a row of i floats in the buffers of mu_inner_add_dsrc: whole tiles.
int64_t mu_inner_padded(int64_t i);

// dx += dy[:, row0..row0+rows) * w[row0..row0+rows), from the weights as they are now. dx is a buffer of n
// rows of mu_inner_padded(i) floats. copy holds rows * mu_inner_padded(i) floats; the last rows of the
// weights go through it, because tiles read past the end of a row.
void mu_inner_add_dsrc(const mu_inner_desc *d, const mu_op_args *a, int64_t row0, int64_t rows, float *dx,
                       float *copy);
void mu_inner_copy_dsrc(const mu_inner_desc *d, const float *dx, float *dsrc);  // out of that buffer

void mu_inner_dbias(const mu_inner_desc *d,
                    const mu_op_args *a); // column sums of dy; =, or += when accumulate

#endif
