// SPDX-License-Identifier: Apache-2.0
// o_inner_stream.c - fully connected layer for small batches, where moving the weights is the cost.
//
// Forward reads each row of the weights once: a few rows times the whole batch are dot products that
// stay in registers,
//     y[n][o] = b[o] + sum_i x[n][i] * w[o][i].
// Backward makes one pass over the weights in blocks of rows. While a block is in the cache,
//     dx[n][i] += sum_{o in block} dy[n][o] * w[o][i]
//     dw[o][i]  = sum_n dy[n][o] * x[n][i]                  for o in the block
// and the block of dw is handed to the receiver, who updates those rows of w at once. So a training step
// streams the weights once forward and once backward. A single sample is handed over as it is: the receiver's
// update makes dw from (x, dy) in registers, and dx from the weights it has there anyway.
#include "ops/inner.h"
#include "ops/tile.h"
#include "ops/vec.h"

#include <string.h>

#define MAX_BATCH 8
#define MAX_ROWS 8
#define SMALL 4                         // up to so many samples dx is made along whole rows,
#define DSRC_ROWS(n) ((n) == 1 ? 8 : 4) // of so many rows at a time
#define BLOCK_BYTES (96 << 10)          // of weights in a block of rows
#define TILE_BYTES (8 << 10)            // of their gradient, handed over at once: first-level cache

typedef struct stream {
    int64_t block;              // rows of the weights taken together for dx
    int64_t tile;               // rows of dw handed over together, a part of the block
    int64_t at_dx, at_w, at_dw;   // offsets into scratch, floats
} stream;

static int64_t min64(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t max64(int64_t a, int64_t b) { return a > b ? a : b; }

static bool accepts(const mu_op_desc *d) {
    return d->inner.n >= 1 && d->inner.n <= MAX_BATCH && !d->inner.transposed;
}

static mu_status create(mu_op *op, MU_UNUSED mu_err *err) {
    stream *s = op->state;
    const mu_inner_desc *d = &op->desc.inner;
    int64_t row_bytes = d->i * (int64_t)sizeof(float);
    s->block = d->n <= SMALL ? DSRC_ROWS(d->n) : min64(max64(BLOCK_BYTES / row_bytes, 8), d->o);
    s->tile = min64(max64(TILE_BYTES / row_bytes, 1), s->block);
    int64_t at = 0, padded = d->n > SMALL ? mu_inner_padded(d->i) : 0;
    s->at_dx = at, at += d->n * padded;
    s->at_w = at, at += padded ? s->block * MU_INNER_STRIP : 0;
    s->at_dw = at, at += s->tile * d->i;
    op->scratch_bytes = (size_t)at * sizeof(float);
    return MU_OK;
}

// ---- forward ----

// The sum of all lanes, by halves: short chains that overlap between accumulators.
MU_INLINE float lane_sum(mu_vec v) {
#if MU_LANES == 16
    typedef float half MU_VECTOR(32);
    half h = __builtin_shufflevector(v, v, 0, 1, 2, 3, 4, 5, 6, 7)
             + __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15);
#else
    mu_vec h = v;
#endif
#if MU_LANES >= 8
    typedef float quarter MU_VECTOR(16);
    quarter q = __builtin_shufflevector(h, h, 0, 1, 2, 3) + __builtin_shufflevector(h, h, 4, 5, 6, 7);
#else
    mu_vec q = h;
#endif
    q += __builtin_shufflevector(q, q, 2, 3, 0, 1);
    return q[0] + q[1];
}

// The sums' share of a vector of inputs from i on, of which `left` are left.
MU_INLINE void dots_at(mu_vec acc[][MAX_BATCH], const float *const *w, const float *x, int64_t len, int64_t i,
                       int64_t left, const int rows, const int n) {
    mu_vec xv[MAX_BATCH];
    MU_UNROLL for (int b = 0; b < n; b++) xv[b] = mu_vec_load(x + b * len + i, left);
    MU_UNROLL for (int r = 0; r < rows; r++) {
        mu_vec row = mu_vec_load(w[r] + i, left);
        MU_UNROLL for (int b = 0; b < n; b++) acc[r][b] += row * xv[b];
    }
}

// `rows` rows of the weights from o on, times the n samples; a row past the end is the last one again.
MU_INLINE void dots(const mu_inner_desc *d, const mu_op_args *a, int64_t o, const int rows, const int n) {
    mu_vec acc[MAX_ROWS][MAX_BATCH];
    const float *w[MAX_ROWS], *x = a->src;
    const int64_t len = d->i;
    MU_UNROLL for (int r = 0; r < rows; r++) {
        w[r] = a->weight + min64(o + r, d->o - 1) * len;
        MU_UNROLL for (int b = 0; b < n; b++) acc[r][b] = mu_vec_set(0);
    }
    const int64_t whole = mu_vec_whole(len);
    int64_t i = 0;
    for (; i < whole; i += MU_LANES) dots_at(acc, w, x, len, i, MU_LANES, rows, n);
    for (; i < len; i += MU_LANES) dots_at(acc, w, x, len, i, len - i, rows, n);
    MU_UNROLL for (int r = 0; r < rows; r++) {
        if (o + r >= d->o) break;
        float bias = d->bias ? a->bias[o + r] : 0.0f;
        MU_UNROLL for (int b = 0; b < n; b++) a->dst[b * d->o + o + r] = lane_sum(acc[r][b]) + bias;
    }
}

#define BATCH(n, rows)                                                                             \
    case n:                                                                                        \
        for (int64_t o = 0; o < d->o; o += rows) dots(d, a, o, rows, n);                           \
        break;

static mu_status forward(mu_op *op, const mu_op_args *a, MU_UNUSED mu_err *err) {
    const mu_inner_desc *d = &op->desc.inner;
    switch (d->n) {
#ifdef MU_VEC_AVX512
    BATCH(1, 8) BATCH(2, 8) BATCH(3, 6) BATCH(4, 5) BATCH(5, 4) BATCH(6, 4) BATCH(7, 3) BATCH(8, 3)
#else
    BATCH(1, 8) BATCH(2, 4) BATCH(3, 3) BATCH(4, 2) BATCH(5, 2) BATCH(6, 1) BATCH(7, 1) BATCH(8, 1)
#endif
    default: return MU_FAIL(err, MU_EUNSUPPORTED, "batch too large for the streaming kernel");
    }
    return MU_OK;
}

#undef BATCH

// ---- backward ----

MU_INLINE void dsrc_at(float *dx, mu_vec dy[][SMALL], const float *w, int64_t len, int64_t left, bool add,
                       const int rows, const int n) {
    mu_vec wv[MAX_ROWS];
    MU_UNROLL for (int r = 0; r < rows; r++) wv[r] = mu_vec_load(w + r * len, left);
    MU_UNROLL for (int b = 0; b < n; b++) {
        mu_vec sum = add ? mu_vec_load(dx + b * len, left) : mu_vec_set(0);
        MU_UNROLL for (int r = 0; r < rows; r++) sum += dy[r][b] * wv[r];
        mu_vec_store(dx + b * len, sum, left);
    }
}

// dx += dy[:, o..o+rows) * w[o..o+rows) along whole rows, = for o 0; at most SMALL samples, a few streams of
// w.
MU_INLINE void dsrc_rows(const mu_inner_desc *d, const mu_op_args *a, int64_t o, const int rows,
                         const int n) {
    mu_vec dy[MAX_ROWS][SMALL];
    const float *w = a->weight + o * d->i;
    const int64_t len = d->i;
    MU_UNROLL for (int r = 0; r < rows; r++)
        MU_UNROLL for (int b = 0; b < n; b++) dy[r][b] = mu_vec_set(a->ddst[b * d->o + o + r]);
    const int64_t whole = mu_vec_whole(len);
    int64_t i = 0;
    for (; i < whole; i += MU_LANES) dsrc_at(a->dsrc + i, dy, w + i, len, MU_LANES, o > 0, rows, n);
    for (; i < len; i += MU_LANES) dsrc_at(a->dsrc + i, dy, w + i, len, len - i, o > 0, rows, n);
}

#define BATCH(n)                                                                                   \
    case n:                                                                                        \
        if (rows == DSRC_ROWS(n)) dsrc_rows(d, a, o, DSRC_ROWS(n), n);                             \
        else for (int64_t k = 0; k < rows; k++) dsrc_rows(d, a, o + k, 1, n);                      \
        break;

static void dsrc_block(const mu_inner_desc *d, const mu_op_args *a, int64_t o, int64_t rows) {
    switch (d->n) {
        BATCH(1) BATCH(2) BATCH(3) BATCH(4)
    default: break;
    }
}
#undef BATCH

MU_INLINE void dweight_at(float *out, mu_vec dy[][MAX_BATCH], const float *x, int64_t len, int64_t left,
                          bool add, const int rows, const int n) {
    mu_vec acc[2];
    MU_UNROLL for (int r = 0; r < rows; r++) acc[r] = add ? mu_vec_load(out + r * len, left) : mu_vec_set(0);
    MU_UNROLL for (int b = 0; b < n; b++) {
        mu_vec xv = mu_vec_load(x + b * len, left);
        MU_UNROLL for (int r = 0; r < rows; r++) acc[r] += dy[r][b] * xv;
    }
    MU_UNROLL for (int r = 0; r < rows; r++) mu_vec_store(out + r * len, acc[r], left);
}

// One or two rows of dw from o on, along their whole length; the coefficients dy stay in registers.
MU_INLINE void dweight_rows(const mu_inner_desc *d, const mu_op_args *a, int64_t o, float *out, bool add,
                            const int rows, const int n) {
    mu_vec dy[2][MAX_BATCH];
    const float *x = a->src;
    const int64_t len = d->i;
    MU_UNROLL for (int r = 0; r < rows; r++)
        MU_UNROLL for (int b = 0; b < n; b++) dy[r][b] = mu_vec_set(a->ddst[b * d->o + o + r]);
    const int64_t whole = mu_vec_whole(len);
    int64_t i = 0;
    for (; i < whole; i += MU_LANES) dweight_at(out + i, dy, x + i, len, MU_LANES, add, rows, n);
    for (; i < len; i += MU_LANES) dweight_at(out + i, dy, x + i, len, len - i, add, rows, n);
}

#define BATCH(n)                                                                                   \
    case n:                                                                                        \
        for (; k + 2 <= rows; k += 2) dweight_rows(d, a, o + k, out + k * d->i, add, 2, n);        \
        for (; k < rows; k++) dweight_rows(d, a, o + k, out + k * d->i, add, 1, n);                \
        break;

// dw[o..o+rows) =, or += when add.
static void dweight_block(const mu_inner_desc *d, const mu_op_args *a, int64_t o, int64_t rows, float *out,
                          const bool add) {
    int64_t k = 0;
    switch (d->n) {
        BATCH(1) BATCH(2) BATCH(3) BATCH(4) BATCH(5) BATCH(6) BATCH(7) BATCH(8)
    default: break;
    }
}
#undef BATCH

static void take_dweight(const stream *s, const mu_inner_desc *d, const mu_op_args *a, int64_t o,
                         int64_t rows) {
    float *tile = (float *)a->scratch + s->at_dw;
    if (!a->rows_ready) {
        dweight_block(d, a, o, rows, a->dweight + o * d->i, a->accumulate);
        return;
    }
    dweight_block(d, a, o, rows, tile, false);
    a->rows_ready(a->rows_ctx, o, rows, tile);
}

static mu_status backward(mu_op *op, const mu_op_args *a, MU_UNUSED mu_err *err) {
    const stream *s = op->state;
    const mu_inner_desc *d = &op->desc.inner;
    float *scratch = a->scratch, *dx = scratch + s->at_dx;
    bool tiled = a->dsrc && d->n > SMALL, weight = !a->skip_dweight && (a->rows_ready || a->dweight);
    if (d->bias && a->dbias && !a->skip_dweight) mu_inner_dbias(d, a);
    if (weight && d->n == 1 && a->outer_ready) {
        if (a->dsrc) memset(a->dsrc, 0, (size_t)d->i * sizeof(float));
        a->outer_ready(a->rows_ctx, 0, d->o, a->ddst, a->src, a->dsrc);
        return MU_OK;
    }
    if (tiled) memset(dx, 0, (size_t)(d->n * mu_inner_padded(d->i)) * sizeof(float));
    for (int64_t o = 0; o < d->o; o += s->block) {
        int64_t rows = min64(s->block, d->o - o);
        if (tiled) mu_inner_add_dsrc(d, a, o, rows, dx, scratch + s->at_w);
        else if (a->dsrc) dsrc_block(d, a, o, rows);
        for (int64_t k = 0; weight && k < rows; k += s->tile)
            take_dweight(s, d, a, o + k, min64(s->tile, rows - k));
    }
    if (tiled) mu_inner_copy_dsrc(d, dx, a->dsrc);
    return MU_OK;
}

const mu_op_class mu_op_inner_stream = {
    .name = "inner_stream", .help = "one pass over the weights forward, one backward (batch <= 8)",
    .state_size = sizeof(stream), .prim = MU_PRIM_INNER, .rank = 60, .accepts = accepts, .create = create,
    .forward = forward, .backward = backward,
};
