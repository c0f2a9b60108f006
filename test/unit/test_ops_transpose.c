// SPDX-License-Identifier: Apache-2.0
// test_ops_transpose.c - every small size, with rows longer than the matrix, against the definition; nothing
// beside it is written.
#include "ops/transpose.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

enum { MOST = 37, LD = 41 };

static void all_sizes(void **ctx) {
    (void)ctx;
    static float from[MOST * LD], to[MOST * LD], add[MOST];
    for (int i = 0; i < MOST * LD; i++) from[i] = (float)i;
    for (int i = 0; i < MOST; i++) add[i] = (float)(i * 10000);
    for (int rows = 0; rows <= MOST; rows++)
        for (int cols = 0; cols <= MOST; cols++)
            for (int with = 0; with < 2; with++) {
                for (int i = 0; i < MOST * LD; i++) to[i] = -1;
                mu_transpose(to, LD, from, LD, rows, cols, with ? add : NULL);
                for (int i = 0; i < MOST * LD; i++) {
                    const int c = i / LD, r = i % LD;
                    const float want = c < cols && r < rows ? from[r * LD + c] + (with ? add[r] : 0) : -1;
                    if (to[i] != want)
                        fail_msg("%d x %d: row %d, column %d is %g, want %g", rows, cols, r, c, (double)to[i],
                                 (double)want);
                }
            }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(all_sizes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
