// SPDX-License-Identifier: Apache-2.0
// driver.c - a training from its run folder to its result; the loop itself is loop.c.
//
// A run folder is locked while its training runs. Whatever ends the loop, the steps since the last checkpoint
// are saved if that is possible, and never is a success reported without its checkpoint.
#include "run/driver.h"

#include "base/clock.h"
#include "base/log.h"
#include "learners/beginning.h"
#include "learners/gradients.h"
#include "ps/part_forms.h"
#include "run/folder.h"
#include "run/loop.h"
#include "train/stopflag.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

// ---- beginning and end ----

static mu_status set_initial(mu_training *r, mu_err *err) {
    if (r->s->params->late) MU_TRY(mu_params_load(r->s->params, err));
    return mu_state_load_initial(r->s->job, r->s->params, err);
}

// Parameters, history and cursor: given by the caller, from the newest checkpoint, or initial.
static mu_status set_position(mu_training *r, mu_err *err) {
    const mu_run_position *at = r->o->at;
    if (at) {
        r->at = at->at;
        r->ps = at->progress;
        r->finished = at->finished;
        r->advisor.given = at->advised;
        return mu_state_seek(r->s, &r->at, &r->finished, err);
    }
    if (!r->o->resume) return set_initial(r, err);
    mu_status st = mu_state_restore(r->ckpt_dir, MU_CKPT_NEWEST, r->s, &r->at, &r->finished, &r->ps, err);
    if (st == MU_OK) {
        snprintf(r->out->checkpoint, sizeof r->out->checkpoint, "%s", r->ckpt_dir);
    } else if (st == MU_ENOTFOUND) {
        mu_training_say(r, "no checkpoint in %s yet: starting from the beginning", r->dir.path);
        mu_err_clear(err);
        st = set_initial(r, err);
    }
    return st;
}

// Rank 0 has everything, and the others get it from there.
static mu_status meet(mu_training *r, mu_err *err) {
    mu_nodes *n = r->o->nodes;
    MU_TRY(mu_nodes_meet(n, r->s, err));
    if (n->rank == 0 && mu_nodes_share_host(n))
        mu_training_say(
            r,
            "%d ranks, some of them on one host, count as nodes: one rank a node is meant, and its "
            "`learners` use the cores",
            n->n);
    char text[200] = "";
    if (n->parts) mu_part_forms_text(n->parts, text, sizeof text);
    else if (n->forms.share.message) mu_wire_forms_text(&n->forms, text, sizeof text);
    if (text[0]) mu_info("gradients between ranks: %s", text);
    return mu_beginning_share(n, r, err);
}

static mu_status begin(mu_training *r, mu_err *err) {
    const mu_train_opts *t = &r->s->job->train;
    r->at = MU_POSITION_START;
    r->end = mu_length_of(r->s);
    r->limits = (mu_limits){t->steps, t->patience, t->epochs, t->deadline, t->target_accuracy};
    r->ps.best = NAN;
    r->ps.evaluated_step = -1;
    if (!r->o->no_files) MU_TRY(mu_folder_open(r, err));
    if (!r->follows) MU_TRY(set_position(r, err));
    if (r->o->nodes) MU_TRY(meet(r, err));
    r->ps.choices = mu_choices_read(r->s->params);
    r->end_sample = mu_end_sample(r->s, &r->at);
    r->begin_share = r->at.time_share;
    r->rate = mu_effective_rate_at(r->s, &r->at, &r->end);
    if (!r->o->no_files) {
        if (!r->o->resume) MU_TRY(mu_folder_write_job(r, err));
        MU_TRY(mu_folder_open_reports(r, r->o->resume ? r->at.step : -1, err));
    }
    r->before_s = r->ps.trained_s;
    r->start_s = r->window_s = mu_clock_s();
    r->start_samples = r->window_samples = r->at.samples;
    mu_training_set_due(r);
    if (t->patience > 0 && r->ps.stale >= t->patience) r->why = "patience"; // a resumed run that had ended
    if (r->s->split_off)
        mu_training_say(r, "an early stop needs validation data: " MU_SPLIT_FRACTION " of the training data, "
                           "%lld records, are held back for it",
                        (long long)mu_source_n_records(r->s->validation.source));
    const mu_run_moment m = mu_training_moment(r);
    if (r->o->watch.started)
        r->o->watch.started(r->o->watch.ctx, r->s, &m, r->dir.path, r->o->resume != NULL);
    mu_advisor_begin(r);
    return MU_OK;
}

// The final scores: test data if the job has it, else validation. Not repeated when just measured.
static mu_status final_scores(mu_training *r, mu_err *err) {
    if (r->follows || mu_training_interrupted(r)) return MU_OK;
    mu_phase used = MU_TEST;
    mu_session_phase *p = mu_session_eval_phase(r->s, &used);
    bool fresh = r->evaluated_version == r->at.version && (r->out->tested || r->out->validated) &&
                 used == (r->s->test.net ? MU_TEST : MU_VALIDATION);
    if (!p || fresh) return MU_OK;
    mu_session_phase *final = r->s->test.net ? &r->s->test : p;
    mu_phase phase = r->s->test.net ? MU_TEST : used;
    double t0 = mu_clock_s();
    mu_scores sc;
    MU_TRY(mu_evaluate(final, phase, NULL, NULL, &sc, err));
    mu_training_keep_scores(r->out, phase, &sc, r->at.step);
    if (r->at.samples > r->start_samples || !r->o->resume)
        mu_training_write_scores(r, phase, &sc, &r->at); // else it is there
    r->eval_s += mu_clock_s() - t0;
    return MU_OK;
}

// Where the disk has no room for both, the newest weights matter more: a failure is told, no error.
static void save_best(mu_training *r) {
    mu_err why = {0};
    if (!r->o->no_files && mu_loop_save_kept(r, &why) != MU_OK)
        mu_training_say(r, "the best weights are not saved: %s", why.msg);
}

static mu_status save_checkpoint(mu_training *r, mu_err *err) {
    MU_TRY(mu_folder_keep(r, err));
    save_best(r);
    const bool there = r->saved_version == r->at.version && mu_fs_is_folder(r->out->checkpoint);
    return there ? MU_OK : mu_loop_save(r, err);
}

// Only scores of these very weights, so the same weights make the same file, however often the run was
// interrupted.
static mu_status export_model(mu_training *r, bool scored, mu_err *err) {
    const mu_run_result *out = r->out;
    const bool test = r->s->test.net != NULL;
    const mu_scores *sc = test ? &out->test : &out->validation;
    const mu_model_score scores[] = {{"step", (double)r->at.step},
                                     {"epoch", out->epochs},
                                     {test ? "test_loss" : "val_loss", sc->loss},
                                     {test ? "test_accuracy" : "val_accuracy", sc->accuracy}};
    return mu_state_export(r->dir.path, "model.safetensors", r->s, scores, scored ? 4 : 2, err);
}

// The model once more, with the scores that were measured after it was safe.
static void export_scored(mu_training *r) {
    mu_err why = {0};
    const bool scored = r->s->test.net ? r->out->tested : r->out->validated;
    if (r->o->no_files || !scored || mu_training_interrupted(r)) return;
    if (export_model(r, true, &why) != MU_OK)
        mu_training_say(r, "the model is saved without its scores: %s", why.msg);
}

// Never a success without a checkpoint. But where a disk has no room for one, the model alone may fit.
static mu_status save_result(mu_training *r, mu_err *err) {
    if (r->o->no_files) return MU_OK;
    mu_err own = {0};
    const mu_status saved = save_checkpoint(r, err);
    if (saved != MU_OK && saved != MU_EIO) return saved;
    mu_status st = export_model(r, false, &own);
    if (st == MU_OK) st = mu_fs_join(r->out->model, r->dir.path, "model.safetensors", &own);
    if (saved == MU_OK) return st == MU_OK ? MU_OK : mu_err_pass(st, &own, err);
    if (st == MU_OK) mu_training_say(r, "the model alone could be saved: %s", r->out->model);
    return saved;
}

static mu_status end(mu_training *r, mu_err *err) {
    double wall = mu_clock_s() - r->start_s;
    mu_run_result *out = r->out;
    if (r->loss_n) mu_training_log(r);
    double train_s = wall - r->eval_s;
    out->steps = r->at.step;
    out->epochs = mu_epoch_at(r->s, r->at.samples);
    out->wall_s = r->before_s + wall;
    out->samples_per_s = train_s > 0 ? (double)(r->at.samples - r->start_samples) / train_s : 0;
    out->train_loss = r->last_loss;
    out->best = r->ps.best_is_loss ? -r->ps.best : r->ps.best;
    out->best_step = r->ps.best_step;
    out->samples = r->at.samples;
    out->applied_samples = r->at.applied;
    out->repeated_samples = r->at.repeated;
    out->skipped = r->ps.skipped;
    out->rollbacks = r->ps.rollbacks;
    out->rate = r->rate;
    out->why = r->why;
    r->ps.trained_s = out->wall_s;
    MU_TRY(save_result(r, err)); // first: an evaluation that fails must not cost the training
    MU_TRY(final_scores(r, err));
    export_scored(r);
    return MU_OK;
}

// Bad data or a failed disk must not cost the steps since the last checkpoint.
static void save_what_is_done(mu_training *r) {
    mu_err err = {0};
    const bool in_parts = r->o->nodes && !mu_setup_is_joint(&r->s->setup); // over ranks
    if (r->o->no_files || in_parts || r->saved_version == r->at.version) return;
    if (save_checkpoint(r, &err) != MU_OK) mu_training_say(r, "checkpoint not saved: %s", err.msg);
}

static mu_status tell_stopped(const mu_training *r, mu_err *err) {
    bool by_signal = !strcmp(r->why, "signal");
    mu_status st = by_signal ? mu_stop_status() : MU_EINTERRUPTED;
    char where[MU_FS_PATH + 32] = "";
    if (!r->o->no_files) snprintf(where, sizeof where, "; the checkpoint is %s", r->out->checkpoint);
    MU_FAIL(err, st, "stopped%s after step %lld%s", by_signal ? " by a signal" : "", (long long)r->at.step,
            where);
    if (by_signal) mu_err_hint(err, "Go on with `muster train --resume %s`.", r->out->run_dir);
    return st;
}

mu_status mu_run_train(mu_session *s, const mu_run_opts *o, mu_run_result *out, mu_err *err) {
    mu_training r = {.s = s, .o = o, .out = out, .last_loss = NAN, .follows = s->node > 0};
    r.saved_version = r.evaluated_version = -1;
    memset(out, 0, sizeof *out);
    r.dir.log_fd = r.dir.lock_fd = -1;
    const mu_gradient_source *source;
    mu_status st = mu_gradients_choose(s, o, &source, err);
    if (st == MU_OK) st = begin(&r, err);
    bool begun = st == MU_OK;
    if (begun) st = mu_loop_run(&r, source, err);
    if (begun && (st == MU_ENOMEM || st == MU_EDIVERGED)) save_best(&r);
    else if (begun && st != MU_OK) save_what_is_done(&r);
    if (st == MU_OK) st = end(&r, err);
    if (begun && o->at)
        *o->at = (mu_run_position){r.at, r.ps, mu_training_finished_samples(&r), r.advisor.given};
    if (st == MU_OK && mu_training_interrupted(&r)) st = tell_stopped(&r, err);
    if (r.dir.log_fd >= 0) mu_log_drop_file(r.dir.log_fd);
    mu_folder_close_reports(&r);
    mu_kept_fini(&r.kept);
    if (r.dir.lock_fd >= 0) mu_rundir_close(&r.dir);
    return st;
}
