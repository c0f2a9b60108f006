// SPDX-License-Identifier: Apache-2.0
// tile_kernel.h - the two register-tile loops for one vector width; tile.c includes this once a width.
//
// Before inclusion: WIDTH (floats in a vector), NAME(x) (x with the width appended). The loops are
// always inlined into one function a tile shape, where all bounds are constants; MU_UNROLL keeps the
// accumulators out of memory, KEEP the vectors of b in registers, and ONE_INDEX
// serves all rows of a.

typedef float NAME(vec) MU_VECTOR(WIDTH * 4);

MU_INLINE NAME(vec) NAME(load)(const float *p) {
    NAME(vec) v;
    __builtin_memcpy(&v, p, sizeof v);
    return v;
}

MU_INLINE void NAME(store)(float *p, NAME(vec) v) { __builtin_memcpy(p, &v, sizeof v); }

MU_INLINE void NAME(dot)(const mu_tile_dot *t, const int rows, const int vecs) {
    NAME(vec) acc[MU_TILE_ROWS][MU_TILE_VECS];
    MU_UNROLL for (int m = 0; m < rows; m++)
        MU_UNROLL for (int v = 0; v < vecs; v++) acc[m][v] = (NAME(vec)){0};
    const float *a[MU_TILE_ROWS], *b = t->b;
    MU_UNROLL for (int m = 0; m < rows; m++) a[m] = t->a[m];
    const int64_t ldb = t->ldb, seg = t->seg, a_seg = t->a_seg, n_seg = t->n_seg;
    for (int64_t s = 0; s < n_seg; s++)
        for (int64_t k = s * a_seg; k < s * a_seg + seg; k++, b += ldb) {
            NAME(vec) bv[MU_TILE_VECS];
            MU_UNROLL for (int v = 0; v < vecs; v++) KEEP(bv[v], NAME(load)(b + v * WIDTH));
            MU_UNROLL for (int m = 0; m < rows; m++) {
                NAME(vec) x = a[m][k] - (NAME(vec)){0};
                MU_UNROLL for (int v = 0; v < vecs; v++) acc[m][v] += x * bv[v];
            }
        }
    if (t->init)
        MU_UNROLL for (int v = 0; v < vecs; v++) {
            NAME(vec) init = NAME(load)(t->init + v * WIDTH);
            MU_UNROLL for (int m = 0; m < rows; m++) acc[m][v] += init;
        }
    const bool add = t->add;
    MU_UNROLL for (int m = 0; m < rows; m++) {
        float *c = t->c[m];
        if (add) MU_UNROLL for (int v = 0; v < vecs; v++) acc[m][v] += NAME(load)(c + v * WIDTH);
        MU_UNROLL for (int v = 0; v < vecs; v++) NAME(store)(c + v * WIDTH, acc[m][v]);
    }
}

MU_INLINE void NAME(outer)(const mu_tile_outer *t, const int rows, const int vecs) {
    NAME(vec) acc[MU_TILE_ROWS][MU_TILE_VECS];
    MU_UNROLL for (int m = 0; m < rows; m++)
        MU_UNROLL for (int v = 0; v < vecs; v++) acc[m][v] = (NAME(vec)){0};
    const float *a[MU_TILE_ROWS];
    MU_UNROLL for (int m = 0; m < rows; m++) a[m] = t->a[m];
    const int64_t n0 = t->n[0], a0 = t->a_step[0], b0 = t->b_step[0];
    for (int64_t k2 = 0; k2 < t->n[2]; k2++)
        for (int64_t k1 = 0; k1 < t->n[1]; k1++) {
            int64_t at = k2 * t->a_step[2] + k1 * t->a_step[1];
            const float *b = t->b + k2 * t->b_step[2] + k1 * t->b_step[1];
            for (int64_t k = 0; k < n0; k++, at += a0, b += b0) {
                ONE_INDEX(at);
                NAME(vec) bv[MU_TILE_VECS];
                MU_UNROLL for (int v = 0; v < vecs; v++) KEEP(bv[v], NAME(load)(b + v * WIDTH));
                MU_UNROLL for (int m = 0; m < rows; m++) {
                    NAME(vec) x = a[m][at] - (NAME(vec)){0};
                    MU_UNROLL for (int v = 0; v < vecs; v++) acc[m][v] += x * bv[v];
                }
            }
        }
    float *c = t->c;
    const int64_t ldc = t->ldc;
    const bool add = t->add;
    MU_UNROLL for (int m = 0; m < rows; m++, c += ldc) {
        if (add) MU_UNROLL for (int v = 0; v < vecs; v++) acc[m][v] += NAME(load)(c + v * WIDTH);
        MU_UNROLL for (int v = 0; v < vecs; v++) NAME(store)(c + v * WIDTH, acc[m][v]);
    }
}

#define SHAPE(rows, vecs)                                                                          \
    static void NAME(dot_##rows##x##vecs)(const mu_tile_dot *t) { NAME(dot)(t, rows, vecs); }      \
    static void NAME(outer_##rows##x##vecs)(const mu_tile_outer *t) { NAME(outer)(t, rows, vecs); }
SHAPES(SHAPE)
#undef SHAPE

static const struct { void (*dot)(const mu_tile_dot *); void (*outer)(const mu_tile_outer *); }
    NAME(table)[MU_TILE_ROWS + 1][MU_TILE_VECS + 1] = {
#define SHAPE(rows, vecs) [rows][vecs] = {NAME(dot_##rows##x##vecs), NAME(outer_##rows##x##vecs)},
        SHAPES(SHAPE)
#undef SHAPE
};
