// SPDX-License-Identifier: Apache-2.0
// jobs.c - see jobs.h.
#include "cli/jobs.h"

#include "cli/term.h"
#include "store/rundir.h"
#include "train/state.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void show(const mu_args *a, const mu_job *job) {
    if (!job->diags.n_errors && !job->diags.n_warnings) return;
    mu_diags_print(&job->diags, stderr, mu_term_colour(stderr));
    if (a->json) mu_diags_print_json(&job->diags, stdout);
}

mu_status mu_cli_open(const mu_args *a, const char *word, const mu_session_opts *o, mu_job **job,
                      mu_session **out, mu_err *err) {
    char path[MU_FS_PATH];
    if (mu_fs_is_folder(word)) MU_TRY(mu_fs_join(path, word, MU_RUN_JOB, err));
    else snprintf(path, sizeof path, "%s", word);
    if (access(path, F_OK))
        return mu_err_hinted(MU_FAIL(err, MU_EJOB, "no job file or run folder `%s`", word), err,
                             "Runs are in `runs/`; `muster init` writes an example job.");
    mu_err own = {0};
    *job = NULL;
    mu_status st = mu_job_load(path, a->set, a->n_sets, job, &own);
    if (st != MU_OK && st != MU_EJOB) {
        *err = own;
        return st;
    }
    if (!*job || !(*job)->root) { // unreadable: nothing more can be found out
        if (*job && (*job)->diags.n_errors) show(a, *job);
        else *err = own;
        return st;
    }
    bool outline_ok = st == MU_OK;
    mu_session_opts all = *o;
    if (o->check_only && !mu_node_find((*job)->data, "train") && !mu_node_find((*job)->root, "train"))
        all.phases &= ~(unsigned)MU_TRAIN; // a job that only evaluates
    if (!outline_ok) all.check_only = true; // go on only to find the other problems
    mu_err_clear(&own);
    st = mu_session_open(*job, &all, out, &own);
    show(a, *job);
    if (st == MU_OK && !outline_ok) {
        mu_session_close(*out);
        *out = NULL;
        return MU_EJOB;
    }
    if (st != MU_OK && st != MU_EJOB) *err = own;
    return st;
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

mu_status mu_cli_load_model(mu_session *s, const char *word, const char *model, bool best, mu_err *err) {
    if (!model && !mu_fs_is_folder(word))
        return mu_err_hinted(MU_FAIL(err, MU_EUSAGE, "no parameters given for `%s`", word), err,
                             "Name a run folder instead of the job file, or add `--model FILE.safetensors`.");
    if (!s->params) return MU_OK; // no data of the phase, so no net: its verb says so
    int n;
    mu_ckpt_which which = best ? MU_CKPT_BEST : MU_CKPT_NEWEST;
    mu_status st = mu_state_load_params(model ? model : word, which, s->params, true, &n, err);
    if (st == MU_ENOTFOUND && best)
        mu_err_hint(err, "A best checkpoint is marked by evaluations while training; leave out `--best`.");
    return st;
}

void mu_cli_print_json(json_t *object) {
    if (object && json_dumpf(object, stdout, JSON_COMPACT | JSON_REAL_PRECISION(9)) == 0) putchar('\n');
    json_decref(object);
}
