// SPDX-License-Identifier: Apache-2.0
// checkpoint.c - saving; see checkpoint.h for the order of steps and what it guarantees.
// Listing and loading are in checkpoint_load.c.
#include "store/checkpoint.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

typedef struct step_names {          // the three names a checkpoint can have in `dir`
    char step[MU_CKPT_NAME];
    char path[MU_FS_PATH], tmp[MU_FS_PATH], old[MU_FS_PATH];
} step_names;

static mu_status make_names(const char *dir, int64_t version, int which, step_names *out, mu_err *err) {
    char with[MU_CKPT_NAME + 8];
    int n = snprintf(out->step, sizeof out->step, "step-%" PRId64, version);
    if (which > 1) snprintf(out->step + n, sizeof out->step - (size_t)n, "-%d", which);
    MU_TRY(mu_fs_join(out->path, dir, out->step, err));
    snprintf(with, sizeof with, "%s.tmp", out->step);
    MU_TRY(mu_fs_join(out->tmp, dir, with, err));
    snprintf(with, sizeof with, "%s.old", out->step);
    return mu_fs_join(out->old, dir, with, err);
}

static bool exists(const char *path) {
    struct stat st;
    return lstat(path, &st) == 0;
}

static bool ends_with(const char *s, const char *tail) {
    size_t n = strlen(s), t = strlen(tail);
    return n > t && !strcmp(s + n - t, tail);
}

// Counts per block and looks for the place only then: a branch per element would not become vector code.
static mu_status check_finite(const mu_st_tensor *tensors, size_t n, const char *kind, mu_err *err) {
    enum { BLOCK = 4096 };
    for (size_t k = 0; k < n; k++) {
        const mu_st_tensor *t = &tensors[k];
        if (t->dtype != MU_ST_F32) continue;
        const float *x = t->data;
        size_t count = (size_t)mu_shape_count(&t->shape);
        for (size_t from = 0; from < count; from += BLOCK) {
            size_t to = count - from < BLOCK ? count : from + BLOCK;
            int n_bad = 0;
            for (size_t i = from; i < to; i++) n_bad += !isfinite(x[i]);
            if (!n_bad) continue;
            while (isfinite(x[from])) from++;
            return mu_err_hinted(MU_FAIL(err, MU_EDIVERGED, "%s `%s` is %f at element %zu: not saved", kind,
                                         t->name, (double)x[from], from),
                                 err, "Lower the learning rate or clip the gradient, then resume.");
        }
    }
    return MU_OK;
}

// Removing is renaming first, and that name on disk before the first file goes, so that no half-empty
// folder is ever seen under a complete name.
static void remove_checkpoint(const char *dir, const char *name) {
    char path[MU_FS_PATH], tmp[MU_FS_PATH], with[MU_CKPT_NAME + 8];
    snprintf(with, sizeof with, "%s.tmp", name);
    if (mu_fs_join(path, dir, name, NULL) != MU_OK || mu_fs_join(tmp, dir, with, NULL) != MU_OK) return;
    mu_err why = {0};
    if (mu_fs_rename(path, tmp, &why) != MU_OK || mu_fs_sync_dir(dir, &why) != MU_OK) mu_warn("%s", why.msg);
    else mu_fs_remove_tree(tmp);
}

// A kill between the two renames of replace_damaged() left step-N.old. Exactly one of the two survives this:
// step-N when it is intact, else the old one under its own name.
static mu_status settle_old(const char *dir, const char *old_name, mu_err *err) {
    char name[MU_CKPT_NAME], path[MU_FS_PATH], old[MU_FS_PATH];
    snprintf(name, sizeof name, "%.*s", (int)(strlen(old_name) - strlen(".old")), old_name);
    MU_TRY(mu_fs_join(path, dir, name, err));
    MU_TRY(mu_fs_join(old, dir, old_name, err));
    if (exists(path)) {
        mu_status intact = mu_ckpt_verify(path, err);
        if (intact == MU_ENOMEM || intact == MU_EIO) return intact; // says nothing about the checkpoint
        mu_err_clear(err);
        remove_checkpoint(dir, intact == MU_OK ? old_name : name);
        if (intact == MU_OK) return MU_OK;
    }
    return mu_fs_rename(old, path, err);
}

// Clears what killed saves left behind and returns the next serial number.
static mu_status tidy(const char *dir, int64_t *serial, mu_err *err) {
    mu_ckpt_entry *list = NULL;
    size_t n = 0;
    DIR *d = opendir(dir);
    if (!d) return MU_FAIL(err, MU_EIO, "cannot read the folder `%s`: %s", dir, strerror(errno));
    for (struct dirent *e; (e = readdir(d));) {
        char path[MU_FS_PATH];
        if (strncmp(e->d_name, "step-", 5) || !ends_with(e->d_name, ".tmp")) continue;
        if (mu_fs_join(path, dir, e->d_name, NULL) == MU_OK) mu_fs_remove_tree(path);
    }
    closedir(d);
    mu_fs_remove_unfinished(dir);
    MU_TRY(mu_ckpt_list(dir, &list, &n, err));
    mu_status status = MU_OK;
    *serial = 1;
    for (size_t i = 0; i < n && status == MU_OK; i++) {
        if (list[i].serial >= *serial) *serial = list[i].serial + 1;
        if (ends_with(list[i].name, ".old")) status = settle_old(dir, list[i].name, err);
    }
    mu_free(list);
    return status;
}

static mu_status write_arrays(const char *dir, const char *name, const mu_st_tensor *tensors, size_t n,
                              const mu_st_meta *about, size_t n_about, mu_manifest_file *entry, mu_err *err) {
    char path[MU_FS_PATH];
    MU_TRY(mu_fs_join(path, dir, name, err));
    mu_outfile *f;
    MU_TRY(mu_outfile_create_part(path, &entry->digest, &f, err));
    mu_status status = mu_st_write(f, tensors, n, about, n_about, err);
    if (status != MU_OK) {
        mu_outfile_abandon(f);
        return status;
    }
    entry->name = name;
    return mu_outfile_commit(f, err);
}

// Comes last, and syncs the folder: with it the checkpoint is complete.
static mu_status write_manifest(const char *dir, const mu_manifest *m, mu_err *err) {
    char *text = NULL;
    size_t size = 0;
    MU_TRY(mu_manifest_format(m, &text, &size, err));
    mu_status status = mu_outfile_replace(dir, MU_MANIFEST_NAME, text, size, err);
    mu_free(text);
    return status;
}

static mu_status write_folder(const char *tmp, const mu_ckpt *state, int64_t serial, mu_err *err) {
    char stamp[32];
    mu_manifest_file files[2] = {0};
    mu_manifest m = { .meta = state->meta, .serial = serial, .saved_at = stamp, .files = files };
    mu_clock_rfc3339(stamp, sizeof stamp);
    MU_TRY(mu_fs_mkdirs(tmp, err));
    const mu_st_meta usual = {"format", "pt"};
    mu_status status = write_arrays(tmp, MU_CKPT_MODEL, state->params, state->n_params,
                                    state->n_about ? state->about : &usual,
                                    state->n_about ? state->n_about : 1, &files[m.n_files], err);
    if (status == MU_OK) m.n_files++;
    if (status == MU_OK && state->n_slots) {
        status = write_arrays(tmp, MU_CKPT_UPDATER, state->slots, state->n_slots, &usual, 1,
                              &files[m.n_files], err);
        if (status == MU_OK) m.n_files++;
    }
    if (status == MU_OK) status = write_manifest(tmp, &m, err);
    for (size_t i = 0; i < m.n_files; i++) mu_digest_fini(&files[i].digest);
    if (status != MU_OK) return status;
    status = mu_ckpt_verify(tmp, err);
    if (status != MU_OK) mu_err_note(err, "while reading back the checkpoint just written");
    return status;
}

// ---- the place of a new folder ----

typedef enum place { FREE, OTHERS, SAME, SAME_DAMAGED } place;

static bool same_files(const mu_manifest *a, const mu_manifest *b) {
    bool same = a->n_files == b->n_files;
    for (size_t i = 0; i < a->n_files && same; i++) {
        const mu_manifest_file *f = mu_manifest_find(b, a->files[i].name);
        same = f && f->digest.size_bytes == a->files[i].digest.size_bytes &&
               !memcmp(f->digest.xxh3, a->files[i].digest.xxh3, sizeof f->digest.xxh3);
    }
    return same;
}

static mu_status load_manifest(const char *folder, mu_manifest **out, mu_err *err) {
    char path[MU_FS_PATH];
    MU_TRY(mu_fs_join(path, folder, MU_MANIFEST_NAME, err));
    return mu_manifest_load(path, out, err);
}

// Whose weights are in the folder that has the name? A manifest that cannot be read says nothing.
static mu_status look_at(const char *path, const char *tmp, place *out, mu_err *err) {
    mu_manifest *old = NULL, *new = NULL;
    *out = FREE;
    if (!exists(path)) return MU_OK;
    *out = OTHERS;
    MU_TRY(load_manifest(tmp, &new, err));
    mu_status status = load_manifest(path, &old, err);
    if (status == MU_OK && same_files(old, new)) {
        status = mu_ckpt_verify(path, err);
        *out = status == MU_OK ? SAME : SAME_DAMAGED;
    }
    mu_manifest_destroy(old);
    mu_manifest_destroy(new);
    if (status == MU_ENOMEM) return status;
    mu_err_clear(err);
    return MU_OK;
}

static mu_status replace_damaged(const char *dir, const step_names *at, const char *tmp, mu_err *err) {
    char name[MU_CKPT_NAME + 8];
    MU_TRY(mu_fs_rename(at->path, at->old, err));
    mu_status status = mu_fs_rename(tmp, at->path, err);
    if (status != MU_OK) {
        mu_err why = {0};
        if (mu_fs_rename(at->old, at->path, &why) != MU_OK) mu_warn("%s", why.msg);
        return status;
    }
    MU_TRY(mu_fs_sync_dir(dir, err));
    snprintf(name, sizeof name, "%s.old", at->step);
    remove_checkpoint(dir, name);
    return MU_OK;
}

// The weights are there: what the training has learned about them since goes beside them.
static mu_status renew_manifest(const step_names *at, const char *tmp, mu_err *err) {
    char from[MU_FS_PATH], *text;
    size_t size;
    MU_TRY(mu_fs_join(from, tmp, MU_MANIFEST_NAME, err));
    MU_TRY(mu_fs_read(from, MU_MANIFEST_MAX_BYTES, &text, &size, err));
    mu_fs_remove_unfinished(at->path); // of one that was killed here
    mu_status status = mu_outfile_replace(at->path, MU_MANIFEST_NAME, text, size, err);
    mu_free(text);
    if (status == MU_OK) mu_fs_remove_tree(tmp);
    return status;
}

// at: the names of the version; afterwards those of the place that was taken.
static mu_status put_in_place(const char *dir, int64_t version, step_names *at, mu_err *err) {
    char tmp[MU_FS_PATH];
    place found;
    memcpy(tmp, at->tmp, sizeof tmp);
    MU_TRY(look_at(at->path, tmp, &found, err));
    for (int which = 2; found == OTHERS; which++) {
        MU_TRY(make_names(dir, version, which, at, err));
        MU_TRY(look_at(at->path, tmp, &found, err));
    }
    if (found == SAME) return renew_manifest(at, tmp, err);
    if (found == SAME_DAMAGED) return replace_damaged(dir, at, tmp, err);
    MU_TRY(mu_fs_rename(tmp, at->path, err));
    return mu_fs_sync_dir(dir, err);
}

static mu_status point_to(const char *dir, const char *record, const char *step, mu_err *err) {
    char line[MU_CKPT_NAME + 1];
    int n = snprintf(line, sizeof line, "%s\n", step);
    return mu_outfile_replace(dir, record, line, (size_t)n, err);
}

// Failing to prune is no reason to lose a checkpoint that was saved: it is logged.
static void prune(const char *dir, int64_t keep) {
    mu_ckpt_entry *list = NULL;
    size_t n = 0;
    mu_err why = {0};
    if (mu_ckpt_list(dir, &list, &n, &why) != MU_OK) mu_warn("old checkpoints stay: %s", why.msg);
    for (size_t i = 0; i < n; i++) {
        if (list[i].serial < 0) continue; // unreadable: left for a person to look at
        if (keep > 0) keep--;
        else if (!list[i].best) remove_checkpoint(dir, list[i].name);
    }
    mu_free(list);
}

mu_status mu_ckpt_save(const char *dir, const mu_ckpt *state, const mu_ckpt_opts *opts,
                       char saved[MU_CKPT_NAME], mu_err *err) {
    const int64_t version = state->meta.version;
    if (opts->keep < 1 || version < 0)
        return MU_FAIL(err, MU_EUSAGE, "cannot save version %" PRId64 " and keep %" PRId64 " checkpoints",
                       version, opts->keep);
    step_names at;
    char tmp[MU_FS_PATH];
    int64_t serial = 0;
    MU_TRY(make_names(dir, version, 1, &at, err));
    memcpy(tmp, at.tmp, sizeof tmp);
    MU_TRY(check_finite(state->params, state->n_params, "parameter", err));
    MU_TRY(check_finite(state->slots, state->n_slots, "updater state", err));
    MU_TRY(mu_fs_mkdirs(dir, err));
    MU_TRY(tidy(dir, &serial, err));
    mu_status status = write_folder(tmp, state, serial, err);
    if (status == MU_OK) status = put_in_place(dir, version, &at, err);
    if (status != MU_OK) {
        if (exists(tmp)) mu_fs_remove_tree(tmp); // gives the space back
        mu_err_note(err, "while saving %s; earlier checkpoints are intact", at.step);
        return status;
    }
    mu_err why = {0};
    if (point_to(dir, "LATEST", at.step, &why) != MU_OK) mu_warn("%s", why.msg);
    if (opts->best) MU_TRY(point_to(dir, "BEST", at.step, err)); // before pruning, which obeys it
    prune(dir, opts->keep);
    if (saved) memcpy(saved, at.step, MU_CKPT_NAME);
    return MU_OK;
}
