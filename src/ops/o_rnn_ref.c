// SPDX-License-Identifier: Apache-2.0
// o_rnn_ref.c - recurrent cells as their formulas (rnn.h), one sequence after the other, step by step.
//
// keep, for each sequence and step: the gates after their functions (gates*h), then of a gru q = Un p + dn,
// of an lstm c (h); behind all of them the states the sequences began with.
//
// Backward, from the last step to the first, with a' the slope of gate a's function in terms of its value:
//     rnn     dh' = dh (1 - h^2)
//     gru     dn = dh (1-z) n'    dz = dh (p - n) z'    dr = dn q r'    dp = dh z + U^T (dr, dz, dn r)
//     lstm    dc += dh o (1 - tanh(c)^2)    di = dc g i'    df = dc c_before f'    dg = dc i g'
//             do = dh tanh(c) o'            dc_before = dc f
// The gradient of a gate's input goes to x through W and to p through U; only the gru's n differs (dn, dn r).
#include "ops/rnn.h"

#include <math.h>
#include <string.h>

static double logistic(double x) { return 1.0 / (1.0 + exp(-x)); }

static int64_t record(const mu_rnn_desc *d) { // floats kept of one step
    return (mu_rnn_gates(d->cell) + (d->cell != MU_CELL_RNN)) * d->h;
}

static mu_status create(mu_op *op, MU_UNUSED mu_err *err) {
    const mu_rnn_desc *d = &op->desc.rnn;
    op->keep_bytes = (size_t)(d->n * (d->t * record(d) + mu_rnn_state(d->cell, d->h))) * sizeof(float);
    op->scratch_bytes = (size_t)(2 * mu_rnn_gates(d->cell) + 3) * (size_t)d->h * sizeof(double);
    return MU_OK;
}

static float *kept(const mu_rnn_desc *d, const mu_op_args *a, int64_t b, int64_t s) {
    return (float *)a->keep + (b * d->t + s) * record(d);
}
static float *kept_begin(const mu_rnn_desc *d, const mu_op_args *a, int64_t b) {
    return (float *)a->keep + d->n * d->t * record(d) + b * mu_rnn_state(d->cell, d->h);
}

// p and, of an lstm, c before step s of sequence b.
static const float *h_before(const mu_rnn_desc *d, const mu_op_args *a, int64_t b, int64_t s) {
    return s ? a->dst + (b * d->t + s - 1) * d->h : kept_begin(d, a, b);
}
static const float *c_before(const mu_rnn_desc *d, const mu_op_args *a, int64_t b, int64_t s) {
    return s ? kept(d, a, b, s - 1) + 4 * d->h : kept_begin(d, a, b) + d->h;
}

// ---- forward ----

static double from_x(const mu_rnn_desc *d, const mu_op_args *a, int64_t b, int64_t s, int64_t row) {
    const float *w = a->weight + row * d->i;
    double sum = d->bias ? (double)a->bias[row] : 0;
    if (d->one_hot) return sum + (double)w[mu_rnn_word(d, a, b, s)];
    const float *x = a->src + (b * d->t + s) * d->i;
    for (int64_t k = 0; k < d->i; k++) sum += (double)w[k] * (double)x[k];
    return sum;
}

static double from_h(const mu_rnn_desc *d, const mu_op_args *a, const float *p, int64_t row) {
    const float *w = a->weight_h + row * d->h;
    double sum = d->bias ? (double)a->bias_h[row] : 0;
    for (int64_t k = 0; k < d->h; k++) sum += (double)w[k] * (double)p[k];
    return sum;
}

static void one_step(const mu_rnn_desc *d, const mu_op_args *a, int64_t b, int64_t s) {
    const int64_t h = d->h;
    const float *p = h_before(d, a, b, s);
    float *g = kept(d, a, b, s), *y = a->dst + (b * d->t + s) * h;
    for (int64_t u = 0; u < h; u++) {
        double in[4] = {0};
        for (int64_t k = 0; k < mu_rnn_gates(d->cell); k++) in[k] = from_x(d, a, b, s, k * h + u);
        const double q = from_h(d, a, p, (mu_rnn_gates(d->cell) - 1) * h + u); // of the last gate
        if (d->cell == MU_CELL_RNN) {
            g[u] = y[u] = (float)tanh(in[0] + q);
        } else if (d->cell == MU_CELL_GRU) {
            double r = logistic(in[0] + from_h(d, a, p, u)), z = logistic(in[1] + from_h(d, a, p, h + u));
            double n = tanh(in[2] + r * q);
            g[u] = (float)r, g[h + u] = (float)z, g[2 * h + u] = (float)n, g[3 * h + u] = (float)q;
            y[u] = (float)((1 - z) * n + z * (double)p[u]);
        } else {
            double i = logistic(in[0] + from_h(d, a, p, u)), f = logistic(in[1] + from_h(d, a, p, h + u)),
                   t = tanh(in[2] + from_h(d, a, p, 2 * h + u)), o = logistic(in[3] + q);
            double c = f * (double)c_before(d, a, b, s)[u] + i * t;
            g[u] = (float)i, g[h + u] = (float)f, g[2 * h + u] = (float)t, g[3 * h + u] = (float)o;
            g[4 * h + u] = (float)c;
            y[u] = (float)(o * tanh(c));
        }
    }
}

static mu_status forward(mu_op *op, const mu_op_args *a, MU_UNUSED mu_err *err) {
    const mu_rnn_desc *d = &op->desc.rnn;
    const size_t state = (size_t)mu_rnn_state(d->cell, d->h) * sizeof(float),
                 h = (size_t)d->h * sizeof(float);
    for (int64_t b = 0; b < d->n; b++) {
        if (a->begin && a->begin[b]) memcpy(kept_begin(d, a, b), a->begin[b], state);
        else memset(kept_begin(d, a, b), 0, state);
        for (int64_t s = 0; s < d->t; s++) one_step(d, a, b, s);
        if (!a->end || !a->end[b]) continue;
        memcpy(a->end[b], h_before(d, a, b, d->t), h);
        if (d->cell == MU_CELL_LSTM) memcpy(a->end[b] + d->h, c_before(d, a, b, d->t), h);
    }
    return MU_OK;
}

// ---- backward ----

typedef struct back { // of one sequence, in scratch
    double *dx, *dp;  // (gates*h) gradients of the gates' inputs, as x and as p get them
    double *dh, *dc;  // (h) of the state after the step
    double *next;     // (h) of p
} back;

static void gate_gradients(const mu_rnn_desc *d, const mu_op_args *a, int64_t b, int64_t s, const back *v) {
    const int64_t h = d->h;
    const float *p = h_before(d, a, b, s), *g = kept(d, a, b, s);
    for (int64_t u = 0; u < h; u++) {
        const double dh = v->dh[u];
        v->next[u] = 0;
        if (d->cell == MU_CELL_RNN) {
            v->dx[u] = v->dp[u] = dh * (1 - (double)g[u] * (double)g[u]);
        } else if (d->cell == MU_CELL_GRU) {
            const double r = (double)g[u], z = (double)g[h + u], n = (double)g[2 * h + u],
                         q = (double)g[3 * h + u];
            const double dn = dh * (1 - z) * (1 - n * n);
            v->dx[u] = v->dp[u] = dn * q * r * (1 - r);
            v->dx[h + u] = v->dp[h + u] = dh * ((double)p[u] - n) * z * (1 - z);
            v->dx[2 * h + u] = dn;
            v->dp[2 * h + u] = dn * r;
            v->next[u] = dh * z;
        } else {
            const double i = (double)g[u], f = (double)g[h + u], t = (double)g[2 * h + u],
                         o = (double)g[3 * h + u];
            const double tc = tanh((double)g[4 * h + u]), dc = v->dc[u] + dh * o * (1 - tc * tc);
            v->dx[u] = dc * t * i * (1 - i);
            v->dx[h + u] = dc * (double)c_before(d, a, b, s)[u] * f * (1 - f);
            v->dx[2 * h + u] = dc * i * (1 - t * t);
            v->dx[3 * h + u] = dh * tc * o * (1 - o);
            for (int64_t k = 0; k < 4; k++) v->dp[k * h + u] = v->dx[k * h + u];
            v->dc[u] = dc * f;
        }
    }
}

static void add_params(const mu_rnn_desc *d, const mu_op_args *a, int64_t b, int64_t s, const back *v) {
    const float *p = h_before(d, a, b, s), *x = d->one_hot ? NULL : a->src + (b * d->t + s) * d->i;
    for (int64_t row = 0; row < mu_rnn_gates(d->cell) * d->h; row++) {
        if (a->dbias) a->dbias[row] += (float)v->dx[row];
        if (a->dbias_h) a->dbias_h[row] += (float)v->dp[row];
        for (int64_t k = 0; a->dweight_h && k < d->h; k++)
            a->dweight_h[row * d->h + k] += (float)(v->dp[row] * (double)p[k]);
        if (!a->dweight) continue;
        if (d->one_hot) a->dweight[row * d->i + mu_rnn_word(d, a, b, s)] += (float)v->dx[row];
        for (int64_t k = 0; x && k < d->i; k++)
            a->dweight[row * d->i + k] += (float)(v->dx[row] * (double)x[k]);
    }
}

static void pass_on(const mu_rnn_desc *d, const mu_op_args *a, int64_t b, int64_t s, const back *v) {
    const int64_t rows = mu_rnn_gates(d->cell) * d->h;
    for (int64_t k = 0; k < d->h; k++) {
        double sum = v->next[k];
        for (int64_t row = 0; row < rows; row++) sum += v->dp[row] * (double)a->weight_h[row * d->h + k];
        v->dh[k] = sum;
    }
    if (!a->dsrc) return;
    for (int64_t k = 0; k < d->i; k++) {
        double sum = 0;
        for (int64_t row = 0; row < rows; row++) sum += v->dx[row] * (double)a->weight[row * d->i + k];
        a->dsrc[(b * d->t + s) * d->i + k] = (float)sum;
    }
}

static void clear_params(const mu_rnn_desc *d, const mu_op_args *a) {
    const size_t rows = (size_t)(mu_rnn_gates(d->cell) * d->h) * sizeof(float);
    if (a->dweight) memset(a->dweight, 0, rows * (size_t)d->i);
    if (a->dweight_h) memset(a->dweight_h, 0, rows * (size_t)d->h);
    if (a->dbias) memset(a->dbias, 0, rows);
    if (a->dbias_h) memset(a->dbias_h, 0, rows);
}

static mu_status backward(mu_op *op, const mu_op_args *a, MU_UNUSED mu_err *err) {
    const mu_rnn_desc *d = &op->desc.rnn;
    const int64_t h = d->h, rows = mu_rnn_gates(d->cell) * h;
    const bool lstm = d->cell == MU_CELL_LSTM;
    double *at = a->scratch;
    const back v = {at, at + rows, at + 2 * rows, at + 2 * rows + h, at + 2 * rows + 2 * h};
    if (!a->accumulate) clear_params(d, a);
    for (int64_t b = 0; b < d->n; b++) {
        const float *from = a->dend ? a->dend[b] : NULL;
        for (int64_t u = 0; u < h; u++) {
            v.dh[u] = from ? (double)from[u] : 0;
            v.dc[u] = from && lstm ? (double)from[h + u] : 0;
        }
        for (int64_t s = d->t - 1; s >= 0; s--) {
            for (int64_t u = 0; u < h; u++) v.dh[u] += (double)a->ddst[(b * d->t + s) * h + u];
            gate_gradients(d, a, b, s, &v);
            add_params(d, a, b, s, &v);
            pass_on(d, a, b, s, &v);
        }
        float *to = a->dbegin ? a->dbegin[b] : NULL;
        for (int64_t u = 0; to && u < h; u++) to[u] = (float)v.dh[u];
        for (int64_t u = 0; to && lstm && u < h; u++) to[h + u] = (float)v.dc[u];
    }
    return MU_OK;
}

const mu_op_class mu_op_rnn_ref = {
    .name = "rnn_ref",
    .help = "recurrent cells, plain loops",
    .prim = MU_PRIM_RNN,
    .rank = 0,
    .create = create,
    .forward = forward,
    .backward = backward,
};
