// SPDX-License-Identifier: Apache-2.0
// i_positive_unitball.c - positive values; those of one output (first axis) sum to 1.
#include "layer/draw.h"

static void fill(const void *state, mu_rng_key key, const mu_shape *shape, int64_t fan_in, int64_t fan_out,
                 float *out) {
    (void)state;
    (void)fan_in;
    (void)fan_out;
    mu_draw_uniform(key, shape, 0, 1, out);
    int64_t rows = shape->n > 1 ? shape->d[0] : 1, cols = mu_shape_count(shape) / rows;
    for (int64_t r = 0; r < rows; r++) {
        float *row = out + r * cols;
        double sum = 0;
        for (int64_t i = 0; i < cols; i++) sum += (double)row[i];
        for (int64_t i = 0; i < cols; i++) row[i] = sum > 0 ? (float)((double)row[i] / sum) : 1 / (float)cols;
    }
}

const mu_init_class mu_init_positive_unitball = {
    .name = "positive_unitball",
    .help = "positive, the values of each output sum to 1",
    .fill = fill,
};
