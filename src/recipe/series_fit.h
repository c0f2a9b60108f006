// SPDX-License-Identifier: Apache-2.0
// series_fit.h - what of a series tells its next value: season, length of the window, decay.
//
// Linear fits (recipe/ridge.h) of the first part of the training rows are judged on its last quarter, which
// lies after it in time. What they are fitted to is the difference from a naive answer: so much decay that
// nothing is left of the fit is that answer itself, and the choice cannot be worse than it on those rows.
#ifndef MU_RECIPE_SERIES_FIT_H
#define MU_RECIPE_SERIES_FIT_H

#include "read/series.h"

typedef struct mu_series_fit {
    int64_t natural;    // rows of a season by the dates (12 for months); 0 = they do not tell
    int64_t found;      // season that shows in the autocorrelation of the steps; 0 = none
    double correlation; // of the steps with those one season before
    int64_t season;     // rows from the naive answer to the value; 0 = the last value is better
    int64_t window;
    double decay;
    double last_rmse, season_rmse, rmse; // on the rows held back, in the unit of the target
} mu_series_fit;

// column: those used, [n]; target: index in it. Rows [0, n_train) are looked at. MU_EDATA where there are too
// few.
MU_MUST_CHECK mu_status mu_series_fit_choose(const mu_series *s, const size_t *column, size_t n,
                                             size_t target, int64_t n_train, mu_series_fit *out, mu_err *err);

#endif
