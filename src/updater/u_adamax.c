// SPDX-License-Identifier: Apache-2.0
// u_adamax.c - AdaMax (Kingma, Ba 2015, section 7.1), Adam with the infinity norm, t = update + 1:
//
//   m = beta1 * m + (1 - beta1) * g;  u = max(beta2 * u, |g| + epsilon)
//   w -= lr / (1 - beta1^t) * m / u
//
// epsilon enters the maximum as in PyTorch, so u is never zero.
#include "updater/updater.h"

#include <math.h>

struct adamax {
    double beta1, beta2;
    float epsilon;
};

static const mu_field fields[] = {
    MU_FIELD(struct adamax, beta1, MU_DOUBLE, "0.9", "[0,1)", "share of the old mean gradient that is kept"),
    MU_FIELD(struct adamax, beta2, MU_DOUBLE, "0.999", "[0,1)",
             "share of the old largest gradient that is kept"),
    MU_FIELD(struct adamax, epsilon, MU_FLOAT, "1e-8", "(0,)", "keeps the divisor from zero"),
    {0},
};

static void apply(const void *state, const mu_slice *s, float lr, mu_rule_step step) {
    const struct adamax *p = state;
    const double beta1 = step.stale.lowers ? (double)step.stale.keep : p->beta1;
    const float b1 = (float)beta1, r1 = (float)(1 - beta1), b2 = (float)p->beta2, eps = p->epsilon;
    const float rate = (float)(lr / (1 - pow(beta1, (double)step.update + 1)));
    float *restrict w = s->value, *restrict m = s->slot[0], *restrict u = s->slot[1];
    const float *restrict g = s->grad;
    const size_t n = s->n;
    for (size_t i = 0; i < n; i++) {
        float old = b2 * u[i], now = fabsf(g[i]) + eps;
        m[i] = b1 * m[i] + r1 * g[i];
        u[i] = old > now ? old : now; // a gradient that is not a number stays visible
        w[i] -= rate * m[i] / u[i];
    }
}

static double momentum(const void *state, MU_UNUSED bool young) {
    return ((const struct adamax *)state)->beta1;
}

static void usual_rates(MU_UNUSED const void *state, double range[2]) {
    range[0] = 1e-6;
    range[1] = 0.05;
}

const mu_updater_class mu_updater_adamax = {
    .name = "adamax",
    .help = "mean gradient divided by its decayed maximum",
    .fields = fields,
    .state_size = sizeof(struct adamax),
    .n_slots = 2,
    .slot_name = {"mean", "largest"},
    .apply = apply,
    .usual_rates = usual_rates,
    .size = MU_STEP_OWN,
    .momentum = momentum,
};
