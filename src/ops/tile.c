// SPDX-License-Identifier: Apache-2.0
// tile.c - the register tiles for the vector widths of this build; see tile.h.
//
// SHAPES lists the tiles: accumulators + vectors of b + one broadcast must fit into the 32 registers of
// AVX-512 (also for its 256-bit operations) or the 16 of everything older.
#include "ops/tile.h"

#include "base/attr.h"

#define ROWS_1_TO_4(X, vecs) X(1, vecs) X(2, vecs) X(3, vecs) X(4, vecs)

#ifdef __AVX512VL__
#define SHAPES(X)                                                                                  \
    ROWS_1_TO_4(X, 1) X(5, 1) X(6, 1) X(7, 1) X(8, 1)                                              \
    ROWS_1_TO_4(X, 2) X(5, 2) X(6, 2) X(7, 2) X(8, 2)                                              \
    ROWS_1_TO_4(X, 3) X(5, 3) X(6, 3) X(7, 3) X(8, 3)                                              \
    ROWS_1_TO_4(X, 4) X(5, 4) X(6, 4)
static const int max_rows[MU_TILE_VECS + 1] = {0, 8, 8, 8, 6};
#else
#define SHAPES(X)                                                                                  \
    ROWS_1_TO_4(X, 1) X(5, 1) X(6, 1) X(7, 1) X(8, 1)                                              \
    ROWS_1_TO_4(X, 2) X(5, 2) X(6, 2)                                                              \
    ROWS_1_TO_4(X, 3)
static const int max_rows[MU_TILE_VECS + 1] = {0, 8, 6, 4, 0};
#endif

#ifdef __AVX__
#define NARROW 8
#else
#define NARROW 4
#endif

// GCC reads a value again for every use, as a memory operand, when there are few uses: with up to four rows
// the loads would then be the limit. The empty statement hides from it where the value came from.
#ifdef __x86_64__
#define KEEP(var, value) do { (var) = (value); __asm__("" : "+v"(var)); } while (0)
#else
#define KEEP(var, value) ((var) = (value))
#endif
// Likewise it would rather advance eight pointers than one index; that costs up to a third of short loops.
#define ONE_INDEX(i) __asm__("" : "+r"(i))

#define WIDTH NARROW
#define NAME(x) x##_narrow
#include "ops/tile_kernel.h"
#undef WIDTH
#undef NAME

#ifdef __AVX512VL__
#define WIDTH 16
#define NAME(x) x##_wide
#include "ops/tile_kernel.h"
#undef WIDTH
#undef NAME
#endif

int mu_tile_widths(int width[2]) {
    width[0] = NARROW;
#ifdef __AVX512VL__
    width[1] = 16;
    return 2;
#else
    return 1;
#endif
}

int mu_tile_best_width(MU_UNUSED int64_t n) {
#ifdef __AVX512VL__
    int64_t narrow = (n + NARROW - 1) / NARROW * NARROW, wide = (n + 15) / 16 * 16;
    return narrow < wide && __builtin_cpu_is("amd") ? NARROW : 16;
#else
    return NARROW;
#endif
}

int mu_tile_max_rows(int vecs) { return vecs >= 1 && vecs <= MU_TILE_VECS ? max_rows[vecs] : 0; }

void mu_tile_run_dot(const mu_tile_dot *t, MU_UNUSED int width, int rows, int vecs) {
#ifdef __AVX512VL__
    if (width == 16) {
        table_wide[rows][vecs].dot(t);
        return;
    }
#endif
    table_narrow[rows][vecs].dot(t);
}

void mu_tile_run_outer(const mu_tile_outer *t, MU_UNUSED int width, int rows, int vecs) {
#ifdef __AVX512VL__
    if (width == 16) {
        table_wide[rows][vecs].outer(t);
        return;
    }
#endif
    table_narrow[rows][vecs].outer(t);
}
