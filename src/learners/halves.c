// SPDX-License-Identifier: Apache-2.0
// halves.c - see halves.h.
#include "learners/halves.h"

#define TAG "halves"

mu_status mu_halves_init(mu_halves *h, mu_half form, int64_t floats, mu_err *err) {
    const size_t n = (size_t)floats;
    *h = (mu_halves){.form = form};
    if (form == MU_HALF_NONE) return MU_OK;
    bool good = (h->left = mu_alloc_block(n * sizeof *h->left, TAG)) != NULL;
    for (int k = 0; k < MU_CORE_SLOTS && good; k++)
        good = (h->out[k] = mu_alloc_block(n * sizeof *h->out[k], TAG)) != NULL;
    return good ? MU_OK : MU_FAIL_NOMEM(err, "the gradients for other ranks");
}

void mu_halves_fini(mu_halves *h, mu_nodes *n) {
    for (int k = 0; k < MU_CORE_SLOTS && n; k++) mu_nodes_give_back(n, h->out[k]);
    mu_free(h->left);
    *h = (mu_halves){0};
}

void mu_halves_round(mu_halves *h, int64_t step, int64_t at, size_t n, float *v) {
    if (h->form == MU_HALF_NONE) return;
    mu_half_round(h->form, n, v, h->left + at, h->out[step % MU_CORE_SLOTS] + at);
}

const void *mu_halves_of(const mu_halves *h, int64_t step, int64_t at, const float *v) {
    if (h->form == MU_HALF_NONE) return v;
    return h->out[step % MU_CORE_SLOTS] + at;
}
