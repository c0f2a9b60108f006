// SPDX-License-Identifier: Apache-2.0
// project.h - principal components: the few directions in which points spread most.
#ifndef MU_LOOK_PROJECT_H
#define MU_LOOK_PROJECT_H

#include "base/err.h"

#include <stdint.h>

#define MU_PROJECT_MAX 8

// Rows of x (n, d) become out (n, k): their distances from the mean along the k directions of largest
// variance, largest first. share[i] is the part of all variance that direction i holds; 0 where the points
// have none left. The sign of a direction is chosen so that its largest entry is positive: the same points
// give the same picture every time. k <= MU_PROJECT_MAX and k <= d (MU_EUSAGE); values must be finite
// (MU_EDATA names the row).
MU_MUST_CHECK mu_status mu_project_pca(const float *x, int64_t n, int64_t d, int k, double *out,
                                       double *share, mu_err *err);

// Eigenvalues and vectors of the symmetric a (n, n) by Jacobi rotations: a's diagonal becomes the values,
// column j of v (n, n) the vector of value j, not sorted. n is small.
void mu_project_jacobi(double *a, double *v, int n);

#endif
