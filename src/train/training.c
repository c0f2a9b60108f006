// SPDX-License-Identifier: Apache-2.0
// training.c - see training.h.
#include "train/training.h"

#include "base/clock.h"
#include "base/log.h"
#include "train/stopflag.h"

#include <math.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

// ---- intervals ----

static double now_in(const mu_training *r, mu_interval_unit unit) {
    return unit == MU_EVERY_STEP ? (double)r->w.step : unit == MU_EVERY_EPOCH ? mu_worker_epoch(&r->w)
         : mu_clock_s() - r->start_s;
}

static mu_due due_init(const mu_training *r, mu_interval every) {
    mu_due d = {every, INFINITY};
    if (every.unit != MU_EVERY_NEVER && every.n > 0) // the next multiple, also after a resume
        d.next = every.unit == MU_EVERY_SECOND
                     ? every.n
                     : (floor(now_in(r, every.unit) / every.n + 1e-9) + 1) * every.n;
    return d;
}

// Did the last step cross a mark? A resumed run asks this for an evaluation that was broken off.
bool mu_training_crossed(const mu_training *r, mu_interval every) {
    if ((every.unit != MU_EVERY_STEP && every.unit != MU_EVERY_EPOCH) || every.n <= 0 || !r->w.step)
        return false;
    double now = now_in(r, every.unit), per_step = every.unit == MU_EVERY_STEP ? 1 : now / (double)r->w.step;
    return floor(now / every.n + 1e-9) > floor((now - per_step) / every.n + 1e-9);
}

bool mu_training_due(const mu_training *r, mu_due *d) {
    double now = now_in(r, d->every.unit) + 1e-9;
    if (now < d->next) return false;
    d->next += (floor((now - d->next) / d->every.n) + 1) * d->every.n; // in one go: intervals may be tiny
    return true;
}

void mu_training_set_due(mu_training *r) {
    r->log = due_init(r, r->s->job->log.every);
    r->test = due_init(r, r->s->job->test.every);
    r->save = due_init(r, r->s->job->checkpoint.every);
}

// ---- reports ----

void mu_training_say(const mu_training *r, const char *fmt, ...) {
    char text[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (r->o->watch.message) r->o->watch.message(r->o->watch.ctx, text);
}

mu_run_moment mu_training_moment(const mu_training *r) {
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
                           .eta_s = eta,
                           .learners = 1,
                           .of_learners = 1};
}

// A failed report must not end a training: it is said once per failure and the run goes on.
static void report_failed(mu_training *r, mu_err *err) {
    mu_training_say(r, "%s", err->msg);
    mu_err_clear(err);
}

void mu_training_log(mu_training *r) {
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

// What layers report beside loss and accuracy: test_squared_error, test_free_energy, ...
static size_t other_scores(mu_phase phase, const mu_scores *sc, char key[][48], mu_metric_value *out) {
    size_t n = 0;
    for (int i = 0; i < sc->n; i++) {
        if (!strcmp(sc->name[i], "loss") || !strcmp(sc->name[i], "accuracy")) continue;
        snprintf(key[n], sizeof key[n], "%s_%s", phase == MU_TEST ? "test" : "val", sc->name[i]);
        out[n] = (mu_metric_value){key[n], sc->value[i]};
        n++;
    }
    return n;
}

void mu_training_write_scores(mu_training *r, mu_phase phase, const mu_scores *sc, int64_t step,
                              double epoch) {
    const char *loss_key = phase == MU_TEST ? "test_loss" : "val_loss",
               *acc_key = phase == MU_TEST ? "test_accuracy" : "val_accuracy";
    char key[MU_SCORES_MAX][48];
    mu_metric_value line[5 + MU_SCORES_MAX] = {{"step", (double)step},
                                               {"epoch", epoch},
                                               {"wall_s", r->before_s + mu_clock_s() - r->start_s},
                                               {loss_key, sc->loss},
                                               {acc_key, sc->accuracy}};
    mu_scalar tags[2] = {{MU_TAG_VAL_LOSS, (float)sc->loss}, {MU_TAG_VAL_ACCURACY, (float)sc->accuracy}};
    mu_err err;
    mu_err_clear(&err);
    size_t n = isnan(sc->accuracy) ? 1 : 2, all = 3 + n + other_scores(phase, sc, key, line + 3 + n);
    if (r->metrics && mu_metrics_write(r->metrics, line, all, &err) != MU_OK) report_failed(r, &err);
    if (r->judge_events && mu_events_write(r->judge_events, step, tags, n, &err) != MU_OK)
        report_failed(r, &err);
}

// ---- scores ----

void mu_training_keep_scores(mu_run_result *out, mu_phase phase, const mu_scores *sc) {
    *(phase == MU_TEST ? &out->test : &out->validation) = *sc;
    *(phase == MU_TEST ? &out->tested : &out->validated) = true;
}

// Larger is better for accuracy, smaller for loss.
static bool improves(const mu_training *r, const mu_scores *sc, double *value) {
    bool by_accuracy = !isnan(sc->accuracy);
    *value = by_accuracy ? sc->accuracy : -sc->loss;
    if (isnan(*value)) return false;
    return isnan(r->ps.best) || *value > r->ps.best + r->s->job->train.min_improvement;
}

bool mu_training_stop_asked(const mu_training *r) {
    return mu_stop_requested() || (r->o->stop && atomic_load(r->o->stop));
}

bool mu_training_judged(mu_training *r, mu_phase phase, const mu_scores *sc, int64_t step, double epoch) {
    double value;
    bool best = improves(r, sc, &value);
    if (best) {
        r->ps.best = value;
        r->ps.best_step = step;
        r->ps.stale = 0;
    } else {
        r->ps.stale++;
    }
    mu_training_write_scores(r, phase, sc, step, epoch);
    mu_debug("step %lld: %s loss %g accuracy %g%s", (long long)step, mu_phase_name(phase), sc->loss,
             sc->accuracy, best ? ", the best so far" : "");
    mu_run_moment m = mu_training_moment(r);
    m.step = step, m.epoch = epoch; // of the weights that were judged; learners have gone on
    if (r->o->watch.judged) r->o->watch.judged(r->o->watch.ctx, &m, phase, sc, best);
    mu_training_keep_scores(r->out, phase, sc);
    r->ps.judged_step = step;
    const mu_train_opts *t = &r->s->job->train;
    if (t->patience > 0 && r->ps.stale >= t->patience) r->why = "patience";
    if (t->target_accuracy > 0 && sc->accuracy >= t->target_accuracy) r->why = "target";
    return best;
}

// ---- the end ----

bool mu_training_finished(mu_training *r) {
    const mu_train_opts *t = &r->s->job->train;
    if (r->why) return true;
    if (mu_training_stop_asked(r)) r->why = mu_stop_requested() ? "signal" : "stop";
    else if (t->steps > 0 && r->w.step >= t->steps) r->why = "steps";
    else if (t->epochs > 0 && mu_worker_epoch(&r->w) + 1e-9 >= t->epochs) r->why = "epochs";
    else if (t->deadline > 0 && mu_clock_s() - r->start_s >= t->deadline) r->why = "deadline";
    return r->why != NULL;
}

bool mu_training_interrupted(const mu_training *r) {
    return !strcmp(r->why, "signal") || !strcmp(r->why, "stop");
}
