// SPDX-License-Identifier: Apache-2.0
// folder.c - see folder.h.
#include "run/folder.h"

#include "base/log.h"

#include <stdio.h>
#include <stdlib.h>

mu_status mu_folder_open(mu_training *r, mu_err *err) {
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

mu_status mu_folder_write_job(const mu_training *r, mu_err *err) {
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);
    if (!f) return MU_FAIL_NOMEM(err, "the resolved job");
    write_folder(r->s->job, f);
    mu_status st = mu_job_write(r->s->job, f, err);
    fclose(f);
    if (st == MU_OK) st = mu_outfile_replace(r->dir.path, MU_RUN_JOB, text, size, err);
    free(text);
    return st;
}

mu_status mu_folder_open_reports(mu_training *r, int64_t after, mu_err *err) {
    char path[MU_FS_PATH];
    MU_TRY(mu_rundir_path(&r->dir, MU_RUN_METRICS, path, err));
    MU_TRY(mu_metrics_open(path, after, &r->metrics, err));
    if (!r->s->job->log.tensorboard) return MU_OK;
    MU_TRY(mu_rundir_path(&r->dir, MU_RUN_TRAIN_EVENTS, path, err));
    MU_TRY(mu_events_open(path, &r->train_events, err));
    MU_TRY(mu_rundir_path(&r->dir, MU_RUN_VALIDATION_EVENTS, path, err));
    return mu_events_open(path, &r->eval_events, err);
}

void mu_folder_close_reports(mu_training *r) {
    mu_metrics_close(r->metrics);
    mu_events_close(r->train_events);
    mu_events_close(r->eval_events);
    r->metrics = NULL;
    r->train_events = r->eval_events = NULL;
}

mu_status mu_folder_keep(mu_training *r, mu_err *err) {
    const int log_fd = r->dir.log_fd;
    if (r->o->no_files || mu_rundir_is_there(&r->dir)) return MU_OK;
    mu_log_drop_file(log_fd);
    mu_rundir_close(&r->dir);
    MU_TRY(mu_rundir_create_again(&r->dir, err));
    mu_log_set_file(r->dir.log_fd);
    mu_training_say(r, "the run folder %s was removed; it is made again, without what was in it",
                    r->dir.path);
    mu_folder_close_reports(r);
    MU_TRY(mu_folder_write_job(r, err));
    return mu_folder_open_reports(r, -1, err);
}
