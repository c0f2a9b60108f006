// SPDX-License-Identifier: Apache-2.0
// energy.h - what energy layers share: stochastic units, and the weights between two layers of them.
//
// Units. Given its input x (everything it is connected to, times the weights, plus its bias) a binary unit is
// 1 with probability s(x) = 1 / (1 + e^-x), a gaussian one is x plus noise of variance 1. Draws are a
// function of (layer, sample, draw, unit), so they do not depend on batches or learners.
//
// A bond is w (o, i) between i lower and o upper units, over the fully connected ops: up is lower * w', down
// is upper * w. The gradient of contrastive divergence, for n samples,
//     dw = (sum over b of hneg_b vneg_b' - hpos_b vpos_b') / batch
// is that of a fully connected layer with 2n samples, x = [vpos; vneg], dy = [-hpos; hneg] / batch, and so
// has all the forms that such a gradient can have. Fully connected ops keep nothing between forward and
// backward.
#ifndef MU_LAYER_ENERGY_H
#define MU_LAYER_ENERGY_H

#include "layer/layer.h"

typedef enum mu_unit { MU_UNIT_BINARY, MU_UNIT_GAUSSIAN } mu_unit;
#define MU_UNIT_CHOICES "binary|gaussian"

// The means of n units, in place of their inputs. log_z, unless NULL: the sum of the logarithms of their
// partition functions is added, ln(1 + e^x) resp. x^2/2: what summing out a unit leaves of the energy.
void mu_unit_mean(mu_unit kind, int64_t n, float *x, double *log_z);

// Draws the n units of one sample. out may be mean. `draw` numbers the draws of a sample.
void mu_unit_draw(mu_unit kind, mu_rng_key key, int64_t sample, int64_t draw, int64_t n, const float *mean,
                  float *out);
// The same for rows of samples that follow each other.
void mu_unit_draw_rows(mu_unit kind, mu_rng_key key, int64_t first_sample, int64_t draw, int64_t rows,
                       int64_t n, const float *mean, float *out);

// x (rows, n) += bias (n), or += bias (rows, n) when each sample has its own.
void mu_unit_add_bias(int64_t rows, int64_t n, const float *bias, bool own, float *x);
// a = scale * b
void mu_unit_scale(int64_t n, float scale, const float *b, float *a);
// dst (n) += scale * column sums of x (rows, n).
void mu_unit_add_columns(int64_t rows, int64_t n, float scale, const float *x, float *dst);

double mu_unit_dot(const float *a, const float *b, int64_t n);
double mu_unit_distance(const float *a, const float *b, int64_t n);     // sum of squared differences

typedef struct mu_visible {             // source 0 as rows of values in their logical order
    int64_t n, v;                       // rows, values
    bool    reorder;                    // it is stored in another order: (n, channels, hw), channels last
    int64_t channels, hw;
} mu_visible;

mu_status mu_visible_infer(mu_visible *s, const mu_layer *l, mu_err *err);      // fails at the layer's place
// The values: the source itself, or `flat` (n, v), to which mu_visible_flatten has copied them.
const float *mu_visible_value(const mu_visible *s, const mu_layer *l, const float *flat);
void mu_visible_flatten(const mu_visible *s, const mu_layer *l, float *flat);   // does nothing unless reorder

// Room for so many floats at the end of keep or scratch bytes, on whole cache lines; their offset in floats.
int64_t mu_energy_room(size_t *bytes, int64_t floats);

typedef struct mu_bond {
    int64_t   n, i, o;                  // rows of a batch; lower and upper units
    mu_param *weight;                   // (o, i)
    mu_op    *op;                       // n rows: up and down
    mu_op    *learn;                    // 2n rows: the gradient; NULL when it does not learn by contrast
} mu_bond;

// In infer, when the parameter (o, i) is declared; notes in it how many samples' factors a step gives.
void mu_bond_infer(mu_bond *b, const mu_layer *l, mu_param *weight, int64_t n, int64_t i, int64_t o);
// In setup. Raises l->scratch_bytes to what the ops need at the start of the layer's scratch.
mu_status mu_bond_setup(mu_bond *b, mu_layer *l, mu_err *err);
void mu_bond_teardown(mu_bond *b);      // takes a half-built one

// dst (n, o) = lower (n, i) * w' + bias (o)
mu_status mu_bond_up(const mu_bond *b, const mu_layer *l, int64_t rows, const float *lower, const float *bias,
                     float *dst, mu_err *err);
// dst (n, i) = upper (n, o) * w
mu_status mu_bond_down(const mu_bond *b, const mu_layer *l, const float *upper, float *dst, mu_err *err);
// The gradients of the weight and of the upper units' bias from x (2n, i) and dy (2n, o), as mu_grad_inner.
mu_status mu_bond_learn(const mu_bond *b, const mu_layer *l, const mu_step *s, mu_param *bias, const float *x,
                        const float *dy, mu_err *err);

#endif
