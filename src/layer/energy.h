// SPDX-License-Identifier: Apache-2.0
// energy.h - what energy layers share: their source, and the weights between two layers of units (unit.h).
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
#include "layer/unit.h"

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
