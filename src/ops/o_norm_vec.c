// SPDX-License-Identifier: Apache-2.0
// o_norm_vec.c - batch normalisation (formulas: o_norm_ref.c) over contiguous channels.
//
// The statistics need one sweep over memory: for a block of rows that fits the nearest cache, the mean
// and then the squared deviations from it are summed in float; blocks are merged in double by
//   M2 = M2a + M2b + (mean_b - mean_a)^2 * na nb / (na + nb)          (Chan, Golub, LeVeque 1979)
// So the result is as good as two passes and does not drift with the number of rows.
#include "ops/op.h"
#include "ops/vec.h"

#include <math.h>

#define BLOCK_BYTES (16 << 10)

typedef struct sums { double *a, *b; float *block_a, *block_b, *spare; } sums;  // (C) each, in scratch
#define SUMS_BYTES (2 * sizeof(double) + 3 * sizeof(float))                     // a channel

static sums sums_of(const mu_norm_desc *d, void *scratch) {
    double *a = scratch, *b = a + d->c;
    float *block = (void *)(b + d->c);
    memset(a, 0, 2 * (size_t)d->c * sizeof *a);
    return (sums){a, b, block, block + d->c, block + 2 * d->c};
}

static int64_t block_rows(const mu_norm_desc *d) {
    int64_t rows = BLOCK_BYTES / (int64_t)sizeof(float) / d->c;
    return rows < 4 ? 4 : rows;
}

static mu_status create(mu_op *op, MU_UNUSED mu_err *err) {
    size_t c = (size_t)op->desc.norm.c;
    op->keep_bytes = 2 * c * sizeof(float);
    op->scratch_bytes = c * SUMS_BYTES;
    return MU_OK;
}

// ---- statistics ----

// mean and sum of squared deviations of a block of rows
static void block_moments(const float *x, int64_t rows, int64_t c_all, float *mean, float *m2) {
    float share = 1.0f / (float)rows;
    for (int64_t c = 0; c < c_all; c += MU_LANES) {
        int64_t left = c_all - c, r = 0;
        mu_vec s0 = {0}, s1 = {0}, q0 = {0}, q1 = {0};
        for (; r + 2 <= rows; r += 2) {
            s0 += mu_vec_load(x + r * c_all + c, left);
            s1 += mu_vec_load(x + (r + 1) * c_all + c, left);
        }
        if (r < rows) s0 += mu_vec_load(x + r * c_all + c, left);
        mu_vec mid = (s0 + s1) * share;
        for (r = 0; r + 2 <= rows; r += 2) {
            mu_vec e0 = mu_vec_load(x + r * c_all + c, left) - mid;
            mu_vec e1 = mu_vec_load(x + (r + 1) * c_all + c, left) - mid;
            q0 += e0 * e0;
            q1 += e1 * e1;
        }
        if (r < rows) {
            mu_vec e0 = mu_vec_load(x + r * c_all + c, left) - mid;
            q0 += e0 * e0;
        }
        mu_vec_store(mean + c, mid, left);
        mu_vec_store(m2 + c, q0 + q1, left);
    }
}

static void moments(const mu_norm_desc *d, const mu_op_args *a, sums s) {
    int64_t step = block_rows(d);
    for (int64_t r = 0; r < d->rows; r += step) {
        int64_t rows = d->rows - r < step ? d->rows - r : step;
        block_moments(a->src + r * d->c, rows, d->c, s.block_a, s.block_b);
        double share = (double)rows / (double)(r + rows), weight = share * (double)r;
        for (int64_t c = 0; c < d->c; c++) {
            double diff = (double)s.block_a[c] - s.a[c];
            s.a[c] += diff * share;
            s.b[c] += (double)s.block_b[c] + diff * diff * weight;
        }
    }
}

static void use_batch(const mu_norm_desc *d, const mu_op_args *a, sums s, float *mean, float *inv) {
    moments(d, a, s);
    float m = d->momentum;
    double n = (double)d->rows, unbiased = d->rows > 1 ? n - 1 : n;
    for (int64_t c = 0; c < d->c; c++) {
        mean[c] = (float)s.a[c];
        inv[c] = (float)(1.0 / sqrt(s.b[c] / n + (double)d->eps));
        a->run_mean[c] = (1 - m) * a->run_mean[c] + m * mean[c];
        a->run_var[c] = (1 - m) * a->run_var[c] + m * (float)(s.b[c] / unbiased);
    }
}

static mu_status forward(mu_op *op, const mu_op_args *a, MU_UNUSED mu_err *err) {
    const mu_norm_desc valid = mu_norm_valid(op, a), *d = &valid;
    float *mean = a->keep, *inv = mean + d->c;
    sums s = sums_of(d, a->scratch);
    if (d->training) {
        use_batch(d, a, s, mean, inv);
    } else {
        for (int64_t c = 0; c < d->c; c++)
            mean[c] = a->run_mean[c], inv[c] = 1.0f / sqrtf(a->run_var[c] + d->eps);
    }
    float *scale = s.block_a, *shift = s.block_b; // y = (x - mean) * scale + shift
    for (int64_t c = 0; c < d->c; c++) {
        scale[c] = d->affine ? inv[c] * a->weight[c] : inv[c];
        shift[c] = d->affine ? a->bias[c] : 0;
    }
    for (int64_t r = 0; r < d->rows; r++) {
        const float *x = a->src + r * d->c;
        float *y = a->dst + r * d->c;
        for (int64_t c = 0; c < d->c; c += MU_LANES) {
            int64_t left = d->c - c;
            mu_vec v = mu_vec_load(x + c, left) - mu_vec_load(mean + c, left);
            mu_vec_store(y + c, v * mu_vec_load(scale + c, left) + mu_vec_load(shift + c, left), left);
        }
    }
    return MU_OK;
}

// ---- gradient ----

// sum(dy) and sum(dy * (x - mean)) of a block of rows
static void block_gradients(const float *x, const float *dy, const float *mean, int64_t rows, int64_t c_all,
                            float *sum, float *product) {
    for (int64_t c = 0; c < c_all; c += MU_LANES) {
        int64_t left = c_all - c;
        mu_vec s = {0}, p = {0}, mid = mu_vec_load(mean + c, left);
        for (int64_t r = 0; r < rows; r++) {
            mu_vec g = mu_vec_load(dy + r * c_all + c, left);
            s += g;
            p += g * (mu_vec_load(x + r * c_all + c, left) - mid);
        }
        mu_vec_store(sum + c, s, left);
        mu_vec_store(product + c, p, left);
    }
}

static sums gradients(const mu_norm_desc *d, const mu_op_args *a) {
    const float *mean = a->keep;
    sums s = sums_of(d, a->scratch);
    int64_t step = block_rows(d);
    for (int64_t r = 0; r < d->rows; r += step) {
        int64_t rows = d->rows - r < step ? d->rows - r : step;
        block_gradients(a->src + r * d->c, a->ddst + r * d->c, mean, rows, d->c, s.block_a, s.block_b);
        for (int64_t c = 0; c < d->c; c++) {
            s.a[c] += (double)s.block_a[c];
            s.b[c] += (double)s.block_b[c];
        }
    }
    return s;
}

// dx = p dy + q (x - mean) + t, with p, q, t by channel
static void backward_src(const mu_norm_desc *d, const mu_op_args *a, const sums *s) {
    const float *mean = a->keep, *inv = mean + d->c;
    float *p = s->block_a, *q = s->block_b, *t = s->spare;
    for (int64_t c = 0; c < d->c; c++) {
        double n = (double)d->rows, i = (double)inv[c], scale = d->affine ? i * (double)a->weight[c] : i;
        p[c] = (float)scale;
        q[c] = d->training ? (float)(-scale * s->b[c] * i * i / n) : 0;
        t[c] = d->training ? (float)(-scale * s->a[c] / n) : 0;
    }
    for (int64_t r = 0; r < d->rows; r++) {
        const float *x = a->src + r * d->c, *dy = a->ddst + r * d->c;
        float *dx = a->dsrc + r * d->c;
        for (int64_t c = 0; c < d->c; c += MU_LANES) {
            int64_t left = d->c - c;
            mu_vec v = mu_vec_load(x + c, left) - mu_vec_load(mean + c, left);
            v = v * mu_vec_load(q + c, left) + mu_vec_load(t + c, left);
            mu_vec_store(dx + c, mu_vec_load(dy + c, left) * mu_vec_load(p + c, left) + v, left);
        }
    }
}

static mu_status backward(mu_op *op, const mu_op_args *a, MU_UNUSED mu_err *err) {
    const mu_norm_desc valid = mu_norm_valid(op, a), *d = &valid;
    const float *inv = (const float *)a->keep + d->c;
    sums s = gradients(d, a);
    for (int64_t c = 0; c < d->c; c++) {
        float dweight = (float)(s.b[c] * (double)inv[c]), dbias = (float)s.a[c];
        if (a->dweight) a->dweight[c] = a->accumulate ? a->dweight[c] + dweight : dweight;
        if (a->dbias) a->dbias[c] = a->accumulate ? a->dbias[c] + dbias : dbias;
    }
    if (a->dsrc) backward_src(d, a, &s);
    return MU_OK;
}

const mu_op_class mu_op_norm_vec = {
    .name = "norm_vec", .help = "batch normalisation, vectorised", .prim = MU_PRIM_NORM, .rank = 20,
    .create = create, .forward = forward, .backward = backward,
};
