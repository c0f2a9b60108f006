// SPDX-License-Identifier: Apache-2.0
// speed.c - see speed.h.
#include "learners/speed.h"

void mu_speed_compare(mu_speed *s, int n) {
    for (int i = 0; i < n; i++) {
        s[i].done = s[i].gradients - s[i].seen;
        s[i].seen = s[i].gradients;
    }
    for (int i = 0; i < n; i++) {
        s[i].n_faster = 0;
        for (int k = 0; k < n; k++) s[i].n_faster += s[k].done > MU_SLOW_FACTOR * s[i].done;
        s[i].slow = s[i].running && !s[i].is_new && s[i].done > 0 && 2 * s[i].n_faster >= n;
    }
    for (int i = 0; i < n; i++) s[i].is_new = false;
}
