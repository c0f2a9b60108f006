// SPDX-License-Identifier: Apache-2.0
// rundir.c - see rundir.h.
//
// The lock is taken before anything else is looked at or written, so of two processes that start into one
// folder one is refused, and the other finds what the first left.
#include "store/rundir.h"

#include "base/clock.h"
#include "base/log.h"
#include "file/outfile.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define ID_DIGITS 6             // base 36, enough seconds until 2088
#define ID_EPOCH 1577836800     // 2020-01-01: keeps the first digit from changing for decades
#define NAME_MAX_BYTES 100
#define MAX_TRIES 10000
#define PROBE "write-test"
// A file of the run, not what a link in a prepared folder leads to, and no waiting for the reader of a fifo.
#define OWN (O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)

static void make_id(uint64_t n, char out[ID_DIGITS + 1]) {
    for (int i = ID_DIGITS - 1; i >= 0; i--, n /= 36) out[i] = "0123456789abcdefghijklmnopqrstuvwxyz"[n % 36];
    out[ID_DIGITS] = '\0';
}

void mu_rundir_id(const char *path, char out[MU_RUN_ID]) {
    char full[PATH_MAX]; // without `.`, `..` and slashes at the end
    const char *whole = realpath(path, full) ? full : path, *slash = strrchr(whole, '/');
    const char *leaf = slash ? slash + 1 : whole;
    size_t n = strnlen(leaf, MU_RUN_ID - 1);
    while (n && leaf[n] && ((unsigned char)leaf[n] & 0xC0) == 0x80) n--; // cut between characters
    if (n) snprintf(out, MU_RUN_ID, "%.*s", (int)n, leaf);
    else snprintf(out, MU_RUN_ID, "run"); // the root folder has no name
}

// Letters, digits, `.`, `_` and bytes of UTF-8 stay; the rest becomes `-`, and so does a leading dot.
static void folder_name(const char *name, char out[NAME_MAX_BYTES + 1]) {
    size_t n = 0;
    for (; n < NAME_MAX_BYTES && name[n]; n++) {
        unsigned char c = (unsigned char)name[n];
        bool plain = c >= 0x80 || isalnum(c) || c == '_' || (c == '.' && n > 0);
        out[n] = plain ? name[n] : '-';
    }
    if (n == 0) n = (size_t)snprintf(out, NAME_MAX_BYTES, "run");
    out[n] = '\0';
}

static mu_status refuse_locked(int fd, const char *path, mu_err *err) {
    char pid[32] = "";
    ssize_t n = pread(fd, pid, sizeof pid - 1, 0);
    if (n > 0) pid[strspn(pid, "0123456789")] = '\0';
    MU_FAIL(err, MU_EUSAGE, "run `%s` is in use by process %s", path, n > 0 && pid[0] ? pid : "(unknown)");
    mu_err_hint(err, "Stop that process first, or start a new run.");
    return MU_EUSAGE;
}

// flock belongs to the open file, so it ends with the process however that dies: no stale locks.
static mu_status take_lock(mu_rundir *d, mu_err *err) {
    char path[MU_FS_PATH], text[32];
    MU_TRY(mu_rundir_path(d, MU_RUN_LOCK, path, err));
    d->lock_fd = mu_fs()->open(path, O_RDWR | O_CREAT | OWN, 0666);
    if (d->lock_fd < 0) return mu_fs_fail(err, "open", path);
    if (flock(d->lock_fd, LOCK_EX | LOCK_NB)) {
        if (errno == EWOULDBLOCK) return refuse_locked(d->lock_fd, d->path, err);
        return MU_FAIL(err, MU_EIO, "cannot lock `%s`: %s", path, strerror(errno));
    }
    int n = snprintf(text, sizeof text, "%ld\n", (long)getpid());
    if (mu_fs()->ftruncate(d->lock_fd, 0)) return mu_fs_fail(err, "write", path);
    return mu_fs_write_all(d->lock_fd, text, (size_t)n, path, err);
}

static mu_status open_log(mu_rundir *d, mu_err *err) {
    char path[MU_FS_PATH];
    MU_TRY(mu_rundir_path(d, MU_RUN_LOG, path, err));
    d->log_fd = mu_fs()->open(path, O_WRONLY | O_CREAT | O_APPEND | OWN, 0666);
    return d->log_fd < 0 ? mu_fs_fail(err, "open", path) : MU_OK;
}

// Writes and removes one page the way checkpoints are written.
static mu_status probe(const mu_rundir *d, mu_err *err) {
    static const char page[4096];
    char path[MU_FS_PATH];
    MU_TRY(mu_rundir_path(d, PROBE, path, err));
    mu_status status = mu_outfile_replace(d->path, PROBE, page, sizeof page, err);
    if (status != MU_OK) {
        mu_err_note(err, "while testing that the run folder can be written");
        return status;
    }
    mu_fs_remove_file(path);
    return MU_OK;
}

// Lock, log and write test of a folder that exists. d->path is set.
static mu_status enter(mu_rundir *d, mu_err *err) {
    d->lock_fd = d->log_fd = -1;
    mu_status status = take_lock(d, err);
    if (status == MU_OK) status = open_log(d, err);
    if (status == MU_OK) status = probe(d, err);
    if (status != MU_OK) mu_rundir_close(d);
    return status;
}

mu_status mu_rundir_create(const char *base, const char *name, mu_rundir *out, mu_err *err) {
    char folder[NAME_MAX_BYTES + 1], id[ID_DIGITS + 1], leaf[NAME_MAX_BYTES + ID_DIGITS + 2];
    mu_rundir d;
    folder_name(name, folder);
    MU_TRY(mu_fs_mkdirs(base, err));
    double age_s = mu_clock_wall_s() - ID_EPOCH;
    uint64_t now = age_s > 0 ? (uint64_t)age_s : 0;
    for (uint64_t i = 0; i < MAX_TRIES; i++) {
        make_id(now + i, id);
        snprintf(leaf, sizeof leaf, "%s-%s", folder, id);
        MU_TRY(mu_fs_join(d.path, base, leaf, err));
        if (mu_fs()->mkdir(d.path, 0777) == 0) {
            MU_TRY(mu_fs_sync_dir(base, err));
            MU_TRY(enter(&d, err));
            *out = d;
            return MU_OK;
        }
        if (errno != EEXIST) return mu_fs_fail(err, "create the folder", d.path);
    }
    return MU_FAIL(err, MU_EIO, "no free name for run `%s` in `%s`", folder, base);
}

static bool holds_run(const mu_rundir *d) {
    char path[MU_FS_PATH];
    static const char *const marks[] = {MU_RUN_JOB, MU_RUN_METRICS, MU_RUN_CHECKPOINTS};
    for (size_t i = 0; i < MU_COUNT(marks); i++) {
        struct stat st;
        if (mu_rundir_path(d, marks[i], path, NULL) == MU_OK && lstat(path, &st) == 0) return true;
    }
    return false;
}

static mu_status set_path(mu_rundir *d, const char *path, mu_err *err) {
    int n = snprintf(d->path, sizeof d->path, "%s", path);
    if (n <= 0 || n >= MU_FS_PATH) return MU_FAIL(err, MU_EUSAGE, "bad folder name of %d bytes", n);
    return MU_OK;
}

mu_status mu_rundir_create_at(const char *path, mu_rundir *out, mu_err *err) {
    mu_rundir d;
    MU_TRY(set_path(&d, path, err));
    MU_TRY(mu_fs_mkdirs(path, err));
    MU_TRY(enter(&d, err)); // the lock first: two starts into one folder cannot both find it empty
    if (holds_run(&d)) {
        mu_rundir_close(&d);
        return mu_err_hinted(MU_FAIL(err, MU_EUSAGE, "`%s` already holds a run", path), err,
                             "Continue it with --resume %s, or choose another folder.", path);
    }
    *out = d;
    return MU_OK;
}

mu_status mu_rundir_open(const char *path, mu_rundir *out, mu_err *err) {
    mu_rundir d;
    MU_TRY(set_path(&d, path, err));
    if (!mu_fs_is_folder(path)) return MU_FAIL(err, MU_ENOTFOUND, "no run folder `%s`", path);
    if (!holds_run(&d)) return MU_FAIL(err, MU_ENOTFOUND, "`%s` does not hold a run", path);
    MU_TRY(enter(&d, err));
    mu_fs_remove_unfinished(d.path);
    *out = d;
    return MU_OK;
}

bool mu_rundir_is_there(const mu_rundir *d) {
    char path[MU_FS_PATH];
    struct stat mine, there;
    if (fstat(d->lock_fd, &mine) || mu_rundir_path(d, MU_RUN_LOCK, path, NULL) != MU_OK) return false;
    return lstat(path, &there) == 0 && mine.st_dev == there.st_dev && mine.st_ino == there.st_ino;
}

mu_status mu_rundir_create_again(mu_rundir *d, mu_err *err) {
    MU_TRY(mu_fs_mkdirs(d->path, err));
    return enter(d, err);
}

void mu_rundir_close(mu_rundir *d) {
    if (!d) return;
    if (d->log_fd >= 0) mu_fs()->close(d->log_fd);
    if (d->lock_fd >= 0) mu_fs()->close(d->lock_fd);
    d->log_fd = d->lock_fd = -1;
}

mu_status mu_rundir_path(const mu_rundir *d, const char *file, char out[MU_FS_PATH], mu_err *err) {
    return mu_fs_join(out, d->path, file, err);
}

static bool is_run_of(const char *leaf, const char *folder) {
    size_t n = strlen(folder);
    return !strncmp(leaf, folder, n) && leaf[n] == '-' && strlen(leaf + n + 1) == ID_DIGITS &&
           strspn(leaf + n + 1, "0123456789abcdefghijklmnopqrstuvwxyz") == ID_DIGITS;
}

mu_status mu_rundir_find_newest(const char *base, const char *name, char out[MU_FS_PATH], mu_err *err) {
    char folder[NAME_MAX_BYTES + 1], newest[256] = "";
    folder_name(name, folder);
    DIR *dir = opendir(base);
    if (!dir && errno != ENOENT) return MU_FAIL(err, MU_EIO, "cannot read `%s`: %s", base, strerror(errno));
    for (struct dirent *e; dir && (e = readdir(dir));)
        if (is_run_of(e->d_name, folder) && strcmp(e->d_name, newest) > 0)
            memcpy(newest, e->d_name, strlen(e->d_name) + 1);
    if (dir) closedir(dir);
    if (!newest[0]) return MU_FAIL(err, MU_ENOTFOUND, "no run of `%s` in `%s`", folder, base);
    return mu_fs_join(out, base, newest, err);
}
