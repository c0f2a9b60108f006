// SPDX-License-Identifier: Apache-2.0
// cell.c - see cell.h.
#include "layer/cell.h"

#include "layer/infer.h"
#include "ops/rnn.h"

#include <string.h>

static int64_t state_width(const mu_recurrent *r) { return mu_rnn_state(r->d.cell, r->hidden); }

// ---- shapes ----

static mu_status infer_input(mu_layer *l, mu_recurrent *r, mu_err *err) {
    char text[96];
    const mu_blob *b = l->src[0];
    const mu_shape *in = &b->value.shape;
    r->d.one_hot = b->value.dtype == MU_I32;
    r->d.need_dsrc = b->needs_grad && !r->d.one_hot;
    if (l->left_out & 1) {
        mu_status st = mu_layer_fail(l, err, "time step %d of %s has no input: its first source is left out",
                                     l->copy, l->class->name);
        mu_err_hint(err, "Only states may be missing. Let the sequence of inputs begin one step earlier "
                         "instead of shifting it.");
        return st;
    }
    if (in->n != (r->d.one_hot ? 1 : 2))
        return mu_err_hinted(
            mu_layer_fail(l, err,
                          "%s needs one time step (batch, values), or integers (batch), `%s` gives "
                          "%s%s",
                          l->class->name, mu_infer_src_name(l, 0), r->d.one_hot ? "integers " : "",
                          mu_shape_text(in, text)),
            err, "`unroll: T` makes a copy of the cell for each of T time steps.");
    r->d.n = in->d[0];
    r->d.t = 1;
    r->d.i = in->d[1];
    return r->d.one_hot ? mu_infer_vocab(l, 0, r->vocab, &r->d.i, err) : MU_OK;
}

static mu_status check_state(const mu_layer *l, const mu_recurrent *r, int k, mu_err *err) {
    char want[96], got[96];
    const mu_shape shape = MU_SHAPE(r->d.n, state_width(r));
    if (mu_shape_equal(mu_layer_src_shape(l, k), &shape)) return MU_OK;
    mu_status st = mu_layer_fail(l, err, "the state of %s is %s, `%s` gives %s", l->class->name,
                                 mu_shape_text(&shape, want), mu_infer_src_name(l, k),
                                 mu_shape_text(mu_layer_src_shape(l, k), got));
    if (r->d.cell == MU_CELL_LSTM)
        mu_err_hint(err,
                    "The second output of an lstm_cell is its state (h, c): `{layer: NAME.1, shift: 1}`.");
    return st;
}

static mu_status infer_sources(mu_layer *l, mu_cell_layer *s, int *begin, mu_err *err) {
    const bool last = l->n_copies == 0 || l->copy == l->n_copies - 1;
    *begin = 0;
    for (int k = 1; k < l->n_src; k++) {
        if (l->src[k]->value.dtype == MU_I32 && k == l->n_src - 1) {
            *begin = k;
            continue;
        }
        if (s->state_src)
            return mu_layer_fail(l, err, "%s has the states `%s` and `%s`", l->class->name,
                                 mu_infer_src_name(l, s->state_src), mu_infer_src_name(l, k));
        MU_TRY(mu_infer_float(l, k, err));
        MU_TRY(check_state(l, &s->r, k, err));
        s->state_src = k;
    }
    const bool forgets = l->copy > 0 && !s->state_src;
    if (forgets && (last || *begin))
        return mu_err_hinted(mu_layer_fail(l, err, "it takes no state of the time step before"), err,
                             "Add `{layer: %s%s, shift: 1}` to its sources.", l->origin,
                             s->r.d.cell == MU_CELL_LSTM ? ".1" : "");
    s->reads = *begin && !s->state_src;
    s->writes = *begin && last;
    return MU_OK;
}

mu_status mu_cell_infer(mu_layer *l, mu_cell cell, mu_err *err) {
    mu_cell_layer *s = l->state;
    mu_recurrent *r = &s->r;
    int begin;
    r->d = (mu_rnn_desc){.cell = cell, .h = r->hidden, .bias = r->bias_term};
    MU_TRY(infer_input(l, r, err));
    MU_TRY(infer_sources(l, s, &begin, err));
    MU_TRY(mu_recurrent_add_params(l, err));
    if (s->reads || s->writes) MU_TRY(mu_recurrent_add_memory(l, begin, err));
    const size_t n = (size_t)r->d.n;
    s->dbegin = mu_arena_array(l->arena, n, sizeof *s->dbegin);
    s->dend = mu_arena_array(l->arena, n, sizeof *s->dend);
    if (!r->begin) r->begin = mu_arena_array(l->arena, n, sizeof *r->begin);
    if (!r->end) r->end = mu_arena_array(l->arena, n, sizeof *r->end);
    if (!s->dbegin || !s->dend || !r->begin || !r->end) return MU_FAIL_NOMEM(err, "the states of a layer");
    const bool lstm = cell == MU_CELL_LSTM;
    MU_TRY(mu_layer_add_out(l, lstm ? "0" : NULL, MU_SHAPE(r->d.n, r->hidden), MU_F32, err));
    return lstm ? mu_layer_add_out(l, "1", MU_SHAPE(r->d.n, 2 * r->hidden), MU_F32, err) : MU_OK;
}

// ---- a step ----

// begin and end of the op: the source's rows or the memory, and the second output of an lstm.
static void find_states(mu_layer *l, const mu_step *step, mu_op_args *a) {
    mu_cell_layer *s = l->state;
    const int64_t w = state_width(&s->r);
    if (s->reads) mu_recurrent_find_begin(l, l->n_src - 1, step);
    for (int64_t b = 0; b < s->r.d.n; b++) {
        if (s->state_src) s->r.begin[b] = l->src[s->state_src]->value.f + b * w;
        if (l->n_out > 1) s->r.end[b] = l->out[1].value.f + b * w;
    }
    if (s->state_src || s->reads) a->begin = s->r.begin;
    if (l->n_out > 1) a->end = s->r.end;
}

mu_status mu_cell_forward(mu_layer *l, const mu_step *step, mu_err *err) {
    mu_cell_layer *s = l->state;
    mu_op_args a = mu_recurrent_args(l, step);
    MU_TRY(mu_recurrent_check_words(l, step, err));
    find_states(l, step, &a);
    MU_TRY(mu_op_forward(l->op, &a, err));
    const int64_t w = state_width(&s->r);
    const float *state = l->out[l->n_out - 1].value.f;
    for (int64_t b = 0; s->writes && b < step->rows; b++) {
        const int64_t g = step->first_sample + b;
        memcpy(mu_rowstate_slot(&s->r.memory, g), state + b * w, (size_t)w * sizeof *state);
        mu_rowstate_commit(&s->r.memory, g);
    }
    return MU_OK;
}

mu_status mu_cell_backward(mu_layer *l, const mu_step *step, mu_err *err) {
    mu_cell_layer *s = l->state;
    const int64_t w = state_width(&s->r);
    float *dstate = s->state_src ? l->src[s->state_src]->grad.f : NULL;
    mu_op_args a = mu_recurrent_args(l, step);
    a.ddst = l->out[0].grad.f;
    a.dsrc = s->r.d.one_hot ? NULL : l->src[0]->grad.f;
    if (s->state_src || s->reads) a.begin = s->r.begin; // as forward found them
    for (int64_t b = 0; b < s->r.d.n; b++) {
        if (l->n_out > 1) s->dend[b] = l->out[1].grad.f + b * w;
        if (dstate) s->dbegin[b] = dstate + b * w;
    }
    if (l->n_out > 1) a.dend = s->dend;
    if (dstate) a.dbegin = s->dbegin;
    mu_recurrent_begin_gradients(l, &a);
    return mu_op_backward(l->op, &a, err);
}
