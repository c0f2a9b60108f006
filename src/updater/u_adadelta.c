// SPDX-License-Identifier: Apache-2.0
// u_adadelta.c - AdaDelta (Zeiler 2012):
//
//   h = rho * h + (1 - rho) * g^2;  d = g * sqrt(u + epsilon) / sqrt(h + epsilon)
//   u = rho * u + (1 - rho) * d^2;  w -= lr * d
//
// The method needs no rate; lr (usually 1) multiplies as in PyTorch, Caffe and SINGA.
#include "updater/updater.h"

#include <math.h>

struct adadelta {
    double rho;
    float epsilon;
};

static const mu_field fields[] = {
    MU_FIELD(struct adadelta, rho, MU_DOUBLE, "0.9", "[0,1)", "share of the old mean squares that is kept"),
    MU_FIELD(struct adadelta, epsilon, MU_FLOAT, "1e-6", "(0,)", "sets the size of the first steps"),
    {0},
};

static void apply(const void *state, const mu_slice *s, float lr, MU_UNUSED mu_rule_step step) {
    const struct adadelta *p = state;
    const float rho = (float)p->rho, rest = (float)(1 - p->rho), eps = p->epsilon;
    float *restrict w = s->value, *restrict h = s->slot[0], *restrict u = s->slot[1];
    const float *restrict g = s->grad;
    const size_t n = s->n;
    for (size_t i = 0; i < n; i++) {
        h[i] = rho * h[i] + rest * (g[i] * g[i]);
        float d = g[i] * (sqrtf(u[i] + eps) / sqrtf(h[i] + eps));
        u[i] = rho * u[i] + rest * (d * d);
        w[i] -= lr * d;
    }
}

static void usual_rates(MU_UNUSED const void *state, double range[2]) {
    range[0] = 0.001;
    range[1] = 10;
}

const mu_updater_class mu_updater_adadelta = {
    .name = "adadelta",
    .help = "steps sized by the ratio of past steps to past gradients; use rate 1",
    .fields = fields,
    .state_size = sizeof(struct adadelta),
    .n_slots = 2,
    .slot_name = {"square_mean", "step_square_mean"},
    .apply = apply,
    .usual_rates = usual_rates,
    .size = MU_STEP_OWN,
};
