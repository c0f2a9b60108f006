// SPDX-License-Identifier: Apache-2.0
// loop.c - see loop.h.
//
// Between two advances the loop does what has become due. Metrics are written at once. An evaluation or a
// checkpoint is wanted first, then asked of the source as a snapshot, and taken when it is done: at once from
// a source in this process, some looks later from learners that go on meanwhile. So there is at most one
// snapshot under way. An evaluation on validation data that is the best so far is followed by a checkpoint of
// the same weights, or they are held (train/kept.h) and saved before the next one; without validation data
// the last checkpoint is the best one.
#include "run/loop.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "run/folder.h"

#include <math.h>
#include <string.h>

#define MAX_ROLLBACKS 3

typedef struct loop {
    mu_training *t;
    const mu_gradient_source *source;
    void        *state;
    bool         running;               // the source was started and not stopped
    bool         want_test, want_save;
    bool         busy;                  // `task` is under way
    mu_snapshot_task   task;
    mu_snapshot_answer answer;
} loop;

// ---- snapshots ----

static void ask(loop *l, bool save, bool best, bool same) {
    mu_err err = {0};
    if (save && mu_folder_keep(l->t, &err) != MU_OK) {
        mu_training_say(l->t, "checkpoint not saved: %s; training goes on", err.msg);
        l->want_save = false;
        return;
    }
    l->busy = true;
    l->task = (mu_snapshot_task){.save = save, .best = best || !l->t->s->validation.net, .same = same,
                                 .progress = l->t->ps};
    l->task.progress.trained_s = mu_training_seconds(l->t);
}

// What is held first: a checkpoint says which evaluation was the best.
static void ask_save(loop *l) {
    const mu_kept *k = &l->t->kept;
    ask(l, true, k->full, k->full);
    if (!l->busy || !k->full) return;
    l->task.kept = true;
    l->task.progress = k->progress;
}

// False: the weights of the evaluation that was answered cannot be held, and are to be saved.
static bool hold(loop *l) {
    mu_training *t = l->t;
    mu_err why = {0};
    const float *value = t->s->params->value;
    float *const *slot = t->s->params->slot;
    if (l->running && l->source->weights) l->source->weights(l->state, &value, &slot);
    if (mu_kept_take(&t->kept, t->s->params, value, slot, &why) != MU_OK) return false;
    t->kept.at = l->answer.at;
    t->kept.finished = l->answer.finished;
    t->kept.progress = t->ps;
    t->kept.progress.trained_s = mu_training_seconds(t);
    return true;
}

// During training a failed save is a warning: the last good checkpoint is intact and the next one may work.
static void take_saved(loop *l) {
    mu_training *t = l->t;
    mu_err err = {0};
    if (!l->task.kept) l->want_save = false;
    if (l->answer.status != MU_OK) {
        l->want_save = false;
        mu_training_say(t, "checkpoint not saved: %s; training goes on", l->answer.error.msg);
        return;
    }
    t->saved_version = l->answer.at.version;
    if (l->task.best) t->kept.full = false;
    mu_training_saved(t, l->answer.took_s);
    if (mu_fs_join(t->out->checkpoint, t->ckpt_dir, l->answer.saved, &err) != MU_OK)
        t->out->checkpoint[0] = 0;
}

static mu_status take_scores(loop *l, mu_err *err) {
    mu_training *t = l->t;
    const mu_snapshot_answer *a = &l->answer;
    l->want_test = false;
    if (a->status == MU_EINTERRUPTED) return MU_OK; // ended; a resumed run begins with this evaluation
    if (a->status != MU_OK) return mu_err_pass(a->status, &a->error, err);
    t->ps.choices = a->choices;
    const bool best = mu_training_evaluated(t, a->phase, &a->scores, &a->at);
    const bool keep = best && a->at.step > 0 && t->s->job->checkpoint.every.unit != MU_EVERY_NEVER;
    if (t->o->no_files || !(keep || l->want_save)) return MU_OK;
    if (!best && t->kept.full) return MU_OK; // what is held goes first
    if (l->want_save || !mu_training_may_hold(t)) ask(l, true, best, true);
    else if (t->s->job->checkpoint.best && !hold(l)) ask(l, true, best, true);
    return MU_OK;
}

static mu_status take_answer(loop *l, mu_err *err) {
    mu_training *t = l->t;
    const bool was_save = l->task.save;
    l->busy = false;
    t->eval_s += l->answer.paused_s; // speed figures are of training alone
    t->window_s += l->answer.paused_s;
    if (l->answer.missed) {
        mu_training_say(t, "%s; tried again later", l->answer.error.msg);
        l->want_test = l->want_save = false;
        return MU_OK;
    }
    if (!was_save) return take_scores(l, err);
    take_saved(l);
    return MU_OK;
}

// Asks for what is wanted and takes what is done. begin: also what is not under way yet.
static mu_status serve_snapshots(loop *l, bool begin, mu_err *err) {
    for (;;) {
        if (!l->busy && begin && l->want_test) ask(l, false, false, false);
        else if (!l->busy && begin && l->want_save) ask_save(l);
        if (!l->busy) return MU_OK;
        bool done = true;
        if (l->running && l->source->snapshot)
            MU_TRY(l->source->snapshot(l->state, &l->task, &l->answer, &done, err));
        else mu_training_snapshot(l->t, &l->task, &l->answer);
        if (!done) return MU_OK;
        MU_TRY(take_answer(l, err));
    }
}

static mu_status save_now(mu_training *t, const mu_snapshot_task *task, mu_err *err) {
    mu_snapshot_answer a;
    mu_training_snapshot(t, task, &a);
    if (a.status != MU_OK) return mu_err_pass(a.status, &a.error, err);
    t->saved_version = a.at.version;
    mu_training_saved(t, a.took_s);
    if (task->best) t->kept.full = false;
    return mu_fs_join(t->out->checkpoint, t->ckpt_dir, a.saved, err);
}

mu_status mu_loop_save(mu_training *t, mu_err *err) {
    mu_snapshot_task task = {.save = true, .best = !t->s->validation.net, .progress = t->ps};
    task.progress.trained_s = mu_training_seconds(t);
    return save_now(t, &task, err);
}

mu_status mu_loop_save_kept(mu_training *t, mu_err *err) {
    const mu_snapshot_task task = {
        .save = true, .best = true, .same = true, .kept = true, .progress = t->kept.progress};
    return t->kept.full ? save_now(t, &task, err) : MU_OK;
}

// ---- what is due ----

static void do_due_work(loop *l) {
    mu_training *t = l->t;
    mu_phase phase;
    mu_advisor_look(t);
    if (mu_training_due(t, &t->log) && t->loss_n) mu_training_log(t);
    if (mu_training_due(t, &t->test) && mu_session_eval_phase(t->s, &phase)) l->want_test = true;
    if (mu_training_due(t, &t->save) && !t->o->no_files && t->saved_version != t->at.version)
        l->want_save = true;
    const double now = mu_clock_s();
    if (!t->o->watch.progress || now < t->next_progress) return;
    const mu_run_moment m = mu_training_moment(t);
    t->o->watch.progress(t->o->watch.ctx, &m);
    t->next_progress = now + MU_PROGRESS_EVERY_S;
}

// An evaluation before the first step: asked for by the job, or broken off before a resume.
static bool wants_first_test(mu_training *t) {
    const mu_test_opts *test = &t->s->job->test;
    mu_phase phase;
    if (t->why || t->follows || !mu_session_eval_phase(t->s, &phase)) return false;
    const bool owed =
        t->o->resume && mu_training_crossed(t, test->every) && t->ps.evaluated_step != t->at.step;
    return owed || (test->at_start && t->at.step == 0);
}

// ---- back to a checkpoint ----

static bool can_roll_back(const mu_training *t) {
    return t->s->job->train.nonfinite == MU_NONFINITE_ROLLBACK && t->ps.rollbacks < MAX_ROLLBACKS &&
           t->out->checkpoint[0];
}

// To the last checkpoint, with half the rate.
static mu_status roll_back(mu_training *t, mu_err *err) {
    const int64_t n = t->ps.rollbacks + 1, from = t->at.step;
    const double scale = t->at.rate_scale / 2;
    const mu_err own = *err;
    mu_err_clear(err);
    // Not the one reported last: the evaluator process may have saved newer ones, and dropped it, since.
    MU_TRY(mu_state_restore(t->ckpt_dir, MU_CKPT_NEWEST, t->s, &t->at, &t->finished, &t->ps, err));
    t->ps.rollbacks = n;
    t->at.rate_scale = scale;
    mu_training_set_due(t); // the steps since the checkpoint are done and reported again
    t->window_samples = t->at.samples;
    t->loss_sum = t->accuracy_sum = 0;
    t->loss_n = 0;
    mu_training_say(t, "step %lld: %s; back to step %lld with half the rate", (long long)from, own.msg,
                    (long long)t->at.step);
    return MU_OK;
}

// ---- the loop ----

static mu_status advance(loop *l, bool *ended, mu_err *err) {
    mu_training *t = l->t;
    mu_advance a = {0};
    MU_TRY(l->source->advance(l->state, &a, err));
    t->loss_sum += a.loss_sum;
    t->accuracy_sum += a.accuracy_sum;
    t->loss_n += a.n;
    t->learners = a.learners;
    *ended = a.ended;
    return MU_OK;
}

static mu_status train(loop *l, mu_err *err) {
    mu_training *t = l->t;
    bool ended = false, ending = false;
    MU_TRY(serve_snapshots(l, true, err));
    while (!ended || l->busy) { // the answer of a snapshot under way belongs to this training
        if (!ending && mu_training_finished(t)) {
            if (!l->source->end) return MU_OK;
            l->source->end(l->state);
            ending = true;
        }
        MU_TRY(advance(l, &ended, err));
        do_due_work(l);
        MU_TRY(serve_snapshots(l, !ending && !ended, err));
    }
    return MU_OK;
}

static mu_status stop_source(loop *l, mu_status how, mu_err *err) {
    l->running = l->busy = false;
    mu_advisor_end(l->t);
    mu_err own = {0};
    const mu_status st = l->source->stop(l->state, how, &l->t->out->learners, &own);
    if (how != MU_OK || st == MU_OK) return how;
    return mu_err_pass(st, &own, err);
}

static mu_status run(loop *l, mu_err *err) {
    l->want_test = wants_first_test(l->t);
    l->want_save = false;
    l->running = true;
    mu_status st = l->source->start(l->state, l->t, l->want_test, err);
    if (st == MU_OK) st = train(l, err);
    return stop_source(l, st, err);
}

mu_status mu_loop_run(mu_training *t, const mu_gradient_source *source, mu_err *err) {
    loop *l = mu_alloc(sizeof *l, "loop");
    void *state = mu_alloc(source->state_size + 1, "loop");
    mu_status st = l && state ? MU_OK : MU_FAIL_NOMEM(err, "the training loop");
    if (st == MU_OK) {
        *l = (loop){.t = t, .source = source, .state = state};
        st = run(l, err);
        while (st == MU_EDIVERGED && can_roll_back(t)) {
            st = roll_back(t, err);
            memset(state, 0, source->state_size);
            if (st == MU_OK) st = run(l, err);
        }
    }
    if (st == MU_OK && !mu_training_interrupted(t)) { // what the last update made due
        do_due_work(l);
        st = serve_snapshots(l, true, err);
    }
    mu_choices_write(t->s->params, &t->ps.choices); // from here on nobody but the result reads the weights
    mu_free(state);
    mu_free(l);
    return st;
}
