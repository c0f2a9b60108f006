// SPDX-License-Identifier: Apache-2.0
// ridge.h - a linear fit with decay, solved at once: what a linear net of that decay will learn.
//
//     w = argmin  1/(2 n) sum_i (y_i - w0 - w x_i)^2 + decay / 2 |w|^2
#ifndef MU_RECIPE_RIDGE_H
#define MU_RECIPE_RIDGE_H

#include "base/err.h"

#include <stdint.h>

typedef struct mu_ridge {
    size_t  d;                  // values of an x; w0 is one more
    int64_t n;                  // pairs seen
    double *xx, *xy;            // [(d+1)^2] and [d+1] sums of products, x with a 1 behind it
    double *w, *work;           // [d+1] the fit, w0 last; [(d+1)^2]
} mu_ridge;

MU_MUST_CHECK mu_status mu_ridge_init(mu_ridge *r, size_t d, mu_err *err);
void mu_ridge_fini(mu_ridge *r);        // a zeroed one is fine
void mu_ridge_add(mu_ridge *r, const double *x, double y);
bool mu_ridge_solve(mu_ridge *r, double decay); // false: no unique fit in the precision of a double
double mu_ridge_answer(const mu_ridge *r, const double *x);

#endif
