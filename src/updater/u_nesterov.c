// SPDX-License-Identifier: Apache-2.0
// u_nesterov.c - Nesterov's accelerated gradient (Caffe's and SINGA's form):
//
//   u = momentum * v + lr * g;  w -= (1 + momentum) * u - momentum * v;  v = u
//
// The weights kept are the look-ahead ones, at which the next gradient is taken. With a constant rate
// it is PyTorch's SGD(nesterov=True). Where gradients are stale the weights look further ahead (ps/stale.h):
// w -= u + ahead * (u - v).
#include "updater/momentum.h"

struct nesterov {
    mu_momentum m;
};

static const mu_field fields[] = {
    MU_MOMENTUM_FIELDS(struct nesterov, "0.9"),
    {0},
};

static void apply(const void *state, const mu_slice *s, float lr, mu_rule_step step) {
    const float m = mu_momentum_at(&((const struct nesterov *)state)->m, step);
    const float ahead = step.stale.lowers ? step.stale.ahead : m;
    float *restrict w = s->value, *restrict v = s->slot[0];
    const float *restrict g = s->grad;
    const size_t n = s->n;
    for (size_t i = 0; i < n; i++) {
        float u = m * v[i] + lr * g[i];
        w[i] -= u + ahead * (u - v[i]);
        v[i] = u;
    }
}

static const char *check(const void *state) {
    return mu_momentum_check(&((const struct nesterov *)state)->m);
}
static bool is_young(const void *state, int64_t step, double epoch) {
    return mu_momentum_is_young(&((const struct nesterov *)state)->m, step, epoch);
}

static double momentum(const void *state, bool young) {
    return mu_momentum_own(&((const struct nesterov *)state)->m, young);
}

static void usual_rates(const void *state, double range[2]) {
    mu_momentum_usual_rates(&((const struct nesterov *)state)->m, range);
}

const mu_updater_class mu_updater_nesterov = {
    .name = "nesterov",
    .help = "gradient descent with Nesterov momentum",
    .fields = fields,
    .state_size = sizeof(struct nesterov),
    .n_slots = 1,
    .slot_name = {"momentum"},
    .apply = apply,
    .usual_rates = usual_rates,
    .check = check,
    .is_young = is_young,
    .momentum = momentum,
    .adds_up = true,
};
