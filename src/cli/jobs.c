// SPDX-License-Identifier: Apache-2.0
// jobs.c - see jobs.h.
#include "cli/jobs.h"

#include "cli/term.h"
#include "store/rundir.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void show(const mu_args *a, const mu_job *job) {
    if (!job->diags.n_errors && !job->diags.n_warnings) return;
    mu_diags_print(&job->diags, stderr, mu_term_colour(stderr));
    if (a->json) mu_diags_print_json(&job->diags, stdout);
}

// The session of a job that was loaded with status `st`; shows all problems of both.
static mu_status open_session(const mu_args *a, mu_status st, mu_err *own, const mu_session_opts *o,
                              mu_job *job, mu_session **out, mu_err *err) {
    if (st != MU_OK && st != MU_EJOB) return mu_err_pass(st, own, err);
    if (!job || !job->root) { // unreadable: nothing more can be found out
        if (job && job->diags.n_errors) show(a, job);
        else *err = *own;
        return st;
    }
    bool outline_ok = st == MU_OK;
    mu_session_opts all = *o;
    if (o->check_only && !mu_node_find(job->data, "train") && !mu_node_find(job->root, "train"))
        all.phases &= ~(unsigned)MU_TRAIN;  // a job that only evaluates
    if (!outline_ok) all.check_only = true; // go on only to find the other problems
    mu_err_clear(own);
    st = mu_session_open(job, &all, out, own);
    show(a, job);
    if (st == MU_OK && !outline_ok) {
        mu_session_close(*out);
        *out = NULL;
        return MU_EJOB;
    }
    if (st != MU_OK && st != MU_EJOB) *err = *own;
    return st;
}

mu_status mu_cli_check_word(const char *word, mu_err *err) {
    char path[MU_FS_PATH];
    if (mu_fs_is_folder(word)) MU_TRY(mu_fs_join(path, word, MU_RUN_JOB, err));
    else snprintf(path, sizeof path, "%s", word);
    if (!access(path, F_OK)) return MU_OK;
    return mu_err_hinted(MU_FAIL(err, MU_EJOB, "no job file or run folder `%s`", word), err,
                         "Runs are in `runs/`; `muster init` writes an example job.");
}

mu_status mu_cli_open(const mu_args *a, const char *word, const mu_session_opts *o, mu_job **job,
                      mu_session **out, mu_err *err) {
    MU_TRY(mu_cli_check_word(word, err));
    mu_err own = {0};
    *job = NULL;
    mu_model none = {0};
    const mu_status st = mu_model_load_job(&none, word, a->set, a->n_sets, job, &own);
    return open_session(a, st, &own, o, *job, out, err);
}

void mu_cli_show_placed(mu_err *err) {
    if (!err->msg[0] || !err->pos.path) return;
    mu_err_print(err, stderr, mu_term_colour(stderr));
    err->msg[0] = '\0';
    err->pos = MU_NOPOS;
}

void mu_cli_close(mu_job *job, mu_session *s, mu_err *err) {
    mu_cli_show_placed(err);
    mu_session_close(s);
    mu_job_destroy(job);
}

mu_status mu_cli_take_params(mu_cli_model *m, mu_err *err) {
    int n;
    return mu_model_take_params(&m->model, m->session->params, true, &n, err);
}

static mu_status open_parameters(const char *word, const char *model, bool best, mu_cli_model *out) {
    mu_err *err = &out->of_model;
    if (!model && !mu_model_is_file(word) && !mu_fs_is_folder(word))
        return mu_err_hinted(MU_FAIL(err, MU_EUSAGE, "no parameters given for `%s`", word), err,
                             "Name a run folder instead of the job file, or add `--model FILE.safetensors`.");
    mu_status st =
        mu_model_open(&out->model, model ? model : word, best ? MU_CKPT_BEST : MU_CKPT_NEWEST, err);
    if (st == MU_ENOTFOUND && best)
        mu_err_hint(err, "A best checkpoint is marked by evaluations while training; leave out `--best`.");
    return st;
}

mu_status mu_cli_load_model(const mu_args *a, const char *word, const char *model, bool best,
                            mu_cli_model *out, mu_err *err) {
    *out = (mu_cli_model){0};
    MU_TRY(mu_cli_check_word(word, err));
    out->model_status = open_parameters(word, model, best, out);
    if (out->model_status != MU_OK && mu_model_is_file(word))
        return mu_err_pass(out->model_status, &out->of_model, err);
    out->job_status = mu_model_load_job(&out->model, word, a->set, a->n_sets, &out->job, &out->of_job);
    return MU_OK;
}

mu_status mu_cli_ready_model(const mu_args *a, const mu_session_opts *o, mu_cli_model *m, mu_err *err) {
    mu_session_opts with = *o;
    with.inputs = m->model.inputs;
    MU_TRY(open_session(a, m->job_status, &m->of_job, &with, m->job, &m->session, err));
    if (m->model_status != MU_OK) return mu_err_pass(m->model_status, &m->of_model, err);
    return m->session->params ? mu_cli_take_params(m, err) : MU_OK;
}

mu_status mu_cli_open_model(const mu_args *a, const char *word, const char *model, bool best,
                            const mu_session_opts *o, mu_cli_model *out, mu_err *err) {
    MU_TRY(mu_cli_load_model(a, word, model, best, out, err));
    return mu_cli_ready_model(a, o, out, err);
}

void mu_cli_close_model(mu_cli_model *m, mu_err *err) {
    mu_cli_close(m->job, m->session, err);
    mu_model_close(&m->model);
    *m = (mu_cli_model){0};
}

void mu_cli_print_json(json_t *object) {
    if (object && json_dumpf(object, stdout, JSON_COMPACT | JSON_REAL_PRECISION(9)) == 0) putchar('\n');
    json_decref(object);
}
