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

static void fill(const void *state, mu_rng_key key, const mu_shape *shape, int64_t fan_in, int64_t fan_out,
                 float *out) {
    const struct msra *s = state;
    mu_draw_gaussian(key, shape, 0, sqrt(2 / mu_fan(s->fan, fan_in, fan_out)), out);
}

const mu_init_class mu_init_msra = {
    .name = "msra",
    .help = "gaussian with standard deviation sqrt(2 / fan), for relu nets",
    .fields = fields,
    .state_size = sizeof(struct msra),
    .fill = fill,
};
