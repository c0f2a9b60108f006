// SPDX-License-Identifier: Apache-2.0
// rowfile.c - see rowfile.h.
#include "layer/rowfile.h"

#include "base/log.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

static mu_status failed(const mu_layer *l, const char *what, const char *path, mu_err *err) {
    return MU_FAIL_AT(err, MU_EIO, l->pos, "layer `%s`: cannot %s %s: %s", l->name, what, path,
                      strerror(errno));
}

mu_status mu_rowfile_begin(mu_rowfile *f, const mu_layer *l, const char *path, const mu_step *step,
                           bool *fresh, mu_err *err) {
    *fresh = !f->file || step->first_sample == 0;
    if (!f->file) {
        f->path = path;
        f->file = fopen(path, "w");
        if (!f->file) return failed(l, "open", path, err);
    } else if (*fresh) {
        rewind(f->file);
        if (ftruncate(fileno(f->file), 0) != 0) return failed(l, "empty", path, err);
    }
    return MU_OK;
}

mu_status mu_rowfile_end(mu_rowfile *f, const mu_layer *l, mu_err *err) {
    if (fflush(f->file) != 0 || ferror(f->file)) return failed(l, "write", f->path, err);
    return MU_OK;
}

void mu_rowfile_close(mu_rowfile *f) {
    if (f->file && fclose(f->file) != 0) mu_warn("cannot close %s: %s", f->path, strerror(errno));
    f->file = NULL;
}
