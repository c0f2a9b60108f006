// SPDX-License-Identifier: Apache-2.0
// pieces.c - rows are collected and factors multiplied out, a cache-sized piece at a time.
//
// Rows. A rule that is not linear in g must see the sum of a repeated row, not its parts one by one.
// Collecting without memory of our own: the entries of an id range are sorted by (id, position) in a
// fixed buffer; if a range has more entries than fit it is halved. Real batches fit at once; a range
// of a single id never needs sorting, so the halving always ends.
//
// Factors. dW = dy' x is made in blocks of FACTOR_ROWS rows by FACTOR_COLS columns. A block of whole
// rows is contiguous in the parameter as well, so that the update behind it streams long runs; the
// product itself is done in register tiles of TILE_ROWS x TILE_COLS over the whole batch.
#include "updater/pieces.h"

#include <assert.h>
#include <string.h>

enum {
    ROWS_AT_ONCE = 2048, // entries sorted in one go: 2 x 16 KiB of stack
    ROW_PIECE = 1024,    // columns of a row added up in one go
    TILE_ROWS = 8,
    TILE_COLS = 32,
    FACTOR_COLS = 1024,
};

// ---- rows ------------------------------------------------------------------------------------

typedef struct entry {
    int32_t id, k;
} entry; // row id and its position in the gradient

// Entries with lo <= id < hi in the order given; the count may exceed what was stored.
static int64_t pick(const mu_grad *g, int64_t lo, int64_t hi, entry *out) {
    int64_t n = 0;
    for (int64_t k = 0; k < g->n_rows; k++) {
        if (g->row[k] < lo || g->row[k] >= hi) continue;
        if (n < ROWS_AT_ONCE) out[n] = (entry){g->row[k], (int32_t)k};
        n++;
    }
    return n;
}

// Stable radix sort by (id - lo), one byte a pass; returns the buffer that holds the result.
static entry *sort(entry *a, entry *b, int64_t n, int64_t lo, int64_t hi) {
    for (int shift = 0; (hi - 1 - lo) >> shift > 0; shift += 8) {
        int32_t start[257] = {0};
        for (int64_t i = 0; i < n; i++) start[(((a[i].id - lo) >> shift) & 255) + 1]++;
        for (int d = 0; d < 256; d++) start[d + 1] += start[d];
        for (int64_t i = 0; i < n; i++) b[start[((a[i].id - lo) >> shift) & 255]++] = a[i];
        entry *t = a;
        a = b, b = t;
    }
    return a;
}

static void add(float *restrict sum, const float *restrict v, size_t n) {
    for (size_t i = 0; i < n; i++) sum[i] += v[i];
}

// One row from the entries that name it.
static void visit_row(const mu_grad *g, size_t cols, const entry *e, int64_t n, mu_piece_visit visit,
                      void *ctx) {
    const size_t row = (size_t)e->id * cols;
    if (n == 1) {
        visit(ctx, row, cols, g->row_value + (size_t)e->k * cols);
        return;
    }
    float sum[ROW_PIECE];
    for (size_t c = 0; c < cols; c += ROW_PIECE) {
        size_t m = cols - c < ROW_PIECE ? cols - c : ROW_PIECE;
        memcpy(sum, g->row_value + (size_t)e->k * cols + c, m * sizeof(float));
        for (int64_t i = 1; i < n; i++) add(sum, g->row_value + (size_t)e[i].k * cols + c, m);
        visit(ctx, row + c, m, sum);
    }
}

// A row named by more entries than the buffer holds.
static void visit_hot_row(const mu_grad *g, size_t cols, int32_t id, mu_piece_visit visit, void *ctx) {
    float sum[ROW_PIECE];
    for (size_t c = 0; c < cols; c += ROW_PIECE) {
        size_t m = cols - c < ROW_PIECE ? cols - c : ROW_PIECE;
        memset(sum, 0, m * sizeof(float));
        for (int64_t k = 0; k < g->n_rows; k++)
            if (g->row[k] == id) add(sum, g->row_value + (size_t)k * cols + c, m);
        visit(ctx, (size_t)id * cols + c, m, sum);
    }
}

static void visit_rows(const mu_grad *g, int64_t rows, size_t cols, mu_piece_visit visit, void *ctx) {
    entry a[ROWS_AT_ONCE], b[ROWS_AT_ONCE];
    assert(g->n_rows <= INT32_MAX);
    for (int64_t lo = 0, span = rows; lo < rows;) {
        int64_t n = pick(g, lo, lo + span, a);
        if (n > ROWS_AT_ONCE) {
            if (span > 1) {
                span /= 2;
                continue;
            }
            visit_hot_row(g, cols, (int32_t)lo, visit, ctx);
            n = 0;
        }
        const entry *e = sort(a, b, n, lo, lo + span);
        for (int64_t i = 0, j; i < n; i = j) {
            for (j = i + 1; j < n && e[j].id == e[i].id; j++) {}
            visit_row(g, cols, e + i, j - i, visit, ctx);
        }
        lo += span;
        span = rows - lo < 2 * span ? rows - lo : 2 * span;
    }
}

// ---- factors ---------------------------------------------------------------------------------

// out[r][c] = sum over b of dy[b][r] * x[b][c] for one full register tile.
static void tile(int64_t batch, const float *restrict dy, size_t ld_dy, const float *restrict x, size_t ld_x,
                 float *restrict out, size_t ld_out) {
    float acc[TILE_ROWS][TILE_COLS] = {{0}};
    for (int64_t b = 0; b < batch; b++, dy += ld_dy, x += ld_x)
        for (int r = 0; r < TILE_ROWS; r++)
            for (int c = 0; c < TILE_COLS; c++) acc[r][c] += dy[r] * x[c];
    for (int r = 0; r < TILE_ROWS; r++)
        for (int c = 0; c < TILE_COLS; c++) out[(size_t)r * ld_out + (size_t)c] = acc[r][c];
}

// The same for any size, for the edges.
static void edge(int64_t batch, size_t nr, size_t nc, const float *restrict dy, size_t ld_dy,
                 const float *restrict x, size_t ld_x, float *restrict out, size_t ld_out) {
    for (size_t r = 0; r < nr; r++) {
        float *restrict o = out + r * ld_out;
        for (size_t c = 0; c < nc; c++) o[c] = 0;
        for (int64_t b = 0; b < batch; b++) {
            const float d = dy[(size_t)b * ld_dy + r], *restrict xb = x + (size_t)b * ld_x;
            for (size_t c = 0; c < nc; c++) o[c] += d * xb[c];
        }
    }
}

// The block of dW with nr rows from dy and nc columns from x, densely into out. The last tile of a row
// overlaps the one before it rather than leaving columns to the slow path.
static void product(const mu_grad *g, size_t rows, size_t cols, size_t r, size_t nr, size_t c, size_t nc,
                    float *out) {
    const float *dy = g->dy + r, *x = g->x + c;
    if (nr < TILE_ROWS || nc < TILE_COLS) {
        edge(g->batch, nr, nc, dy, rows, x, cols, out, nc);
        return;
    }
    for (size_t t = 0; t < nc; t += TILE_COLS) {
        size_t at = nc - t < TILE_COLS ? nc - TILE_COLS : t;
        tile(g->batch, dy, rows, x + at, cols, out + at, nc);
    }
}

static void visit_factors(const mu_grad *g, size_t rows, size_t cols, mu_piece_visit visit, void *ctx) {
    MU_ALIGNED(64) float block[TILE_ROWS * FACTOR_COLS];
    for (size_t r = 0; r < rows; r += TILE_ROWS) {
        const size_t nr = rows - r < TILE_ROWS ? rows - r : TILE_ROWS;
        for (size_t c = 0; c < cols; c += FACTOR_COLS) {
            const size_t nc = cols - c < FACTOR_COLS ? cols - c : FACTOR_COLS;
            product(g, rows, cols, r, nr, c, nc, block);
            if (nc == cols) visit(ctx, r * cols, nr * cols, block);
            else
                for (size_t i = 0; i < nr; i++) visit(ctx, (r + i) * cols + c, nc, block + i * nc);
        }
    }
}

void mu_grad_pieces(const mu_param *p, const mu_grad *g, mu_piece_visit visit, void *ctx) {
    const int64_t rows = p->shape.n ? p->shape.d[0] : 1;
    if (!p->count) return;
    const size_t cols = p->count / (size_t)rows;
    switch (g->form) {
    case MU_GRAD_NONE:
        break;
    case MU_GRAD_DENSE:
        visit(ctx, 0, p->count, g->dense);
        break;
    case MU_GRAD_ROWS:
        visit_rows(g, rows, cols, visit, ctx);
        break;
    case MU_GRAD_FACTORS:
        visit_factors(g, (size_t)rows, cols, visit, ctx);
        break;
    }
}
