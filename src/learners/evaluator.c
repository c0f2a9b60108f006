// SPDX-License-Identifier: Apache-2.0
// evaluator.c - see evaluator.h.
#include "learners/evaluator.h"

#include "base/failpoint.h"

#include <string.h>

static mu_status pulse(void *ctx, mu_net *net, const mu_batch *batch, mu_err *err) {
    mu_evaluator_box *box = ctx;
    (void)net, (void)batch, (void)err;
    atomic_fetch_add_explicit(&box->pulse, 1, memory_order_relaxed);
    return MU_OK;
}

static mu_status evaluate(mu_evaluator_role *r, mu_evaluator_box *box, mu_err *err) {
    mu_phase phase;
    mu_session_phase *p = mu_session_eval_phase(r->session, &phase);
    if (!p) return MU_FAIL(err, MU_EDATA, "there is no data to evaluate on");
    box->phase = (int32_t)phase;
    mu_failpoint("evaluator/evaluate");
    MU_TRY(mu_evaluate(p, phase, pulse, box, &box->scores, err));
    mu_failpoint("evaluator/evaluated");
    return MU_OK;
}

static mu_status save(mu_evaluator_role *r, mu_evaluator_box *box, mu_err *err) {
    mu_worker w = *r->at;
    const mu_checkpoint_opts *c = &r->session->job->checkpoint;
    mu_ckpt_opts o = {.keep = c->keep, .best = box->best && c->best};
    w.step = box->step;
    w.samples = box->samples;
    w.extra_updates = box->extra_updates;
    w.rate_scale = box->rate_scale;
    mu_failpoint("evaluator/save");
    MU_TRY(mu_state_save(r->ckpt_dir, &w, &box->progress, &o, box->saved, err));
    mu_failpoint("evaluator/saved");
    return MU_OK;
}

int mu_evaluator_main(void *ctx) {
    mu_evaluator_role *r = ctx;
    mu_shared *g = r->shared;
    mu_evaluator_box *box = g->extra;
    mu_failpoints_arm("statistics process");
    mu_params_rebase(r->session->params, g->snapshot, g->snapshot_history);
    while (atomic_load(&g->head->state) != MU_RUN_ENDED) {
        uint32_t seen = mu_bell_read(&box->bell);
        if (atomic_load(&box->state) != MU_EVALUATOR_ASKED) {
            (void)mu_bell_wait(&box->bell, seen, 0, 200000000);
            continue;
        }
        mu_err err;
        mu_err_clear(&err);
        box->status = (int32_t)(box->task == MU_EVALUATOR_SAVE ? save(r, box, &err) : evaluate(r, box, &err));
        box->error = err;
        atomic_fetch_add(&box->answers, 1);
        atomic_store(&box->state, MU_EVALUATOR_DONE);
        mu_bell_ring(&g->head->parent);
    }
    return 0;
}
