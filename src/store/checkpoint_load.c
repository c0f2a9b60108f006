// SPDX-License-Identifier: Apache-2.0
// checkpoint_load.c - finding, verifying and loading checkpoints; nothing here writes.
//
// Age is the serial number in the manifest, not the step: a run that was rolled back saves smaller steps
// later. No array is handed out before every file of its checkpoint has matched its checksums.
#include "store/checkpoint.h"

#include "base/alloc.h"
#include "base/log.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define TAG "checkpoint"
#define LINE_MAX_BYTES 256u     // of BEST

// ---- listing ----

// "step-12" or "step-12-2", and either with ".old", nothing else: no signs, leading zeros or other endings.
static bool parse_name(const char *name, int64_t *version) {
    char canonical[MU_CKPT_NAME], again[16] = "", *end;
    if (strncmp(name, "step-", 5) || name[5] < '0' || name[5] > '9') return false;
    errno = 0;
    long long n = strtoll(name + 5, &end, 10), which = 1;
    if (*end == '-') which = strtoll(end + 1, &end, 10);
    if (errno || (*end && strcmp(end, ".old")) || which < 1 || which > INT_MAX) return false;
    if (which > 1) snprintf(again, sizeof again, "-%lld", which);
    snprintf(canonical, sizeof canonical, "step-%lld%s%s", n, again, *end ? ".old" : "");
    *version = n;
    return !strcmp(name, canonical);
}

// The name in the BEST record, "" for none or an unreadable one.
static void read_best(const char *dir, char name[MU_CKPT_NAME]) {
    char path[MU_FS_PATH], *line;
    size_t n;
    int64_t version;
    name[0] = '\0';
    if (mu_fs_join(path, dir, "BEST", NULL) != MU_OK) return;
    if (mu_fs_read(path, LINE_MAX_BYTES, &line, &n, NULL) != MU_OK) return;
    line[strcspn(line, "\n")] = '\0';
    if (parse_name(line, &version)) snprintf(name, MU_CKPT_NAME, "%.*s", MU_CKPT_NAME - 1, line);
    mu_free(line);
}

// Also the folder that is being replaced.
static bool is_named(const char *name, const char *best) {
    const size_t n = strlen(best);
    return n && !strncmp(name, best, n) && (!name[n] || !strcmp(name + n, ".old"));
}

static int newest_first(const void *a, const void *b) {
    const mu_ckpt_entry *x = a, *y = b;
    if (x->serial != y->serial) return x->serial > y->serial ? -1 : 1;
    return x->version > y->version ? -1 : x->version < y->version;
}

static mu_status read_serial(const char *dir, mu_ckpt_entry *e, mu_err *err) {
    char step_dir[MU_FS_PATH], path[MU_FS_PATH];
    mu_manifest *m = NULL;
    mu_err why = {0};
    MU_TRY(mu_fs_join(step_dir, dir, e->name, err));
    MU_TRY(mu_fs_join(path, step_dir, MU_MANIFEST_NAME, err));
    mu_status status = mu_manifest_load(path, &m, &why);
    if (status == MU_ENOMEM) return MU_FAIL_NOMEM(err, "a manifest");
    e->serial = status == MU_OK ? m->serial : -1;
    mu_manifest_destroy(m);
    return MU_OK;
}

static mu_status scan(DIR *d, const char *dir, mu_ckpt_entry **list, size_t *n, mu_err *err) {
    size_t cap = 0;
    char best[MU_CKPT_NAME];
    read_best(dir, best);
    for (struct dirent *e; (e = readdir(d));) {
        int64_t version;
        if (!parse_name(e->d_name, &version)) continue;
        mu_ckpt_entry *grown = mu_grow(*list, *n, &cap, sizeof *grown, 8, TAG);
        if (!grown) return MU_FAIL_NOMEM(err, "the list of checkpoints");
        *list = grown;
        mu_ckpt_entry *entry = &(*list)[(*n)++];
        *entry = (mu_ckpt_entry){.version = version, .serial = -1, .best = is_named(e->d_name, best)};
        memcpy(entry->name, e->d_name, strlen(e->d_name) + 1); // fits: parse_name compared it
        MU_TRY(read_serial(dir, entry, err));
    }
    return MU_OK;
}

mu_status mu_ckpt_list(const char *dir, mu_ckpt_entry **out, size_t *n, mu_err *err) {
    mu_ckpt_entry *list = NULL;
    size_t count = 0;
    DIR *d = opendir(dir);
    if (!d && errno != ENOENT)
        return MU_FAIL(err, MU_EIO, "cannot read the folder `%s`: %s", dir, strerror(errno));
    if (d) {
        mu_status status = scan(d, dir, &list, &count, err);
        closedir(d);
        if (status != MU_OK) {
            mu_free(list);
            return status;
        }
    }
    if (count) qsort(list, count, sizeof *list, newest_first);
    *out = list;
    *n = count;
    return MU_OK;
}

// ---- loading ----

typedef struct loaded {
    mu_ckpt_loaded view;        // first: what the caller holds
    mu_manifest   *manifest;
    mu_st_file    *params, *slots;
} loaded;

void mu_ckpt_unload(mu_ckpt_loaded *c) {
    loaded *l = (loaded *)c;
    if (!l) return;
    mu_st_close(l->params);
    mu_st_close(l->slots);
    mu_manifest_destroy(l->manifest);
    mu_free(l);
}

static mu_status open_listed(const loaded *l, const char *name, mu_st_file **out, mu_err *err) {
    char path[MU_FS_PATH];
    MU_TRY(mu_fs_join(path, l->view.path, name, err));
    return mu_st_open(path, out, err);
}

static mu_status fill(loaded *l, const char *step_dir, mu_err *err) {
    char path[MU_FS_PATH];
    if (snprintf(l->view.path, sizeof l->view.path, "%s", step_dir) >= MU_FS_PATH)
        return MU_FAIL(err, MU_EUSAGE, "path too long: `%.80s...`", step_dir);
    MU_TRY(mu_fs_join(path, step_dir, MU_MANIFEST_NAME, err));
    MU_TRY(mu_manifest_load(path, &l->manifest, err));
    if (!mu_manifest_find(l->manifest, MU_CKPT_MODEL))
        return MU_FAIL(err, MU_EMODEL, "`%s` lists no `" MU_CKPT_MODEL "`", path);
    for (size_t i = 0; i < l->manifest->n_files; i++) {
        const mu_manifest_file *f = &l->manifest->files[i];
        MU_TRY(mu_fs_join(path, step_dir, f->name, err));
        MU_TRY(mu_digest_verify(&f->digest, path, err));
    }
    MU_TRY(open_listed(l, MU_CKPT_MODEL, &l->params, err));
    if (mu_manifest_find(l->manifest, MU_CKPT_UPDATER))
        MU_TRY(open_listed(l, MU_CKPT_UPDATER, &l->slots, err));
    l->view.manifest = l->manifest;
    l->view.params = l->params;
    l->view.slots = l->slots;
    return MU_OK;
}

static mu_status load_one(const char *step_dir, mu_ckpt_loaded **out, mu_err *err) {
    loaded *l = mu_alloc(sizeof *l, TAG);
    if (!l) return MU_FAIL_NOMEM(err, "a checkpoint");
    mu_status status = fill(l, step_dir, err);
    if (status == MU_OK) *out = &l->view;
    else mu_ckpt_unload(&l->view);
    return status;
}

mu_status mu_ckpt_verify(const char *step_dir, mu_err *err) {
    mu_ckpt_loaded *c = NULL;
    mu_status status = load_one(step_dir, &c, err);
    mu_ckpt_unload(c);
    return status;
}

// Warns of each checkpoint that cannot be used until one can. Those without a readable manifest have no known
// age and could be the newest: they come first, so that damage is named there as anywhere else.
static mu_status load_newest(const char *dir, const mu_ckpt_entry *list, size_t n, mu_ckpt_loaded **out,
                             mu_err *err) {
    mu_err first = {0};
    for (size_t k = 0; k < 2 * n; k++) {
        const mu_ckpt_entry *e = &list[k % n];
        char path[MU_FS_PATH];
        mu_err why = {0};
        if ((e->serial < 0) != (k < n)) continue;
        MU_TRY(mu_fs_join(path, dir, e->name, err));
        mu_status status = load_one(path, out, &why);
        if (status == MU_OK) {
            if (first.status != MU_OK) mu_warn("using checkpoint `%s` instead", path);
            return MU_OK;
        }
        if (status == MU_ENOMEM) return MU_FAIL_NOMEM(err, "a checkpoint");
        mu_warn("skipping checkpoint `%s`: %s", path, why.msg);
        if (first.status == MU_OK) first = why;
    }
    MU_FAIL(err, MU_EMODEL, "none of the %zu checkpoints in `%s` is intact", n, dir);
    mu_err_note(err, "%.150s", first.msg);
    return MU_EMODEL;
}

// Why BEST leads to none of the checkpoints: it is not there, is damaged, or names one that is gone.
static mu_status no_best(const char *dir, mu_err *err) {
    char path[MU_FS_PATH], *line = NULL;
    size_t n;
    int64_t step;
    MU_TRY(mu_fs_join(path, dir, "BEST", err));
    mu_status status = mu_fs_read(path, LINE_MAX_BYTES, &line, &n, err);
    if (status == MU_ENOTFOUND) {
        mu_err_clear(err);
        return MU_FAIL(err, MU_ENOTFOUND, "no checkpoint in `%s` is marked as the best", dir);
    }
    if (status == MU_OK) {
        line[strcspn(line, "\n")] = '\0';
        status = parse_name(line, &step)
                     ? MU_FAIL(err, MU_EMODEL, "`%s` names `%s`, which is not there", path, line)
                     : MU_FAIL(err, MU_EMODEL, "`%s` is damaged: it does not name a checkpoint", path);
    }
    mu_free(line);
    return mu_err_hinted(status, err, "Leave out `--best` to take the newest checkpoint.");
}

static mu_status load_best(const char *dir, const mu_ckpt_entry *list, size_t n, mu_ckpt_loaded **out,
                           mu_err *err) {
    for (size_t i = 0; i < n; i++) {
        char path[MU_FS_PATH];
        if (!list[i].best) continue;
        MU_TRY(mu_fs_join(path, dir, list[i].name, err));
        return load_one(path, out, err);
    }
    return no_best(dir, err);
}

mu_status mu_ckpt_load(const char *path, mu_ckpt_which which, mu_ckpt_loaded **out, mu_err *err) {
    char manifest[MU_FS_PATH];
    struct stat st;
    MU_TRY(mu_fs_join(manifest, path, MU_MANIFEST_NAME, err));
    if (stat(manifest, &st) == 0) return load_one(path, out, err);
    mu_ckpt_entry *list = NULL;
    size_t n = 0;
    MU_TRY(mu_ckpt_list(path, &list, &n, err));
    mu_status status;
    if (n == 0) status = MU_FAIL(err, MU_ENOTFOUND, "no checkpoint in `%s`", path);
    else if (which == MU_CKPT_BEST) status = load_best(path, list, n, out, err);
    else status = load_newest(path, list, n, out, err);
    mu_free(list);
    return status;
}
