// SPDX-License-Identifier: Apache-2.0
// snapshot.c - see snapshot.h.
#include "train/snapshot.h"

#include "base/clock.h"
#include "base/failpoint.h"

static mu_status evaluate(mu_session *s, mu_batch_visitor visit, void *ctx, mu_snapshot_answer *out,
                          mu_err *err) {
    mu_session_phase *p = mu_session_eval_phase(s, &out->phase);
    if (!p) return MU_FAIL(err, MU_EDATA, "there is no data to evaluate on");
    mu_failpoint("evaluator/evaluate");
    if (out->phase == MU_VALIDATION) MU_TRY(mu_choose(p, s->params, visit, ctx, &out->scores, err));
    else MU_TRY(mu_evaluate(p, out->phase, visit, ctx, &out->scores, err));
    mu_failpoint("evaluator/evaluated");
    return MU_OK;
}

static mu_status save(mu_session *s, const char *ckpt_dir, const mu_snapshot_task *task,
                      mu_snapshot_answer *out, mu_err *err) {
    const mu_checkpoint_opts *c = &s->job->checkpoint;
    const mu_ckpt_opts o = {.keep = c->keep, .best = task->best && c->best};
    struct mu_merge_blocks *center = s->merge;
    mu_failpoint("evaluator/save");
    if (task->kept)
        s->merge = NULL; // it is of now: with older weights a resumed run begins with one at these
    const mu_status st =
        mu_state_save(ckpt_dir, s, &out->at, &out->finished, &task->progress, &o, out->saved, err);
    s->merge = center;
    if (st == MU_OK) mu_failpoint("evaluator/saved");
    return st;
}

void mu_snapshot_do(mu_session *s, const char *ckpt_dir, const mu_snapshot_task *task, mu_batch_visitor visit,
                    void *ctx, mu_snapshot_answer *out) {
    const double began = mu_clock_s();
    const mu_choices before = mu_choices_read(s->params);
    mu_choices_write(s->params, &task->progress.choices);
    mu_err_clear(&out->error);
    out->missed = false;
    out->status = task->save ? save(s, ckpt_dir, task, out, &out->error)
                             : evaluate(s, visit, ctx, out, &out->error);
    out->choices = mu_choices_read(s->params);
    mu_choices_write(s->params, &before);
    out->took_s = out->paused_s = mu_clock_s() - began;
}
