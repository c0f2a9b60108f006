// SPDX-License-Identifier: Apache-2.0
// inner.c - the data gradient in register tiles over a block of rows, and the bias gradient; see inner.h.
#include "ops/inner.h"

#include "ops/tile.h"

#include <string.h>

static int64_t min64(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

int64_t mu_inner_padded(int64_t i) {
    int64_t wide = MU_TILE_VECS * MU_TILE_WIDTH;
    return ceil_div(i, wide) * wide;
}

static void pad_rows(float *to, int64_t ld, const float *from, int64_t rows, int64_t cols) {
    for (int64_t r = 0; r < rows; r++) {
        memcpy(to + r * ld, from + r * cols, (size_t)cols * sizeof(float));
        memset(to + r * ld + cols, 0, (size_t)(ld - cols) * sizeof(float));
    }
}

// Vectors of a tile: as many as go with the whole batch as its rows, if the batch is that small.
static int vecs_for(int64_t n) {
    int vecs = MU_TILE_VECS;
    while (!mu_tile_max_rows(vecs)) vecs--;
    if (n <= MU_TILE_ROWS)
        for (; mu_tile_max_rows(vecs) < n && vecs > 2; vecs--) { }
    return vecs;
}

void mu_inner_add_dsrc(const mu_inner_desc *d, const mu_op_args *a, int64_t row0, int64_t rows, float *dx,
                       float *copy) {
    int width = mu_tile_best_width(MU_TILE_WIDTH), vecs = vecs_for(d->n);
    const float *w = a->weight + row0 * d->i;
    int64_t ld = mu_inner_padded(d->i), ldw = d->i, wide = width * vecs,
            tiles = ceil_div(d->n, mu_tile_max_rows(vecs));
    if ((d->o - row0 - rows) * d->i < MU_TILE_WIDTH) { // a vector could reach past the last row
        pad_rows(copy, ld, w, rows, d->i);
        w = copy;
        ldw = ld;
    }
    mu_tile_dot t = {.n_seg = 1, .seg = rows, .ldb = ldw, .add = true};
    for (int64_t i = 0; i < d->i; i += wide) {
        int need = (int)min64(vecs, ceil_div(d->i - i, width));
        t.b = w + i;
        for (int64_t k = 0, s = 0; k < tiles; k++) {
            int m = (int)ceil_div(d->n - s, tiles - k);
            for (int r = 0; r < m; r++, s++) {
                t.a[r] = a->ddst + s * d->o + row0;
                t.c[r] = dx + s * ld + i;
            }
            mu_tile_run_dot(&t, width, m, need);
        }
    }
}

void mu_inner_copy_dsrc(const mu_inner_desc *d, const float *dx, float *dsrc) {
    int64_t ld = mu_inner_padded(d->i);
    for (int64_t n = 0; n < d->n; n++) memcpy(dsrc + n * d->i, dx + n * ld, (size_t)d->i * sizeof(float));
}

void mu_inner_dbias(const mu_inner_desc *d, const mu_op_args *a) {
    if (!a->accumulate) memset(a->dbias, 0, (size_t)d->o * sizeof(float));
    for (int64_t n = 0; n < d->n; n++)
        for (int64_t o = 0; o < d->o; o++) a->dbias[o] += a->ddst[n * d->o + o];
}
