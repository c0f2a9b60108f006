// SPDX-License-Identifier: Apache-2.0
// g_lookahead.c - Lookahead (Zhang et al. 2019): one learner walks K steps from slow weights, then the slow
// weights go half of the way it went, and it walks on from there.
#include "base/alloc.h"
#include "train/gradients.h"
#include "train/worker.h"

#include <string.h>

enum { K = 5 };

typedef struct lookahead {
    mu_training *t;
    mu_worker    w;
    float       *slow;          // (params.count)
    int64_t      steps;
} lookahead;

// Only where the job names it: `train: {gradients: lookahead}`.
static bool wants(MU_UNUSED const mu_session *s, MU_UNUSED const mu_run_opts *o) {
    return false;
}

static mu_status prepare(mu_session *s, const mu_run_opts *o, mu_err *err) {
    if (s->setup.learners == 1 && !o->record && !o->replay) return MU_OK;
    return MU_FAIL(err, MU_EUSAGE, "lookahead is for one learner that is not recorded");
}

static mu_status start(void *state, mu_training *t, bool hold, mu_err *err) {
    lookahead *r = state;
    const mu_params *ps = t->s->params;
    (void)hold; // nothing happens between two advances
    r->t = t;
    mu_worker_init(&r->w, t->s);
    r->w.at = t->at;
    r->slow = mu_alloc_array(ps->count, sizeof(float), "lookahead");
    if (!r->slow) return MU_FAIL_NOMEM(err, "slow weights");
    memcpy(r->slow, ps->value, ps->count * sizeof(float));
    return mu_source_start(t->s->train.source, err);
}

static mu_status advance(void *state, mu_advance *out, mu_err *err) {
    lookahead *r = state;
    mu_params *ps = r->t->s->params;
    MU_TRY(mu_worker_step(&r->w, err));
    *out = (mu_advance){.loss_sum = r->w.loss, .accuracy_sum = r->w.accuracy, .n = 1, .learners = 1};
    r->t->at = r->w.at;
    r->t->rate = r->w.step_rate.rate;
    if (++r->steps % K) return MU_OK;
    for (size_t i = 0; i < ps->count; i++) ps->value[i] = r->slow[i] += 0.5f * (ps->value[i] - r->slow[i]);
    return MU_OK;
}

static mu_status stop(void *state, mu_status how, mu_learners_result *out, MU_UNUSED mu_err *err) {
    lookahead *r = state;
    mu_source_stop(r->t->s->train.source);
    mu_free(r->slow);
    if (how == MU_OK)
        *out = (mu_learners_result){.count = 1, .protocol = "lookahead", .rows = r->t->s->setup.rows,
                                    .versions = r->steps, .produced = r->steps, .applied = r->steps,
                                    .compute_s = r->w.compute_s, .wait_s = r->w.wait_s};
    return MU_OK;
}

const mu_gradient_source mu_gradients_lookahead = {
    .name = "lookahead",
    .help = "one learner; every 5 steps its weights go half of the way back",
    .state_size = sizeof(lookahead),
    .wants = wants,
    .prepare = prepare,
    .start = start,
    .advance = advance,
    .stop = stop,
};
