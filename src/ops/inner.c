// SPDX-License-Identifier: Apache-2.0
// inner.c - the data gradient in register tiles over a block of rows, and the bias gradient; see inner.h.
#include "ops/inner.h"

#include "ops/tile.h"
#include "ops/vec.h"

#include <string.h>

static int64_t min64(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

int64_t mu_inner_padded(int64_t i) {
    return ceil_div(i, MU_TILE_WIDTH) * MU_TILE_WIDTH;
}

// Columns [0, n) of a block of the weights, zeros behind them. In their matrix they lie rows apart, where the
// processor does not look ahead by itself, and in few sets of the first cache when a row is a power of two.
static void pack_strip(float *to, int64_t ld, const float *from, int64_t ldw, int64_t rows, int64_t n) {
    for (int64_t r = 0; r < rows; r++, to += ld, from += ldw) {
        for (int64_t c = 0; c < ld; c += MU_CACHE_LINE / 4) __builtin_prefetch(from + 2 * ld + c);
        if (n >= ld)
            for (int64_t c = 0; c < ld; c += MU_LANES)
                mu_vec_store(to + c, mu_vec_load(from + c, MU_LANES), MU_LANES);
        else
            for (int64_t c = 0; c < ld; c++) to[c] = c < n ? from[c] : 0.0f;
    }
}

// Vectors of a tile: as many as go with the whole batch as its rows, if the batch is that small.
static int vecs_for(int64_t n) {
    int vecs = MU_LANES == 16 ? MU_TILE_VECS : 2;
    if (n <= MU_TILE_ROWS)
        for (; mu_tile_max_rows(vecs) < n && vecs > 2; vecs--) { }
    return vecs;
}

void mu_inner_add_dsrc(const mu_inner_desc *d, const mu_op_args *a, int64_t row0, int64_t rows, float *dx,
                       float *strip) {
    const int vecs = vecs_for(d->n);
    const float *w = a->weight + row0 * d->i;
    const int64_t ld = mu_inner_padded(d->i), tiles = ceil_div(d->n, mu_tile_max_rows(vecs));
    const bool in_place = MU_LANES == 16 && (d->o - row0 - rows) * d->i >= MU_LANES; // a vector may overreach
    mu_tile_dot t = {.n_seg = 1, .seg = rows, .add = true};
    for (int64_t i = 0; i < d->i; i += vecs * MU_LANES) {
        const int need = (int)min64(vecs, ceil_div(d->i - i, MU_LANES));
        t.b = in_place ? w + i : strip;
        t.ldb = in_place ? d->i : need * MU_LANES;
        if (!in_place) pack_strip(strip, t.ldb, w + i, d->i, rows, d->i - i);
        for (int64_t k = 0, s = 0; k < tiles; k++) {
            const int m = (int)ceil_div(d->n - s, tiles - k);
            for (int r = 0; r < m; r++, s++) {
                t.a[r] = a->ddst + s * d->o + row0;
                t.c[r] = dx + s * ld + i;
            }
            mu_tile_run_dot(&t, MU_LANES, m, need);
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
