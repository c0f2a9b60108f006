// SPDX-License-Identifier: Apache-2.0
// exchange_own.c - blocks of weights and history that belong to one learner, see exchange.h.
//
//   learner 0                      learner 1
//   | history 0 .. n-1 | weights | | history 0 .. n-1 | weights | ...        weights: not in every exchange
#include "ps/exchange.h"

#include <string.h>

static float *own_block(const mu_shared *g, int learner, int i, int shift) {
    const mu_shared_head *h = g->head;
    uint64_t at = h->at_own + (uint64_t)(learner * h->own_blocks + i) * h->own_stride;
    return (float *)(void *)(g->region.base + at + mu_shared_shift(shift));
}

float *mu_own_history(const mu_shared *g, int learner, int k) { return own_block(g, learner, k, 1 + k); }

float *mu_own_weights(const mu_shared *g, int learner) {
    return own_block(g, learner, g->head->n_history, 0);
}

bool mu_own_is_filled(const mu_shared *g, int learner) {
    return atomic_load(&g->learner[learner].own_filled);
}

void mu_own_fill(mu_shared *g, int learner, float share) {
    const size_t bytes = g->head->count * sizeof(float);
    if (mu_own_is_filled(g, learner)) return;
    for (int k = 0; k < g->head->n_history; k++) memcpy(mu_own_history(g, learner, k), g->history[k], bytes);
    for (size_t i = 0; share != 1 && g->head->n_history && i < g->head->count; i++)
        mu_own_history(g, learner, 0)[i] *= share;
    if (g->head->own_blocks > g->head->n_history) memcpy(mu_own_weights(g, learner), g->weights, bytes);
    atomic_store(&g->learner[learner].own_filled, 1);
}

bool mu_own_is_held(const mu_shared *g) {
    const mu_shared_head *h = g->head;
    return atomic_load(&h->pause) || atomic_load(&h->version) >= atomic_load(&h->halt);
}

bool mu_own_is_quiet(MU_UNUSED const mu_shared *g, const mu_core *c) { return c->computing == 0; }

bool mu_own_objects(mu_choice choice, mu_objection *out) {
    static const mu_objection no[] = {
        [MU_CHOICE_SERVER] = {"this protocol has no server: learners change the weights themselves",
                              "leave it out"},
        [MU_CHOICE_LOCKS] = {"this protocol takes no locks", "leave it out, or choose async"},
        [MU_CHOICE_RATE_EACH] = {"this protocol applies gradients before their staleness is known",
                                 "write `mean` or `plain`"},
        [MU_CHOICE_RECORD] = {"its learners write the weights at the same time, and no process knows which "
                              "write came first",
                              "async is the nearest protocol that can be repeated."},
        [MU_CHOICE_CLIP_NORM] = {NULL, NULL},
        [MU_CHOICE_SERVER_GROUPS] = {NULL, NULL},
        [MU_CHOICE_WORKERS] = {"learners of this protocol apply gradients themselves, so each is one process",
                               "leave it out, or choose async"},
    };
    *out = no[choice];
    return out->why != NULL;
}
