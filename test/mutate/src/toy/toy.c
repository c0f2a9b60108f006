// SPDX-License-Identifier: Apache-2.0
// toy.c - see toy.h.
#include "toy/toy.h"

#include <assert.h>

static const int table[] = {1, 2, 3}; // file scope: never changed

int toy_tested(int x) {
    return x * 3;
}

int toy_untested(int x) {
    return x * 2;
}

int toy_listed(int x) {
    assert(x > 0); // never changed
    (void)x;       // without it the object file is the same: no mutant
    return x < 0 ? *table : x;
}

int toy_counts_down(int x) {
    volatile int left = x;
    while (left != 0) {
        left -= 1; // counting by nothing, or up, takes too long
    }
    return left;
}

int toy_at_level(int x) {
    return x + 1;
}
