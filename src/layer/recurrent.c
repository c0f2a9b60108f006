// SPDX-License-Identifier: Apache-2.0
// recurrent.c - the recurrent layers but for their cells: sources, parameters, remembered states, passes.
//
// One op runs all time steps of a batch. Around it this file finds the state that each row begins with,
// checks word numbers before an op reads rows by them, and leaves the last states for the next batch. States
// beyond the valid rows are never read or left: those rows are samples of other batches.
#include "layer/recurrent.h"

#include "layer/grad.h"
#include "layer/infer.h"
#include "layer/score.h"
#include "ops/rnn.h"

#include <string.h>

const char *const mu_recurrent_params[] = {"weight_ih", "weight_hh", "bias_ih", "bias_hh", "state", NULL};

// ---- shapes ----

static mu_status infer_source(mu_layer *l, mu_recurrent *s, mu_err *err) {
    char text[96];
    const mu_blob *b = l->src[0];
    const mu_shape *in = &b->value.shape;
    s->d.one_hot = b->value.dtype == MU_I32;
    s->d.need_dsrc = b->needs_grad && !s->d.one_hot;
    if (in->n != (s->d.one_hot ? 2 : 3))
        return mu_err_hinted(
            mu_layer_fail(l, err,
                          "%s needs sequences (batch, time, values), or integers (batch, time), "
                          "`%s` gives %s%s",
                          l->class->name, mu_infer_src_name(l, 0), s->d.one_hot ? "integers " : "",
                          mu_shape_text(in, text)),
            err, "A reshape layer can make one: `shape: [0, time, -1]`.");
    s->d.n = in->d[0];
    s->d.t = in->d[1];
    s->d.i = in->d[2];
    return s->d.one_hot ? mu_infer_vocab(l, 0, s->vocab, &s->d.i, err) : MU_OK;
}

mu_status mu_recurrent_add_memory(mu_layer *l, int src, mu_err *err) {
    mu_recurrent *s = l->state;
    char text[96];
    const mu_blob *b = l->src[src];
    const mu_shape *in = &b->value.shape;
    if (b->value.dtype != MU_I32 || mu_shape_count(in) != s->d.n)
        return mu_err_hinted(
            mu_layer_fail(l, err,
                          "a source of %s says of each sample whether a sequence begins, "
                          "`%s` gives %s%s",
                          l->class->name, mu_infer_src_name(l, src),
                          b->value.dtype == MU_I32 ? "integers " : "numbers ", mu_shape_text(in, text)),
            err, "It is the integer field `begin` of data whose records continue each other.");
    if (!b->streams)
        return mu_err_hinted(
            mu_layer_fail(l, err,
                          "the records of `%s` do not continue each other, so that no state can be "
                          "carried",
                          mu_infer_src_name(l, src)),
            err, "Leave that source out: every record is then a sequence of its own.");
    s->begin = mu_arena_array(l->arena, (size_t)s->d.n, sizeof *s->begin);
    s->end = mu_arena_array(l->arena, (size_t)s->d.n, sizeof *s->end);
    const int64_t width = mu_rnn_state(s->d.cell, s->hidden);
    MU_TRY(mu_rowstate_infer(&s->memory, l, "state", b->streams, width, err));
    s->carried = mu_arena_array(l->arena, (size_t)(s->d.n * width), sizeof *s->carried);
    return s->begin && s->end && s->carried ? MU_OK : MU_FAIL_NOMEM(err, "the states of a layer");
}

mu_status mu_recurrent_add_params(mu_layer *l, mu_err *err) {
    const mu_recurrent *s = l->state;
    const int64_t h = s->hidden, rows = mu_rnn_gates(s->d.cell) * h;
    MU_TRY(mu_layer_add_param(l, "weight_ih", MU_SHAPE(rows, s->d.i), h, h, "pytorch", err));
    MU_TRY(mu_layer_add_param(l, "weight_hh", MU_SHAPE(rows, h), h, h, "pytorch", err));
    if (!s->bias_term) return MU_OK;
    MU_TRY(mu_layer_add_param(l, "bias_ih", MU_SHAPE(rows), h, h, "pytorch", err));
    return mu_layer_add_param(l, "bias_hh", MU_SHAPE(rows), h, h, "pytorch", err);
}

mu_status mu_recurrent_infer(mu_layer *l, mu_cell cell, mu_err *err) {
    mu_recurrent *s = l->state;
    s->d = (mu_rnn_desc){.cell = cell, .h = s->hidden, .bias = s->bias_term};
    MU_TRY(infer_source(l, s, err));
    MU_TRY(mu_recurrent_add_params(l, err));
    if (l->n_src > 1) MU_TRY(mu_recurrent_add_memory(l, 1, err));
    s->carries = l->n_src > 1;
    const mu_shape all = MU_SHAPE(s->d.n, s->d.t, s->hidden), last = MU_SHAPE(s->d.n, s->hidden);
    return mu_layer_add_out(l, NULL, s->outputs == MU_OUTPUTS_LAST ? last : all, MU_F32, err);
}

// ---- the forget gate ----

struct opened { // an initialiser of bias_ih (4*h) around another one
    mu_class_ref inner;
    float        forget_bias;
};

static void fill_opened(const void *state, const mu_init_args *a, float *out) {
    const struct opened *s = state;
    ((const mu_init_class *)s->inner.plugin)->fill(s->inner.state, a, out);
    for (int64_t k = a->shape->d[0] / 4; k < a->shape->d[0] / 2; k++) out[k] += s->forget_bias;
}

static const mu_init_class opened_init = {
    .name = "forget_bias",
    .help = "another initialiser plus forget_bias",
    .state_size = sizeof(struct opened),
    .fill = fill_opened,
};

mu_status mu_recurrent_open_forget_gate(mu_layer *l, mu_err *err) {
    const mu_recurrent *s = l->state;
    if (s->forget_bias == 0) return MU_OK;
    if (!s->bias_term) return mu_layer_fail(l, err, "`forget_bias` needs `bias_term: true`");
    mu_param *bias = l->param[2];
    if (l->shares_params || bias->init.plugin == &opened_init.plugin) return MU_OK; // a later net, or shared
    struct opened *own = mu_arena_alloc(l->arena, sizeof *own);
    if (!own) return MU_FAIL_NOMEM(err, "an initialiser");
    *own = (struct opened){bias->init, s->forget_bias};
    bias->init = (mu_class_ref){&opened_init.plugin, own};
    return MU_OK;
}

// With `last`, the outputs of all steps are kept, and their gradients are made in scratch.
mu_status mu_recurrent_setup(mu_layer *l, mu_err *err) {
    mu_recurrent *s = l->state;
    MU_TRY(mu_layer_set_op(l, &(mu_op_desc){.prim = MU_PRIM_RNN, .rnn = s->d}, err));
    s->op_keep = l->keep_bytes;
    s->op_scratch = l->scratch_bytes;
    if (s->outputs == MU_OUTPUTS_LAST) {
        const size_t all = (size_t)(s->d.n * s->d.t * s->d.h) * sizeof(float);
        l->keep_bytes += all;
        l->scratch_bytes += all;
    }
    return MU_OK;
}

// ---- a step ----

static float *behind(void *block, size_t bytes) { return (float *)(void *)((char *)block + bytes); }

mu_op_args mu_recurrent_args(const mu_layer *l, const mu_step *step) {
    const mu_recurrent *s = l->state;
    const bool bias = s->bias_term;
    return (mu_op_args){
        .src = s->d.one_hot ? NULL : l->src[0]->value.f,
        .words = s->d.one_hot ? l->src[0]->value.i : NULL,
        .dst = s->outputs == MU_OUTPUTS_LAST ? behind(l->keep, s->op_keep) : l->out[0].value.f,
        .weight = l->param[0]->value,
        .weight_h = l->param[1]->value,
        .bias = bias ? l->param[2]->value : NULL,
        .bias_h = bias ? l->param[3]->value : NULL,
        .keep = l->keep,
        .scratch = l->scratch,
        .rows = step->rows,
    };
}

mu_status mu_recurrent_check_words(const mu_layer *l, const mu_step *step, mu_err *err) {
    const mu_rnn_desc *d = &((const mu_recurrent *)l->state)->d;
    const int32_t *word = l->src[0]->value.i;
    for (int64_t k = 0; d->one_hot && k < step->rows * d->t; k++)
        MU_TRY(mu_word_check(l, word[k], d->i, step->first_sample + k / d->t, err));
    return MU_OK;
}

void mu_recurrent_find_begin(mu_layer *l, int src, const mu_step *step) {
    mu_recurrent *s = l->state;
    const int32_t *begins = l->src[src]->value.i;
    for (int64_t b = 0; b < s->d.n; b++) {
        float *to = s->carried + b * s->memory.width;
        const bool goes_on = b < step->rows && !begins[b];
        s->begin[b] = goes_on ? mu_rowstate_read(&s->memory, step->first_sample + b, to) : NULL;
    }
}

mu_status mu_recurrent_forward(mu_layer *l, const mu_step *step, mu_err *err) {
    mu_recurrent *s = l->state;
    mu_op_args a = mu_recurrent_args(l, step);
    MU_TRY(mu_recurrent_check_words(l, step, err));
    if (s->carries) {
        mu_recurrent_find_begin(l, 1, step);
        for (int64_t b = 0; b < s->d.n; b++)
            s->end[b] = b < step->rows ? mu_rowstate_slot(&s->memory, step->first_sample + b) : NULL;
        a.begin = s->begin;
        a.end = s->end;
    }
    MU_TRY(mu_op_forward(l->op, &a, err));
    for (int64_t b = 0; s->carries && b < step->rows; b++)
        mu_rowstate_commit(&s->memory, step->first_sample + b);
    for (int64_t b = 0; s->outputs == MU_OUTPUTS_LAST && b < s->d.n; b++)
        memcpy(l->out[0].value.f + b * s->d.h, a.dst + ((b + 1) * s->d.t - 1) * s->d.h,
               (size_t)s->d.h * sizeof(float));
    return MU_OK;
}

// The op has one accumulate flag for all parameters, see grad.h.
void mu_recurrent_begin_gradients(mu_layer *l, mu_op_args *a) {
    const mu_recurrent *s = l->state;
    float **const target[] = {&a->dweight, &a->dweight_h, &a->dbias, &a->dbias_h};
    const int n = s->bias_term ? 4 : 2;
    for (int k = 0; k < n; k++) a->accumulate |= mu_param_accumulates(l->param[k]);
    for (int k = 0; k < n; k++) {
        mu_param *p = l->param[k];
        if (a->accumulate) (void)mu_grad_add_to(p);
        p->grad.form = MU_GRAD_DENSE;
        *target[k] = p->grad.dense;
    }
}

mu_status mu_recurrent_backward(mu_layer *l, const mu_step *step, mu_err *err) {
    const mu_recurrent *s = l->state;
    mu_op_args a = mu_recurrent_args(l, step);
    a.ddst = l->out[0].grad.f;
    a.dsrc = s->d.one_hot ? NULL : l->src[0]->grad.f;
    if (s->outputs == MU_OUTPUTS_LAST) {
        const size_t row = (size_t)s->d.h * sizeof(float);
        float *all = behind(l->scratch, s->op_scratch);
        memset(all, 0, (size_t)(s->d.n * s->d.t) * row);
        for (int64_t b = 0; b < s->d.n; b++)
            memcpy(all + ((b + 1) * s->d.t - 1) * s->d.h, a.ddst + b * s->d.h, row);
        a.ddst = all;
    }
    mu_recurrent_begin_gradients(l, &a);
    return mu_op_backward(l->op, &a, err);
}

void mu_recurrent_cost(const mu_layer *l, mu_cost *out) {
    const mu_rnn_desc *d = &((const mu_recurrent *)l->state)->d;
    const double rows = (double)(mu_rnn_gates(d->cell) * d->h), steps = (double)(d->n * d->t);
    const double state = 2 * steps * rows * (double)d->h,
                 input = d->one_hot ? 0 : 2 * steps * rows * (double)d->i;
    out->flops_forward = state + input;
    out->flops_backward = 2 * state + input * (l->src[0]->needs_grad ? 2 : 1);
    out->bytes = (double)sizeof(float) * steps * (double)((d->one_hot ? 1 : d->i) + d->h);
}
