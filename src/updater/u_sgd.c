// SPDX-License-Identifier: Apache-2.0
// u_sgd.c - gradient descent with momentum (Caffe's and SINGA's form):
//
//   v = momentum * v - lr * g;  w += v
//
// The rate is inside v, so a drop of the rate reaches the weights over the next 1 / (1 - momentum)
// steps. PyTorch keeps it outside (v = momentum * v + g; w -= lr * v): the same while lr is constant.
// Without momentum the history is neither read nor written.
#include "updater/momentum.h"

struct sgd {
    mu_momentum m;
};

static const mu_field fields[] = {
    MU_MOMENTUM_FIELDS(struct sgd, "0"),
    {0},
};

static void apply(const void *state, const mu_slice *s, float lr, int64_t step) {
    const float m = mu_momentum_at(&((const struct sgd *)state)->m, step);
    float *restrict w = s->value, *restrict v = s->slot[0];
    const float *restrict g = s->grad;
    const size_t n = s->n;
    if (m <= 0) {
        for (size_t i = 0; i < n; i++) w[i] -= lr * g[i];
        return;
    }
    for (size_t i = 0; i < n; i++) {
        v[i] = m * v[i] - lr * g[i];
        w[i] += v[i];
    }
}

static int n_changed(const void *state) { return mu_momentum_is_used(&((const struct sgd *)state)->m); }

static const char *check(const void *state) { return mu_momentum_check(&((const struct sgd *)state)->m); }
static bool is_early(const void *state, int64_t step, double epoch) {
    return mu_momentum_is_early(&((const struct sgd *)state)->m, step, epoch);
}

const mu_updater_class mu_updater_sgd = {
    .name = "sgd",
    .help = "gradient descent with momentum",
    .fields = fields,
    .state_size = sizeof(struct sgd),
    .n_slots = 1,
    .slot_name = {"momentum"},
    .apply = apply,
    .n_changed = n_changed,
    .check = check,
    .is_early = is_early,
};
