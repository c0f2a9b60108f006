// SPDX-License-Identifier: Apache-2.0
// o_lrn_vec.c - local response normalisation (formulas: o_lrn_ref.c), vectorised.
//
// Both kinds are a box sum of one array: of x^2 forward, of t = dy x s^(-beta-1) backward.
//   across channels: the values of a pixel are put into a row with zero margins; the sum of `size`
//     shifted loads of that row is the window sum of each channel.
//   within channel: the box is separable. The shift is by C floats along a row of W*C values, so it is
//     the same loop, whatever C is; the last `size` row sums are kept in a ring and added.
// Sums are direct, never a running sum with subtraction: windows are small and rounding stays local.
//
// s^-beta comes from reciprocal square roots for beta 0.75 and 0.5, and from exp(-beta ln s) otherwise.
// `keep` holds s. Backward reads src, ddst and keep. s is normal because k > 0.
#include "ops/op.h"
#include "ops/vec.h"

#include <float.h>

typedef enum power { POWER_075, POWER_050, POWER_ANY } power;

typedef struct lrn {
    power   power;
    int64_t half;       // window reaches this far to either side
    int64_t run;        // values that are contiguous: C of a pixel, W*C of a row
    int64_t step;       // distance of neighbours in such a run: 1, or C
    float   share;      // alpha / number of values in a window
} lrn;

static bool accepts(const mu_op_desc *d) {
    return d->lrn.k >= FLT_MIN && d->lrn.alpha >= 0 && d->lrn.size % 2 == 1;
}

static mu_status create(mu_op *op, mu_err *err) {
    (void)err;
    const mu_lrn_desc *d = &op->desc.lrn;
    lrn *l = op->state;
    l->power = d->beta == 0.75f ? POWER_075 : d->beta == 0.5f ? POWER_050 : POWER_ANY;
    l->half = d->size / 2;
    l->run = d->within ? d->w * d->c : d->c;
    l->step = d->within ? d->c : 1;
    l->share = d->alpha / (float)(d->within ? d->size * d->size : d->size);
    op->keep_bytes = (size_t)(d->n * d->h * d->w * d->c) * sizeof(float);
    int64_t rows = d->within ? d->size + 1 : 1; // the ring and the sum, or the sum
    op->scratch_bytes = (size_t)(l->run + 2 * l->half * l->step + rows * l->run) * sizeof(float);
    return MU_OK;
}

// s^-beta, and 1/s for the gradient.
MU_INLINE mu_vec power_of(power kind, float beta, mu_vec s, mu_vec *inverse) {
    if (kind == POWER_ANY) {
        *inverse = 1.0f / s;
        return mu_vec_exp(mu_vec_log(s) * -beta);
    }
    mu_vec r = mu_vec_rsqrt(s);
    *inverse = r * r;
    return kind == POWER_050 ? r : r * (r * mu_vec_rsqrt(r));   // r sqrt(r) = s^-3/4
}

static void clear_margins(const lrn *l, float *row) {
    int64_t margin = l->half * l->step;
    memset(row, 0, (size_t)margin * sizeof *row);
    memset(row + margin + l->run, 0, (size_t)margin * sizeof *row);
}

static void put_squares(const lrn *l, const float *restrict x, float *restrict row) {
    int64_t margin = l->half * l->step;
    for (int64_t i = 0; i < l->run; i++) row[margin + i] = x[i] * x[i];
}

// Also leaves the first part of the gradient, dy s^-beta, in dx.
MU_INLINE void put_returned(const lrn *l, power kind, float beta, const float *x, const float *dy, const float *s,
                            float *dx, float *row) {
    int64_t margin = l->half * l->step;
    for (int64_t i = 0; i < l->run; i += MU_LANES) {
        int64_t left = l->run - i;
        mu_vec inverse, own = mu_vec_load(dy + i, left) * power_of(kind, beta, mu_vec_load(s + i, left), &inverse);
        mu_vec_store(dx + i, own, left);
        mu_vec_store(row + margin + i, own * mu_vec_load(x + i, left) * inverse, left);
    }
}

static void returned(const mu_lrn_desc *d, const lrn *l, const mu_op_args *a, int64_t at, float *row) {
    const float *x = a->src + at, *dy = a->ddst + at, *s = (const float *)a->keep + at;
    float *dx = a->dsrc + at;
    switch (l->power) {
    case POWER_075: put_returned(l, POWER_075, d->beta, x, dy, s, dx, row); break;
    case POWER_050: put_returned(l, POWER_050, d->beta, x, dy, s, dx, row); break;
    case POWER_ANY: put_returned(l, POWER_ANY, d->beta, x, dy, s, dx, row); break;
    }
}

static void sum_neighbours(const lrn *l, const float *restrict row, float *restrict out) {
    int64_t step = l->step;
    if (l->half == 1) {
        for (int64_t i = 0; i < l->run; i++) out[i] = row[i] + row[i + step] + row[i + 2 * step];
    } else if (l->half == 2) {
        for (int64_t i = 0; i < l->run; i++)
            out[i] = row[i] + row[i + step] + row[i + 2 * step] + row[i + 3 * step] + row[i + 4 * step];
    } else {
        memcpy(out, row, (size_t)l->run * sizeof *out);
        for (int64_t j = 1; j <= 2 * l->half; j++)
            for (int64_t i = 0; i < l->run; i++) out[i] += row[i + j * step];
    }
}

MU_INLINE void finish_forward(const lrn *l, power kind, const mu_lrn_desc *d, const float *x, const float *sum,
                              float *s, float *y) {
    for (int64_t i = 0; i < l->run; i += MU_LANES) {
        int64_t left = l->run - i;
        mu_vec inverse, v = mu_vec_load(sum + i, left) * l->share + d->k;
        mu_vec_store(s + i, v, left);
        mu_vec_store(y + i, mu_vec_load(x + i, left) * power_of(kind, d->beta, v, &inverse), left);
    }
}

static void forward_run(const mu_lrn_desc *d, const lrn *l, const mu_op_args *a, int64_t at, const float *sum) {
    const float *x = a->src + at;
    float *s = (float *)a->keep + at, *y = a->dst + at;
    switch (l->power) {
    case POWER_075: finish_forward(l, POWER_075, d, x, sum, s, y); break;
    case POWER_050: finish_forward(l, POWER_050, d, x, sum, s, y); break;
    case POWER_ANY: finish_forward(l, POWER_ANY, d, x, sum, s, y); break;
    }
}

static void backward_run(const mu_lrn_desc *d, const lrn *l, const mu_op_args *a, int64_t at, const float *restrict sum) {
    const float *restrict x = a->src + at;
    float *restrict dx = a->dsrc + at, twice = 2.0f * l->share * d->beta;
    for (int64_t i = 0; i < l->run; i++) dx[i] -= twice * x[i] * sum[i];
}

// ---- walking ----

static void across(const mu_lrn_desc *d, const lrn *l, const mu_op_args *a, bool back) {
    float *row = a->scratch, *sum = row + l->run + 2 * l->half * l->step;
    clear_margins(l, row);
    for (int64_t at = 0; at < d->n * d->h * d->w * d->c; at += l->run) {
        if (back) returned(d, l, a, at, row);
        else put_squares(l, a->src + at, row);
        sum_neighbours(l, row, sum);
        if (back) backward_run(d, l, a, at, sum);
        else forward_run(d, l, a, at, sum);
    }
}

// Adds the rows of the ring that lie in the image around row y into slot `size` behind the ring.
static void sum_ring(const mu_lrn_desc *d, const lrn *l, float *ring, int64_t y) {
    int64_t lo = y - l->half < 0 ? 0 : y - l->half, hi = y + l->half >= d->h ? d->h - 1 : y + l->half;
    float *restrict out = ring + d->size * l->run;
    if (hi - lo == 2) { // size 3 inside the image: one pass
        const float *p = ring + lo % d->size * l->run, *q = ring + (lo + 1) % d->size * l->run;
        const float *r = ring + hi % d->size * l->run;
        for (int64_t i = 0; i < l->run; i++) out[i] = p[i] + q[i] + r[i];
        return;
    }
    memcpy(out, ring + lo % d->size * l->run, (size_t)l->run * sizeof *out);
    for (int64_t v = lo + 1; v <= hi; v++) {
        const float *p = ring + v % d->size * l->run;
        for (int64_t i = 0; i < l->run; i++) out[i] += p[i];
    }
}

static void within(const mu_lrn_desc *d, const lrn *l, const mu_op_args *a, bool back) {
    float *row = a->scratch, *ring = row + l->run + 2 * l->half * l->step;
    clear_margins(l, row);
    for (int64_t n = 0; n < d->n; n++)
        for (int64_t y = -l->half; y < d->h; y++) {
            int64_t ahead = y + l->half; // this row enters the ring, row y can then be finished
            if (ahead < d->h) {
                int64_t at = (n * d->h + ahead) * l->run;
                if (back) returned(d, l, a, at, row);
                else put_squares(l, a->src + at, row);
                sum_neighbours(l, row, ring + ahead % d->size * l->run);
            }
            if (y < 0) continue;
            sum_ring(d, l, ring, y);
            int64_t at = (n * d->h + y) * l->run;
            if (back) backward_run(d, l, a, at, ring + d->size * l->run);
            else forward_run(d, l, a, at, ring + d->size * l->run);
        }
}

static mu_status forward(mu_op *op, const mu_op_args *a, mu_err *err) {
    (void)err;
    const mu_lrn_desc *d = &op->desc.lrn;
    if (d->within) within(d, op->state, a, false);
    else across(d, op->state, a, false);
    return MU_OK;
}

static mu_status backward(mu_op *op, const mu_op_args *a, mu_err *err) {
    (void)err;
    const mu_lrn_desc *d = &op->desc.lrn;
    if (!a->dsrc) return MU_OK;
    if (d->within) within(d, op->state, a, true);
    else across(d, op->state, a, true);
    return MU_OK;
}

const mu_op_class mu_op_lrn_vec = {
    .name = "lrn_vec", .help = "local response normalisation, vectorised", .prim = MU_PRIM_LRN, .rank = 20,
    .state_size = sizeof(lrn), .accepts = accepts, .create = create, .forward = forward, .backward = backward,
};
