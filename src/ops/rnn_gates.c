// SPDX-License-Identifier: Apache-2.0
// rnn_gates.c - see rnn_gates.h.
#include "ops/rnn_gates.h"

#include "ops/vec.h"

MU_INLINE mu_vec logistic(mu_vec x) { return 1.0f / (1.0f + mu_vec_exp(-x)); }

// ---- forward: unit u of sequence b, `left` units to the end ----

typedef struct place { // where the unit's values are
    const float *pre, *x, *bias;
    int64_t row, left;
} place;

// The whole input of gate k, and of a gru's n without what comes from p.
MU_INLINE mu_vec input(const mu_rnn_step *s, const place *at, int64_t k) {
    return mu_vec_load(at->pre + k * s->pre_gate, at->left) + mu_vec_load(at->x + k * s->h, at->left) +
           mu_vec_load(at->bias + k * s->h, at->left);
}

MU_INLINE mu_vec rnn_unit(const mu_rnn_step *s, const place *at) { return mu_vec_tanh(input(s, at, 0)); }

MU_INLINE mu_vec gru_unit(const mu_rnn_step *s, const place *at, int64_t b, int64_t u) {
    const int64_t h = s->h, left = at->left;
    mu_vec r = logistic(input(s, at, 0)), z = logistic(input(s, at, 1));
    mu_vec q = mu_vec_load(at->pre + 2 * s->pre_gate, left) + mu_vec_load(at->bias + 3 * h, left);
    mu_vec n = mu_vec_tanh(mu_vec_load(at->x + 2 * h, left) + mu_vec_load(at->bias + 2 * h, left) + r * q);
    float *gate = s->gate + b * 3 * h + u;
    mu_vec_store(gate, r, left);
    mu_vec_store(gate + h, z, left);
    mu_vec_store(gate + 2 * h, n, left);
    mu_vec_store(s->extra + at->row, q, left);
    return n + z * (mu_vec_load(s->p + at->row, left) - n);
}

MU_INLINE mu_vec lstm_unit(const mu_rnn_step *s, const place *at, int64_t b, int64_t u) {
    const int64_t h = s->h, left = at->left;
    mu_vec i = logistic(input(s, at, 0)), f = logistic(input(s, at, 1)), g = mu_vec_tanh(input(s, at, 2)),
           o = logistic(input(s, at, 3));
    mu_vec c = f * mu_vec_load(s->c + at->row, left) + i * g, t = mu_vec_tanh(c);
    float *gate = s->gate + b * 4 * h + u;
    mu_vec_store(gate, i, left);
    mu_vec_store(gate + h, f, left);
    mu_vec_store(gate + 2 * h, g, left);
    mu_vec_store(gate + 3 * h, o, left);
    mu_vec_store(s->extra + at->row, t, left);
    mu_vec_store(s->c_out + at->row, c, left);
    return o * t;
}

MU_INLINE void forward_unit(mu_cell cell, const mu_rnn_step *s, int64_t b, int64_t u0, int64_t k,
                            int64_t left) {
    const int64_t u = u0 + k;
    const place at = {s->pre + b * s->pre_row + k, s->x[b] + u, s->bias + u, b * s->h + u, left};
    mu_vec out = cell == MU_CELL_RNN   ? rnn_unit(s, &at)
                 : cell == MU_CELL_GRU ? gru_unit(s, &at, b, u)
                                       : lstm_unit(s, &at, b, u);
    mu_vec_store(s->out + at.row, out, left);
    mu_vec_store(s->y + b * s->y_row + u, out, left);
}

MU_INLINE void forward(mu_cell cell, const mu_rnn_step *s, int64_t u0, int64_t units) {
    for (int64_t b = 0; b < s->n; b++) {
        int64_t k = 0;
        for (; k + MU_LANES <= units; k += MU_LANES) forward_unit(cell, s, b, u0, k, MU_LANES);
        if (k < units) forward_unit(cell, s, b, u0, k, units - k);
    }
}

void mu_rnn_gates_forward(mu_cell cell, const mu_rnn_step *s, int64_t u0, int64_t units) {
    if (cell == MU_CELL_RNN) forward(MU_CELL_RNN, s, u0, units);
    else if (cell == MU_CELL_GRU) forward(MU_CELL_GRU, s, u0, units);
    else forward(MU_CELL_LSTM, s, u0, units);
}

// ---- backward ----

MU_INLINE void put(const mu_rnn_back *s, float *g, int64_t column, mu_vec v, int64_t left) {
    mu_vec_store(g + column, v, left);
    mu_vec_store(s->sum + column, mu_vec_load(s->sum + column, left) + v, left);
}

MU_INLINE void gru_back(const mu_rnn_back *s, float *g, int64_t b, int64_t u, mu_vec dh, int64_t left) {
    const int64_t h = s->h, row = b * h + u;
    const float *gate = s->gate + b * 3 * h + u;
    mu_vec r = mu_vec_load(gate, left), z = mu_vec_load(gate + h, left), n = mu_vec_load(gate + 2 * h, left);
    mu_vec dn = dh * (1.0f - z) * (1.0f - n * n);
    put(s, g, u, dn, left);
    put(s, g, u + h, dn * mu_vec_load(s->extra + row, left) * (r * (1.0f - r)), left);
    put(s, g, u + 2 * h, dh * (mu_vec_load(s->p + row, left) - n) * (z * (1.0f - z)), left);
    put(s, g, u + 3 * h, dn * r, left);
    mu_vec_store(s->dh + b * s->dh_row + u, dh * z, left);
}

MU_INLINE void lstm_back(const mu_rnn_back *s, float *g, int64_t b, int64_t u, mu_vec dh, int64_t left) {
    const int64_t h = s->h, row = b * h + u;
    const float *gate = s->gate + b * 4 * h + u;
    mu_vec i = mu_vec_load(gate, left), f = mu_vec_load(gate + h, left), t = mu_vec_load(gate + 2 * h, left),
           o = mu_vec_load(gate + 3 * h, left), tc = mu_vec_load(s->extra + row, left);
    mu_vec dc = mu_vec_load(s->dc + row, left) + dh * o * (1.0f - tc * tc);
    put(s, g, u, dc * t * (i * (1.0f - i)), left);
    put(s, g, u + h, dc * mu_vec_load(s->c + row, left) * (f * (1.0f - f)), left);
    put(s, g, u + 2 * h, dc * i * (1.0f - t * t), left);
    put(s, g, u + 3 * h, dh * tc * (o * (1.0f - o)), left);
    mu_vec_store(s->dc + row, dc * f, left);
}

MU_INLINE void backward_unit(mu_cell cell, const mu_rnn_back *s, int64_t b, int64_t u, int64_t left) {
    float *g = s->g + b * mu_rnn_grad_row(cell, s->h);
    mu_vec dh = mu_vec_load(s->dh + b * s->dh_row + u, left) + mu_vec_load(s->dy + b * s->dy_row + u, left);
    if (cell == MU_CELL_RNN) {
        mu_vec y = mu_vec_load(s->gate + b * s->h + u, left);
        put(s, g, u, dh * (1.0f - y * y), left);
    } else if (cell == MU_CELL_GRU) {
        gru_back(s, g, b, u, dh, left);
    } else {
        lstm_back(s, g, b, u, dh, left);
    }
}

MU_INLINE void backward(mu_cell cell, const mu_rnn_back *s) {
    for (int64_t b = 0; b < s->n; b++) {
        int64_t u = 0;
        for (; u + MU_LANES <= s->h; u += MU_LANES) backward_unit(cell, s, b, u, MU_LANES);
        if (u < s->h) backward_unit(cell, s, b, u, s->h - u);
    }
}

void mu_rnn_gates_backward(mu_cell cell, const mu_rnn_back *s) {
    if (cell == MU_CELL_RNN) backward(MU_CELL_RNN, s);
    else if (cell == MU_CELL_GRU) backward(MU_CELL_GRU, s);
    else backward(MU_CELL_LSTM, s);
}
