// SPDX-License-Identifier: Apache-2.0
// memfile.c - see memfile.h.
#include "file/memfile.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define STREAM_MAX ((size_t)1 << 30)

mu_status mu_memfile_open(int *fd, char path[MU_MEMFILE_PATH], mu_err *err) {
    *fd = memfd_create("muster-input", MFD_CLOEXEC);
    if (*fd < 0) return MU_FAIL(err, MU_EIO, "cannot keep the input: %s", strerror(errno));
    snprintf(path, MU_MEMFILE_PATH, "/proc/self/fd/%d", *fd);
    return MU_OK;
}

mu_status mu_memfile_add(int fd, const char *text, size_t n, mu_err *err) {
    while (n) {
        const ssize_t k = write(fd, text, n);
        if (k < 0 && errno == EINTR) continue;
        if (k < 0) return MU_FAIL(err, MU_EIO, "cannot keep the input: %s", strerror(errno));
        text += k, n -= (size_t)k;
    }
    return MU_OK;
}

mu_status mu_memfile_add_stream(int fd, FILE *in, const char *name, mu_err *err) {
    char buf[1 << 14];
    size_t total = 0;
    for (size_t n; (n = fread(buf, 1, sizeof buf, in)) > 0;) {
        MU_TRY(mu_memfile_add(fd, buf, n, err));
        if ((total += n) > STREAM_MAX) return MU_FAIL(err, MU_EDATA, "more than 1 GiB on %s", name);
    }
    if (ferror(in)) return MU_FAIL(err, MU_EIO, "cannot read %s: %s", name, strerror(errno));
    return total ? MU_OK : MU_FAIL(err, MU_EDATA, "nothing on %s", name);
}
