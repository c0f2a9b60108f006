// SPDX-License-Identifier: Apache-2.0
// outfile.c - see outfile.h.
#include "file/outfile.h"

#include "base/alloc.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { BUFFER = 256 << 10 };

struct mu_outfile {
    char    *path, *tmp;
    int      fd;
    int      error;             // errno of the first failed write, 0 = none
    size_t   used;
    uint64_t size;
    uint8_t  buffer[BUFFER];
};

static void flush(mu_outfile *f, const uint8_t *p, size_t n) {
    while (n && !f->error) {
        ssize_t put = write(f->fd, p, n);
        if (put < 0 && errno == EINTR) continue;
        if (put < 0) f->error = errno;
        else p += put, n -= (size_t)put;
    }
}

mu_status mu_outfile_create(const char *path, mu_outfile **out, mu_err *err) {
    mu_outfile *f = mu_alloc(sizeof *f, "data/outfile");
    if (!f) return MU_FAIL_NOMEM(err, path);
    f->fd = -1;
    size_t n = strlen(path) + 32;
    f->path = mu_strdup(path, "data/outfile");
    f->tmp = mu_alloc(n, "data/outfile");
    if (!f->path || !f->tmp) {
        mu_outfile_abandon(f);
        return MU_FAIL_NOMEM(err, path);
    }
    snprintf(f->tmp, n, "%s.tmp-%ld", path, (long)getpid());
    f->fd = open(f->tmp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (f->fd < 0) {
        mu_status st = MU_FAIL(err, MU_EIO, "cannot write beside `%s`: %s", path, strerror(errno));
        f->tmp[0] = '\0';
        mu_outfile_abandon(f);
        return st;
    }
    *out = f;
    return MU_OK;
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

uint64_t mu_outfile_size(const mu_outfile *f) { return f->size; }
bool mu_outfile_ok(const mu_outfile *f) { return f->error == 0; }

static int sync_folder(char *path) {
    char *slash = strrchr(path, '/');
    if (slash) *(slash == path ? slash + 1 : slash) = '\0';
    int fd = open(slash ? path : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return errno;
    int rc = fsync(fd) ? errno : 0;
    close(fd);
    return rc == EINVAL ? 0 : rc;       // some file systems cannot sync a folder
}

mu_status mu_outfile_commit(mu_outfile *f, mu_err *err) {
    flush(f, f->buffer, f->used);
    f->used = 0;
    if (!f->error && fsync(f->fd)) f->error = errno;
    if (!f->error && rename(f->tmp, f->path)) f->error = errno;
    mu_status st = MU_OK;
    if (f->error) {
        st = MU_FAIL(err, MU_EIO, "cannot write `%s`: %s", f->path, strerror(f->error));
    } else {
        f->tmp[0] = '\0';
        int rc = sync_folder(f->path);
        if (rc) st = MU_FAIL(err, MU_EIO, "cannot sync the folder of `%s`: %s", f->path, strerror(rc));
    }
    mu_outfile_abandon(f);
    return st;
}

void mu_outfile_abandon(mu_outfile *f) {
    if (!f) return;
    if (f->fd >= 0) {
        close(f->fd);
        if (f->tmp[0]) unlink(f->tmp);
    }
    mu_free(f->tmp);
    mu_free(f->path);
    mu_free(f);
}
