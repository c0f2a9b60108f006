// SPDX-License-Identifier: Apache-2.0
// evaluator.c - see evaluator.h.
#include "learners/evaluator.h"

#include "base/failpoint.h"

static mu_status pulse(void *ctx, mu_net *net, const mu_batch *batch, mu_err *err) {
    mu_evaluator_box *box = ctx;
    (void)net, (void)batch, (void)err;
    atomic_fetch_add_explicit(&box->pulse, 1, memory_order_relaxed);
    return MU_OK;
}

int mu_evaluator_main(void *ctx) {
    mu_evaluator_role *r = ctx;
    mu_shared *g = r->shared;
    mu_evaluator_box *box = g->extra;
    mu_failpoints_arm("statistics process");
    mu_params_rebase(r->session->params, g->snapshot, g->snapshot_history);
    r->session->merge = r->center;
    while (atomic_load(&g->head->state) != MU_RUN_ENDED) {
        uint32_t seen = mu_bell_read(&box->bell);
        if (atomic_load(&box->state) != MU_EVALUATOR_ASKED) {
            (void)mu_bell_wait(&box->bell, seen, 0, 200000000);
            continue;
        }
        mu_snapshot_do(r->session, r->ckpt_dir, &box->task, pulse, box, &box->answer);
        atomic_fetch_add(&box->answers, 1);
        atomic_store(&box->state, MU_EVALUATOR_DONE);
        mu_bell_ring(&g->head->parent);
    }
    return 0;
}
