// SPDX-License-Identifier: Apache-2.0
// transpose.c - see transpose.h: squares of 4 x 4 in registers, in larger ones that stay in the first-level
// cache on both sides.
#include "ops/transpose.h"

#include "base/attr.h"

#include <string.h>

enum { SIDE = 16 };

typedef float quad __attribute__((vector_size(16)));

// The first, or the last, two of each, by turns.
#define LOW(a, b) __builtin_shufflevector(a, b, 0, 4, 1, 5)
#define HIGH(a, b) __builtin_shufflevector(a, b, 2, 6, 3, 7)

MU_INLINE quad load(const float *p) {
    quad v;
    memcpy(&v, p, sizeof v);
    return v;
}

MU_INLINE void square_4(float *to, int64_t ldt, const float *from, int64_t ldf, quad add) {
    const quad a = load(from), b = load(from + ldf), c = load(from + 2 * ldf), d = load(from + 3 * ldf);
    const quad ac0 = LOW(a, c), ac1 = HIGH(a, c), bd0 = LOW(b, d), bd1 = HIGH(b, d);
    const quad out[4] = {LOW(ac0, bd0) + add, HIGH(ac0, bd0) + add,
                         LOW(ac1, bd1) + add, HIGH(ac1, bd1) + add};
    for (int64_t i = 0; i < 4; i++) memcpy(to + i * ldt, &out[i], sizeof out[i]);
}

static void square(float *to, int64_t ldt, const float *from, int64_t ldf, int64_t rows, int64_t cols,
                   const float *add) {
    int64_t r = 0;
    for (; r + 4 <= rows; r += 4) {
        const quad plus = add ? load(add + r) : (quad){0};
        int64_t c = 0;
        for (; c + 4 <= cols; c += 4) square_4(to + c * ldt + r, ldt, from + r * ldf + c, ldf, plus);
        for (; c < cols; c++)
            for (int64_t k = 0; k < 4; k++) to[c * ldt + r + k] = from[(r + k) * ldf + c] + plus[k];
    }
    for (; r < rows; r++)
        for (int64_t c = 0; c < cols; c++) to[c * ldt + r] = from[r * ldf + c] + (add ? add[r] : 0.0f);
}

void mu_transpose(float *to, int64_t ldt, const float *from, int64_t ldf, int64_t rows, int64_t cols,
                  const float *add) {
    for (int64_t r = 0; r < rows; r += SIDE)
        for (int64_t c = 0; c < cols; c += SIDE)
            square(to + c * ldt + r, ldt, from + r * ldf + c, ldf, rows - r < SIDE ? rows - r : SIDE,
                   cols - c < SIDE ? cols - c : SIDE, add ? add + r : NULL);
}
