// SPDX-License-Identifier: Apache-2.0
// tradeoff.c - see tradeoff.h.
#include "run/tradeoff.h"

#include "base/alloc.h"
#include "file/fs.h"
#include "file/outfile.h"
#include "run/trial.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>

#define TAG "tradeoff"
enum { OWN_EDITS = 4, MAX_JOB = 16 << 20 };

// Two at once would time each other and lose each other's rows. The lock goes with the process.
static mu_status lock_folder(const char *out, int *fd, mu_err *err) {
    char path[MU_FS_PATH];
    MU_TRY(mu_fs_join(path, out, "lock", err));
    *fd = mu_fs()->open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (*fd >= 0 && flock(*fd, LOCK_EX | LOCK_NB) == 0) return MU_OK;
    return MU_FAIL(err, MU_EUSAGE, "cannot lock `%s`: %s", path,
                   errno == EWOULDBLOCK ? "another `muster tradeoff` works there" : strerror(errno));
}

// A table of another job is not mixed with this one's. *same: the table there, if any, is about this job.
static mu_status compare_job(const mu_tradeoff *t, const char *text, size_t size, bool *same, mu_err *err) {
    char *old = NULL, path[MU_FS_PATH];
    size_t old_size = 0;
    MU_TRY(mu_fs_join(path, t->out, "job.yaml", err));
    mu_status read = mu_fs_read(path, MAX_JOB, &old, &old_size, NULL);
    *same = read == MU_ENOTFOUND || (read == MU_OK && old_size == size && !memcmp(old, text, size));
    mu_free(old);
    if (*same || t->again) return mu_outfile_replace(t->out, "job.yaml", text, size, err);
    MU_FAIL(err, MU_EUSAGE, "`%s` is about another job, or the same with other settings", t->out);
    mu_err_hint(err, "Give another --out, or --again to begin anew.");
    return MU_EUSAGE;
}

static mu_status own_folder(const mu_tradeoff *t, bool *same, mu_err *err) {
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);
    if (!f) return MU_FAIL_NOMEM(err, "the resolved job");
    mu_status st = mu_job_write(t->job, f, err);
    if (fclose(f) && st == MU_OK) st = MU_FAIL_NOMEM(err, "the resolved job");
    if (st == MU_OK) st = compare_job(t, text, size, same, err);
    free(text);
    return st;
}

// Training alone is on the clock: tests come at the end, and nothing is saved on the way unless a rollback
// may need it. Edits of the user come later and win, but for the number of learners, which is the cell's: a
// job that has it as `groups` gives that up.
static size_t make_edits(const mu_tradeoff *t, const char **set) {
    size_t n = 0;
    set[n++] = "test.every=never";
    set[n++] = "log.tensorboard=false";
    if (t->job->train.nonfinite != MU_NONFINITE_ROLLBACK) set[n++] = "checkpoint.every=never";
    for (size_t i = 0; i < t->n_sets; i++) set[n++] = t->set[i];
    if (mu_node_find(t->job->cluster, "groups")) set[n++] = MU_TRADEOFF_NO_GROUPS;
    return n;
}

static mu_status train_cell(const mu_tradeoff *t, mu_trial_opts *o, mu_trial *row, mu_trials *table,
                            mu_err *err) {
    char leaf[128], folder[MU_FS_PATH];
    snprintf(leaf, sizeof leaf, "runs/%s-mu%" PRId64 "-lambda%" PRId64 "-seed%" PRId64, row->protocol,
             row->mu, row->lambda, row->seed);
    for (char *c = leaf; *c; c++)
        if (*c == ':') *c = '-';
    MU_TRY(mu_fs_join(folder, t->out, leaf, err));
    o->out = folder;
    MU_TRY(mu_trial_run(o, row, err));
    MU_TRY(mu_trials_put(table, row, err));
    return mu_trials_save(table, t->out, err);
}

// A whole table with the first seed, then with the next.
static mu_status train_all(const mu_tradeoff *t, mu_trial_opts *o, mu_trials *table, mu_tradeoff_count *n,
                           mu_err *err) {
    int64_t per_seed = (int64_t)t->n_protocols * t->n_mu * t->n_lambda;
    n->cells = per_seed * t->repeat;
    for (int64_t i = 0; i < n->cells; i++, n->done++) {
        int64_t k = i % per_seed;
        const mu_tradeoff_protocol *p = &t->protocol[k / (t->n_mu * t->n_lambda)];
        mu_trial row = mu_trial_make(p->word, t->mu[k / t->n_lambda % t->n_mu], t->lambda[k % t->n_lambda],
                                     t->seed + i / per_seed);
        const mu_trial *old = mu_trials_find(table, &row);
        if (old && mu_trial_settled(old) && !t->again) {
            row = *old;
        } else {
            o->protocol = p->yaml;
            t->begins(t->ctx, &row, i + 1, n->cells);
            MU_TRY(train_cell(t, o, &row, table, err));
            n->trained++;
        }
        n->failed += !mu_trial_ok(&row);
        t->ended(t->ctx, &row);
    }
    return MU_OK;
}

static mu_status load_and_train(const mu_tradeoff *t, mu_trials *table, mu_tradeoff_count *n, mu_err *err) {
    bool same = true;
    MU_TRY(own_folder(t, &same, err));
    mu_status st = same ? mu_trials_load(table, t->out, err) : MU_OK;
    if (st == MU_ENOTFOUND) mu_err_clear(err);
    else MU_TRY(st);
    const char **set = mu_alloc_array(t->n_sets + OWN_EDITS, sizeof *set, TAG);
    if (!set) return MU_FAIL_NOMEM(err, "the edits");
    mu_trial_opts o = {.job = t->job_path, .set = set, .limit_s = t->limit_s, .keep = t->keep};
    o.n_sets = make_edits(t, set);
    st = train_all(t, &o, table, n, err);
    mu_free(set);
    return st;
}

mu_status mu_tradeoff_run(const mu_tradeoff *t, mu_trials *table, mu_tradeoff_count *n, mu_err *err) {
    int lock = -1;
    *n = (mu_tradeoff_count){0};
    MU_TRY(mu_fs_mkdirs(t->out, err));
    mu_status st = lock_folder(t->out, &lock, err);
    if (st == MU_OK) st = load_and_train(t, table, n, err);
    if (lock >= 0) mu_fs()->close(lock);
    return st;
}
