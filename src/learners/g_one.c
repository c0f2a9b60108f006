// SPDX-License-Identifier: Apache-2.0
// g_one.c - one learner in this process: an advance is a step, and the weights are the session's own.
#include "learners/gradients.h"

#include "train/worker.h"

#include <math.h>

typedef struct one {
    mu_training *t;
    mu_worker    w;
    int64_t      produced, skipped;     // gradients
    int64_t      next, rest;            // for the prefetch thread: next sample; left of a step under way
} one;

static bool wants(MU_UNUSED const mu_session *s, MU_UNUSED const mu_run_opts *o) { return true; }

// Learners that went before may have left a step under way: the first batch is the rest of it.
static bool next_samples(void *ctx, int64_t *first, int64_t *rows) {
    one *r = ctx;
    *first = r->next;
    *rows = r->rest > 0 ? r->rest : mu_samples_per_step(r->t->s);
    r->next += *rows;
    r->rest = 0;
    return true;
}

static mu_status start(void *state, mu_training *t, bool hold, mu_err *err) {
    one *r = state;
    (void)hold; // nothing happens between two advances
    r->t = t;
    mu_worker_init(&r->w, t->s);
    r->w.at = t->at;
    if (t->at.partial > 0 && t->s->job->train.accumulate == 1) {
        r->next = t->at.samples;
        r->rest = mu_samples_per_step(t->s) - t->at.partial;
        mu_source_set_lease(t->s->train.source, next_samples, r);
    }
    return mu_source_start(t->s->train.source, err);
}

static mu_status advance(void *state, mu_advance *out, mu_err *err) {
    one *r = state;
    *out = (mu_advance){.learners = 1};
    mu_status st = mu_worker_step(&r->w, err);
    r->produced += st == MU_OK || st == MU_EDIVERGED;
    if (st == MU_EDIVERGED && mu_worker_may_skip(&r->w)) {
        mu_training_say(r->t, "step %lld skipped: %s", (long long)r->w.at.step, err->msg);
        mu_err_clear(err);
        r->t->ps.skipped++;
        r->skipped++;
        mu_worker_count_step(&r->w); // the batch is used up; the weights are as before
        st = MU_OK;
    } else if (st == MU_OK) {
        out->loss_sum = r->w.loss;
        out->accuracy_sum = r->w.accuracy;
        out->n = 1;
    }
    r->t->at = r->w.at;
    r->t->rate = r->w.step_rate.rate;
    return st;
}

// Every gradient is computed on the weights it is applied to: its staleness is 0.
static mu_status stop(void *state, mu_status how, mu_learners_result *out, MU_UNUSED mu_err *err) {
    one *r = state;
    const mu_session *s = r->t->s;
    mu_source_stop(s->train.source);
    mu_source_set_lease(s->train.source, NULL, NULL);
    if (how != MU_OK) return MU_OK;
    const double all = r->w.compute_s + r->w.wait_s;
    *out = (mu_learners_result){.count = 1,
                                .protocol = s->setup.protocol->name,
                                .rows = s->setup.rows,
                                .global_batch = s->setup.global_batch,
                                .versions = r->produced - r->skipped,
                                .rate_effective = r->w.step_rate.rate,
                                .produced = r->produced,
                                .applied = r->produced - r->skipped,
                                .rejected = r->skipped,
                                .bad_records = mu_source_get_stats(s->train.source).n_bad,
                                .compute_s = r->w.compute_s,
                                .wait_s = r->w.wait_s,
                                .replace_p50_s = NAN,
                                .replace_p99_s = NAN};
    out->overlap = all > 0 ? out->compute_s / all : 0;
    return MU_OK;
}

const mu_gradient_source mu_gradients_one = {
    .name = "one",
    .help = "one learner in this process",
    .state_size = sizeof(one),
    .wants = wants,
    .start = start,
    .advance = advance,
    .stop = stop,
};
