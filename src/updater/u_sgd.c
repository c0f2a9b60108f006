// SPDX-License-Identifier: Apache-2.0
// u_sgd.c - gradient descent with momentum (Caffe's and SINGA's form):
//
//   v = momentum * v - lr * g;  w += v
//
// The rate is inside v, so a drop of the rate reaches the weights over the next 1 / (1 - momentum)
// steps. PyTorch keeps it outside (v = momentum * v + g; w -= lr * v): the same while lr is constant.
// Without momentum the history is neither read nor written.
#include "updater/updater.h"

struct sgd {
    float momentum;
};

static const mu_field fields[] = {
    MU_FIELD(struct sgd, momentum, MU_FLOAT, "0", "[0,1)", "share of the last step that is kept"),
    {0},
};

static void apply(const void *state, const mu_slice *s, float lr, int64_t step) {
    const float m = ((const struct sgd *)state)->momentum;
    float *restrict w = s->value, *restrict v = s->slot[0];
    const float *restrict g = s->grad;
    const size_t n = s->n;
    (void)step;
    if (m <= 0) {
        for (size_t i = 0; i < n; i++) w[i] -= lr * g[i];
        return;
    }
    for (size_t i = 0; i < n; i++) {
        v[i] = m * v[i] - lr * g[i];
        w[i] += v[i];
    }
}

static int n_changed(const void *state) { return ((const struct sgd *)state)->momentum > 0; }

const mu_updater_class mu_updater_sgd = {
    .name = "sgd",
    .help = "gradient descent with momentum",
    .fields = fields,
    .state_size = sizeof(struct sgd),
    .n_slots = 1,
    .slot_name = {"momentum"},
    .apply = apply,
    .n_changed = n_changed,
};
