// SPDX-License-Identifier: Apache-2.0
// u_rmsprop.c - RMSProp (Tieleman, Hinton 2012):
//
//   h = rho * h + (1 - rho) * g^2;  w -= lr * g / (sqrt(h) + epsilon)
//
// As in PyTorch (there rho is called alpha) and Caffe.
#include "updater/updater.h"

#include <math.h>

struct rmsprop {
    double rho;
    float epsilon;
};

static const mu_field fields[] = {
    MU_FIELD(struct rmsprop, rho, MU_DOUBLE, "0.99", "[0,1)", "share of the old mean square that is kept"),
    MU_FIELD(struct rmsprop, epsilon, MU_FLOAT, "1e-8", "(0,)", "keeps the divisor from zero"),
    {0},
};

static void apply(const void *state, const mu_slice *s, float lr, MU_UNUSED mu_rule_step step) {
    const struct rmsprop *p = state;
    const float rho = (float)p->rho, rest = (float)(1 - p->rho), eps = p->epsilon;
    float *restrict w = s->value, *restrict h = s->slot[0];
    const float *restrict g = s->grad;
    const size_t n = s->n;
    for (size_t i = 0; i < n; i++) {
        h[i] = rho * h[i] + rest * (g[i] * g[i]);
        w[i] -= lr * g[i] / (sqrtf(h[i]) + eps);
    }
}

static void usual_rates(MU_UNUSED const void *state, double range[2]) {
    range[0] = 1e-6;
    range[1] = 0.03;
}

const mu_updater_class mu_updater_rmsprop = {
    .name = "rmsprop",
    .help = "gradient divided by its running root mean square",
    .fields = fields,
    .state_size = sizeof(struct rmsprop),
    .n_slots = 1,
    .slot_name = {"square_mean"},
    .apply = apply,
    .usual_rates = usual_rates,
    .size = MU_STEP_OWN,
};
