// SPDX-License-Identifier: Apache-2.0
// m_average.c - every group gets the mean of all groups' weights, or of its neighbours' and its own.
//
//   w_g = w_g + sum over the others o of (w_o - w_g) / n
//
// Written so, groups that agree keep their bits. With sgd and hardsync, merged at every update, the mean is
// what one learner with the batch of all groups would have: gradients and momentum go into it linearly.
#include "ps/merge.h"

#include <string.h>

struct average {
    int64_t neighbours;
};

static const mu_field fields[] = {
    MU_FIELD(struct average, neighbours, MU_INT, "0", "[0,31]",
             "groups on either side, in a ring, whose weights a group takes in; 0 = all groups"),
    {0},
};

enum { PIECE = 512 };           // floats of each group on the stack: a group's new weights need all old ones

// The other groups that group g takes in, as a list. Returns how many.
static int others_of(const mu_merge *m, int g, int64_t neighbours, int *out) {
    int n = 0;
    for (int d = 1; d < m->n; d++) {
        const int64_t way = d < m->n - d ? d : m->n - d; // around the ring, the shorter way
        if (neighbours == 0 || way <= neighbours) out[n++] = (g + d) % m->n;
    }
    return n;
}

// All groups get the same bits: the mean is counted from the first one.
static void mean_of_all(const mu_merge *m, size_t begin, size_t n) {
    float *restrict first = m->weights[0] + begin;
    float sum[PIECE];
    memset(sum, 0, n * sizeof *sum);
    for (int g = 1; g < m->n; g++) {
        const float *restrict w = m->weights[g] + begin;
        for (size_t i = 0; i < n; i++) sum[i] += w[i] - first[i];
    }
    const float share = 1.0f / (float)m->n;
    for (size_t i = 0; i < n; i++) first[i] += share * sum[i];
    for (int g = 1; g < m->n; g++) memcpy(m->weights[g] + begin, first, n * sizeof *first);
}

static void mean_of_neighbours(const mu_merge *m, int64_t neighbours, size_t begin, size_t n) {
    float was[MU_MERGE_GROUPS][PIECE];
    for (int g = 0; g < m->n; g++) memcpy(was[g], m->weights[g] + begin, n * sizeof **was);
    for (int g = 0; g < m->n; g++) {
        int other[MU_MERGE_GROUPS];
        const int k = others_of(m, g, neighbours, other);
        float *restrict w = m->weights[g] + begin;
        const float share = 1.0f / (float)(k + 1);
        for (int j = 0; j < k; j++)
            for (size_t i = 0; i < n; i++) w[i] += share * (was[other[j]][i] - was[g][i]);
    }
}

static void merge(const void *state, const mu_merge *m) {
    const int64_t neighbours = ((const struct average *)state)->neighbours;
    const bool all = neighbours == 0 || 2 * neighbours + 1 >= m->n;
    for (size_t at = 0; at < m->param->count; at += PIECE) {
        const size_t n = m->param->count - at < PIECE ? m->param->count - at : PIECE;
        if (all) mean_of_all(m, at, n);
        else mean_of_neighbours(m, neighbours, at, n);
    }
}

const mu_merge_class mu_merge_average = {
    .name = "average",
    .help = "every server group gets the mean of all, or of its neighbours",
    .fields = fields,
    .state_size = sizeof(struct average),
    .merge = merge,
};
