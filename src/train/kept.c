// SPDX-License-Identifier: Apache-2.0
// kept.c - see kept.h.
#include "train/kept.h"

#include <string.h>

#define TAG "best weights"

void mu_kept_fini(mu_kept *k) {
    mu_free(k->value);
    for (int i = 0; i < k->n_slots; i++) mu_free(k->slot[i]);
    *k = (mu_kept){0};
}

static bool make_room(mu_kept *k, const mu_params *ps) {
    if (k->value) return true;
    k->count = ps->count;
    k->n_slots = ps->n_slots;
    bool all = (k->value = mu_alloc_array(ps->count + 1, sizeof *k->value, TAG)) != NULL;
    for (int i = 0; i < k->n_slots; i++)
        all &= (k->slot[i] = mu_alloc_array(ps->count + 1, sizeof *k->value, TAG)) != NULL;
    if (!all) mu_kept_fini(k);
    return all;
}

mu_status mu_kept_take(mu_kept *k, const mu_params *ps, const float *value, float *const *slot, mu_err *err) {
    k->full = false;
    if (!make_room(k, ps)) return MU_FAIL_NOMEM(err, "a copy of the best weights");
    memcpy(k->value, value, k->count * sizeof *value);
    for (int i = 0; i < k->n_slots; i++) memcpy(k->slot[i], slot[i], k->count * sizeof *value);
    k->full = true;
    return MU_OK;
}

void mu_kept_copy_out(const mu_kept *k, float *value, float *const *slot) {
    memcpy(value, k->value, k->count * sizeof *value);
    for (int i = 0; i < k->n_slots; i++) memcpy(slot[i], k->slot[i], k->count * sizeof *value);
}
