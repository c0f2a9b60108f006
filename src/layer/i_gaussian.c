// SPDX-License-Identifier: Apache-2.0
// i_gaussian.c - normal distribution, optionally sparse (Martens, 2010): each output keeps on average
// `sparse` of its fan_in inputs, the others start at zero.
#include "layer/draw.h"

struct gaussian {
    float mean, std;
    int64_t sparse;
};

static const mu_field fields[] = {
    MU_FIELD(struct gaussian, mean, MU_FLOAT, "0", NULL, "mean"),
    MU_FIELD(struct gaussian, std, MU_FLOAT, "1", "[0,)", "standard deviation"),
    MU_FIELD(struct gaussian, sparse, MU_INT, "0", "[0,)",
             "mean number of non-zero inputs of an output, 0 = all"),
    {0},
};

static void fill(const void *state, const mu_init_args *a, float *out) {
    const struct gaussian *s = state;
    mu_draw_gaussian(a, (double)s->mean, (double)s->std, out);
    if (s->sparse == 0 || s->sparse >= a->fan_in) return;
    float keep = (float)s->sparse / (float)a->fan_in, u[256];
    size_t n = (size_t)mu_shape_count(a->shape);
    for (size_t i = 0; i < n; i += MU_COUNT(u)) {
        size_t m = n - i < MU_COUNT(u) ? n - i : MU_COUNT(u);
        mu_rng_fill_uniform(a->key, 1, i, u, m); // counter 1: apart from the values themselves
        for (size_t j = 0; j < m; j++)
            if (u[j] >= keep) out[i + j] = 0;
    }
}

const mu_init_class mu_init_gaussian = {
    .name = "gaussian",
    .help = "normal distribution, optionally sparse",
    .fields = fields,
    .state_size = sizeof(struct gaussian),
    .fill = fill,
};
