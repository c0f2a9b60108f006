// SPDX-License-Identifier: Apache-2.0
// driver.c - the training loop. Everything that may happen between two steps happens in `between`.
#include "run/driver.h"

#include "base/clock.h"
#include "base/log.h"
#include "run/events.h"
#include "run/metrics.h"
#include "run/stopflag.h"

#include <math.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_ROLLBACKS 3
#define PROGRESS_EVERY_S 0.2

typedef struct due { mu_interval every; double next; } due;    // `next` in the interval's own unit

typedef struct run {
    mu_session        *s;
    mu_worker          w;
    mu_progress_state  ps;
    const mu_run_opts *o;
    mu_run_result     *out;
    mu_rundir          dir;
    char               ckpt_dir[MU_FS_PATH];
    mu_metrics        *metrics;
    mu_events         *train_events, *judge_events;
    due                log, test, save;
    double             start_s, before_s;       // clock at start of this process; seconds trained earlier
    double             loss_sum, accuracy_sum;  // since the last log line
    int64_t            loss_n;
    double             window_s;                // clock at the last log line
    int64_t            window_samples, start_samples;
    double             last_loss, last_speed, eval_s, next_progress;
    int64_t            bad_in_row;
    int64_t            saved_step;              // when last done, -1 = never
    const char        *why;
} run;

// ---- intervals ----

static double now_in(const run *r, mu_interval_unit unit) {
    return unit == MU_EVERY_STEP ? (double)r->w.step : unit == MU_EVERY_EPOCH ? mu_worker_epoch(&r->w)
         : mu_clock_s() - r->start_s;
}

static due due_init(const run *r, mu_interval every) {
    due d = {every, INFINITY};
    if (every.unit != MU_EVERY_NEVER && every.n > 0) // the next multiple, also after a resume
        d.next = every.unit == MU_EVERY_SECOND
                     ? every.n
                     : (floor(now_in(r, every.unit) / every.n + 1e-9) + 1) * every.n;
    return d;
}

// Did the last step cross a mark? A resumed run asks this for an evaluation that was broken off.
static bool due_crossed(const run *r, mu_interval every) {
    if ((every.unit != MU_EVERY_STEP && every.unit != MU_EVERY_EPOCH) || every.n <= 0 || !r->w.step)
        return false;
    double now = now_in(r, every.unit), per_step = every.unit == MU_EVERY_STEP ? 1 : now / (double)r->w.step;
    return floor(now / every.n + 1e-9) > floor((now - per_step) / every.n + 1e-9);
}

static bool due_now(const run *r, due *d) {
    double now = now_in(r, d->every.unit) + 1e-9;
    if (now < d->next) return false;
    d->next += (floor((now - d->next) / d->every.n) + 1) * d->every.n; // in one go: intervals may be tiny
    return true;
}

static void set_due(run *r) {
    r->log = due_init(r, r->s->job->log.every);
    r->test = due_init(r, r->s->job->test.every);
    r->save = due_init(r, r->s->job->checkpoint.every);
}

// ---- reports ----

static void say(const run *r, const char *fmt, ...) MU_PRINTF(2, 3);
static void say(const run *r, const char *fmt, ...) {
    char text[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (r->o->watch.message) r->o->watch.message(r->o->watch.ctx, text);
}

static mu_run_moment moment(const run *r) {
    double epoch = mu_worker_epoch(&r->w), spent = mu_clock_s() - r->start_s;
    const mu_train_opts *t = &r->s->job->train;
    double here = (double)(r->w.samples - r->start_samples), speed = r->last_speed;
    if (speed <= 0 && spent > r->eval_s) speed = here / (spent - r->eval_s);
    double left = r->w.end_steps > 0
                      ? (r->w.end_steps - (double)r->w.step) * (double)mu_worker_samples_per_step(&r->w)
                      : NAN;
    double eta = speed > 0 ? left / speed : NAN;
    if (t->deadline > 0) eta = isnan(eta) ? t->deadline - spent : fmin(eta, t->deadline - spent);
    return (mu_run_moment){.step = r->w.step,
                           .end_steps = (int64_t)r->w.end_steps,
                           .epoch = epoch,
                           .end_epochs = t->epochs,
                           .loss = r->loss_n ? r->loss_sum / (double)r->loss_n : r->last_loss,
                           .rate = r->w.rate,
                           .samples_per_s = speed,
                           .trained_s = r->before_s + spent,
                           .eta_s = eta};
}

// A failed report must not end a training: it is said once per failure and the run goes on.
static void report_failed(run *r, mu_err *err) {
    say(r, "%s", err->msg);
    mu_err_clear(err);
}

static void write_log(run *r) {
    double now = mu_clock_s(), spent = now - r->window_s;
    r->last_loss = r->loss_n ? r->loss_sum / (double)r->loss_n : NAN;
    r->last_speed = spent > 0 ? (double)(r->w.samples - r->window_samples) / spent : 0;
    double accuracy = r->loss_n ? r->accuracy_sum / (double)r->loss_n : NAN;
    double step_ms = r->loss_n ? 1e3 * spent / (double)r->loss_n : NAN;
    mu_metric_value line[] = {
        {"step", (double)r->w.step},
        {"epoch", mu_worker_epoch(&r->w)},
        {"wall_s", r->before_s + now - r->start_s},
        {"train_loss", r->last_loss},
        {"lr", r->w.rate},
        {"samples_per_s", r->last_speed},
        {"train_accuracy", accuracy},
    };
    mu_scalar tags[] = {{MU_TAG_TRAIN_LOSS, (float)r->last_loss}, {MU_TAG_LR, (float)r->w.rate},
                        {MU_TAG_SAMPLES_PER_S, (float)r->last_speed}, {MU_TAG_STEP_MS, (float)step_ms},
                        {MU_TAG_TRAIN_ACCURACY, (float)accuracy}};
    size_t without = isnan(accuracy) ? 1u : 0u; // the last one, of a net without such a metric
    mu_err err;
    mu_err_clear(&err);
    if (r->metrics && mu_metrics_write(r->metrics, line, MU_COUNT(line) - without, &err) != MU_OK)
        report_failed(r, &err);
    if (r->train_events &&
        mu_events_write(r->train_events, r->w.step, tags, MU_COUNT(tags) - without, &err) != MU_OK)
        report_failed(r, &err);
    r->loss_sum = r->accuracy_sum = 0;
    r->loss_n = 0;
    r->window_s = now;
    r->window_samples = r->w.samples;
}

static void write_scores(run *r, mu_phase phase, const mu_scores *sc) {
    const char *loss_key = phase == MU_TEST ? "test_loss" : "val_loss",
               *acc_key = phase == MU_TEST ? "test_accuracy" : "val_accuracy";
    mu_metric_value line[5] = {{"step", (double)r->w.step},
                               {"epoch", mu_worker_epoch(&r->w)},
                               {"wall_s", r->before_s + mu_clock_s() - r->start_s},
                               {loss_key, sc->loss},
                               {acc_key, sc->accuracy}};
    mu_scalar tags[2] = {{MU_TAG_VAL_LOSS, (float)sc->loss}, {MU_TAG_VAL_ACCURACY, (float)sc->accuracy}};
    mu_err err;
    mu_err_clear(&err);
    size_t n = isnan(sc->accuracy) ? 1 : 2;
    if (r->metrics && mu_metrics_write(r->metrics, line, 3 + n, &err) != MU_OK) report_failed(r, &err);
    if (r->judge_events && mu_events_write(r->judge_events, r->w.step, tags, n, &err) != MU_OK)
        report_failed(r, &err);
}

// ---- checkpoints ----

static mu_status save(run *r, bool best, mu_err *err) {
    mu_ckpt_opts o = {.keep = r->s->job->checkpoint.keep, .best = best && r->s->job->checkpoint.best};
    char name[MU_CKPT_NAME];
    r->ps.trained_s = r->before_s + mu_clock_s() - r->start_s;
    MU_TRY(mu_state_save(r->ckpt_dir, &r->w, &r->ps, &o, name, err));
    r->saved_step = r->w.step;
    return mu_fs_join(r->out->checkpoint, r->ckpt_dir, name, err);
}

// During training a failed save is a warning: the last good checkpoint is intact and the next one may work.
static void save_if_possible(run *r, bool best) {
    if (r->o->no_files) return;
    mu_err err;
    mu_err_clear(&err);
    if (save(r, best, &err) != MU_OK) say(r, "checkpoint not saved: %s; training goes on", err.msg);
}

// ---- judging ----

static void keep_scores(mu_run_result *out, mu_phase phase, const mu_scores *sc) {
    *(phase == MU_TEST ? &out->test : &out->validation) = *sc;
    *(phase == MU_TEST ? &out->tested : &out->validated) = true;
}

// Larger is better for accuracy, smaller for loss.
static bool improves(const run *r, const mu_scores *sc, double *value) {
    bool by_accuracy = !isnan(sc->accuracy);
    *value = by_accuracy ? sc->accuracy : -sc->loss;
    if (isnan(*value)) return false;
    return isnan(r->ps.best) || *value > r->ps.best + r->s->job->train.min_improvement;
}

static bool stop_asked(const run *r) {
    return mu_stop_requested() || (r->o->stop && atomic_load(r->o->stop));
}

static mu_status end_if_asked(void *ctx, mu_net *net, const mu_batch *batch, mu_err *err) {
    (void)net;
    (void)batch;
    return stop_asked(ctx) ? MU_FAIL(err, MU_EINTERRUPTED, "stopped while evaluating") : MU_OK;
}

static mu_status judge(run *r, mu_err *err) {
    mu_phase phase;
    mu_session_phase *p = mu_session_judge(r->s, &phase);
    if (!p) return MU_OK;
    mu_scores sc;
    double t0 = mu_clock_s(), value;
    mu_status st = mu_evaluate(p, phase, end_if_asked, r, &sc, err);
    if (st == MU_EINTERRUPTED) { // the loop ends now; a resumed run begins with this evaluation
        mu_err_clear(err);
        return MU_OK;
    }
    if (st != MU_OK) return st;
    bool best = improves(r, &sc, &value);
    if (best) {
        r->ps.best = value;
        r->ps.best_step = r->w.step;
        r->ps.stale = 0;
    } else {
        r->ps.stale++;
    }
    write_scores(r, phase, &sc);
    mu_debug("step %lld: %s loss %g accuracy %g%s", (long long)r->w.step, mu_phase_name(phase), sc.loss,
             sc.accuracy, best ? ", the best so far" : "");
    mu_run_moment m = moment(r);
    if (r->o->watch.judged) r->o->watch.judged(r->o->watch.ctx, &m, phase, &sc, best);
    keep_scores(r->out, phase, &sc);
    r->ps.judged_step = r->w.step;
    const mu_train_opts *t = &r->s->job->train;
    if (best && r->w.step > 0 && r->s->job->checkpoint.every.unit != MU_EVERY_NEVER)
        save_if_possible(r, true);
    if (t->patience > 0 && r->ps.stale >= t->patience) r->why = "patience";
    if (t->target_accuracy > 0 && sc.accuracy >= t->target_accuracy) r->why = "target";
    double spent = mu_clock_s() - t0; // speed figures are of training alone
    r->eval_s += spent;
    r->window_s += spent;
    return MU_OK;
}

// ---- the loop ----

static mu_status bad_step(run *r, mu_err *err) {
    const mu_train_opts *t = &r->s->job->train;
    int policy = t->nonfinite;
    if (policy == MU_NONFINITE_SKIP && ++r->bad_in_row <= t->max_bad_steps) {
        say(r, "step %lld skipped: %s", (long long)r->w.step, err->msg);
        mu_err_clear(err);
        r->ps.skipped++;
        r->w.step++; // the batch is used up; the weights are as before
        r->w.samples += mu_worker_samples_per_step(&r->w);
        return MU_OK;
    }
    if (policy == MU_NONFINITE_ROLLBACK && r->ps.rollbacks < MAX_ROLLBACKS && r->out->checkpoint[0]) {
        int64_t n = r->ps.rollbacks + 1, at = r->w.step;
        double scale = r->w.rate_scale / 2;
        mu_err own = *err;
        mu_err_clear(err);
        MU_TRY(mu_state_restore(r->out->checkpoint, MU_CKPT_NEWEST, &r->w, &r->ps, err));
        MU_TRY(mu_source_start(r->s->train.source, err));
        r->ps.rollbacks = n;
        r->w.rate_scale = scale;
        set_due(r); // the steps since the checkpoint are done and reported again
        r->window_samples = r->w.samples;
        r->loss_sum = r->accuracy_sum = 0;
        r->loss_n = 0;
        say(r, "step %lld: %s; back to step %lld with half the rate", (long long)at, own.msg,
            (long long)r->w.step);
        return MU_OK;
    }
    return err->status;
}

static bool finished(run *r) {
    const mu_train_opts *t = &r->s->job->train;
    if (r->why) return true;
    if (stop_asked(r)) r->why = mu_stop_requested() ? "signal" : "stop";
    else if (t->steps > 0 && r->w.step >= t->steps) r->why = "steps";
    else if (t->epochs > 0 && mu_worker_epoch(&r->w) + 1e-9 >= t->epochs) r->why = "epochs";
    else if (t->deadline > 0 && mu_clock_s() - r->start_s >= t->deadline) r->why = "deadline";
    return r->why != NULL;
}

static bool interrupted(const run *r) { return !strcmp(r->why, "signal") || !strcmp(r->why, "stop"); }

static mu_status between(run *r, mu_err *err) {
    if (due_now(r, &r->log)) write_log(r);
    if (due_now(r, &r->test)) MU_TRY(judge(r, err));
    if (due_now(r, &r->save) && r->saved_step != r->w.step) save_if_possible(r, false);
    double now = mu_clock_s();
    if (r->o->watch.progress && now >= r->next_progress) {
        mu_run_moment m = moment(r);
        r->o->watch.progress(r->o->watch.ctx, &m);
        r->next_progress = now + PROGRESS_EVERY_S;
    }
    return MU_OK;
}

static mu_status loop(run *r, mu_err *err) {
    MU_TRY(mu_source_start(r->s->train.source, err));
    const mu_test_opts *t = &r->s->job->test;
    bool owed = r->o->resume && due_crossed(r, t->every) && r->ps.judged_step != r->w.step;
    if (!r->why && (owed || (t->at_start && r->w.step == 0))) MU_TRY(judge(r, err));
    while (!finished(r)) {
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

static mu_status open_dir(run *r, mu_err *err) {
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

static mu_status write_job(const run *r, mu_err *err) {
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

// Parameters, history and cursor: given by the caller, from the newest checkpoint, or initial.
static mu_status set_position(run *r, mu_err *err) {
    const mu_run_position *at = r->o->at;
    if (at) {
        r->w.step = at->step;
        r->w.samples = at->samples;
        r->w.rate_scale = at->rate_scale;
        r->ps = at->progress;
        mu_source_stop(r->s->train.source);
        return mu_source_seek(r->s->train.source, at->samples, err);
    }
    if (!r->o->resume) return mu_state_load_initial(r->s->job, r->s->params, err);
    mu_status st = mu_state_restore(r->ckpt_dir, MU_CKPT_NEWEST, &r->w, &r->ps, err);
    if (st == MU_OK) {
        snprintf(r->out->checkpoint, sizeof r->out->checkpoint, "%s", r->ckpt_dir);
    } else if (st == MU_ENOTFOUND) {
        say(r, "no checkpoint in %s yet: starting from the beginning", r->dir.path);
        mu_err_clear(err);
        st = MU_OK;
    }
    return st;
}

static mu_status open_reports(run *r, mu_err *err) {
    char path[MU_FS_PATH];
    MU_TRY(mu_rundir_path(&r->dir, MU_RUN_METRICS, path, err));
    MU_TRY(mu_metrics_open(path, r->o->resume ? r->w.step : -1, &r->metrics, err));
    if (!r->s->job->log.tensorboard) return MU_OK;
    MU_TRY(mu_rundir_path(&r->dir, MU_RUN_TRAIN_EVENTS, path, err));
    MU_TRY(mu_events_open(path, &r->train_events, err));
    MU_TRY(mu_rundir_path(&r->dir, MU_RUN_VALIDATION_EVENTS, path, err));
    return mu_events_open(path, &r->judge_events, err);
}

static mu_status begin(run *r, mu_err *err) {
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
    set_due(r);
    const mu_train_opts *t = &r->s->job->train;
    if (t->patience > 0 && r->ps.stale >= t->patience) r->why = "patience"; // a resumed run that had ended
    if (r->o->watch.started) r->o->watch.started(r->o->watch.ctx, r->s, r->dir.path, r->o->resume != NULL);
    return MU_OK;
}

// The final scores: test data if the job has it, else validation. Not repeated when just measured.
static mu_status final_scores(run *r, mu_err *err) {
    if (interrupted(r)) return MU_OK;
    mu_phase judged = MU_TEST;
    mu_session_phase *p = mu_session_judge(r->s, &judged);
    bool fresh = r->ps.judged_step == r->w.step && (r->out->tested || r->out->validated) &&
                 judged == (r->s->test.net ? MU_TEST : MU_VALIDATION);
    if (!p || fresh) return MU_OK;
    mu_session_phase *final = r->s->test.net ? &r->s->test : p;
    mu_phase phase = r->s->test.net ? MU_TEST : judged;
    double t0 = mu_clock_s();
    mu_scores sc;
    MU_TRY(mu_evaluate(final, phase, NULL, NULL, &sc, err));
    keep_scores(r->out, phase, &sc);
    if (r->w.samples > r->start_samples || !r->o->resume)
        write_scores(r, phase, &sc); // else it is there already
    r->eval_s += mu_clock_s() - t0;
    return MU_OK;
}

static mu_status save_result(run *r, mu_err *err) {
    if (r->o->no_files) return MU_OK;
    if (r->saved_step != r->w.step) MU_TRY(save(r, false, err)); // never a success without its checkpoint
    MU_TRY(mu_state_export(r->dir.path, "model.safetensors", r->s->params, err));
    return mu_fs_join(r->out->model, r->dir.path, "model.safetensors", err);
}

static mu_status end(run *r, mu_err *err) {
    double wall = mu_clock_s() - r->start_s;
    mu_source_stats stats = mu_source_get_stats(r->s->train.source);
    mu_run_result *out = r->out;
    if (r->loss_n) write_log(r);
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
    out->wait_s = stats.wait_s;
    out->compute_s = train_s - stats.wait_s;
    out->why = r->why;
    r->ps.trained_s = out->wall_s;
    MU_TRY(save_result(r, err)); // first: an evaluation that fails must not cost the training
    return final_scores(r, err);
}

static mu_status tell_stopped(const run *r, mu_err *err) {
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
    run r = {.s = s, .o = o, .out = out, .last_loss = NAN, .saved_step = -1};
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
    if (st == MU_OK && interrupted(&r)) st = tell_stopped(&r, err);
    if (r.dir.log_fd >= 0) mu_log_drop_file(r.dir.log_fd);
    mu_metrics_close(r.metrics);
    mu_events_close(r.train_events);
    mu_events_close(r.judge_events);
    if (r.dir.lock_fd >= 0) mu_rundir_close(&r.dir);
    return st;
}
