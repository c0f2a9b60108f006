// SPDX-License-Identifier: Apache-2.0
// driver.c - the training loop. Everything that may happen between two steps happens in `between`.
#include "run/driver.h"

#include "base/clock.h"
#include "base/log.h"
#include "learners/learners.h"
#include "learners/replay.h"
#include "train/stopflag.h"
#include "train/training.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_ROLLBACKS 3

// ---- checkpoints ----

static mu_status save(mu_training *r, bool best, mu_err *err) {
    mu_ckpt_opts o = {.keep = r->s->job->checkpoint.keep, .best = best && r->s->job->checkpoint.best};
    char name[MU_CKPT_NAME];
    r->ps.trained_s = r->before_s + mu_clock_s() - r->start_s;
    MU_TRY(mu_state_save(r->ckpt_dir, &r->w, &r->ps, &o, name, err));
    r->saved_step = r->w.step;
    return mu_fs_join(r->out->checkpoint, r->ckpt_dir, name, err);
}

// During training a failed save is a warning: the last good checkpoint is intact and the next one may work.
static void save_if_possible(mu_training *r, bool best) {
    if (r->o->no_files) return;
    mu_err err;
    mu_err_clear(&err);
    if (save(r, best, &err) != MU_OK)
        mu_training_say(r, "checkpoint not saved: %s; training goes on", err.msg);
}

// ---- judging ----

static mu_status end_if_asked(void *ctx, mu_net *net, const mu_batch *batch, mu_err *err) {
    (void)net;
    (void)batch;
    return mu_training_stop_asked(ctx) ? MU_FAIL(err, MU_EINTERRUPTED, "stopped while evaluating") : MU_OK;
}

static mu_status judge(mu_training *r, mu_err *err) {
    mu_phase phase;
    mu_session_phase *p = mu_session_eval_phase(r->s, &phase);
    if (!p) return MU_OK;
    mu_scores sc;
    double t0 = mu_clock_s();
    mu_status st = mu_evaluate(p, phase, end_if_asked, r, &sc, err);
    if (st == MU_EINTERRUPTED) { // the loop ends now; a resumed run begins with this evaluation
        mu_err_clear(err);
        return MU_OK;
    }
    if (st != MU_OK) return st;
    bool best = mu_training_judged(r, phase, &sc, r->w.step, mu_worker_epoch(&r->w));
    if (best && r->w.step > 0 && r->s->job->checkpoint.every.unit != MU_EVERY_NEVER)
        save_if_possible(r, true);
    double spent = mu_clock_s() - t0; // speed figures are of training alone
    r->eval_s += spent;
    r->window_s += spent;
    return MU_OK;
}

// ---- the loop ----

// Back to the last checkpoint with half the rate. False: the policy does not allow it (any more).
static bool can_roll_back(const mu_training *r) {
    return r->s->job->train.nonfinite == MU_NONFINITE_ROLLBACK && r->ps.rollbacks < MAX_ROLLBACKS &&
           r->out->checkpoint[0];
}

static mu_status roll_back(mu_training *r, mu_err *err) {
    int64_t n = r->ps.rollbacks + 1, at = r->w.step;
    double scale = r->w.rate_scale / 2;
    mu_err own = *err;
    mu_err_clear(err);
    // Not the one reported last: the statistics process may have saved newer ones, and dropped it, since.
    MU_TRY(mu_state_restore(r->ckpt_dir, MU_CKPT_NEWEST, &r->w, &r->ps, err));
    r->ps.rollbacks = n;
    r->w.rate_scale = scale;
    mu_training_set_due(r); // the steps since the checkpoint are done and reported again
    r->window_samples = r->w.samples;
    r->loss_sum = r->accuracy_sum = 0;
    r->loss_n = 0;
    mu_training_say(r, "step %lld: %s; back to step %lld with half the rate", (long long)at, own.msg,
                    (long long)r->w.step);
    return MU_OK;
}

static mu_status bad_step(mu_training *r, mu_err *err) {
    const mu_train_opts *t = &r->s->job->train;
    int policy = t->nonfinite;
    if (policy == MU_NONFINITE_SKIP && ++r->bad_in_row <= t->max_bad_steps) {
        mu_training_say(r, "step %lld skipped: %s", (long long)r->w.step, err->msg);
        mu_err_clear(err);
        r->ps.skipped++;
        r->w.step++; // the batch is used up; the weights are as before
        r->w.samples += mu_worker_samples_per_step(&r->w);
        return MU_OK;
    }
    if (can_roll_back(r)) {
        MU_TRY(roll_back(r, err));
        return mu_source_start(r->s->train.source, err);
    }
    return err->status;
}

static mu_status between(mu_training *r, mu_err *err) {
    if (mu_training_due(r, &r->log)) mu_training_log(r);
    if (mu_training_due(r, &r->test)) MU_TRY(judge(r, err));
    if (mu_training_due(r, &r->save) && r->saved_step != r->w.step) save_if_possible(r, false);
    double now = mu_clock_s();
    if (r->o->watch.progress && now >= r->next_progress) {
        mu_run_moment m = mu_training_moment(r);
        r->o->watch.progress(r->o->watch.ctx, &m);
        r->next_progress = now + MU_PROGRESS_EVERY_S;
    }
    return MU_OK;
}

// A group comes back with everything done but what the last step made due.
static mu_status loop_of_group(mu_training *r, mu_err *err) {
    mu_status st;
    while ((st = mu_learners_run(r, err)) == MU_EDIVERGED && can_roll_back(r)) MU_TRY(roll_back(r, err));
    if (st != MU_OK) return st;
    return mu_training_interrupted(r) ? MU_OK : between(r, err);
}

// The recorded run decides when it ends; only a stop request is quicker.
static mu_status loop_of_replay(mu_training *r, mu_err *err) {
    mu_replay *replay;
    MU_TRY(mu_replay_open(r, &replay, err));
    mu_status st = MU_OK;
    for (bool ended = false; st == MU_OK && !ended && !mu_training_stop_asked(r);) {
        st = mu_replay_step(replay, &ended, err);
        if (st == MU_OK && !ended) st = between(r, err);
    }
    r->why = mu_stop_requested() ? "signal" : mu_training_stop_asked(r) ? "stop" : "replay";
    mu_replay_close(replay);
    return st;
}

static mu_status loop(mu_training *r, mu_err *err) {
    if (r->o->replay) return loop_of_replay(r, err);
    if (mu_learners_wanted(r->s) || r->o->record) return loop_of_group(r, err);
    MU_TRY(mu_source_start(r->s->train.source, err));
    const mu_test_opts *t = &r->s->job->test;
    bool owed = r->o->resume && mu_training_crossed(r, t->every) && r->ps.judged_step != r->w.step;
    if (!r->why && (owed || (t->at_start && r->w.step == 0))) MU_TRY(judge(r, err));
    while (!mu_training_finished(r)) {
        mu_status st = mu_worker_step(&r->w, err);
        if (st == MU_OK) {
            r->bad_in_row = 0;
            r->loss_sum += r->w.loss;
            r->accuracy_sum += r->w.accuracy;
            r->loss_n++;
        } else if (st == MU_EDIVERGED) {
            MU_TRY(bad_step(r, err));
            continue;
        } else {
            return st;
        }
        MU_TRY(between(r, err));
    }
    return MU_OK;
}

// ---- beginning and end ----

static mu_status open_dir(mu_training *r, mu_err *err) {
    const char *resume = r->o->resume;
    char newest[MU_FS_PATH];
    if (resume && !*resume) {
        if (r->o->out) resume = r->o->out;
        else {
            MU_TRY(mu_rundir_find_newest("runs", r->s->job->name, newest, err));
            resume = newest;
        }
    }
    if (resume) MU_TRY(mu_rundir_open(resume, &r->dir, err));
    else if (r->o->out) MU_TRY(mu_rundir_create_at(r->o->out, &r->dir, err));
    else MU_TRY(mu_rundir_create("runs", r->s->job->name, &r->dir, err));
    mu_log_set_file(r->dir.log_fd);
    snprintf(r->out->run_dir, sizeof r->out->run_dir, "%s", r->dir.path);
    return mu_rundir_path(&r->dir, MU_RUN_CHECKPOINTS, r->ckpt_dir, err);
}

// The resolved job, usable where it lies: its relative paths still begin where the job file was.
static void write_folder(const mu_job *job, FILE *f) {
    char *path = job->base ? NULL : realpath(job->folder, NULL);
    if (!path) return;
    fputs("folder: \"", f);
    for (const char *p = path; *p; p++) {
        if (*p == '"' || *p == '\\') fputc('\\', f);
        fputc(*p, f);
    }
    fputs("\"\n", f);
    free(path);
}

static mu_status write_job(const mu_training *r, mu_err *err) {
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);
    if (!f) return MU_FAIL_NOMEM(err, "the resolved job");
    write_folder(r->s->job, f);
    mu_status st = mu_job_write(r->s->job, f, err);
    fclose(f);
    if (st == MU_OK) st = mu_fs_replace(r->dir.path, MU_RUN_JOB, text, size, err);
    free(text);
    return st;
}

// What log options ask for, and what cannot go together with them.
static mu_status check_log(const mu_training *r, mu_err *err) {
    if (r->o->record && r->o->replay)
        return MU_FAIL(err, MU_EUSAGE, "a run is recorded or replayed, not both: its log exists already");
    if (r->o->record) return mu_learners_prepare_record(r->s, r->o, err);
    if (!r->o->replay || !r->o->resume) return MU_OK;
    MU_FAIL(err, MU_EUSAGE, "a replay begins where its log does");
    mu_err_hint(err, "Leave `--resume` out.");
    return MU_EUSAGE;
}

static mu_status set_initial(mu_training *r, mu_err *err) {
    if (r->s->params->late) MU_TRY(mu_params_load(r->s->params, err));
    return mu_state_load_initial(r->s->job, r->s->params, err);
}

// Parameters, history and cursor: given by the caller, from the newest checkpoint, or initial.
static mu_status set_position(mu_training *r, mu_err *err) {
    const mu_run_position *at = r->o->at;
    if (at) {
        r->w.step = at->step;
        r->w.samples = at->samples;
        r->w.rate_scale = at->rate_scale;
        r->ps = at->progress;
        mu_source_stop(r->s->train.source);
        return mu_source_seek(r->s->train.source, at->samples, err);
    }
    if (!r->o->resume) return set_initial(r, err);
    mu_status st = mu_state_restore(r->ckpt_dir, MU_CKPT_NEWEST, &r->w, &r->ps, err);
    if (st == MU_OK) {
        snprintf(r->out->checkpoint, sizeof r->out->checkpoint, "%s", r->ckpt_dir);
    } else if (st == MU_ENOTFOUND) {
        mu_training_say(r, "no checkpoint in %s yet: starting from the beginning", r->dir.path);
        mu_err_clear(err);
        st = set_initial(r, err);
    }
    return st;
}

static mu_status open_reports(mu_training *r, mu_err *err) {
    char path[MU_FS_PATH];
    MU_TRY(mu_rundir_path(&r->dir, MU_RUN_METRICS, path, err));
    MU_TRY(mu_metrics_open(path, r->o->resume ? r->w.step : -1, &r->metrics, err));
    if (!r->s->job->log.tensorboard) return MU_OK;
    MU_TRY(mu_rundir_path(&r->dir, MU_RUN_TRAIN_EVENTS, path, err));
    MU_TRY(mu_events_open(path, &r->train_events, err));
    MU_TRY(mu_rundir_path(&r->dir, MU_RUN_VALIDATION_EVENTS, path, err));
    return mu_events_open(path, &r->judge_events, err);
}

static mu_status begin(mu_training *r, mu_err *err) {
    MU_TRY(check_log(r, err));
    mu_worker_init(&r->w, r->s);
    r->ps.best = NAN;
    r->ps.judged_step = -1;
    if (!r->o->no_files) MU_TRY(open_dir(r, err));
    MU_TRY(set_position(r, err));
    if (!r->o->no_files) {
        if (!r->o->resume) MU_TRY(write_job(r, err));
        MU_TRY(open_reports(r, err));
    }
    r->before_s = r->ps.trained_s;
    r->start_s = r->window_s = mu_clock_s();
    r->start_samples = r->window_samples = r->w.samples;
    mu_training_set_due(r);
    const mu_train_opts *t = &r->s->job->train;
    if (t->patience > 0 && r->ps.stale >= t->patience) r->why = "patience"; // a resumed run that had ended
    if (r->o->watch.started) r->o->watch.started(r->o->watch.ctx, r->s, r->dir.path, r->o->resume != NULL);
    return MU_OK;
}

// The final scores: test data if the job has it, else validation. Not repeated when just measured.
static mu_status final_scores(mu_training *r, mu_err *err) {
    if (mu_training_interrupted(r)) return MU_OK;
    mu_phase judged = MU_TEST;
    mu_session_phase *p = mu_session_eval_phase(r->s, &judged);
    bool fresh = r->ps.judged_step == r->w.step && (r->out->tested || r->out->validated) &&
                 judged == (r->s->test.net ? MU_TEST : MU_VALIDATION);
    if (!p || fresh) return MU_OK;
    mu_session_phase *final = r->s->test.net ? &r->s->test : p;
    mu_phase phase = r->s->test.net ? MU_TEST : judged;
    double t0 = mu_clock_s();
    mu_scores sc;
    MU_TRY(mu_evaluate(final, phase, NULL, NULL, &sc, err));
    mu_training_keep_scores(r->out, phase, &sc);
    if (r->w.samples > r->start_samples || !r->o->resume)
        mu_training_write_scores(r, phase, &sc, r->w.step, mu_worker_epoch(&r->w)); // else it is there
    r->eval_s += mu_clock_s() - t0;
    return MU_OK;
}

static mu_status save_result(mu_training *r, mu_err *err) {
    if (r->o->no_files) return MU_OK;
    if (r->saved_step != r->w.step) MU_TRY(save(r, false, err)); // never a success without its checkpoint
    MU_TRY(mu_state_export(r->dir.path, "model.safetensors", r->s->params, err));
    return mu_fs_join(r->out->model, r->dir.path, "model.safetensors", err);
}

static mu_status end(mu_training *r, mu_err *err) {
    double wall = mu_clock_s() - r->start_s;
    mu_source_stats stats = mu_source_get_stats(r->s->train.source);
    mu_run_result *out = r->out;
    if (r->loss_n) mu_training_log(r);
    double train_s = wall - r->eval_s;
    out->steps = r->w.step;
    out->epochs = mu_worker_epoch(&r->w);
    out->wall_s = r->before_s + wall;
    out->samples_per_s = train_s > 0 ? (double)(r->w.samples - r->start_samples) / train_s : 0;
    out->train_loss = r->last_loss;
    out->best = fabs(r->ps.best); // kept negative when it is a loss
    out->best_step = r->ps.best_step;
    out->skipped = r->ps.skipped;
    out->rollbacks = r->ps.rollbacks;
    out->bad_records = stats.n_bad;
    out->rate = r->w.rate;
    out->wait_s = r->w.wait_s;
    out->compute_s = r->w.compute_s;
    out->why = r->why;
    r->ps.trained_s = out->wall_s;
    MU_TRY(save_result(r, err)); // first: an evaluation that fails must not cost the training
    return final_scores(r, err);
}

static mu_status tell_stopped(const mu_training *r, mu_err *err) {
    bool by_signal = !strcmp(r->why, "signal");
    mu_status st = by_signal ? mu_stop_status() : MU_EINTERRUPTED;
    char where[MU_FS_PATH + 32] = "";
    if (!r->o->no_files) snprintf(where, sizeof where, "; the checkpoint is %s", r->out->checkpoint);
    MU_FAIL(err, st, "stopped%s after step %lld%s", by_signal ? " by a signal" : "", (long long)r->w.step,
            where);
    if (by_signal) mu_err_hint(err, "Go on with `muster train --resume %s`.", r->out->run_dir);
    return st;
}

mu_status mu_run_train(mu_session *s, const mu_run_opts *o, mu_run_result *out, mu_err *err) {
    mu_training r = {.s = s, .o = o, .out = out, .last_loss = NAN, .saved_step = -1};
    memset(out, 0, sizeof *out);
    r.dir.log_fd = r.dir.lock_fd = -1;
    mu_status st = begin(&r, err);
    bool begun = st == MU_OK;
    if (begun) st = loop(&r, err);
    mu_source_stop(s->train.source);
    if (begun && st != MU_OK && st != MU_ENOMEM && st != MU_EDIVERGED && !o->no_files &&
        r.saved_step != r.w.step)
        save_if_possible(&r, false); // bad data or a failed disk must not cost the steps since the last save
    if (st == MU_OK) st = end(&r, err);
    if (begun && o->at) *o->at = (mu_run_position){r.w.step, r.w.samples, r.w.rate_scale, r.ps};
    if (st == MU_OK && mu_training_interrupted(&r)) st = tell_stopped(&r, err);
    if (r.dir.log_fd >= 0) mu_log_drop_file(r.dir.log_fd);
    mu_metrics_close(r.metrics);
    mu_events_close(r.train_events);
    mu_events_close(r.judge_events);
    if (r.dir.lock_fd >= 0) mu_rundir_close(&r.dir);
    return st;
}
