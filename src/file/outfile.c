// SPDX-License-Identifier: Apache-2.0
// outfile.c - see outfile.h.
//
// The temporary name has the process id in it: two programs that write the same file do not write into each
// other's, and the later commit wins. What a killed one leaves is mu_fs_remove_unfinished's.
#include "file/outfile.h"

#include "base/alloc.h"
#include "file/fs.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define TAG "files"
enum { BUFFER = 64 << 10 };

struct mu_outfile {
    int          fd;
    mu_err       failed;        // the first write that failed; status MU_OK = none
    mu_digester *digester;      // NULL = no sums are wanted
    mu_digest   *digest;        // the caller's
    size_t       used;
    uint64_t     size;
    char         path[MU_FS_PATH];
    char         made[MU_FS_PATH];      // what abandon removes: the temporary name, or `path`; "" = nothing
    uint8_t      buffer[BUFFER];
};

static void flush(mu_outfile *f, const void *p, size_t n) {
    if (n && mu_outfile_ok(f) && f->digester) (void)!mu_digester_feed(f->digester, p, n, &f->failed);
    if (n && mu_outfile_ok(f)) (void)!mu_fs_write_all(f->fd, p, n, f->path, &f->failed);
}

static mu_status allocate(const char *path, mu_outfile **out, mu_err *err) {
    size_t n = strlen(path);
    if (n >= MU_FS_PATH - 32) return MU_FAIL(err, MU_EUSAGE, "path too long: `%.80s...`", path);
    mu_outfile *f = mu_alloc(sizeof *f, TAG);
    if (!f) return MU_FAIL_NOMEM(err, path);
    f->fd = -1;
    memcpy(f->path, path, n + 1);
    *out = f;
    return MU_OK;
}

// Takes f. `made` is the name that the flags create; "" = `path`, which is there already.
static mu_status open_it(mu_outfile *f, const char *made, int flags, mu_outfile **out, mu_err *err) {
    f->fd = mu_fs()->open(*made ? made : f->path, O_WRONLY | O_CLOEXEC | flags, 0666);
    if (f->fd < 0) {
        mu_status st = mu_fs_fail(err, "create", f->path);
        mu_outfile_abandon(f);
        return st;
    }
    memcpy(f->made, made, strlen(made) + 1);
    *out = f;
    return MU_OK;
}

mu_status mu_outfile_create(const char *path, mu_outfile **out, mu_err *err) {
    mu_outfile *f = NULL;
    struct stat st;
    char tmp[MU_FS_PATH + 32];
    MU_TRY(allocate(path, &f, err));
    if (stat(path, &st) == 0 && !S_ISREG(st.st_mode)) return open_it(f, "", 0, out, err);
    snprintf(tmp, sizeof tmp, "%s" MU_FS_UNFINISHED "%ld", path, (long)getpid());
    return open_it(f, tmp, O_CREAT | O_TRUNC | O_NOFOLLOW, out, err);
}

mu_status mu_outfile_create_part(const char *path, mu_digest *digest, mu_outfile **out, mu_err *err) {
    mu_outfile *f = NULL;
    MU_TRY(allocate(path, &f, err));
    f->digest = digest;
    f->digester = mu_digester_create();
    if (f->digester) return open_it(f, path, O_CREAT | O_EXCL, out, err);
    mu_outfile_abandon(f);
    return MU_FAIL_NOMEM(err, "checksums");
}

void mu_outfile_write(mu_outfile *f, const void *p, size_t n) {
    f->size += n;
    if (n > BUFFER - f->used) {
        flush(f, f->buffer, f->used);
        f->used = 0;
    }
    if (n > BUFFER) {
        flush(f, p, n);
        return;
    }
    memcpy(f->buffer + f->used, p, n);
    f->used += n;
}

static ssize_t stream_write(void *f, const char *p, size_t n) {
    mu_outfile_write(f, p, n);
    return mu_outfile_ok(f) ? (ssize_t)n : 0;   // 0: an error, for the stream
}

FILE *mu_outfile_stream(mu_outfile *f) {
    return fopencookie(f, "w", (cookie_io_functions_t){.write = stream_write});
}

uint64_t mu_outfile_size(const mu_outfile *f) { return f->size; }
bool mu_outfile_ok(const mu_outfile *f) { return f->failed.status == MU_OK; }

mu_status mu_outfile_commit(mu_outfile *f, mu_err *err) {
    bool renames = f->made[0] && strcmp(f->made, f->path) != 0;
    flush(f, f->buffer, f->used);
    if (f->made[0] && mu_outfile_ok(f) && mu_fs()->fsync(f->fd)) mu_fs_fail(&f->failed, "sync", f->path);
    if (mu_fs()->close(f->fd) && mu_outfile_ok(f)) mu_fs_fail(&f->failed, "close", f->path);
    f->fd = -1;
    if (renames && mu_outfile_ok(f)) (void)!mu_fs_rename(f->made, f->path, &f->failed);
    mu_status st = f->failed.status;
    if (st != MU_OK) {
        if (err && err->status == MU_OK) *err = f->failed;
    } else {
        f->made[0] = '\0';
        if (f->digest) mu_digester_finish(f->digester, f->digest);
        if (renames) st = mu_fs_sync_parent(f->path, err);
    }
    mu_outfile_abandon(f);
    return st;
}

void mu_outfile_abandon(mu_outfile *f) {
    if (!f) return;
    if (f->fd >= 0) mu_fs()->close(f->fd);
    if (f->made[0]) mu_fs_remove_file(f->made);
    mu_digester_destroy(f->digester);
    mu_free(f);
}

mu_status mu_outfile_replace(const char *dir, const char *name, const void *data, size_t size, mu_err *err) {
    char path[MU_FS_PATH];
    mu_outfile *f;
    MU_TRY(mu_fs_join(path, dir, name, err));
    MU_TRY(mu_outfile_create(path, &f, err));
    mu_outfile_write(f, data, size);
    return mu_outfile_commit(f, err);
}
