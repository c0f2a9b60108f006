// SPDX-License-Identifier: Apache-2.0
// energy_help.h - small energy models by brute force: every state is visited, so expectations and likelihoods
// are exact. What the layers estimate by sampling is measured against these.
#ifndef MU_TEST_ENERGY_HELP_H
#define MU_TEST_ENERGY_HELP_H

#include "base/attr.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

enum { TINY_MAX = 16 };         // units of a layer

// A binary RBM. w (h, v), a (v), b (h), all double: filled from a layer's floats, conditions included.
typedef struct tiny_rbm {
    int v, h;
    double w[TINY_MAX][TINY_MAX], a[TINY_MAX], b[TINY_MAX];
} tiny_rbm;

MU_UNUSED static void tiny_set(tiny_rbm *m, int v, int h, const float *w, const float *a, const float *b) {
    *m = (tiny_rbm){.v = v, .h = h};
    for (int j = 0; j < h; j++) {
        m->b[j] = (double)b[j];
        for (int i = 0; i < v; i++) m->w[j][i] = (double)w[j * v + i];
    }
    for (int i = 0; i < v; i++) m->a[i] = (double)a[i];
}

MU_UNUSED static double softplus(double x) { return x > 0 ? x + log1p(exp(-x)) : log1p(exp(x)); }
MU_UNUSED static double logistic_of(double x) { return 1 / (1 + exp(-x)); }

MU_UNUSED static double tiny_input(const tiny_rbm *m, int j, const double *v) {
    double x = m->b[j];
    for (int i = 0; i < m->v; i++) x += m->w[j][i] * v[i];
    return x;
}

// -ln sum over h of exp(-E(v, h)), hidden states visited one by one.
MU_UNUSED static double tiny_free_energy_by_states(const tiny_rbm *m, const double *v) {
    double sum = 0;
    for (uint32_t s = 0; s < 1u << m->h; s++) {
        double minus_e = 0;
        for (int i = 0; i < m->v; i++) minus_e += m->a[i] * v[i];
        for (int j = 0; j < m->h; j++)
            if (s >> j & 1) minus_e += tiny_input(m, j, v);
        sum += exp(minus_e);
    }
    return -log(sum);
}

MU_UNUSED static double tiny_free_energy(const tiny_rbm *m, const double *v) {
    double f = 0;
    for (int i = 0; i < m->v; i++) f -= m->a[i] * v[i];
    for (int j = 0; j < m->h; j++) f -= softplus(tiny_input(m, j, v));
    return f;
}

MU_UNUSED static void tiny_bits(uint32_t s, int n, double *out) {
    for (int i = 0; i < n; i++) out[i] = s >> i & 1;
}

MU_UNUSED static double tiny_log_z(const tiny_rbm *m) {
    double v[TINY_MAX] = {0}, top = -INFINITY, sum = 0;
    for (int pass = 0; pass < 2; pass++)
        for (uint32_t s = 0; s < 1u << m->v; s++) {
            tiny_bits(s, m->v, v);
            const double minus_f = -tiny_free_energy(m, v);
            if (!pass) top = minus_f > top ? minus_f : top;
            else sum += exp(minus_f - top);
        }
    return top + log(sum);
}

typedef struct tiny_stats { // expectations
    double hv[TINY_MAX][TINY_MAX], v[TINY_MAX], h[TINY_MAX];
} tiny_stats;

MU_UNUSED static void tiny_add_stats(const tiny_rbm *m, const double *v, double weight, tiny_stats *out) {
    for (int i = 0; i < m->v; i++) out->v[i] += weight * v[i];
    for (int j = 0; j < m->h; j++) {
        const double p = logistic_of(tiny_input(m, j, v));
        out->h[j] += weight * p;
        for (int i = 0; i < m->v; i++) out->hv[j][i] += weight * p * v[i];
    }
}

// Under the model.
MU_UNUSED static void tiny_model_stats(const tiny_rbm *m, tiny_stats *out) {
    const double log_z = tiny_log_z(m);
    double v[TINY_MAX] = {0};
    memset(out, 0, sizeof *out);
    for (uint32_t s = 0; s < 1u << m->v; s++) {
        tiny_bits(s, m->v, v);
        tiny_add_stats(m, v, exp(-tiny_free_energy(m, v) - log_z), out);
    }
}

// ---- a deep machine with two hidden layers ----

typedef struct tiny_dbm {
    int v, h1, h2;
    const float *w1, *w2, *a, *b1, *b2;
} tiny_dbm;

// ln sum over the hidden layers of exp(-E): layer 1 is summed out by formula, layer 2 visited.
MU_UNUSED static double tiny_dbm_log_p(const tiny_dbm *m, const double *v) {
    double terms[1 << 8], top = -INFINITY, sum = 0, base = 0;
    for (int i = 0; i < m->v; i++) base += (double)m->a[i] * v[i];
    for (uint32_t s = 0; s < 1u << m->h2; s++) {
        double t = base;
        for (int k = 0; k < m->h2; k++) t += s >> k & 1 ? (double)m->b2[k] : 0;
        for (int j = 0; j < m->h1; j++) {
            double x = (double)m->b1[j];
            for (int i = 0; i < m->v; i++) x += (double)m->w1[j * m->v + i] * v[i];
            for (int k = 0; k < m->h2; k++) x += s >> k & 1 ? (double)m->w2[k * m->h1 + j] : 0;
            t += softplus(x);
        }
        terms[s] = t;
        top = t > top ? t : top;
    }
    for (uint32_t s = 0; s < 1u << m->h2; s++) sum += exp(terms[s] - top);
    return top + log(sum);
}

MU_UNUSED static double tiny_dbm_log_z(const tiny_dbm *m) {
    double v[TINY_MAX] = {0}, top = -INFINITY, sum = 0;
    for (int pass = 0; pass < 2; pass++)
        for (uint32_t s = 0; s < 1u << m->v; s++) {
            tiny_bits(s, m->v, v);
            const double t = tiny_dbm_log_p(m, v);
            if (!pass) top = t > top ? t : top;
            else sum += exp(t - top);
        }
    return top + log(sum);
}

// ---- bars and stripes: 3 x 3 pictures whose rows, or columns, are all on or all off ----

enum { BARS = 14, BARS_SIDE = 3, BARS_PIXELS = 9 };

MU_UNUSED static void bars_fill(double out[BARS][BARS_PIXELS]) {
    int n = 0;
    for (int upright = 0; upright < 2; upright++)
        for (int s = upright; s < 8 - upright; s++, n++) // all off and all on only once
            for (int y = 0; y < BARS_SIDE; y++)
                for (int x = 0; x < BARS_SIDE; x++) out[n][y * BARS_SIDE + x] = s >> (upright ? x : y) & 1;
}

#endif
