// SPDX-License-Identifier: Apache-2.0
// i_positive_unitball.c - positive values; those of one output (first axis) sum to 1.
#include "layer/draw.h"

static void fill(MU_UNUSED const void *state, const mu_init_args *a, float *out) {
    mu_draw_uniform(a, 0, 1, out);
    int64_t rows = a->shape->n > 1 ? a->shape->d[0] : 1, cols = mu_shape_count(a->shape) / rows;
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
