// SPDX-License-Identifier: Apache-2.0
// fs.c - paths, folders and whole-file reading over the table of system calls.
//
// Folders are synced after their entries change, since a file that was synced may still be without a name
// after a power cut. Reading needs no table: it changes nothing.
#include "file/fs.h"

#include "base/alloc.h"
#include "base/log.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define TAG "files"

static int system_open(const char *path, int flags, mode_t mode) { return open(path, flags, mode); }

const mu_fs_ops mu_fs_system = { .open = system_open, .write = write, .fsync = fsync, .ftruncate = ftruncate,
                                 .close = close, .rename = rename, .mkdir = mkdir, .unlink = unlink,
                                 .rmdir = rmdir };
static const mu_fs_ops *ops = &mu_fs_system;

void mu_fs_set_ops(const mu_fs_ops *table) { ops = table ? table : &mu_fs_system; }
const mu_fs_ops *mu_fs(void) { return ops; }

mu_status mu_fs_fail(mu_err *err, const char *act, const char *path) {
    int code = errno;
    MU_FAIL(err, MU_EIO, "cannot %s `%s`: %s", act, path, strerror(code));
    if (code == ENOSPC || code == EDQUOT) mu_err_hint(err, "Free some space on the disk that holds the run.");
    if (code == EFBIG) mu_err_hint(err, "The size of files is limited; see `ulimit -f`.");
    if (code == ELOOP) mu_err_hint(err, "A symbolic link is not followed there; remove it.");
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
        if (n <= 0) return mu_fs_fail(err, "write", path);
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
    if (fd < 0) return mu_fs_fail(err, "open", path);
    int rc = ops->fsync(fd);
    // Some file systems cannot sync a folder and say EINVAL; there is nothing else to call there.
    mu_status status = rc && errno != EINVAL ? mu_fs_fail(err, "sync", path) : MU_OK;
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

mu_status mu_fs_sync_parent(const char *path, mu_err *err) {
    char parent[MU_FS_PATH];
    parent_of(path, parent);
    return mu_fs_sync_dir(parent, err);
}

static mu_status make_dir(const char *path, mu_err *err) {
    if (ops->mkdir(path, 0777) == 0) return mu_fs_sync_parent(path, err);
    int code = errno;
    struct stat st;
    if (code == EEXIST && stat(path, &st) == 0) {
        if (S_ISDIR(st.st_mode)) return MU_OK;
        code = ENOTDIR;
    }
    errno = code;
    return mu_fs_fail(err, "create the folder", path);
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
    return mu_fs_fail(err, "rename to", to);
}

static mu_status read_fd(int fd, const char *path, size_t max_bytes, char **out, size_t *size, mu_err *err) {
    struct stat st;
    if (fstat(fd, &st)) return mu_fs_fail(err, "read", path);
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
            return mu_fs_fail(err, "read", path);
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
    if (fd < 0) return mu_fs_fail(err, "open", path);
    mu_status status = read_fd(fd, path, max_bytes, out, size, err);
    close(fd);
    return status;
}

void mu_fs_remove_file(const char *path) {
    if (ops->unlink(path) && errno != ENOENT) mu_warn("cannot remove `%s`: %s", path, strerror(errno));
}

static int remove_one(const char *path, MU_UNUSED const struct stat *st, int kind, MU_UNUSED struct FTW *at) {
    int rc = kind == FTW_D || kind == FTW_DP || kind == FTW_DNR ? ops->rmdir(path) : ops->unlink(path);
    if (rc && errno != ENOENT) mu_warn("cannot remove `%s`: %s", path, strerror(errno));
    return 0;
}

void mu_fs_remove_tree(const char *path) {
    if (nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS) && errno != ENOENT)
        mu_warn("cannot remove `%s`: %s", path, strerror(errno));
}

static bool is_unfinished(const char *name) {
    const char *at = strstr(name, MU_FS_UNFINISHED), *pid = at ? at + strlen(MU_FS_UNFINISHED) : "";
    return *pid && !pid[strspn(pid, "0123456789")];
}

void mu_fs_remove_unfinished(const char *dir) {
    DIR *d = opendir(dir);
    for (struct dirent *e; d && (e = readdir(d));) {
        char path[MU_FS_PATH];
        if (!is_unfinished(e->d_name)) continue;
        if (mu_fs_join(path, dir, e->d_name, NULL) == MU_OK) mu_fs_remove_file(path);
    }
    if (d) closedir(d);
}
