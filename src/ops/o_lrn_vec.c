// SPDX-License-Identifier: Apache-2.0
// o_lrn_vec.c - local response normalisation (formulas: o_lrn_ref.c), vectorised.
//
// Both kinds are a box sum of one array: of x^2 forward, of t = dy x s^(-beta-1) backward.
//   across channels: the values of a pixel are put into a line with zero margins; the sum of `size` shifted
//     loads of that line is the window sum of each channel. Several pixels are put before the first is
//     summed, because loads that straddle stores still under way are slow.
//   within channel: the box is separable. Along a row of W*C values the neighbours lie C apart, so it is the
//     same sum whatever C is; the last `size` row sums are kept in a ring and added.
// Sums are direct, never a running sum with subtraction: windows are small and rounding stays local.
//
// s^-beta comes from reciprocal square roots for beta 0.75 and 0.5, and from exp(-beta ln s) otherwise.
// `keep` holds s. Backward reads src, ddst and keep. s is a normal number because k is.
#include "ops/op.h"
#include "ops/vec.h"

#include <float.h>

#define GROUP_FLOATS 1024       // across: about so many values are put before the first is summed
#define MAX_PARTS 5

typedef enum power { POWER_075, POWER_050, POWER_ANY } power;

typedef struct lrn {
    power   power;
    float   beta, k;
    float   share;      // alpha / number of values in a window
    float   twice;      // 2 share beta
    int64_t size, half; // the window reaches `half` to either side
    int64_t run;        // values that are contiguous: C of a pixel, W*C of a row
    int64_t step;       // distance of neighbours in such a run: 1, or C
    int64_t line;       // run with its margins
    int64_t group;      // across: pixels put at once
} lrn;

static bool accepts(const mu_op_desc *d) {
    return d->lrn.k >= FLT_MIN && d->lrn.alpha >= 0 && d->lrn.size % 2 == 1;
}

static mu_status create(mu_op *op, MU_UNUSED mu_err *err) {
    const mu_lrn_desc *d = &op->desc.lrn;
    lrn *l = op->state;
    *l = (lrn){ .power = d->beta == 0.75f ? POWER_075 : d->beta == 0.5f ? POWER_050 : POWER_ANY,
                .beta = d->beta, .k = d->k, .size = d->size, .half = d->size / 2,
                .share = d->alpha / (float)(d->within ? d->size * d->size : d->size),
                .run = d->within ? d->w * d->c : d->c, .step = d->within ? d->c : 1 };
    l->twice = 2.0f * l->share * l->beta;
    l->line = l->run + 2 * l->half * l->step;
    l->group = d->within ? 1 : 1 + GROUP_FLOATS / l->run;
    op->keep_bytes = (size_t)(d->n * d->h * d->w * d->c) * sizeof(float);
    int64_t runs = d->within ? d->size + 1 : 1; // the ring and one more, or just that
    op->scratch_bytes = (size_t)(l->group * l->line + runs * l->run) * sizeof(float);
    return MU_OK;
}

// ---- one run ----

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

static void put_squares(const lrn *l, const float *restrict x, float *restrict line) {
    line += l->half * l->step;
    for (int64_t i = 0; i < l->run; i++) line[i] = x[i] * x[i];
}

// Puts t, and leaves the first part of the gradient, dy s^-beta, in dx.
MU_INLINE void put_lanes(power kind, float beta, const mu_op_args *a, int64_t at, int64_t left, float *line) {
    mu_vec inverse, factor = power_of(kind, beta, mu_vec_load((const float *)a->keep + at, left), &inverse);
    mu_vec own = mu_vec_load(a->ddst + at, left) * factor;
    mu_vec_store(a->dsrc + at, own, left);
    mu_vec_store(line, own * mu_vec_load(a->src + at, left) * inverse, left);
}

MU_INLINE void put_returned(const lrn *l, power kind, const mu_op_args *args, int64_t at, float *line) {
    const mu_op_args a = *args; // a copy, which stores cannot change
    const float beta = l->beta;
    const int64_t n = l->run;
    int64_t i = 0;
    line += l->half * l->step;
    for (; i + MU_LANES <= n; i += MU_LANES) put_lanes(kind, beta, &a, at + i, MU_LANES, line + i);
    if (i < n) put_lanes(kind, beta, &a, at + i, n - i, line + i);
}

static void put(const lrn *l, const mu_op_args *a, bool back, int64_t at, float *line) {
    if (!back) put_squares(l, a->src + at, line);
    else if (l->power == POWER_075) put_returned(l, POWER_075, a, at, line);
    else if (l->power == POWER_050) put_returned(l, POWER_050, a, at, line);
    else put_returned(l, POWER_ANY, a, at, line);
}

static void sum_neighbours(const lrn *l, const float *restrict line, float *restrict out) {
    const int64_t step = l->step;
    if (l->half == 1) {
        for (int64_t i = 0; i < l->run; i++) out[i] = line[i] + line[i + step] + line[i + 2 * step];
        return;
    }
    memcpy(out, line, (size_t)l->run * sizeof *out);
    for (int64_t j = 1; j < l->size; j++)
        for (int64_t i = 0; i < l->run; i++) out[i] += line[i + j * step];
}

typedef struct sums { const float *part[MAX_PARTS]; } sums;     // a window sum is the sum of its parts

MU_INLINE mu_vec sum_parts(const sums *s, int n, int64_t i, int64_t left) { // n is a constant
    mu_vec sum = mu_vec_load(s->part[0] + i, left);
    for (int j = 1; j < n; j++) sum += mu_vec_load(s->part[j] + i, left);
    return sum;
}

MU_INLINE void use_lanes(const lrn *l, power kind, bool back, const mu_op_args *a, int64_t at, mu_vec sum,
                         int64_t left) {
    mu_vec x = mu_vec_load(a->src + at, left), inverse;
    if (back) {
        mu_vec_store(a->dsrc + at, mu_vec_load(a->dsrc + at, left) - x * sum * l->twice, left);
    } else {
        mu_vec s = sum * l->share + l->k;
        mu_vec_store((float *)a->keep + at, s, left);
        mu_vec_store(a->dst + at, x * power_of(kind, l->beta, s, &inverse), left);
    }
}

MU_INLINE void use_n(const lrn *lp, power kind, bool back, const mu_op_args *args, int64_t at, const sums *sp,
                     int n) {
    const mu_op_args a = *args; // copies, which stores cannot change
    const lrn l = *lp;
    const sums s = *sp;
    int64_t i = 0;
    for (; i + MU_LANES <= l.run; i += MU_LANES)
        use_lanes(&l, kind, back, &a, at + i, sum_parts(&s, n, i, MU_LANES), MU_LANES);
    if (i < l.run) use_lanes(&l, kind, back, &a, at + i, sum_parts(&s, n, i, l.run - i), l.run - i);
}

MU_INLINE void use_kind(const lrn *l, bool back, const mu_op_args *a, int64_t at, const sums *s, int n) {
    if (back) use_n(l, POWER_ANY, true, a, at, s, n);
    else if (l->power == POWER_075) use_n(l, POWER_075, false, a, at, s, n);
    else if (l->power == POWER_050) use_n(l, POWER_050, false, a, at, s, n);
    else use_n(l, POWER_ANY, false, a, at, s, n);
}

static void use(const lrn *l, const mu_op_args *a, bool back, int64_t at, const sums *s, int n) {
    if (n == 5) use_kind(l, back, a, at, s, 5);
    else if (n == 3) use_kind(l, back, a, at, s, 3);
    else use_kind(l, back, a, at, s, 1);
}

// ---- walking over the images ----

static void clear_margins(const lrn *l, float *line) {
    int64_t margin = l->half * l->step;
    memset(line, 0, (size_t)margin * sizeof *line);
    memset(line + margin + l->run, 0, (size_t)margin * sizeof *line);
}

static void across(const mu_lrn_desc *d, const lrn *l, const mu_op_args *a, bool back) {
    float *lines = a->scratch, *sum = lines + l->group * l->line;
    const int64_t pixels = d->n * d->h * d->w;
    const bool direct = l->size == 3 || l->size == MAX_PARTS; // the shifted lines are the parts
    for (int64_t g = 0; g < l->group; g++) clear_margins(l, lines + g * l->line);
    for (int64_t p = 0; p < pixels; p += l->group) {
        int64_t n = pixels - p < l->group ? pixels - p : l->group;
        for (int64_t g = 0; g < n; g++) put(l, a, back, (p + g) * l->run, lines + g * l->line);
        for (int64_t g = 0; g < n; g++) {
            const float *line = lines + g * l->line;
            sums s = {{sum}};
            if (!direct) sum_neighbours(l, line, sum);
            for (int64_t j = 0; direct && j < l->size; j++) s.part[j] = line + j;
            use(l, a, back, (p + g) * l->run, &s, direct ? (int)l->size : 1);
        }
    }
}

// The sum of the rows of the ring around row y as parts: the three rows themselves for size 3, with zeros
// for one outside the image; otherwise one row, summed into the place behind the ring.
static int parts_of(const mu_lrn_desc *d, const lrn *l, float *ring, int64_t y, sums *s) {
    float *restrict last = ring + l->size * l->run;
    s->part[0] = last;
    if (l->size != 3) memset(last, 0, (size_t)l->run * sizeof *last);
    for (int64_t v = y - l->half; v <= y + l->half; v++) {
        const float *r = v >= 0 && v < d->h ? ring + v % l->size * l->run : NULL;
        if (l->size == 3) s->part[v - y + 1] = r ? r : last;
        else
            for (int64_t i = 0; r && i < l->run; i++) last[i] += r[i];
    }
    return l->size == 3 ? 3 : 1;
}

static void within(const mu_lrn_desc *d, const lrn *l, const mu_op_args *a, bool back) {
    float *line = a->scratch, *ring = line + l->line;
    clear_margins(l, line);
    memset(ring + l->size * l->run, 0, (size_t)l->run * sizeof *ring);
    for (int64_t n = 0; n < d->n; n++)
        for (int64_t y = -l->half; y < d->h; y++) {
            int64_t ahead = y + l->half; // this row enters the ring, row y can then be finished
            if (ahead < d->h) {
                put(l, a, back, (n * d->h + ahead) * l->run, line);
                sum_neighbours(l, line, ring + ahead % l->size * l->run);
            }
            if (y < 0) continue;
            sums s;
            int n_parts = parts_of(d, l, ring, y, &s);
            use(l, a, back, (n * d->h + y) * l->run, &s, n_parts);
        }
}

static mu_status forward(mu_op *op, const mu_op_args *a, MU_UNUSED mu_err *err) {
    if (op->desc.lrn.within) within(&op->desc.lrn, op->state, a, false);
    else across(&op->desc.lrn, op->state, a, false);
    return MU_OK;
}

static mu_status backward(mu_op *op, const mu_op_args *a, MU_UNUSED mu_err *err) {
    if (!a->dsrc) return MU_OK;
    if (op->desc.lrn.within) within(&op->desc.lrn, op->state, a, true);
    else across(&op->desc.lrn, op->state, a, true);
    return MU_OK;
}

const mu_op_class mu_op_lrn_vec = {
    .name = "lrn_vec", .help = "local response normalisation, vectorised", .prim = MU_PRIM_LRN, .rank = 20,
    .state_size = sizeof(lrn), .accepts = accepts, .create = create, .forward = forward, .backward = backward,
};
