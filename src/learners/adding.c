// SPDX-License-Identifier: Apache-2.0
// adding.c - see adding.h.
#include "learners/adding.h"

#include <string.h>

static int slot_of(int64_t step) { return (int)(step % MU_CORE_SLOTS); }

char *mu_adding_message(const mu_adding *a, int learner, int64_t step) {
    return mu_shared_slot(a->shared, learner, slot_of(step));
}

float *mu_adding_dense(const mu_wire_forms *f, char *message, int param) {
    const mu_message_use use = {.form = MU_GRAD_DENSE};
    mu_message_span span[MU_MESSAGE_SPANS];
    mu_message_spans(&f->message, param, f->share.params->list[param], &use, span);
    return (float *)(void *)(message + span[0].offset);
}

bool mu_adding_is_ready(const mu_adding *a, const mu_adding_step *now, int param) {
    bool all = true;
    for (int i = a->first; i < a->first + a->own && all; i++)
        all = !now->takes_part[i] || now->done[i] > now->step ||
              mu_message_step(&a->forms->message, mu_adding_message(a, i, now->step), param) == now->step;
    return all;
}

void mu_adding_floats(float *restrict to, const float *restrict from, size_t n) {
    for (size_t i = 0; i < n; i++) to[i] += from[i];
}

void mu_adding_add(const mu_adding *a, const mu_adding_step *now, int param, float *to) {
    const size_t n = a->forms->share.params->list[param]->count;
    memset(to, 0, n * sizeof *to);
    for (int i = a->first; i < a->first + a->own; i++) {
        char *message = mu_adding_message(a, i, now->step);
        if (!now->takes_part[i]) continue;
        if (mu_message_used(&a->forms->message, message, param).form != MU_GRAD_DENSE) continue;
        const bool known = now->done[i] > now->step;
        if (known && mu_shared_slot_head(a->shared, i, slot_of(now->step))->bad) continue;
        mu_adding_floats(to, mu_adding_dense(a->forms, message, param), n);
    }
}
