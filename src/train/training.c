// SPDX-License-Identifier: Apache-2.0
// training.c - see training.h.
//
// Intervals are marks in steps, epochs or seconds; a mark that was reached is due once, however many were
// passed in one go. Reports that fail are told and cost nothing else.
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

double mu_save_interval(double took_s) { return fmax(60, 33 * took_s); }

static double now_in(const mu_training *r, mu_interval_unit unit) {
    return unit == MU_EVERY_STEP    ? (double)r->at.step
           : unit == MU_EVERY_EPOCH ? mu_epoch_at(r->s, r->at.samples)
                                    : mu_clock_s() - r->start_s;
}

static mu_due due_init(const mu_training *r, mu_interval every) {
    mu_due d = {every, INFINITY};
    if (every.unit == MU_EVERY_AUTO) d.next = now_in(r, every.unit) + mu_save_interval(0);
    if (every.unit != MU_EVERY_NEVER && every.n > 0) // the next multiple, also after a resume
        d.next = every.unit == MU_EVERY_SECOND
                     ? every.n
                     : (floor(now_in(r, every.unit) / every.n + 1e-9) + 1) * every.n;
    return d;
}

// Did the last step cross a mark? A resumed run asks this for an evaluation that was broken off.
bool mu_training_crossed(const mu_training *r, mu_interval every) {
    if ((every.unit != MU_EVERY_STEP && every.unit != MU_EVERY_EPOCH) || every.n <= 0 || !r->at.step)
        return false;
    double now = now_in(r, every.unit), per_step = every.unit == MU_EVERY_STEP ? 1 : now / (double)r->at.step;
    return floor(now / every.n + 1e-9) > floor((now - per_step) / every.n + 1e-9);
}

bool mu_training_due(const mu_training *r, mu_due *d) {
    double now = now_in(r, d->every.unit) + 1e-9;
    if (now < d->next) return false;
    if (d->every.unit == MU_EVERY_AUTO) { // mu_training_saved will say it better
        d->next = now + mu_save_interval(0);
        return true;
    }
    d->next += (floor((now - d->next) / d->every.n) + 1) * d->every.n; // in one go: intervals may be tiny
    return true;
}

void mu_training_set_due(mu_training *r) {
    if (r->follows) {
        r->log = r->test = r->save = (mu_due){.every = {.unit = MU_EVERY_NEVER}, .next = INFINITY};
        return;
    }
    r->log = due_init(r, r->s->job->log.every);
    r->test = due_init(r, r->s->job->test.every);
    mu_interval save = r->s->job->checkpoint.every;
    // The shorter the way back, the better.
    if (save.unit == MU_EVERY_AUTO && r->s->job->train.nonfinite == MU_NONFINITE_ROLLBACK)
        save = (mu_interval){MU_EVERY_EPOCH, 1};
    r->save = due_init(r, save);
}

void mu_training_saved(mu_training *r, double took_s) {
    r->n_saved++;
    r->saved_s += took_s;
    if (r->save.every.unit == MU_EVERY_AUTO)
        r->save.next = now_in(r, MU_EVERY_AUTO) + mu_save_interval(took_s);
}

bool mu_training_may_hold(const mu_training *r) {
    return r->save.every.unit == MU_EVERY_AUTO && !r->why && now_in(r, MU_EVERY_AUTO) < r->save.next;
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
    double epoch = mu_epoch_at(r->s, r->at.samples), spent = mu_clock_s() - r->start_s;
    double here = (double)(r->at.samples - r->start_samples), speed = r->last_speed;
    if (speed <= 0 && spent > r->eval_s) speed = here / (spent - r->eval_s);
    double left = r->end.steps > 0
                      ? (r->end.steps - (double)r->at.step) * (double)mu_samples_per_step(r->s)
                      : NAN;
    double eta = speed > 0 ? left / speed : NAN;
    const double deadline = r->limits.deadline;
    if (deadline > 0) eta = isnan(eta) ? deadline - spent : fmin(eta, deadline - spent);
    return (mu_run_moment){.step = r->at.step,
                           .end_steps = (int64_t)r->end.steps,
                           .epoch = epoch,
                           .end_epochs = r->limits.epochs,
                           .loss = r->loss_n ? r->loss_sum / (double)r->loss_n : r->last_loss,
                           .rate = r->rate,
                           .samples_per_s = speed,
                           .trained_s = r->before_s + spent,
                           .eta_s = eta,
                           .learners = r->learners,
                           .of_learners = r->s->setup.learners};
}

// A failed report must not end a training: it is said once per failure and the run goes on.
static void report_failed(mu_training *r, mu_err *err) {
    mu_training_say(r, "%s", err->msg);
    mu_err_clear(err);
}

void mu_training_log(mu_training *r) {
    double now = mu_clock_s(), spent = now - r->window_s;
    r->last_loss = r->loss_n ? r->loss_sum / (double)r->loss_n : NAN;
    r->last_speed = spent > 0 ? (double)(r->at.samples - r->window_samples) / spent : 0;
    double accuracy = r->loss_n ? r->accuracy_sum / (double)r->loss_n : NAN;
    double step_ms = r->loss_n ? 1e3 * spent / (double)r->loss_n : NAN;
    mu_metric_value line[] = {
        {"step", (double)r->at.step},
        {"epoch", mu_epoch_at(r->s, r->at.samples)},
        {"wall_s", r->before_s + now - r->start_s},
        {"train_loss", r->last_loss},
        {"lr", r->rate},
        {"samples_per_s", r->last_speed},
        {"train_accuracy", accuracy},
    };
    mu_scalar tags[] = {{MU_TAG_TRAIN_LOSS, (float)r->last_loss}, {MU_TAG_LR, (float)r->rate},
                        {MU_TAG_SAMPLES_PER_S, (float)r->last_speed}, {MU_TAG_STEP_MS, (float)step_ms},
                        {MU_TAG_TRAIN_ACCURACY, (float)accuracy}};
    size_t without = isnan(accuracy) ? 1u : 0u; // the last one, of a net without such a metric
    mu_metric_table table[MU_TRAINING_TABLES];
    const size_t n = MU_COUNT(line) - without;
    const size_t n_tables = r->tables.fill ? r->tables.fill(r->tables.ctx, table) : 0;
    mu_err err = {0};
    if (r->metrics && mu_metrics_write_tables(r->metrics, line, n, table, n_tables, &err) != MU_OK)
        report_failed(r, &err);
    if (r->train_events &&
        mu_events_write(r->train_events, r->at.step, tags, MU_COUNT(tags) - without, &err) != MU_OK)
        report_failed(r, &err);
    mu_advisor_logged(r, r->last_loss);
    r->loss_sum = r->accuracy_sum = 0;
    r->loss_n = 0;
    r->window_s = now;
    r->window_samples = r->at.samples;
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

double mu_training_seconds(const mu_training *r) { return r->before_s + mu_clock_s() - r->start_s; }

void mu_training_write_scores(mu_training *r, mu_phase phase, const mu_scores *sc, const mu_position *at) {
    const char *loss_key = phase == MU_TEST ? "test_loss" : "val_loss",
               *acc_key = phase == MU_TEST ? "test_accuracy" : "val_accuracy";
    char key[MU_SCORES_MAX][48];
    mu_metric_value line[5 + MU_SCORES_MAX] = {{"step", (double)at->step},
                                               {"epoch", mu_epoch_at(r->s, at->samples)},
                                               {"wall_s", mu_training_seconds(r)},
                                               {loss_key, sc->loss},
                                               {acc_key, sc->accuracy}};
    mu_scalar tags[2] = {{MU_TAG_VAL_LOSS, (float)sc->loss}, {MU_TAG_VAL_ACCURACY, (float)sc->accuracy}};
    mu_err err = {0};
    size_t n = isnan(sc->accuracy) ? 1 : 2, all = 3 + n + other_scores(phase, sc, key, line + 3 + n);
    if (r->metrics && mu_metrics_write(r->metrics, line, all, &err) != MU_OK) report_failed(r, &err);
    if (r->eval_events && mu_events_write(r->eval_events, at->step, tags, n, &err) != MU_OK)
        report_failed(r, &err);
}

// ---- scores ----

void mu_training_keep_scores(mu_run_result *out, mu_phase phase, const mu_scores *sc, int64_t step) {
    out->scored_step = step;
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

bool mu_training_evaluated(mu_training *r, mu_phase phase, const mu_scores *sc, const mu_position *at) {
    const int64_t step = at->step;
    double value;
    const bool chooses = phase == MU_VALIDATION;
    bool best = chooses && improves(r, sc, &value);
    if (best) {
        r->ps.best = value;
        r->ps.best_is_loss = isnan(sc->accuracy);
        r->ps.best_step = step;
        r->ps.stale = 0;
    } else if (chooses) {
        r->ps.stale++;
    }
    mu_training_write_scores(r, phase, sc, at);
    mu_debug("step %lld: %s loss %g accuracy %g%s", (long long)step, mu_phase_name(phase), sc->loss,
             sc->accuracy, best ? ", the best so far" : "");
    mu_run_moment m = mu_training_moment(r);
    m.step = step, m.epoch = mu_epoch_at(r->s, at->samples); // of these weights; learners have gone on
    if (r->o->watch.evaluated) r->o->watch.evaluated(r->o->watch.ctx, &m, phase, sc, best);
    mu_advisor_evaluated(r, mu_phase_name(phase), m.epoch, m.loss, sc->loss);
    mu_training_keep_scores(r->out, phase, sc, step);
    r->ps.evaluated_step = step;
    r->evaluated_version = at->version;
    const mu_limits *l = &r->limits;
    if (chooses && l->patience > 0 && r->ps.stale >= l->patience) r->why = "patience";
    if (chooses && l->target_accuracy > 0 && sc->accuracy >= l->target_accuracy) r->why = "target";
    return best;
}

// ---- snapshots in this process ----

mu_finished mu_training_finished_samples(const mu_training *r) {
    mu_finished f = r->finished;
    mu_finished_extend(&f, NULL, 0, r->at.samples);
    return f;
}

static mu_status end_if_asked(void *ctx, mu_net *net, const mu_batch *batch, mu_err *err) {
    (void)net, (void)batch;
    return mu_training_stop_asked(ctx) ? MU_FAIL(err, MU_EINTERRUPTED, "stopped while evaluating") : MU_OK;
}

void mu_training_snapshot(mu_training *r, const mu_snapshot_task *task, mu_snapshot_answer *out) {
    mu_params *ps = r->s->params;
    float *value = ps->value, *slot[MU_MAX_SLOTS];
    memcpy(slot, ps->slot, sizeof slot);
    out->at = task->kept ? r->kept.at : r->at;
    out->finished = task->kept ? r->kept.finished : mu_training_finished_samples(r);
    if (task->kept) mu_params_rebase(ps, r->kept.value, r->kept.slot);
    mu_snapshot_do(r->s, r->ckpt_dir, task, end_if_asked, r, out);
    mu_params_rebase(ps, value, slot);
}

// ---- the end ----

double mu_training_time_share(const mu_training *r) {
    const double deadline = r->limits.deadline;
    if (!(deadline > 0)) return r->at.time_share;
    return fmax(r->at.time_share, mu_time_share(r->begin_share, mu_clock_s() - r->start_s, deadline));
}

bool mu_training_finished(mu_training *r) {
    const mu_limits *l = &r->limits;
    if (r->why) return true;
    if (r->follows) return false;
    if (mu_training_stop_asked(r)) r->why = mu_stop_requested() ? "signal" : "stop";
    else if (l->steps > 0 && r->at.step >= l->steps) r->why = "steps";
    else if (l->epochs > 0 && r->at.samples >= r->end_sample) r->why = "epochs";
    else if (l->deadline > 0 && mu_clock_s() - r->start_s >= l->deadline) r->why = "deadline";
    return r->why != NULL;
}

bool mu_training_interrupted(const mu_training *r) {
    return !strcmp(r->why, "signal") || !strcmp(r->why, "stop");
}
