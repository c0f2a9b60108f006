// SPDX-License-Identifier: Apache-2.0
// u_wrong.c - a rule that walks uphill, to see conform_updater refuse it.
#include "updater/updater.h"

static void apply(MU_UNUSED const void *state, const mu_slice *s, float lr, MU_UNUSED mu_rule_step step) {
    for (size_t i = 0; i < s->n; i++) s->value[i] += lr * s->grad[i];
}

const mu_updater_class mu_updater_wrong = {
    .name = "wrong",
    .help = "gradient ascent",
    .apply = apply,
};
