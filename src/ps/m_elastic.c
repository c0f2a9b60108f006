// SPDX-License-Identifier: Apache-2.0
// m_elastic.c - elastic averaging (Zhang, Choromanska, LeCun 2015): groups and center pull at each other.
//
//   d = alpha * (w_g - c);  w_g -= d;  c += d
//
// Each group comes alone, so groups do not wait for each other and may explore on their own: they are never
// made equal. Over several ranks they come together, one after the other in the order of their numbers, so
// that each rank computes the same center (learners/merging.h).
#include "ps/merge.h"

struct elastic {
    float alpha;
};

static const mu_field fields[] = {
    MU_FIELD(struct elastic, alpha, MU_FLOAT, "0", "[0,1)",
             "share of the distance to the center that is given up at a merge; 0 = 0.9 / server groups"),
    {0},
};

static int n_slots(MU_UNUSED const void *state) { return 0; }

static void merge(const void *state, const mu_merge *m) {
    const float asked = ((const struct elastic *)state)->alpha;
    const float alpha = asked > 0 ? asked : 0.9f / (float)m->groups;
    float *restrict c = m->center;
    for (int g = 0; g < m->n; g++) {
        float *restrict w = m->weights[g];
        for (size_t i = 0; i < m->param->count; i++) {
            const float d = alpha * (w[i] - c[i]);
            w[i] -= d;
            c[i] += d;
        }
    }
}

const mu_merge_class mu_merge_elastic = {
    .name = "elastic",
    .help =
        "server groups and a center are drawn to each other; no group waits for the others, but over ranks",
    .fields = fields,
    .state_size = sizeof(struct elastic),
    .most_ahead = 8,
    .n_slots = n_slots,
    .merge = merge,
};
