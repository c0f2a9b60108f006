// SPDX-License-Identifier: Apache-2.0
// unit.h - the stochastic units of energy layers.
//
// Given its input x (everything it is connected to, times the weights, plus its bias) a binary unit is
// 1 with probability s(x) = 1 / (1 + e^-x), a gaussian one is x plus noise of variance 1. Draws are a
// function of (layer, sample, draw, unit), so they do not depend on batches or learners.
#ifndef MU_LAYER_UNIT_H
#define MU_LAYER_UNIT_H

#include "base/level.h"
#include "base/rng.h"

#include <stdbool.h>

#define mu_unit_mean MU_LEVELLED(mu_unit_mean)
#define mu_unit_draw MU_LEVELLED(mu_unit_draw)
#define mu_unit_draw_rows MU_LEVELLED(mu_unit_draw_rows)
#define mu_unit_add_bias MU_LEVELLED(mu_unit_add_bias)
#define mu_unit_scale MU_LEVELLED(mu_unit_scale)
#define mu_unit_add_columns MU_LEVELLED(mu_unit_add_columns)
#define mu_unit_dot MU_LEVELLED(mu_unit_dot)
#define mu_unit_distance MU_LEVELLED(mu_unit_distance)

typedef enum mu_unit { MU_UNIT_BINARY, MU_UNIT_GAUSSIAN } mu_unit;
#define MU_UNIT_CHOICES "binary|gaussian"

// The means of n units, in place of their inputs. log_z, unless NULL: the sum of the logarithms of their
// partition functions is added, ln(1 + e^x) resp. x^2/2: what summing out a unit leaves of the energy.
MU_AT_LEVELS(void, mu_unit_mean, (mu_unit kind, int64_t n, float *x, double *log_z));

// Draws the n units of one sample. out may be mean. `draw` numbers the draws of a sample.
MU_AT_LEVELS(void, mu_unit_draw, (mu_unit kind, mu_rng_key key, int64_t sample, int64_t draw, int64_t n,
                                  const float *mean, float *out));
// The same for rows of samples that follow each other.
MU_AT_LEVELS(void, mu_unit_draw_rows, (mu_unit kind, mu_rng_key key, int64_t first_sample, int64_t draw,
                                       int64_t rows, int64_t n, const float *mean, float *out));

// x (rows, n) += bias (n), or += bias (rows, n) when each sample has its own.
MU_AT_LEVELS(void, mu_unit_add_bias, (int64_t rows, int64_t n, const float *bias, bool own, float *x));
// a = scale * b
MU_AT_LEVELS(void, mu_unit_scale, (int64_t n, float scale, const float *b, float *a));
// dst (n) += scale * column sums of x (rows, n).
MU_AT_LEVELS(void, mu_unit_add_columns, (int64_t rows, int64_t n, float scale, const float *x, float *dst));

MU_AT_LEVELS(double, mu_unit_dot, (const float *a, const float *b, int64_t n));
// Sum of squared differences.
MU_AT_LEVELS(double, mu_unit_distance, (const float *a, const float *b, int64_t n));

#endif
