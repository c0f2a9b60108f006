// SPDX-License-Identifier: Apache-2.0
// tile.h - register tiles: the two inner loops under Muster's own convolution and fully connected
// kernels. Both compute a small block of a matrix product that stays in registers,
//
//     c[m][j] (=, or += when add)  sum_k a(m,k) * b(k,j)      m < rows,  j < vecs * width
//
// with a(m,k) one float that is broadcast and b(k,j) whole vectors. They differ in how a is walked:
//   dot    a's rows are contiguous in k (pixels of an image, rows of a weight matrix), possibly in
//          several segments: a window of a channels-last image is kh segments of kw*c floats;
//   outer  k is a walk over samples or pixels, common to all rows of a: gradients of weights.
//
// Nothing is packed or allocated here and nothing is masked: c and b are read and written in whole
// vectors, so the caller pads. `rows` x `vecs` is limited by the registers (mu_tile_max_rows).
//
// Two widths exist where the machine has 512-bit registers: processors that run one 512-bit operation
// as two halves lose nothing with the narrow ones, which fit odd channel counts better.
#ifndef MU_OPS_TILE_H
#define MU_OPS_TILE_H

#include "base/level.h"

#include <stdbool.h>
#include <stdint.h>

// Before a loop with constant bounds whose arrays are to live in registers.
#ifdef __clang__
#define MU_UNROLL _Pragma("clang loop unroll(full)")
#else
#define MU_UNROLL _Pragma("GCC unroll 16")
#endif

#define MU_TILE_ROWS 8          // the most rows of a tile
#define MU_TILE_VECS 4          // and the most vectors
#define MU_TILE_WIDTH 16        // and the widest vector, in floats

typedef struct mu_tile_dot {
    const float *a[MU_TILE_ROWS];       // a(m, 0)
    int64_t      a_seg;                 // floats between the starts of two segments of a row
    int64_t      n_seg, seg;            // segments; elements in each
    const float *b;                     // b(0, 0); k counts on through the segments
    int64_t      ldb;
    const float *init;                  // added to every row (a bias), vecs*width floats; NULL = none
    float       *c[MU_TILE_ROWS];
    bool         add;
} mu_tile_dot;

typedef struct mu_tile_outer {          // k = (k2, k1, k0), k0 fastest
    const float *a[MU_TILE_ROWS];       // a(m, 0)
    const float *b;                     // b(0, 0)
    int64_t      n[3];                  // counts of k0, k1, k2
    int64_t      a_step[3], b_step[3];  // floats per step of each
    float       *c;
    int64_t      ldc;
    bool         add;
} mu_tile_outer;

#define mu_tile_widths MU_LEVELLED(mu_tile_widths)
#define mu_tile_best_width MU_LEVELLED(mu_tile_best_width)
#define mu_tile_max_rows MU_LEVELLED(mu_tile_max_rows)
#define mu_tile_run_dot MU_LEVELLED(mu_tile_run_dot)
#define mu_tile_run_outer MU_LEVELLED(mu_tile_run_outer)

// The widths this level has, narrowest first; returns how many (1 or 2).
MU_AT_LEVELS(int, mu_tile_widths, (int width[2]));
// The width that wastes least of `n` floats on this processor.
MU_AT_LEVELS(int, mu_tile_best_width, (int64_t n));
MU_AT_LEVELS(int, mu_tile_max_rows, (int vecs));        // 0 when there are no tiles of so many vectors

MU_AT_LEVELS(void, mu_tile_run_dot, (const mu_tile_dot *t, int width, int rows, int vecs));
MU_AT_LEVELS(void, mu_tile_run_outer, (const mu_tile_outer *t, int width, int rows, int vecs));

#endif
