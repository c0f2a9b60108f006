// SPDX-License-Identifier: Apache-2.0
// u_adam.c - Adam (Kingma, Ba 2015), bias-corrected, t = update + 1:
//
//   m = beta1 * m + (1 - beta1) * g;  v = beta2 * v + (1 - beta2) * g^2
//   w -= lr / (1 - beta1^t) * m / (sqrt(v / (1 - beta2^t)) + epsilon)
//
// This is PyTorch's Adam. `singa_compat` leaves the correction out and puts epsilon inside the root,
// w -= lr * m / sqrt(v + epsilon), so that recipes tuned for SINGA v0.x behave as they did there.
#include "updater/updater.h"

#include <math.h>

struct adam {
    double beta1, beta2;
    float epsilon;
    bool singa_compat;
};

static const mu_field fields[] = {
    MU_FIELD(struct adam, beta1, MU_DOUBLE, "0.9", "[0,1)", "share of the old mean gradient that is kept"),
    MU_FIELD(struct adam, beta2, MU_DOUBLE, "0.999", "[0,1)", "share of the old mean square that is kept"),
    MU_FIELD(struct adam, epsilon, MU_FLOAT, "1e-8", "(0,)", "keeps the divisor from zero"),
    MU_FIELD(struct adam, singa_compat, MU_BOOL, "false", NULL,
             "no bias correction, epsilon inside the root"),
    {0},
};

static void apply(const void *state, const mu_slice *s, float lr, mu_rule_step step) {
    const struct adam *p = state;
    const double beta1 = step.stale.lowers ? (double)step.stale.keep : p->beta1;
    const float b1 = (float)beta1, r1 = (float)(1 - beta1);
    const float b2 = (float)p->beta2, r2 = (float)(1 - p->beta2), eps = p->epsilon;
    float *restrict w = s->value, *restrict m = s->slot[0], *restrict v = s->slot[1];
    const float *restrict g = s->grad;
    const size_t n = s->n;
    if (p->singa_compat) {
        for (size_t i = 0; i < n; i++) {
            m[i] = b1 * m[i] + r1 * g[i];
            v[i] = b2 * v[i] + r2 * (g[i] * g[i]);
            w[i] -= lr * m[i] / sqrtf(v[i] + eps);
        }
        return;
    }
    const double t = (double)step.update + 1;
    const float rate = (float)(lr / (1 - pow(beta1, t)));
    const float root = (float)(1 / sqrt(1 - pow(p->beta2, t)));
    for (size_t i = 0; i < n; i++) {
        m[i] = b1 * m[i] + r1 * g[i];
        v[i] = b2 * v[i] + r2 * (g[i] * g[i]);
        w[i] -= rate * m[i] / (root * sqrtf(v[i]) + eps);
    }
}

static double momentum(const void *state, MU_UNUSED bool young) {
    return ((const struct adam *)state)->beta1;
}

static void usual_rates(MU_UNUSED const void *state, double range[2]) {
    range[0] = 1e-6;
    range[1] = 0.03;
}

const mu_updater_class mu_updater_adam = {
    .name = "adam",
    .help = "mean gradient divided by its root mean square, bias-corrected",
    .fields = fields,
    .state_size = sizeof(struct adam),
    .n_slots = 2,
    .slot_name = {"mean", "square_mean"},
    .apply = apply,
    .usual_rates = usual_rates,
    .size = MU_STEP_OWN,
    .momentum = momentum,
};
