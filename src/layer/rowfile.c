// SPDX-License-Identifier: Apache-2.0
// rowfile.c - see rowfile.h. The rows of a batch are printed into memory and written at its end.
#include "layer/rowfile.h"

#include "base/log.h"
#include "file/fs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

static mu_status failed(const mu_layer *l, const char *what, const char *path, mu_err *err) {
    return MU_FAIL_AT(err, MU_EIO, l->pos, "layer `%s`: cannot %s %s: %s", l->name, what, path,
                      strerror(errno));
}

mu_status mu_rowfile_begin(mu_rowfile *f, const mu_layer *l, const char *path, const mu_step *step,
                           bool *fresh, mu_err *err) {
    *fresh = !f->file || step->first_sample == 0;
    if (!f->file) {
        f->path = path;
        f->fd = mu_fs()->open(path, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0666);
        if (f->fd < 0) return failed(l, "open", path, err);
        f->file = open_memstream(&f->rows, &f->size);
        if (f->file) return MU_OK;
        mu_fs()->close(f->fd);
        return MU_FAIL_NOMEM(err, path);
    }
    if (*fresh && mu_fs()->ftruncate(f->fd, 0)) return failed(l, "empty", path, err);
    return MU_OK;
}

mu_status mu_rowfile_end(mu_rowfile *f, const mu_layer *l, mu_err *err) {
    if (fflush(f->file) != 0 || ferror(f->file)) return failed(l, "write", f->path, err);
    if (mu_fs_write_all(f->fd, f->rows, f->size, f->path, NULL) != MU_OK)
        return failed(l, "write", f->path, err);
    rewind(f->file);
    return MU_OK;
}

void mu_rowfile_close(mu_rowfile *f) {
    if (!f->file) return;
    fclose(f->file);
    free(f->rows);
    if (mu_fs()->close(f->fd)) mu_warn("cannot close %s: %s", f->path, strerror(errno));
    f->file = NULL;
}
