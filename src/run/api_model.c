// SPDX-License-Identifier: Apache-2.0
// api_model.c - the installed C interface: parameters and checkpoints.
//
// Loading copies array by array and may find the tenth one missing; the arrays of before are kept until
// the last one has arrived, so that a failed load changes nothing.
#include "run/api.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

typedef struct copies { int n; float *block[MU_PARAM_BLOCKS]; } copies;

static void drop(copies *c) {
    while (c->n > 0) mu_free(c->block[--c->n]);
}

static mu_status take_copies(const mu_params *ps, copies *c, mu_err *err) {
    for (c->n = 0; c->n <= ps->n_slots; c->n++) {
        c->block[c->n] = mu_alloc_array(ps->count, sizeof(float), "api/copy");
        if (!c->block[c->n]) {
            drop(c);
            return MU_FAIL_NOMEM(err, "a copy of the parameters");
        }
        memcpy(c->block[c->n], mu_api_block(ps, c->n), ps->count * sizeof(float));
    }
    return MU_OK;
}

static void put_back(mu_params *ps, const copies *c) {
    for (int i = 0; i < c->n; i++) memcpy(mu_api_block(ps, i), c->block[i], ps->count * sizeof(float));
}

// A run folder means its checkpoints.
static mu_status find_checkpoints(const muster_run *run, const char *path, char out[MU_FS_PATH],
                                  mu_err *err) {
    struct stat st;
    if (!path) path = run->folder;
    if (!path) return MU_FAIL(err, MU_EUSAGE, "the run has no folder to resume from");
    MU_TRY(mu_fs_join(out, path, MU_RUN_CHECKPOINTS, err));
    if (stat(out, &st) == 0 && S_ISDIR(st.st_mode)) return MU_OK;
    snprintf(out, MU_FS_PATH, "%s", path); // fits: it did with more behind it
    return MU_OK;
}

static mu_status resume(muster_run *run, const char *path, mu_err *err) {
    char from[MU_FS_PATH];
    MU_TRY(find_checkpoints(run, path, from, err));
    MU_TRY(mu_state_restore(from, MU_CKPT_NEWEST, run->session, &run->at.at, &run->at.finished,
                            &run->at.progress, err));
    run->continues = true;
    return MU_OK;
}

static mu_status load(muster_run *run, const char *path, mu_err *err) {
    int n;
    MU_TRY(mu_state_load_params(path, MU_CKPT_NEWEST, run->session->params, true, &n, err));
    mu_params *ps = run->session->params;
    for (int i = 0; i < ps->n_slots; i++) memset(ps->slot[i], 0, ps->count * sizeof(float));
    run->at = MU_RUN_BEGINNING;
    run->continues = false;
    return MU_OK;
}

static muster_status change(muster_run *run, mu_status (*how)(muster_run *, const char *, mu_err *),
                            const char *path, muster_error *err) {
    mu_params *ps = run->session->params;
    copies before;
    mu_err e = {0};
    mu_status st = take_copies(ps, &before, &e);
    if (st != MU_OK) return mu_api_fail(st, &e, err);
    st = how(run, path, &e);
    if (st != MU_OK) put_back(ps, &before);
    drop(&before);
    return st == MU_OK ? MUSTER_OK : mu_api_fail(st, &e, err);
}

muster_status muster_run_load(muster_run *run, const char *path, muster_error *err) {
    if (!run || !path) return mu_api_misuse(err, "muster_run_load needs a run and a path");
    return change(run, load, path, err);
}

muster_status muster_run_resume(muster_run *run, const char *path, muster_error *err) {
    if (!run) return mu_api_misuse(err, "muster_run_resume needs a run");
    if (!run->session->train.net) return mu_api_misuse(err, "this run was made for prediction only");
    return change(run, resume, path, err);
}

muster_status muster_run_save(muster_run *run, const char *path, muster_error *err) {
    if (!run || !path) return mu_api_misuse(err, "muster_run_save needs a run and a path");
    char dir[MU_FS_PATH];
    const char *slash = strrchr(path, '/'), *leaf = slash ? slash + 1 : path;
    int n = !slash ? snprintf(dir, sizeof dir, ".")
                   : snprintf(dir, sizeof dir, "%.*s", slash == path ? 1 : (int)(slash - path), path);
    if (!*leaf || n >= MU_FS_PATH) return mu_api_misuse(err, "muster_run_save needs the name of a file");
    mu_err e = {0};
    mu_status st = mu_state_export(dir, leaf, run->session, NULL, 0, &e);
    return st == MU_OK ? MUSTER_OK : mu_api_fail(st, &e, err);
}
