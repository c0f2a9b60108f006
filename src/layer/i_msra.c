// SPDX-License-Identifier: Apache-2.0
// i_msra.c - gaussian with variance 2 / fan, for rectifiers (He et al., 2015).
#include "layer/draw.h"

struct msra {
    int fan;
};

static const mu_field fields[] = {
    MU_FIELD_ENUM(struct msra, fan, "in", MU_FAN_CHOICES, "connections that set the scale"),
    {0},
};

static void fill(const void *state, const mu_init_args *a, float *out) {
    const struct msra *s = state;
    mu_draw_gaussian(a, 0, sqrt(2 / mu_fan(s->fan, a)), out);
}

const mu_init_class mu_init_msra = {
    .name = "msra",
    .help = "gaussian with standard deviation sqrt(2 / fan), for relu nets",
    .fields = fields,
    .state_size = sizeof(struct msra),
    .fill = fill,
};
