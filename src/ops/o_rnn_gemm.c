// SPDX-License-Identifier: Apache-2.0
// o_rnn_gemm.c - recurrent cells with the loop over time inside: few, large matrix products.
//
// Everything is kept time-major, row s*n + b for step s of sequence b: then the states of all steps are one
// matrix, whose rows n .. n*(t+1) are the outputs and rows 0 .. n*t what U was multiplied with.
//
//   forward    W x of all steps in one product; of one-hot x it is a row of W^T, looked up
//              each step: p U^T in register tiles over panels of U^T (tile.h). A panel holds all gates of a
//              few units, so that the gates are computed from sums that are still in the first-level cache.
//   backward   each step: gradients g of the gates' inputs, then that of p, g U, over panels of U
//              in the end: dU = g^T p, dW = g^T x and dx = g W of all steps in one product each
//
// The panels are packed once a call. For so few rows that this does not pay, as for the single step of an
// unrolled cell, a library multiplies with U as it is.
#include "ops/gemm.h"
#include "ops/rnn.h"
#include "ops/rnn_gates.h"
#include "ops/tile.h"
#include "ops/transpose.h"

#include <string.h>

// Packing costs about as much as 240 rows gain (1.7 ns an element of U, against 112 instead of 80 GFLOP/s).
#define PACKED_ROWS 240

typedef struct rnn {
    int64_t gates, rows;        // rows = gates*h: of W, U
    int     width, most;        // of the tiles' vectors, in floats; the most vectors of a tile
    bool    packed;
    bool    lookup;             // one-hot: W^T is made once a call; else columns of W are gathered
    int64_t unit, n_panels;     // forward: units of a panel
    int64_t padded;             // h in whole vectors
    // keep, floats: states (t+1,n,h), lstm's c (t+1,n,h), gates (t,n,rows), extra (t,n,h)
    int64_t at_h, at_c, at_gate, at_extra;
    // scratch, floats
    int64_t at_panels, at_bias;         // both ways: packed U; biases or their gradients
    int64_t at_table, at_x;             // both ways: W^T or its gradient; x, time-major
    int64_t at_wx, at_pre, at_rows;     // forward: W x (t,n,rows); U p of a panel or a step; (n) pointers
    int64_t at_g, at_dh, at_dc, at_dx;  // backward: (t,n,grad row), (n,padded), (n,h), dx time-major
} rnn;

static int64_t min64(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t max64(int64_t a, int64_t b) { return a > b ? a : b; }
static int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

static int64_t take(int64_t *at, int64_t floats) { // the next whole cache lines
    int64_t here = *at;
    *at += ceil_div(floats, 16) * 16;
    return here;
}

static bool same_order(const mu_rnn_desc *d) { return d->n == 1 || d->t == 1; } // batch-major is time-major

static void plan_scratch(mu_op *op) {
    rnn *v = op->state;
    const mu_rnn_desc *d = &op->desc.rnn;
    const int64_t steps = d->n * d->t, x = d->one_hot || same_order(d) ? 0 : steps * d->i;
    int64_t at = 0;
    const int64_t panels = max64(v->n_panels * v->unit * v->gates * d->h, v->rows * v->padded);
    v->at_panels = take(&at, v->packed ? panels : 0);
    v->at_bias = take(&at, max64(v->rows + d->h, mu_rnn_grad_row(d->cell, d->h)));
    v->at_table = take(&at, v->lookup ? d->i * v->rows : 0);
    v->at_x = take(&at, x);
    int64_t forward = at, backward = at;
    v->at_wx = take(&forward, v->lookup ? 0 : steps * v->rows);
    v->at_pre = take(&forward, d->n * (v->packed ? v->unit * v->gates : v->rows));
    v->at_rows = take(&forward, d->n * (int64_t)(sizeof(void *) / sizeof(float)));
    v->at_g = take(&backward, steps * mu_rnn_grad_row(d->cell, d->h));
    v->at_dh = take(&backward, d->n * v->padded);
    v->at_dc = take(&backward, d->cell == MU_CELL_LSTM ? d->n * d->h : 0);
    v->at_dx = take(&backward, d->need_dsrc ? x : 0);
    op->scratch_bytes = (size_t)max64(forward, backward) * sizeof(float);
}

static mu_status create(mu_op *op, MU_UNUSED mu_err *err) {
    rnn *v = op->state;
    const mu_rnn_desc *d = &op->desc.rnn;
    const bool gru = d->cell == MU_CELL_GRU, lstm = d->cell == MU_CELL_LSTM;
    v->gates = mu_rnn_gates(d->cell);
    v->rows = v->gates * d->h;
    v->width = mu_tile_best_width(d->h);
    v->most = MU_TILE_VECS;
    while (!mu_tile_max_rows(v->most)) v->most--;
    v->packed = d->n * d->t >= PACKED_ROWS && d->n >= 4;
    v->lookup = d->one_hot && d->i <= 4 * d->n * d->t;
    v->unit = v->width * max64(3 / v->gates, 1);
    v->n_panels = ceil_div(d->h, v->unit);
    v->padded = ceil_div(d->h, v->width) * v->width;
    int64_t at = 0;
    v->at_h = take(&at, (d->t + 1) * d->n * d->h);
    v->at_c = take(&at, lstm ? (d->t + 1) * d->n * d->h : 0);
    v->at_gate = take(&at, gru || lstm ? d->t * d->n * v->rows : 0);
    v->at_extra = take(&at, gru || lstm ? d->t * d->n * d->h : 0);
    op->keep_bytes = (size_t)at * sizeof(float);
    plan_scratch(op);
    return MU_OK;
}

// ---- moving ----

// (rows, cols, wide) -> (cols, rows, wide): between batch-major and time-major.
static void swap_order(float *to, const float *from, int64_t rows, int64_t cols, int64_t wide) {
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < cols; c++)
            memcpy(to + (c * rows + r) * wide, from + (r * cols + c) * wide, (size_t)wide * sizeof(float));
}

static const float *time_major_x(const mu_op *op, const mu_op_args *a) {
    const rnn *v = op->state;
    const mu_rnn_desc *d = &op->desc.rnn;
    if (same_order(d)) return a->src;
    float *x = (float *)a->scratch + v->at_x;
    swap_order(x, a->src, d->n, d->t, d->i);
    return x;
}

// ---- products with panels ----

// C (n, vecs vectors) (=, or += when add) A (n,k) * panel (k, vecs vectors), in tiles of about equal height.
static void multiply(const rnn *v, int64_t n, int64_t k, const float *a, int64_t lda, const float *panel,
                     int64_t vecs, float *c, int64_t ldc, bool add) {
    mu_tile_dot t = {.n_seg = 1, .seg = k, .ldb = vecs * v->width, .add = add};
    for (int64_t group = 0, groups = ceil_div(vecs, v->most), v0 = 0; group < groups; group++) {
        const int wide = (int)ceil_div(vecs - v0, groups - group);
        const int64_t tiles = ceil_div(n, mu_tile_max_rows(wide)), at = v0 * v->width;
        t.b = panel + at;
        for (int64_t tile = 0, row = 0; tile < tiles; tile++) {
            const int m = (int)ceil_div(n - row, tiles - tile);
            for (int r = 0; r < m; r++, row++) {
                t.a[r] = a + row * lda;
                t.c[r] = c + row * ldc + at;
            }
            mu_tile_run_dot(&t, v->width, m, wide);
        }
        v0 += wide;
    }
}

// ---- forward ----

// Panel j, row k: U^T[k] for the panel's units, gate after gate; units beyond h are zero.
static void pack_forward(const rnn *v, const mu_rnn_desc *d, const float *u, float *panels) {
    const int64_t cols = v->unit * v->gates;
    for (int64_t j = 0; j < v->n_panels; j++, panels += cols * d->h) {
        const int64_t u0 = j * v->unit, units = min64(v->unit, d->h - u0);
        if (units < v->unit) memset(panels, 0, (size_t)(cols * d->h) * sizeof(float));
        for (int64_t g = 0; g < v->gates; g++)
            mu_transpose(panels + g * v->unit, cols, u + (g * d->h + u0) * d->h, d->h, units, d->h, NULL);
    }
}

// b + d; a gru's d of n stays apart, since r multiplies it.
static void add_biases(const rnn *v, const mu_rnn_desc *d, const mu_op_args *a, float *bias) {
    memset(bias, 0, (size_t)(v->rows + d->h) * sizeof(float));
    if (!d->bias) return;
    const int64_t apart = d->cell == MU_CELL_GRU ? 2 * d->h : v->rows;
    for (int64_t k = 0; k < apart; k++) bias[k] = a->bias[k] + a->bias_h[k];
    for (int64_t k = apart; k < v->rows; k++) bias[k] = a->bias[k], bias[k + d->h] = a->bias_h[k];
}

// W x of all steps, time-major; with a look-up only the table it is looked up in.
static void input_product(const mu_op *op, const mu_op_args *a) {
    const rnn *v = op->state;
    const mu_rnn_desc *d = &op->desc.rnn;
    float *s = a->scratch, *wx = s + v->at_wx;
    if (v->lookup) {
        mu_transpose(s + v->at_table, v->rows, a->weight, d->i, v->rows, d->i, NULL);
    } else if (d->one_hot) {
        for (int64_t step = 0; step < d->t; step++)
            for (int64_t b = 0; b < d->n; b++, wx += v->rows)
                for (int64_t k = 0, word = mu_rnn_word(d, a, b, step); k < v->rows; k++)
                    wx[k] = a->weight[k * d->i + word];
    } else {
        mu_gemm(false, true, d->n * d->t, v->rows, d->i, time_major_x(op, a), d->i, a->weight, d->i, 0.0f, wx,
                v->rows);
    }
}

static void begin_states(const rnn *v, const mu_rnn_desc *d, const mu_op_args *a) {
    float *keep = a->keep;
    const size_t bytes = (size_t)d->h * sizeof(float);
    for (int64_t b = 0; b < d->n; b++) {
        const float *from = a->begin ? a->begin[b] : NULL;
        float *to[2] = {keep + v->at_h + b * d->h, keep + v->at_c + b * d->h};
        for (int k = 0; k < (d->cell == MU_CELL_LSTM ? 2 : 1); k++) {
            if (from) memcpy(to[k], from + k * d->h, bytes);
            else memset(to[k], 0, bytes);
        }
    }
}

static void end_states(const rnn *v, const mu_rnn_desc *d, const mu_op_args *a) {
    const float *keep = a->keep;
    const int64_t last = d->t * d->n * d->h;
    for (int64_t b = 0; a->end && b < d->n; b++) {
        if (!a->end[b]) continue;
        memcpy(a->end[b], keep + v->at_h + last + b * d->h, (size_t)d->h * sizeof(float));
        if (d->cell == MU_CELL_LSTM)
            memcpy(a->end[b] + d->h, keep + v->at_c + last + b * d->h, (size_t)d->h * sizeof(float));
    }
}

static mu_rnn_step step_at(const rnn *v, const mu_rnn_desc *d, const mu_op_args *a, int64_t step) {
    float *s = a->scratch, *keep = a->keep;
    const float **x = (const float **)(void *)(s + v->at_rows);
    for (int64_t b = 0; b < d->n; b++)
        x[b] = v->lookup ? s + v->at_table + mu_rnn_word(d, a, b, step) * v->rows
                         : s + v->at_wx + (step * d->n + b) * v->rows;
    const int64_t m = step * d->n, after = (m + d->n) * d->h;
    return (mu_rnn_step){
        .n = d->n,
        .h = d->h,
        .pre = s + v->at_pre,
        .x = x,
        .bias = s + v->at_bias,
        .p = keep + v->at_h + m * d->h,
        .c = keep + v->at_c + m * d->h,
        .gate = keep + v->at_gate + m * v->rows,
        .extra = keep + v->at_extra + m * d->h,
        .c_out = keep + v->at_c + after,
        .out = keep + v->at_h + after,
        .y = a->dst + step * d->h,
        .y_row = d->t * d->h,
    };
}

static void forward_step(const rnn *v, const mu_rnn_desc *d, const mu_op_args *a, int64_t step) {
    float *s = a->scratch, *pre = s + v->at_pre;
    mu_rnn_step now = step_at(v, d, a, step);
    if (!v->packed) {
        mu_gemm(false, true, d->n, v->rows, d->h, now.p, d->h, a->weight_h, d->h, 0.0f, pre, v->rows);
        now.pre_row = v->rows, now.pre_gate = d->h;
        mu_rnn_gates_forward(d->cell, &now, 0, d->h);
        return;
    }
    const int64_t cols = v->unit * v->gates;
    now.pre_row = cols, now.pre_gate = v->unit;
    for (int64_t j = 0; j < v->n_panels; j++) {
        multiply(v, d->n, d->h, now.p, d->h, s + v->at_panels + j * cols * d->h, cols / v->width, pre, cols,
                 false);
        mu_rnn_gates_forward(d->cell, &now, j * v->unit, min64(v->unit, d->h - j * v->unit));
    }
}

static mu_status forward(mu_op *op, const mu_op_args *a, MU_UNUSED mu_err *err) {
    const rnn *v = op->state;
    const mu_rnn_desc *d = &op->desc.rnn;
    float *s = a->scratch;
    begin_states(v, d, a);
    add_biases(v, d, a, s + v->at_bias);
    input_product(op, a);
    if (v->packed) pack_forward(v, d, a->weight_h, s + v->at_panels);
    for (int64_t step = 0; step < d->t; step++) forward_step(v, d, a, step);
    end_states(v, d, a);
    return MU_OK;
}

// ---- backward ----

// Panels of U as it lies, (rows, h): columns u0 ... in at most `most` vectors, one panel after the other.
static int64_t panel_vecs(const rnn *v, int64_t col) { return min64(v->most, (v->padded - col) / v->width); }

static void pack_backward(const rnn *v, const mu_rnn_desc *d, const float *u, float *panels) {
    for (int64_t col = 0; col < v->padded; col += panel_vecs(v, col) * v->width) {
        const int64_t wide = panel_vecs(v, col) * v->width, have = min64(wide, d->h - col);
        for (int64_t k = 0; k < v->rows; k++, panels += wide) {
            memcpy(panels, u + k * d->h + col, (size_t)have * sizeof(float));
            memset(panels + have, 0, (size_t)(wide - have) * sizeof(float));
        }
    }
}

// The gradient of p: g U, to which a gru adds what came past the gates.
static void pass_on(const rnn *v, const mu_rnn_desc *d, const mu_op_args *a, const float *g) {
    float *s = a->scratch, *dh = s + v->at_dh;
    const bool add = d->cell == MU_CELL_GRU;
    const int64_t ldg = mu_rnn_grad_row(d->cell, d->h);
    g += mu_rnn_grad_p(d->cell, d->h);
    if (!v->packed) {
        mu_gemm(false, false, d->n, d->h, v->rows, g, ldg, a->weight_h, d->h, add ? 1.0f : 0.0f, dh,
                v->padded);
        return;
    }
    for (int64_t col = 0; col < v->padded; col += panel_vecs(v, col) * v->width)
        multiply(v, d->n, v->rows, g, ldg, s + v->at_panels + col * v->rows, panel_vecs(v, col), dh + col,
                 v->padded, add);
}

// dW^T[word] += g, of one step.
static void scatter(const rnn *v, const mu_rnn_desc *d, const mu_op_args *a, int64_t step, const float *g) {
    float *table = (float *)a->scratch + v->at_table;
    const int64_t own = mu_rnn_grad_p(d->cell, d->h), head = v->rows - own;
    for (int64_t b = 0; b < d->n; b++, g += mu_rnn_grad_row(d->cell, d->h)) {
        float *restrict row = table + mu_rnn_word(d, a, b, step) * v->rows;
        for (int64_t k = 0; k < head; k++) row[k] += g[own + k];
        for (int64_t k = 0; k < own; k++) row[head + k] += g[k];
    }
}

static void backward_step(const rnn *v, const mu_rnn_desc *d, const mu_op_args *a, int64_t step) {
    float *s = a->scratch, *keep = a->keep;
    const int64_t m = step * d->n;
    float *g = s + v->at_g + m * mu_rnn_grad_row(d->cell, d->h);
    const float *out = keep + v->at_h + (m + d->n) * d->h, *gate = keep + v->at_gate + m * v->rows;
    mu_rnn_back now = {
        .n = d->n,
        .h = d->h,
        .gate = d->cell == MU_CELL_RNN ? out : gate,
        .extra = keep + v->at_extra + m * d->h,
        .p = keep + v->at_h + m * d->h,
        .c = keep + v->at_c + m * d->h,
        .dy = a->ddst + step * d->h,
        .dy_row = d->t * d->h,
        .dh = s + v->at_dh,
        .dh_row = v->padded,
        .dc = s + v->at_dc,
        .g = g,
        .sum = s + v->at_bias,
    };
    mu_rnn_gates_backward(d->cell, &now);
    if (v->lookup && a->dweight) scatter(v, d, a, step, g);
    if (step > 0 || a->dbegin) pass_on(v, d, a, g);
}

static void begin_backward(const rnn *v, const mu_rnn_desc *d, const mu_op_args *a) {
    float *s = a->scratch;
    const size_t bytes = (size_t)d->h * sizeof(float);
    for (int64_t b = 0; b < d->n; b++) {
        const float *from = a->dend ? a->dend[b] : NULL;
        float *to[2] = {s + v->at_dh + b * v->padded, s + v->at_dc + b * d->h};
        for (int k = 0; k < (d->cell == MU_CELL_LSTM ? 2 : 1); k++) {
            if (from) memcpy(to[k], from + k * d->h, bytes);
            else memset(to[k], 0, bytes);
        }
    }
    memset(s + v->at_bias, 0, (size_t)mu_rnn_grad_row(d->cell, d->h) * sizeof(float));
    if (v->lookup) memset(s + v->at_table, 0, (size_t)(d->i * v->rows) * sizeof(float));
    if (v->packed) pack_backward(v, d, a->weight_h, s + v->at_panels);
}

static void end_backward(const rnn *v, const mu_rnn_desc *d, const mu_op_args *a) {
    const float *s = a->scratch;
    for (int64_t b = 0; a->dbegin && b < d->n; b++) {
        if (!a->dbegin[b]) continue;
        memcpy(a->dbegin[b], s + v->at_dh + b * v->padded, (size_t)d->h * sizeof(float));
        if (d->cell == MU_CELL_LSTM)
            memcpy(a->dbegin[b] + d->h, s + v->at_dc + b * d->h, (size_t)d->h * sizeof(float));
    }
}

static void bias_gradients(const rnn *v, const mu_rnn_desc *d, const mu_op_args *a) {
    const float *sum = (const float *)a->scratch + v->at_bias;
    const int64_t own = mu_rnn_grad_p(d->cell, d->h), head = v->rows - own;
    for (int64_t k = 0; a->dbias_h && k < v->rows; k++)
        a->dbias_h[k] = (a->accumulate ? a->dbias_h[k] : 0.0f) + sum[own + k];
    for (int64_t k = 0; a->dbias && k < v->rows; k++)
        a->dbias[k] = (a->accumulate ? a->dbias[k] : 0.0f) + (k < head ? sum[own + k] : sum[k - head]);
}

// dW of words that were looked up or gathered.
static void word_gradient(const rnn *v, const mu_rnn_desc *d, const mu_op_args *a) {
    const float *s = a->scratch, *g = s + v->at_g;
    const int64_t own = mu_rnn_grad_p(d->cell, d->h), head = v->rows - own;
    if (!a->accumulate) memset(a->dweight, 0, (size_t)(v->rows * d->i) * sizeof(float));
    if (v->lookup) {
        for (int64_t k = 0; k < v->rows; k++)
            for (int64_t w = 0; w < d->i; w++) a->dweight[k * d->i + w] += s[v->at_table + w * v->rows + k];
        return;
    }
    for (int64_t step = 0; step < d->t; step++)
        for (int64_t b = 0; b < d->n; b++, g += mu_rnn_grad_row(d->cell, d->h))
            for (int64_t k = 0, word = mu_rnn_word(d, a, b, step); k < v->rows; k++)
                a->dweight[k * d->i + word] += k < head ? g[own + k] : g[k - head];
}

// dW = g^T x and dx = g W, each for the gates whose gradient p shares and for the n of a gru.
static void input_gradients(const mu_op *op, const mu_op_args *a) {
    const rnn *v = op->state;
    const mu_rnn_desc *d = &op->desc.rnn;
    float *s = a->scratch, *dx = same_order(d) ? a->dsrc : s + v->at_dx;
    const float *g = s + v->at_g, beta = a->accumulate ? 1.0f : 0.0f;
    const int64_t ldg = mu_rnn_grad_row(d->cell, d->h), own = mu_rnn_grad_p(d->cell, d->h),
                  head = v->rows - own, steps = d->n * d->t;
    if (a->dweight) {
        const float *x = time_major_x(op, a);
        mu_gemm(true, false, head, d->i, steps, g + own, ldg, x, d->i, beta, a->dweight, d->i);
        if (own)
            mu_gemm(true, false, own, d->i, steps, g, ldg, x, d->i, beta, a->dweight + head * d->i, d->i);
    }
    if (!a->dsrc) return;
    mu_gemm(false, false, steps, d->i, head, g + own, ldg, a->weight, d->i, 0.0f, dx, d->i);
    if (own) mu_gemm(false, false, steps, d->i, own, g, ldg, a->weight + head * d->i, d->i, 1.0f, dx, d->i);
    if (dx != a->dsrc) swap_order(a->dsrc, dx, d->t, d->n, d->i);
}

static mu_status backward(mu_op *op, const mu_op_args *a, MU_UNUSED mu_err *err) {
    const rnn *v = op->state;
    const mu_rnn_desc *d = &op->desc.rnn;
    const float *s = a->scratch, *states = (const float *)a->keep + v->at_h;
    begin_backward(v, d, a);
    for (int64_t step = d->t - 1; step >= 0; step--) backward_step(v, d, a, step);
    end_backward(v, d, a);
    bias_gradients(v, d, a);
    if (a->dweight_h)
        mu_gemm(true, false, v->rows, d->h, d->n * d->t, s + v->at_g + mu_rnn_grad_p(d->cell, d->h),
                mu_rnn_grad_row(d->cell, d->h), states, d->h, a->accumulate ? 1.0f : 0.0f, a->dweight_h,
                d->h);
    if (!d->one_hot) input_gradients(op, a);
    else if (a->dweight) word_gradient(v, d, a);
    return MU_OK;
}

const mu_op_class mu_op_rnn_gemm = {
    .name = "rnn_gemm",
    .help = "recurrent cells, products of all time steps taken together",
    .state_size = sizeof(rnn),
    .prim = MU_PRIM_RNN,
    .rank = 20,
    .create = create,
    .forward = forward,
    .backward = backward,
};
