// SPDX-License-Identifier: Apache-2.0
// u_lion.c - Lion (Chen et al. 2023): every weight moves by the rate, only the direction is learned:
//
//   w -= lr * sign(beta1 * m + (1 - beta1) * g);  m = beta2 * m + (1 - beta2) * g
//
// `decay` is part of g here as in every rule of ours, so it turns the sign; the paper shrinks w apart.
#include "updater/updater.h"

struct lion {
    float beta1, beta2;
};

static const mu_field fields[] = {
    MU_FIELD(struct lion, beta1, MU_FLOAT, "0.9", "[0,1)", "share of the mean gradient in the direction"),
    MU_FIELD(struct lion, beta2, MU_FLOAT, "0.99", "[0,1)", "share of the old mean gradient that is kept"),
    {0},
};

static void apply(const void *state, const mu_slice *s, float lr, MU_UNUSED mu_rule_step step) {
    const struct lion *p = state;
    const float b1 = p->beta1, b2 = p->beta2;
    float *restrict w = s->value, *restrict m = s->slot[0];
    const float *restrict g = s->grad;
    const size_t n = s->n;
    for (size_t i = 0; i < n; i++) {
        float c = b1 * m[i] + (1 - b1) * g[i];
        w[i] -= lr * (c > 0 ? 1 : c < 0 ? -1 : c); // the sign; a NaN must reach the weights to be seen
        m[i] = b2 * m[i] + (1 - b2) * g[i];
    }
}

const mu_updater_class mu_updater_lion = {
    .name = "lion",
    .help = "steps of equal size in the direction of the mean gradient",
    .fields = fields,
    .state_size = sizeof(struct lion),
    .n_slots = 1,
    .slot_name = {"mean"},
    .apply = apply,
    .size = MU_STEP_OWN,
};
