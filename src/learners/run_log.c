// SPDX-License-Identifier: Apache-2.0
// run_log.c - see run_log.h.
#include "learners/run_log.h"

#include <stdio.h>

// A log needs every gradient computed on a copy of the weights of one version, taken under the lock.
mu_status mu_run_log_prepare(mu_session *s, const mu_run_opts *o, mu_err *err) {
    const mu_train_opts *t = &s->job->train;
    mu_status st = MU_EUSAGE;
    if (!o->record) return MU_OK;
    mu_objection no;
    if (mu_protocol_objects(s->setup.protocol, MU_CHOICE_RECORD, &no)) {
        MU_FAIL(err, st, "%s cannot be recorded: %s", s->setup.protocol->name, no.why);
        mu_err_hint(err, "%s", no.instead);
    } else if (t->nonfinite == MU_NONFINITE_ROLLBACK) {
        MU_FAIL(err, st, "a run that may go back to a checkpoint cannot be recorded");
        mu_err_hint(err, "Set `train.nonfinite` to stop or skip.");
    } else if (s->setup.workers > 1) {
        MU_FAIL(err, st, "a run whose learners have several workers cannot be recorded");
        mu_err_hint(err, "Leave out `cluster.workers`: one process makes the same gradients.");
    } else if (s->setup.server_groups > 1) {
        MU_FAIL(err, st, "a run of several server groups cannot be recorded");
        mu_err_hint(err, "Leave out `cluster.server_groups`.");
    } else if (t->accumulate > 1) {
        MU_FAIL(err, st, "`train.accumulate` cannot be recorded");
        mu_err_hint(err, "One learner alone repeats itself; no log is needed.");
    } else if (o->resume) {
        MU_FAIL(err, st,
                "a resumed run cannot be recorded: its checkpoint will be gone when it is to be repeated");
        mu_err_hint(err, "Begin a new run with `train.init_from` at that checkpoint, and record that.");
    } else {
        s->setup.weights = MU_WEIGHTS_COPY;
        s->setup.locks = true;
        st = MU_OK;
    }
    return st;
}

mu_status mu_run_log_open(mu_run_log *l, mu_training *t, mu_server_group *group, mu_err *err) {
    const mu_shared *g = &group->shared;
    l->t = t, l->group = group;
    if (!t->o->record) return MU_OK;
    mu_runlog_head h = {
        .learners = g->setup->learners,
        .rows = g->setup->rows,
        .global_batch = g->setup->global_batch,
        .seed = t->s->job->seed,
        .first_version = atomic_load(&g->head->version),
        .first_sample = group->begin.samples,
        .job_hash = mu_job_hash(t->s->job),
        .layout = mu_runlog_layout(t->s->params, &g->share[0].message, g->slices.n),
        .sets = t->o->sets,
        .n_sets = t->o->n_sets,
    };
    snprintf(h.protocol, sizeof h.protocol, "%s", g->setup->protocol->name);
    mu_runlog_sum(t->s->params, h.start);
    return mu_recorder_open(t->o->record, &h, &l->recorder, err);
}

static void failed(const mu_run_log *l, const mu_err *err) {
    mu_training_say(l->t, "%s; the log ends here, training goes on", err->msg);
}

void mu_run_log_drain(mu_run_log *l) {
    mu_err err = {0};
    if (l->recorder && mu_recorder_drain(l->recorder, l->group->shared.journal, &err) != MU_OK)
        failed(l, &err);
}

void mu_run_log_close(mu_run_log *l, bool whole) {
    mu_err err = {0};
    if (!l->recorder) return;
    mu_run_log_drain(l);
    mu_runlog_end end = {.version = atomic_load(&l->group->shared.head->version),
                         .step = l->t->at.step,
                         .samples = l->t->at.samples};
    mu_runlog_sum(l->t->s->params, end.weights);
    if (mu_recorder_close(l->recorder, whole ? &end : NULL, &err) != MU_OK) failed(l, &err);
    l->recorder = NULL;
}
