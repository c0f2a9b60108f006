// SPDX-License-Identifier: Apache-2.0
// i_xavier.c - uniform in +-sqrt(3 / fan), Caffe's xavier (Glorot & Bengio, 2010, with the fan chosen).
#include "layer/draw.h"

struct xavier {
    int fan;
};

static const mu_field fields[] = {
    MU_FIELD_ENUM(struct xavier, fan, "in", MU_FAN_CHOICES, "connections that set the scale"),
    {0},
};

static void fill(const void *state, const mu_init_args *a, float *out) {
    const struct xavier *s = state;
    double limit = sqrt(3 / mu_fan(s->fan, a));
    mu_draw_uniform(a, -limit, limit, out);
}

const mu_init_class mu_init_xavier = {
    .name = "xavier",
    .help = "uniform in +-sqrt(3 / fan), as Caffe",
    .fields = fields,
    .state_size = sizeof(struct xavier),
    .fill = fill,
};
