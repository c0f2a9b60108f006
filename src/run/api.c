// SPDX-License-Identifier: Apache-2.0
// api.c - the installed C interface: jobs, runs, training, evaluation. Models are in api_model.c,
// prediction in api_predict.c.
//
// Each function clears a mu_err of its own, lets a static twin do the work in the words of this code base,
// and translates at the end. Paths in a mu_err are borrowed from a job, so translation comes before the
// job goes.
#include "run/api.h"

#include "run/helper.h"
#include "train/stopflag.h"

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

_Static_assert(sizeof(((muster_result *)0)->checkpoint) == MU_FS_PATH, "a result holds every path");

// ---- errors ----

static muster_status status_of(mu_status st) {
    return mu_stop_was_asked(st) ? MUSTER_STOPPED : (muster_status)mu_status_exit_code(st);
}

muster_status mu_api_fail(mu_status st, const mu_err *err, muster_error *out) {
    if (!out) return status_of(st);
    memset(out, 0, sizeof *out);
    out->status = status_of(st);
    out->line = err->pos.line;
    out->column = err->pos.col;
    snprintf(out->path, sizeof out->path, "%s", err->pos.path ? err->pos.path : "");
    const char *msg = err->msg[0] ? err->msg : mu_status_text(st);
    if (err->note[0]) snprintf(out->message, sizeof out->message, "%s (%s)", msg, err->note);
    else snprintf(out->message, sizeof out->message, "%s", msg);
    snprintf(out->hint, sizeof out->hint, "%s", err->hint);
    return out->status;
}

muster_status mu_api_misuse(muster_error *out, const char *message) {
    mu_err err = {0};
    return mu_api_fail(MU_FAIL(&err, MU_EUSAGE, "%s", message), &err, out);
}

const char *muster_version(void) { return MU_VERSION; }

// ---- jobs ----

// The text is the whole of it: YAML has no NUL.
static mu_status keep(const char *path, const char *text, const char *const *edits, size_t n,
                      muster_job **out, mu_err *err) {
    muster_job *m = mu_alloc(sizeof *m, "api/job");
    if (!m) return MU_FAIL_NOMEM(err, "the job");
    mu_arena_init(&m->arena, "api/job");
    m->path = mu_arena_strdup(&m->arena, path);
    m->text = mu_arena_strdup(&m->arena, text);
    m->edits = mu_arena_array(&m->arena, n + 1, sizeof *m->edits);
    bool whole = m->path && m->text && m->edits;
    for (size_t i = 0; whole && i < n; i++) whole = (m->edits[i] = mu_arena_strdup(&m->arena, edits[i]));
    if (!whole) {
        muster_job_destroy(m);
        return MU_FAIL_NOMEM(err, "the job");
    }
    m->size = strlen(m->text);
    m->n_edits = n;
    *out = m;
    return MU_OK;
}

// The first problem of a check rather than its summary.
static mu_status problem(const mu_job *job, mu_status st, mu_err *err) {
    if (st != MU_EJOB || !job || !job->diags.n_errors) return st;
    mu_err_clear(err);
    return mu_diags_report(&job->diags, err);
}

static mu_status check(mu_job *job, mu_err *err) {
    unsigned train = mu_node_find(job->data, "train") ? MU_TRAIN : 0; // a job may be for prediction alone
    mu_session_opts o = {
        .phases = train | MU_VALIDATION | MU_TEST | MU_PREDICT, .check_only = true, .no_data = true};
    mu_session *s = NULL;
    mu_status st = mu_session_open(job, &o, &s, err);
    mu_session_close(s);
    return st;
}

// `job` is what loading gave, also when it failed.
static muster_status finish_load(mu_job *job, mu_status st, const char *const *edits, size_t n,
                                 muster_job **out, mu_err *e, muster_error *err) {
    if (job && job->root && (st == MU_OK || st == MU_EJOB)) { // goes on to count all problems
        mu_err own = {0};
        mu_status more = check(job, &own);
        if (st == MU_OK && more != MU_OK) *e = own, st = more;
    }
    st = problem(job, st, e);
    if (st == MU_OK) st = keep(job->path, job->diags.source[0].text, edits, n, out, e);
    muster_status result = st == MU_OK ? MUSTER_OK : mu_api_fail(st, e, err);
    mu_job_destroy(job);
    return result;
}

static bool all_given(const char *const *edits, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (!edits[i]) return false;
    return true;
}

muster_status muster_job_load(const char *path, const char *const *edits, size_t n_edits, muster_job **out,
                              muster_error *err) {
    if (!path || !out || (n_edits && !edits))
        return mu_api_misuse(err, "muster_job_load needs a path and a place for the job");
    if (!all_given(edits, n_edits)) return mu_api_misuse(err, "an edit of muster_job_load is NULL");
    mu_err e = {0};
    mu_job *job = NULL;
    mu_status st = mu_job_load(path, edits, n_edits, &job, &e);
    return finish_load(job, st, edits, n_edits, out, &e, err);
}

muster_status muster_job_parse(const char *name, const char *text, size_t size, const char *const *edits,
                               size_t n_edits, muster_job **out, muster_error *err) {
    if (!name || !text || !out || (n_edits && !edits))
        return mu_api_misuse(err, "muster_job_parse needs a name, a text and a place for the job");
    if (!all_given(edits, n_edits)) return mu_api_misuse(err, "an edit of muster_job_parse is NULL");
    mu_err e = {0};
    mu_job *job = NULL;
    mu_status st = mu_job_parse(name, text, size, edits, n_edits, &job, &e);
    return finish_load(job, st, edits, n_edits, out, &e, err);
}

void muster_job_destroy(muster_job *job) {
    if (!job) return;
    mu_arena_fini(&job->arena);
    mu_free(job);
}

// ---- runs ----

mu_status mu_api_open(muster_run *r, const muster_job *job, const char *folder, unsigned phases,
                      mu_err *err) {
    r->at = MU_RUN_BEGINNING;
    if (folder && !(r->folder = mu_strdup(folder, "api/run"))) return MU_FAIL_NOMEM(err, "the run");
    MU_TRY(keep(job->path, job->text, job->edits, job->n_edits, &r->source, err));
    MU_TRY(mu_job_parse(job->path, job->text, job->size, job->edits, job->n_edits, &r->job, err));
    if (!phases) MU_TRY(mu_model_add_arrays(&r->model, r->job, err));
    const mu_session_opts o = {.phases = phases, .trains = true, .inputs = r->model.inputs};
    mu_status st = mu_session_open(r->job, &o, &r->session, err);
    return problem(r->job, st, err);
}

// The job that the model was trained by.
static mu_status own_job(const mu_model *m, muster_job **out, mu_err *err) {
    const char *text = mu_model_job_text(m);
    if (text) return keep("job.yaml", text, NULL, 0, out, err);
    return mu_err_hinted(MU_FAIL(err, MU_EMODEL, "`%s` does not hold the job it was trained by", m->path),
                         err, "Load the job, and give both to muster_run_create_predictor.");
}

// job NULL: the model's own.
static muster_status create(const muster_job *job, const char *folder, unsigned phases, const char *model,
                            muster_run **out, muster_error *err) {
    mu_err e = {0};
    muster_job *own = NULL;
    muster_run *r = mu_alloc(sizeof *r, "api/run");
    int n;
    mu_status st = r ? MU_OK : MU_FAIL_NOMEM(&e, "the run");
    if (st == MU_OK && model) st = mu_model_open(&r->model, model, MU_CKPT_NEWEST, &e);
    if (st == MU_OK && !job) st = own_job(&r->model, &own, &e);
    if (st == MU_OK) st = mu_api_open(r, job ? job : own, folder, phases, &e);
    muster_job_destroy(own);
    if (st == MU_OK && !phases) st = mu_session_add_arrays(r->session, &e);
    if (st == MU_OK && phases) st = mu_state_load_initial(r->job, r->session->params, &e);
    if (st == MU_OK && model) st = mu_model_take_params(&r->model, r->session->params, true, &n, &e);
    if (st == MU_OK) {
        *out = r;
        return MUSTER_OK;
    }
    muster_status result = mu_api_fail(st, &e, err);
    muster_run_destroy(r);
    return result;
}

muster_status muster_run_create(const muster_job *job, const char *folder, muster_run **out,
                                muster_error *err) {
    if (!job || !out) return mu_api_misuse(err, "muster_run_create needs a job and a place for the run");
    return create(job, folder, MU_TRAIN | MU_VALIDATION | MU_TEST, NULL, out, err);
}

muster_status muster_run_create_predictor(const muster_job *job, const char *model, muster_run **out,
                                          muster_error *err) {
    if (!job || !out)
        return mu_api_misuse(err, "muster_run_create_predictor needs a job and a place for the run");
    return create(job, NULL, 0, model, out, err);
}

muster_status muster_run_create_from_model(const char *model, muster_run **out, muster_error *err) {
    if (!model || !out)
        return mu_api_misuse(err, "muster_run_create_from_model needs a model and a place for the run");
    return create(NULL, NULL, 0, model, out, err);
}

void mu_api_close(muster_run *run) {
    mu_api_free_buffers(run);
    mu_session_close(run->session);
    mu_job_destroy(run->job);
    mu_model_close(&run->model);
    muster_job_destroy(run->source);
    mu_free(run->folder);
}

void muster_run_destroy(muster_run *run) {
    if (!run) return;
    mu_api_close(run);
    mu_free(run);
}

// ---- training ----

typedef struct watcher { _Atomic int *stop; muster_progress_fn fn; void *ctx; double accuracy; } watcher;

static void on_progress(void *ctx, const mu_run_moment *m) {
    watcher *w = ctx;
    muster_progress p = {
        .step = m->step,
        .steps = m->end_steps,
        .epoch = m->epoch,
        .epochs = m->end_epochs,
        .loss = m->loss,
        .rate = m->rate,
        .samples_per_s = m->samples_per_s,
        .test_accuracy = w->accuracy,
        .elapsed_s = m->trained_s,
    };
    if (w->fn && w->fn(w->ctx, &p)) atomic_store(w->stop, 1);
}

static void on_evaluated(void *ctx, const mu_run_moment *m, MU_UNUSED mu_phase phase, const mu_scores *scores,
                      MU_UNUSED bool is_best) {
    watcher *w = ctx;
    w->accuracy = scores->accuracy;
    on_progress(ctx, m);
}

static bool holds_run(const char *folder) {
    char path[MU_FS_PATH];
    return mu_fs_join(path, folder, MU_RUN_JOB, NULL) == MU_OK && access(path, F_OK) == 0;
}

static void fill_result(const mu_run_result *r, muster_result *out) {
    memset(out, 0, sizeof *out);
    out->steps = r->steps;
    out->epochs = r->epochs;
    out->wall_s = r->wall_s;
    out->samples_per_s = r->samples_per_s;
    out->train_loss = r->train_loss;
    out->test_loss = r->tested ? r->test.loss : NAN;
    out->test_accuracy = r->tested ? r->test.accuracy : NAN;
    snprintf(out->checkpoint, sizeof out->checkpoint, "%s", r->checkpoint);
    snprintf(out->model, sizeof out->model, "%s", r->model);
}

muster_status mu_api_train(muster_run *run, _Atomic int *stop, muster_progress_fn progress, void *ctx,
                           muster_result *out, muster_error *err) {
    watcher w = {stop, progress, ctx, NAN};
    mu_run_opts o = {.out = run->folder, .no_files = !run->folder, .at = &run->at, .stop = stop,
                     .watch = {.ctx = &w, .progress = on_progress, .evaluated = on_evaluated}};
    if (run->folder && run->continues && holds_run(run->folder)) o.resume = run->folder;
    mu_run_result r;
    mu_err e = {0};
    mu_status st = mu_run_train(run->session, &o, &r, &e);
    if (r.run_dir[0]) run->continues = true;
    if (out && (st == MU_OK || mu_stop_was_asked(st))) fill_result(&r, out);
    return st == MU_OK ? MUSTER_OK : mu_api_fail(st, &e, err);
}

muster_status muster_run_train(muster_run *run, muster_progress_fn progress, void *ctx, muster_result *out,
                               muster_error *err) {
    if (!run) return mu_api_misuse(err, "muster_run_train needs a run");
    if (!run->session->train.net) return mu_api_misuse(err, "this run was made for prediction only");
    muster_status st = mu_session_forks(run->session)
                           ? mu_helper_train(run, progress, ctx, out, err)
                           : mu_api_train(run, &run->stop, progress, ctx, out, err);
    atomic_store(&run->stop, 0);
    return st;
}

void muster_run_stop(muster_run *run) {
    if (run) atomic_store(&run->stop, 1);
}

// ---- evaluation ----

static mu_status evaluate(muster_run *run, const char *split, mu_scores *scores, mu_err *err) {
    mu_phase phase = !strcmp(split, "validation") ? MU_VALIDATION : MU_TEST;
    if (phase == MU_TEST && strcmp(split, "test"))
        return mu_err_hinted(MU_FAIL(err, MU_EUSAGE, "cannot evaluate `%s`", split), err,
                             "Evaluate `test` or `validation`.");
    mu_session_phase *p = phase == MU_TEST ? &run->session->test : &run->session->validation;
    const mu_node *data = run->job->data;
    if (!p->net) return MU_FAIL_AT(err, MU_EJOB, data ? data->pos : MU_NOPOS, "`data` has no `%s`", split);
    return mu_evaluate(p, phase, NULL, NULL, scores, err);
}

muster_status muster_run_evaluate(muster_run *run, const char *split, muster_metric *metrics, size_t size,
                                  size_t *n, muster_error *err) {
    if (!run || !split || (size && !metrics))
        return mu_api_misuse(err, "muster_run_evaluate needs a run and a split");
    if (!run->session->train.net) return mu_api_misuse(err, "this run was made for prediction only");
    mu_scores scores;
    mu_err e = {0};
    mu_status st = evaluate(run, split, &scores, &e);
    if (st != MU_OK) return mu_api_fail(st, &e, err);
    for (size_t i = 0; i < (size_t)scores.n && i < size; i++) {
        snprintf(metrics[i].name, sizeof metrics[i].name, "%s", scores.name[i]);
        metrics[i].value = scores.value[i];
    }
    if (n) *n = (size_t)scores.n;
    return MUSTER_OK;
}
