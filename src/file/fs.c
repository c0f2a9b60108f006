// SPDX-License-Identifier: Apache-2.0
// fs.c - see fs.h.
#include "file/fs.h"

#include "base/alloc.h"
#include "base/log.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define TAG "files"

static int system_open(const char *path, int flags, mode_t mode) { return open(path, flags, mode); }

const mu_fs_ops mu_fs_system = { .open = system_open, .write = write, .fsync = fsync, .close = close,
                                 .rename = rename, .mkdir = mkdir, .unlink = unlink, .rmdir = rmdir };
static const mu_fs_ops *ops = &mu_fs_system;

void mu_fs_set_ops(const mu_fs_ops *table) { ops = table ? table : &mu_fs_system; }

static mu_status fail_errno(mu_err *err, const char *act, const char *path) {
    int code = errno;
    MU_FAIL(err, MU_EIO, "cannot %s `%s`: %s", act, path, strerror(code));
    if (code == ENOSPC || code == EDQUOT) mu_err_hint(err, "Free some space on the disk that holds the run.");
    if (code == EACCES || code == EROFS) mu_err_hint(err, "Choose a folder you may write to with --out.");
    return MU_EIO;
}

mu_status mu_fs_join(char out[MU_FS_PATH], const char *dir, const char *name, mu_err *err) {
    int n = snprintf(out, MU_FS_PATH, "%s/%s", dir, name);
    if (n < 0 || n >= MU_FS_PATH)
        return MU_FAIL(err, MU_EUSAGE, "path too long: `%.80s.../%.80s`", dir, name);
    return MU_OK;
}

mu_status mu_fs_write_all(int fd, const void *data, size_t size, const char *path, mu_err *err) {
    const char *p = data;
    while (size) {
        ssize_t n = ops->write(fd, p, size);
        if (n < 0 && errno == EINTR) continue;
        if (n == 0) errno = EIO; // a device that takes nothing would be asked for ever
        if (n <= 0) return fail_errno(err, "write", path);
        p += n;
        size -= (size_t)n;
    }
    return MU_OK;
}

bool mu_fs_is_folder(const char *path) {
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

mu_status mu_fs_sync_dir(const char *path, mu_err *err) {
    int fd = ops->open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
    if (fd < 0) return fail_errno(err, "open", path);
    int rc = ops->fsync(fd);
    // Some file systems cannot sync a folder and say EINVAL; there is nothing else to call there.
    mu_status status = rc && errno != EINVAL ? fail_errno(err, "sync", path) : MU_OK;
    ops->close(fd);
    return status;
}

// The folder that holds `path`: everything before the last slash.
static void parent_of(const char *path, char out[MU_FS_PATH]) {
    const char *slash = strrchr(path, '/');
    if (!slash) snprintf(out, MU_FS_PATH, ".");
    else if (slash == path) snprintf(out, MU_FS_PATH, "/");
    else snprintf(out, MU_FS_PATH, "%.*s", (int)(slash - path), path);
}

static mu_status make_dir(const char *path, mu_err *err) {
    if (ops->mkdir(path, 0777) == 0) {
        char parent[MU_FS_PATH];
        parent_of(path, parent);
        return mu_fs_sync_dir(parent, err);
    }
    int code = errno;
    struct stat st;
    if (code == EEXIST && stat(path, &st) == 0) {
        if (S_ISDIR(st.st_mode)) return MU_OK;
        code = ENOTDIR;
    }
    errno = code;
    return fail_errno(err, "create the folder", path);
}

mu_status mu_fs_mkdirs(const char *path, mu_err *err) {
    char part[MU_FS_PATH];
    struct stat st;
    if (stat(path, &st) == 0 && S_ISDIR(st.st_mode)) return MU_OK;
    size_t n = strlen(path);
    if (n == 0 || n >= sizeof part) return MU_FAIL(err, MU_EUSAGE, "bad folder name of %zu bytes", n);
    memcpy(part, path, n + 1);
    while (n > 1 && part[n - 1] == '/') part[--n] = '\0';
    for (size_t i = 1; i < n; i++) {
        if (part[i] != '/') continue;
        part[i] = '\0';
        // An existing parent may be one we could not create ourselves (/home): only a missing one matters.
        if (stat(part, &st) != 0) MU_TRY(make_dir(part, err));
        part[i] = '/';
    }
    return make_dir(part, err);
}

mu_status mu_fs_rename(const char *from, const char *to, mu_err *err) {
    if (ops->rename(from, to) == 0) return MU_OK;
    return fail_errno(err, "rename to", to);
}

static mu_status write_synced(const char *path, const void *data, size_t size, mu_err *err) {
    int fd = ops->open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0) return fail_errno(err, "create", path);
    mu_status status = mu_fs_write_all(fd, data, size, path, err);
    if (status == MU_OK && ops->fsync(fd)) status = fail_errno(err, "sync", path);
    if (ops->close(fd) && status == MU_OK) status = fail_errno(err, "close", path);
    return status;
}

mu_status mu_fs_replace(const char *dir, const char *name, const void *data, size_t size, mu_err *err) {
    char path[MU_FS_PATH], tmp[MU_FS_PATH];
    MU_TRY(mu_fs_join(path, dir, name, err));
    if (snprintf(tmp, sizeof tmp, "%s.tmp", path) >= (int)sizeof tmp)
        return MU_FAIL(err, MU_EUSAGE, "path too long: `%.80s...`", path);
    mu_status status = write_synced(tmp, data, size, err);
    if (status == MU_OK) status = mu_fs_rename(tmp, path, err);
    if (status != MU_OK) {
        ops->unlink(tmp);
        return status;
    }
    return mu_fs_sync_dir(dir, err);
}

static mu_status read_fd(int fd, const char *path, size_t max_bytes, char **out, size_t *size, mu_err *err) {
    struct stat st;
    if (fstat(fd, &st)) return fail_errno(err, "read", path);
    if (!S_ISREG(st.st_mode)) return MU_FAIL(err, MU_EMODEL, "`%s` is not a plain file", path);
    if ((uint64_t)st.st_size > max_bytes)
        return MU_FAIL(err, MU_EMODEL, "`%s` has %lld bytes, more than the limit of %zu", path,
                       (long long)st.st_size, max_bytes);
    size_t want = (size_t)st.st_size, have = 0;
    char *text = mu_alloc(want + 1, TAG);
    if (!text) return MU_FAIL_NOMEM(err, path);
    while (have < want) {
        ssize_t n = read(fd, text + have, want - have);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) {
            mu_free(text);
            return fail_errno(err, "read", path);
        }
        if (n == 0) break; // it shrank since fstat
        have += (size_t)n;
    }
    text[have] = '\0';
    *out = text;
    *size = have;
    return MU_OK;
}

mu_status mu_fs_read(const char *path, size_t max_bytes, char **out, size_t *size, mu_err *err) {
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); // never wait on a fifo
    if (fd < 0 && (errno == ENOENT || errno == ENOTDIR))
        return MU_FAIL(err, MU_ENOTFOUND, "`%s` does not exist", path);
    if (fd < 0) return fail_errno(err, "open", path);
    mu_status status = read_fd(fd, path, max_bytes, out, size, err);
    close(fd);
    return status;
}

void mu_fs_remove_file(const char *path) {
    if (ops->unlink(path) && errno != ENOENT) mu_warn("cannot remove `%s`: %s", path, strerror(errno));
}

void mu_fs_remove_dir(const char *path) {
    DIR *d = opendir(path);
    if (!d) {
        if (errno != ENOENT) mu_warn("cannot remove `%s`: %s", path, strerror(errno));
        return;
    }
    for (struct dirent *e; (e = readdir(d));) {
        char file[MU_FS_PATH];
        if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..")) continue;
        if (mu_fs_join(file, path, e->d_name, NULL) != MU_OK) continue;
        mu_fs_remove_file(file);
    }
    closedir(d);
    if (ops->rmdir(path)) mu_warn("cannot remove `%s`: %s", path, strerror(errno));
}

// ---- digested files ----

struct mu_fs_file {
    int          fd;
    mu_digester *digester;
    char         path[MU_FS_PATH];
};

mu_status mu_fs_file_create(const char *path, mu_fs_file **out, mu_err *err) {
    size_t n = strlen(path);
    if (n >= MU_FS_PATH) return MU_FAIL(err, MU_EUSAGE, "path too long: `%.80s...`", path);
    mu_fs_file *f = mu_alloc(sizeof *f, TAG);
    if (!f) return MU_FAIL_NOMEM(err, "a file");
    memcpy(f->path, path, n + 1);
    f->fd = -1;
    mu_status status;
    f->digester = mu_digester_create();
    if (!f->digester) {
        status = MU_FAIL_NOMEM(err, "checksums");
        goto undo;
    }
    f->fd = ops->open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (f->fd < 0) {
        status = fail_errno(err, "create", path);
        goto undo;
    }
    *out = f;
    return MU_OK;
undo:
    mu_fs_file_abandon(f);
    return status;
}

mu_status mu_fs_file_write(mu_fs_file *f, const void *data, size_t size, mu_err *err) {
    MU_TRY(mu_digester_feed(f->digester, data, size, err));
    return mu_fs_write_all(f->fd, data, size, f->path, err);
}

mu_status mu_fs_file_finish(mu_fs_file *f, mu_digest *digest, mu_err *err) {
    mu_status status = MU_OK;
    if (ops->fsync(f->fd)) status = fail_errno(err, "sync", f->path);
    if (ops->close(f->fd) && status == MU_OK) status = fail_errno(err, "close", f->path);
    f->fd = -1;
    if (status == MU_OK) mu_digester_finish(f->digester, digest);
    mu_fs_file_abandon(f);
    return status;
}

void mu_fs_file_abandon(mu_fs_file *f) {
    if (!f) return;
    if (f->fd >= 0) ops->close(f->fd);
    mu_digester_destroy(f->digester);
    mu_free(f);
}
