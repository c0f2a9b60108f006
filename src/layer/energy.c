// SPDX-License-Identifier: Apache-2.0
// energy.c - units, visible layers and bonds, of which rbm and dbm are made.
//
// Units: means, draws and the logarithm of their partition function, by vectors; sums over a batch are in
// double, since free energies are differences of large numbers. A draw is a function of (key, sample,
// element), so it is the same in every batch size. Bonds: the weights between two layers of units with the
// ops that multiply by them in both directions.
#include "layer/energy.h"

#include "layer/grad.h"
#include "layer/infer.h"

#include <string.h>

// ---- source and memory ----

mu_status mu_visible_infer(mu_visible *s, const mu_layer *l, mu_err *err) {
    char text[96];
    MU_TRY(mu_infer_float(l, 0, err));
    const mu_shape *in = mu_layer_src_shape(l, 0);
    if (in->n < 2)
        return mu_layer_fail(l, err, "%s needs a source (batch, values), `%s` gives %s", l->class->name,
                             mu_infer_src_name(l, 0), mu_shape_text(in, text));
    *s = (mu_visible){.n = in->d[0], .v = mu_shape_inner(in, 1), .reorder = mu_shape_is_reordered(in)};
    if (s->reorder) {
        s->channels = in->d[1];
        s->hw = in->d[2] * in->d[3];
    }
    return MU_OK;
}

const float *mu_visible_value(const mu_visible *s, const mu_layer *l, const float *flat) {
    return s->reorder ? flat : l->src[0]->value.f;
}

void mu_visible_flatten(const mu_visible *s, const mu_layer *l, float *flat) {
    if (s->reorder) mu_nhwc_to_nchw(flat, l->src[0]->value.f, s->n, s->channels, s->hw);
}

int64_t mu_energy_room(size_t *bytes, int64_t floats) {
    const size_t at = (*bytes + MU_CACHE_LINE - 1) / MU_CACHE_LINE * MU_CACHE_LINE;
    *bytes = at + (size_t)floats * sizeof(float);
    return (int64_t)(at / sizeof(float));
}

// ---- bonds ----

void mu_bond_infer(mu_bond *b, const mu_layer *l, mu_param *weight, int64_t n, int64_t i, int64_t o) {
    *b = (mu_bond){.n = n, .i = i, .o = o, .weight = weight};
    if (!l->shares_params) weight->max_batch = l->contrast ? 2 * n : n;
}

static mu_status add_op(const mu_bond *b, mu_layer *l, int64_t rows, bool down, mu_op **out, mu_err *err) {
    const mu_inner_desc d = {.n = rows, .i = b->i, .o = b->o, .bias = true, .need_dsrc = down};
    MU_TRY(mu_op_create(&(mu_op_desc){.prim = MU_PRIM_INNER, .inner = d}, l->name, out, err));
    if ((*out)->scratch_bytes > l->scratch_bytes) l->scratch_bytes = (*out)->scratch_bytes;
    return MU_OK;
}

mu_status mu_bond_setup(mu_bond *b, mu_layer *l, mu_err *err) {
    MU_TRY(add_op(b, l, b->n, true, &b->op, err));
    return l->in_contrast && mu_layer_trains(l) ? add_op(b, l, 2 * b->n, false, &b->learn, err) : MU_OK;
}

void mu_bond_teardown(mu_bond *b) {
    mu_op_destroy(b->op);
    mu_op_destroy(b->learn);
    b->op = b->learn = NULL;
}

mu_status mu_bond_up(const mu_bond *b, const mu_layer *l, int64_t rows, const float *lower, const float *bias,
                     float *dst, mu_err *err) {
    const mu_op_args a = {.src = lower, .weight = b->weight->value, .bias = bias, .dst = dst,
                          .scratch = l->scratch, .rows = rows};
    return mu_op_forward(b->op, &a, err);
}

mu_status mu_bond_down(const mu_bond *b, const mu_layer *l, const float *upper, float *dst, mu_err *err) {
    const mu_op_args a = {.ddst = upper, .weight = b->weight->value, .dsrc = dst, .scratch = l->scratch,
                          .skip_dweight = true};
    return mu_op_backward(b->op, &a, err);
}

mu_status mu_bond_learn(const mu_bond *b, const mu_layer *l, const mu_step *s, mu_param *bias, const float *x,
                        const float *dy, mu_err *err) {
    const mu_op_args a = {.src = x, .ddst = dy, .weight = b->weight->value, .scratch = l->scratch};
    return mu_grad_inner(l, s, b->learn, b->weight, bias, &a, err);
}
