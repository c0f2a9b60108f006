// SPDX-License-Identifier: Apache-2.0
// m_median.c - every group gets the median of all, element by element: one group that has gone astray moves
// none.
#include "ps/merge.h"

// In order; few values, so the simplest way is the fastest.
static void sort(float *v, int n) {
    for (int i = 1; i < n; i++)
        for (int k = i; k > 0 && v[k] < v[k - 1]; k--) {
            const float larger = v[k - 1];
            v[k - 1] = v[k];
            v[k] = larger;
        }
}

static void merge(MU_UNUSED const void *state, const mu_merge *m) {
    for (size_t i = 0; i < m->param->count; i++) {
        float v[MU_MERGE_GROUPS];
        for (int g = 0; g < m->n; g++) v[g] = m->weights[g][i];
        sort(v, m->n);
        const float low = v[(m->n - 1) / 2], high = v[m->n / 2];
        for (int g = 0; g < m->n; g++) m->weights[g][i] = low + 0.5f * (high - low);
    }
}

const mu_merge_class mu_merge_median = {
    .name = "median",
    .help = "every server group gets the median of all, element by element",
    .merge = merge,
};
