// SPDX-License-Identifier: Apache-2.0
// p_mirror.c - softsync with the weights mirrored: every learner has weights of its own, gradients go to
// all, and all apply the same updates in the same order. So all mirrors are the same weights at the same
// version, bit for bit (running statistics move on between two updates), and what travels between cores is
// gradients in their cheapest form instead of lines of weights (compare sufficient factor broadcasting, Xie
// et al. 2016). Pays where gradients are factors or gathered: fully connected layers and filters over
// sentences at small batches. The mirrors themselves are in mirror.c.
#include "ps/mirror.h"

struct mirror {
    int64_t n, every;
};

static const mu_field fields[] = {
    MU_FIELD(struct mirror, n, MU_INT, "1", "[1,1M]",
             "an update takes learners / n gradients, at most 8"),
    MU_FIELD(struct mirror, every, MU_INT, "1", "[1,4]",
             "gradients of a learner between two times it brings its weights up to date: fewer passes over "
             "memory; the mean staleness is about n (every + 1) / 2"),
    {0},
};

// No more gradients than one learner has slots: the last one to end can then complete an update alone.
static int32_t splits(const void *state, int learners) {
    const int64_t least = (learners + MU_MIRROR_SLOTS - 1) / MU_MIRROR_SLOTS;
    const int64_t given = ((const struct mirror *)state)->n, n = given > least ? given : least;
    return (int32_t)(n < learners ? n : learners);
}

// While a learner computes one gradient about n updates come; its k-th on the same weights is k n behind.
static double expected_staleness(const void *state, int learners) {
    return splits(state, learners) * 0.5 * (double)(((const struct mirror *)state)->every + 1);
}

static float weight(const mu_core *c, int64_t staleness, int parts) {
    const float w = mu_core_rate_weight(c, staleness, parts);
    return c->config.rate_rule == MU_RATE_MEAN ? w / (0.5f * (float)(1 + c->config.own)) : w;
}

static void configure(const void *state, mu_core_config *out) {
    out->splits = splits(state, out->learners);
    out->own = (int32_t)((const struct mirror *)state)->every;
}

static const char *needs(const void *state, int64_t *learners) {
    *learners = ((const struct mirror *)state)->n;
    return "n";
}

static bool objects(mu_choice choice, mu_objection *out) {
    if (choice != MU_CHOICE_SERVER_GROUPS) return mu_own_objects(choice, out);
    *out = (mu_objection){"learners of this protocol have weights of their own already",
                          "leave it out, or choose another protocol"};
    return true;
}

const mu_protocol_class mu_protocol_mirror = {
    .name = "mirror",
    .help = "softsync, but each learner keeps its own weights and applies all gradients, in one order",
    .fields = fields,
    .state_size = sizeof(struct mirror),
    .weight = weight,
    .expected_staleness = expected_staleness,
    .configure = configure,
    .needs = needs,
    .objects = objects,
    .exchange = &mu_mirror_exchange,
    .counts_gradients = true,
};
