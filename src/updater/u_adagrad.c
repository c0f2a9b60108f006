// SPDX-License-Identifier: Apache-2.0
// u_adagrad.c - AdaGrad (Duchi, Hazan, Singer 2011):
//
//   h += g^2;  w -= lr * g / (sqrt(h) + epsilon)
//
// epsilon stands outside the root as in PyTorch and Caffe; SINGA has it inside.
#include "updater/updater.h"

#include <math.h>

struct adagrad {
    float epsilon;
};

static const mu_field fields[] = {
    MU_FIELD(struct adagrad, epsilon, MU_FLOAT, "1e-8", "(0,)", "keeps the divisor from zero"),
    {0},
};

static void apply(const void *state, const mu_slice *s, float lr, MU_UNUSED mu_rule_step step) {
    const float eps = ((const struct adagrad *)state)->epsilon;
    float *restrict w = s->value, *restrict h = s->slot[0];
    const float *restrict g = s->grad;
    const size_t n = s->n;
    for (size_t i = 0; i < n; i++) {
        h[i] += g[i] * g[i];
        w[i] -= lr * g[i] / (sqrtf(h[i]) + eps);
    }
}

static void usual_rates(MU_UNUSED const void *state, double range[2]) {
    range[0] = 1e-5;
    range[1] = 1;
}

const mu_updater_class mu_updater_adagrad = {
    .name = "adagrad",
    .help = "rate of each weight falls with the sum of its squared gradients",
    .fields = fields,
    .state_size = sizeof(struct adagrad),
    .n_slots = 1,
    .slot_name = {"square_sum"},
    .apply = apply,
    .usual_rates = usual_rates,
    .size = MU_STEP_SHRINKS,
};
