// SPDX-License-Identifier: Apache-2.0
// o_inner_gemm.c - fully connected layer by matrix products, for batches.
//
//     weight (o,i)                y = x * w^T + b     dx = dy * w       dw = dy^T * x     db = column sums
//     weight (i,o), transposed    y = x * w + b       dx = dy * w^T     dw = x^T * dy     of dy
//
// Libraries are poor at products with w^T (both operands run along a row of w). Here that is
// y^T = w * x^T in register tiles: a few rows of w, read where they lie, times a transposed panel of up to
// 64 samples.
//
// Backward goes over the weights once, in blocks of rows that stay in the second-level cache: first their
// part of dx, then their gradient, which is handed over at once when the caller takes rows (args.rows_ready).
// Transposed weights are mostly shared with another layer and never handed over, so all of dx comes first.
#include "ops/gemm.h"
#include "ops/inner.h"
#include "ops/tile.h"
#include "ops/transpose.h"
#include "ops/vec.h"

#include <string.h>

#define BLOCK_BYTES ((int64_t)256 << 10)        // of weights
#define TILE_BYTES ((int64_t)256 << 10)         // of their gradient
#define TILED_BATCH 32          // up to here one pass over the weights is worth adding to dx again and again
#define PANEL (MU_TILE_VECS * MU_TILE_WIDTH)    // the most samples of a panel
#define MAX_TOGETHER 16
#define NEAR_BYTES ((int64_t)256 << 10)         // of these weights
#define WHOLE_TILES 24          // a multiple of the rows of the larger tiles
#define PANELS_BYTES ((int64_t)512 << 10)       // of panels that go over a block of weights together

typedef struct inner {
    int     width;              // of the tiles' vectors, which run along the samples
    int64_t vecs, n_panels;     // all vectors; panels they are spread over
    int64_t panel, together;    // floats of a packed panel; panels packed at once
    int64_t near;               // rows of the weights that serve these panels one after the other
    int64_t rows, cols;         // of the weights as they lie
    bool    tiled;              // dx block by block; else by one product beforehand
    int64_t block;              // rows of the weights taken together for dx
    int64_t tile;               // rows of dw handed over together, a part of the block
    int64_t ld_src, ld_ddst;    // of the copies that dw is made of; 0 = in place
    int64_t at_dx, at_w, at_tile, at_src, at_ddst; // offsets into scratch, floats; a panel lies at 0
} inner;

static int64_t min64(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t max64(int64_t a, int64_t b) { return a > b ? a : b; }
static int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// oneDNN's products of AVX2 read few rows where they lie; 2 KB apart, these fall into few sets of the first
// cache, and the product takes two to three times as long. Returns a better distance, 0 = it is good.
static int64_t apart(int64_t n, int64_t ld) {
    return MU_LANES == 8 && n <= TILED_BATCH && ld % 512 == 0 ? ld + 16 : 0;
}

static mu_status create(mu_op *op, MU_UNUSED mu_err *err) {
    inner *v = op->state;
    const mu_inner_desc *d = &op->desc.inner;
    v->rows = d->transposed ? d->i : d->o;
    v->cols = d->transposed ? d->o : d->i;
    int64_t most = MU_TILE_VECS, row_bytes = max64(v->cols, 1) * (int64_t)sizeof(float);
    while (!mu_tile_max_rows((int)most)) most--;
    v->width = mu_tile_best_width(d->n);
    v->vecs = ceil_div(d->n, v->width);
    v->n_panels = ceil_div(v->vecs, most);
    v->panel = most * v->width * v->cols;
    v->together = max64(PANELS_BYTES / (most * v->width * row_bytes), 1);
    v->together = min64(min64(v->together, v->n_panels), MAX_TOGETHER);
    v->near = max64(NEAR_BYTES / row_bytes / WHOLE_TILES, 1) * WHOLE_TILES;
    v->block = min64(max64(BLOCK_BYTES / row_bytes, 32), v->rows);
    v->tile = min64(max64(TILE_BYTES / row_bytes, 8), v->block);
    v->tiled = d->need_dsrc && d->n <= TILED_BATCH && !d->transposed;
    int64_t at = 0, padded = v->tiled ? mu_inner_padded(d->i) : 0;
    v->at_dx = at, at += d->n * padded;
    v->at_w = at, at += padded ? v->block * MU_INNER_STRIP : 0;
    v->at_tile = at, at += v->tile * v->cols;
    v->ld_src = apart(d->n, d->i);
    v->ld_ddst = apart(d->n, d->o);
    v->at_src = at, at += d->n * v->ld_src;
    v->at_ddst = at, at += d->n * v->ld_ddst;
    op->scratch_bytes = (size_t)max64(at, v->together * v->panel) * sizeof(float);
    return MU_OK;
}

// ---- products with w^T ----

// x^T of n samples, padded with zeros to `ld`: panel[k][s].
static void pack_panel(const float *x, int64_t cols, int64_t n, int64_t ld, float *panel) {
    mu_transpose(panel, ld, x, cols, n, cols, NULL);
    const size_t rest = (size_t)(ld - n) * sizeof *panel;
    for (int64_t k = 0; rest && k < cols; k++) memset(panel + k * ld + n, 0, rest);
}

typedef struct panel {          // of packed samples
    const float *x;             // [column][sample]
    float *y;                   // where their rows of the result begin
    int64_t n;                  // samples
    int vecs;
} panel;

// y (n, rows) = the samples * weights of rows [first, end)^T + b; b may be NULL.
static void times_panel(const inner *v, const float *weight, const panel *p, const float *b, int64_t first,
                        int64_t end) {
    int64_t ld = (int64_t)p->vecs * v->width;
    int most = mu_tile_max_rows(p->vecs);
    float out[MU_TILE_ROWS * PANEL];            // [row of w][sample]
    mu_tile_dot t = {.n_seg = 1, .seg = v->cols, .b = p->x, .ldb = ld};
    for (int64_t o = first; o < end; o += most) {
        int rows = (int)min64(most, end - o);
        for (int r = 0; r < rows; r++) {
            t.a[r] = weight + (o + r) * v->cols;
            t.c[r] = out + r * ld;
        }
        mu_tile_run_dot(&t, v->width, rows, p->vecs);
        mu_transpose(p->y + o, v->rows, out, ld, rows, p->n, b ? b + o : NULL);
    }
}

// x (n, cols) * w(rows, cols)^T + b -> y (n, rows): a block of weights serves some panels while it is near.
static void times_rows(const inner *v, const mu_op_args *a, int64_t n, const float *x, const float *b,
                       float *y) {
    for (int64_t done = 0, vec = 0; done < v->n_panels;) {
        panel group[MAX_TOGETHER];
        int64_t m = min64(v->together, v->n_panels - done);
        for (int64_t i = 0; i < m; i++, done++) {
            int64_t vecs = ceil_div(v->vecs - vec, v->n_panels - done), s0 = vec * v->width;
            float *to = (float *)a->scratch + i * v->panel;
            group[i] = (panel){to, y + s0 * v->rows, min64(vecs * v->width, n - s0), (int)vecs};
            pack_panel(x + s0 * v->cols, v->cols, group[i].n, vecs * v->width, to);
            vec += vecs;
        }
        for (int64_t row = 0; row < v->rows; row += v->near)
            for (int64_t i = 0; i < m; i++)
                times_panel(v, a->weight, &group[i], b, row, min64(row + v->near, v->rows));
    }
}

// ---- forward ----

static mu_status forward(mu_op *op, const mu_op_args *a, MU_UNUSED mu_err *err) {
    const inner *v = op->state;
    const mu_inner_desc *d = &op->desc.inner;
    if (!d->transposed) {
        times_rows(v, a, d->n, a->src, d->bias ? a->bias : NULL, a->dst);
        return MU_OK;
    }
    for (int64_t n = 0; d->bias && n < d->n; n++)
        memcpy(a->dst + n * d->o, a->bias, (size_t)d->o * sizeof(float));
    mu_gemm(false, false, d->n, d->o, d->i, a->src, d->i, a->weight, d->o, d->bias ? 1.0f : 0.0f, a->dst,
            d->o);
    return MU_OK;
}

// ---- backward ----

typedef struct factor {         // of dw: n rows
    const float *p;
    int64_t ld;
} factor;

static factor take_factor(const float *p, int64_t n, int64_t len, int64_t ld, float *copy) {
    for (int64_t i = 0; ld && i < n; i++) memcpy(copy + i * ld, p + i * len, (size_t)len * sizeof *p);
    return ld ? (factor){copy, ld} : (factor){p, len};
}

static void take_dweight(const inner *v, int64_t n, const mu_op_args *a, factor left, factor right,
                         int64_t row, int64_t rows, float *tile) {
    float *out = a->rows_ready ? tile : a->dweight + row * v->cols,
          beta = !a->rows_ready && a->accumulate ? 1.0f : 0.0f;
    mu_gemm(true, false, rows, v->cols, n, left.p + row, left.ld, right.p, right.ld, beta, out, v->cols);
    if (a->rows_ready) a->rows_ready(a->rows_ctx, row, rows, tile);
}

static mu_status backward(mu_op *op, const mu_op_args *a, MU_UNUSED mu_err *err) {
    const inner *v = op->state;
    const mu_inner_desc *d = &op->desc.inner;
    float *s = a->scratch, *dx = s + v->at_dx;
    bool weight = !a->skip_dweight && (a->rows_ready || a->dweight), tiled = a->dsrc && v->tiled;
    if (d->bias && a->dbias && !a->skip_dweight) mu_inner_dbias(d, a);
    if (a->dsrc && d->transposed) times_rows(v, a, d->n, a->ddst, NULL, a->dsrc);
    else if (a->dsrc && !tiled)
        mu_gemm(false, false, d->n, d->i, d->o, a->ddst, d->o, a->weight, d->i, 0.0f, a->dsrc, d->i);
    factor src = {0}, ddst = {0};
    if (weight) src = take_factor(a->src, d->n, d->i, v->ld_src, s + v->at_src);
    if (weight) ddst = take_factor(a->ddst, d->n, d->o, v->ld_ddst, s + v->at_ddst);
    if (tiled) memset(dx, 0, (size_t)(d->n * mu_inner_padded(d->i)) * sizeof(float));
    for (int64_t row = 0; row < v->rows; row += v->block) {
        int64_t rows = min64(v->block, v->rows - row);
        if (tiled) mu_inner_add_dsrc(d, a, row, rows, dx, s + v->at_w);
        for (int64_t k = 0; weight && k < rows; k += v->tile)
            take_dweight(v, d->n, a, d->transposed ? src : ddst, d->transposed ? ddst : src, row + k,
                         min64(v->tile, rows - k), s + v->at_tile);
    }
    if (tiled) mu_inner_copy_dsrc(d, dx, a->dsrc);
    return MU_OK;
}

const mu_op_class mu_op_inner_gemm = {
    .name = "inner_gemm",
    .help = "matrix products of the fastest library for the shape",
    .state_size = sizeof(inner),
    .prim = MU_PRIM_INNER,
    .rank = 20,
    .create = create,
    .forward = forward,
    .backward = backward,
};
