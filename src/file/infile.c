// SPDX-License-Identifier: Apache-2.0
// infile.c - see infile.h.
#include "file/infile.h"

#include "file/unpack.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define GROWTH_FLOOR ((uint64_t)64 << 20)
#define GROWTH_RATIO 100u
#define CHUNK ((size_t)64 << 10)

// ---- plain files ----

static mu_status pread_all(const mu_infile *f, uint64_t offset, size_t n, void *out, mu_err *err) {
    size_t done = 0;
    while (done < n) {
        ssize_t got = pread(f->fd, (char *)out + done, n - done, (off_t)(offset + done));
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return MU_FAIL(err, MU_EIO, "cannot read `%s`: %s", f->path, strerror(errno));
        if (got == 0)
            return MU_FAIL(err, MU_EDATA, "`%s` became shorter while in use: no byte %" PRIu64, f->path,
                           offset + done);
        done += (size_t)got;
    }
    return MU_OK;
}

mu_status mu_infile_read(const mu_infile *f, uint64_t offset, size_t n, void *scratch, const void **out,
                         mu_err *err) {
    if (offset > f->size || n > f->size - offset)
        return MU_FAIL(err, MU_EDATA, "`%s` ends at byte %" PRIu64 ", before bytes %" PRIu64 "..%" PRIu64,
                       f->path, f->size, offset, offset + n);
    if (f->mem) {
        *out = f->mem + offset;
        return MU_OK;
    }
    MU_TRY(pread_all(f, offset, n, scratch, err));
    *out = scratch;
    return MU_OK;
}

static void drop_fd(mu_infile *f) {
    if (f->fd >= 0) close(f->fd);
    f->fd = -1;
}

mu_status mu_infile_load(mu_infile *f, mu_err *err) {
    if (f->mem) return MU_OK;
    if (f->size > SIZE_MAX / 2) return MU_FAIL_NOMEM(err, f->path);
    uint8_t *mem = mu_realloc(NULL, (size_t)f->size + 1, "data/file");
    if (!mem) return MU_FAIL_NOMEM(err, f->path);
    mu_status st = pread_all(f, 0, (size_t)f->size, mem, err);
    if (st != MU_OK) {
        mu_free(mem);
        return st;
    }
    mem[f->size] = 0;
    f->mem = mem;
    drop_fd(f);
    return MU_OK;
}

// ---- compressed files ----

typedef struct content {
    uint8_t  *bytes;
    size_t    used, cap;
    uint64_t  limit;            // inflated bytes never exceed this
} content;

static mu_status grow(content *s, const mu_unpack_class *c, const char *path, mu_err *err) {
    if (s->used < s->cap) return MU_OK;
    if (s->cap >= s->limit)
        return mu_err_hinted(
            MU_FAIL(err, MU_EDATA, "`%s` inflates to more than %" PRIu64 " MiB", path, s->limit >> 20), err,
            "No real data set packs this well; unpack it with %s -d if it is meant.", c->name);
    size_t cap = s->cap ? s->cap * 2 : 4 * CHUNK;
    if (cap > s->limit) cap = (size_t)s->limit;
    uint8_t *bytes = mu_realloc(s->bytes, cap, "data/file");
    if (!bytes) return MU_FAIL_NOMEM(err, path);
    s->bytes = bytes;
    s->cap = cap;
    return MU_OK;
}

static mu_status explain(mu_status st, const content *s, const mu_unpack *u, const mu_unpack_class *c,
                         const char *path, mu_err *err) {
    if (st == MU_ENOMEM) return MU_FAIL_NOMEM(err, path);
    if (st == MU_EUNSUPPORTED)
        return mu_err_hinted(MU_FAIL(err, st, "`%s` cannot be unpacked here: %s", path, u->why), err,
                             "Unpack it with %s -d.", c->name);
    return MU_FAIL(err, MU_EDATA, "`%s` is a damaged %s file near inflated byte %zu: %s", path, c->name,
                   s->used, u->why ? u->why : "bad stream");
}

// Unpacks what is in u->in, and what of it the format still holds back for want of room.
static mu_status unpack_some(content *s, mu_unpack *u, const mu_unpack_class *c, const char *path,
                             mu_err *err) {
    bool is_full = false;
    while (u->n_in || is_full) {
        MU_TRY(grow(s, c, path, err));
        const size_t room = s->cap - s->used, n_in = u->n_in;
        u->out = s->bytes + s->used;
        u->n_out = room;
        const mu_status st = c->some(u);
        s->used += room - u->n_out;
        if (st != MU_OK) return explain(st, s, u, c, path, err);
        is_full = !u->n_out && !u->ended;
        if (u->n_out == room && u->n_in == n_in) break;         // it can do no more
    }
    return u->n_in ? explain(MU_EDATA, s, u, c, path, err) : MU_OK;
}

static mu_status unpack_all(const mu_infile *f, content *s, mu_unpack *u, const mu_unpack_class *c,
                            uint8_t *in, mu_err *err) {
    for (uint64_t at = 0; at < f->size;) {
        size_t n = f->size - at < CHUNK ? (size_t)(f->size - at) : CHUNK;
        MU_TRY(pread_all(f, at, n, in, err));
        at += n;
        u->in = in;
        u->n_in = n;
        u->is_last = at == f->size;
        MU_TRY(unpack_some(s, u, c, f->path, err));
    }
    if (u->ended) return MU_OK;
    return mu_err_hinted(MU_FAIL(err, MU_EDATA,
                                 "`%s` is a truncated %s file: it ends after %zu inflated bytes", f->path,
                                 c->name, s->used),
                         err, "Fetch the file again; `%s -t` shows whether it is whole.", c->name);
}

static mu_status unpack_file(mu_infile *f, const mu_unpack_class *c, mu_err *err) {
    if (!c->start)
        return mu_err_hinted(MU_FAIL(err, MU_EUNSUPPORTED,
                                     "`%s` is a file of %s, which this build cannot read", f->path, c->name),
                             err, "Install %s and build again, or unpack the file with %s -d.", c->package,
                             c->name);
    content s = {.limit = GROWTH_FLOOR + f->size * GROWTH_RATIO};
    mu_unpack u = {.limit = s.limit};
    uint8_t *in = mu_realloc(NULL, CHUNK, "data/file");
    if (!in || c->start(&u) != MU_OK) {
        mu_free(in);
        return MU_FAIL_NOMEM(err, f->path);
    }
    mu_status st = unpack_all(f, &s, &u, c, in, err);
    c->stop(&u);
    mu_free(in);
    if (st == MU_OK && !s.used)
        st = MU_FAIL(err, MU_EDATA, "`%s` is empty inside its %s wrapping", f->path, c->name);
    if (st != MU_OK) {
        mu_free(s.bytes);
        return st;
    }
    f->mem = s.bytes;
    f->size = s.used;
    drop_fd(f);
    return MU_OK;
}

static const mu_unpack_class *const formats[] = {&mu_unpack_gzip, &mu_unpack_xz, &mu_unpack_zstd};

// Finds the format by the file's first bytes; a plain file is left as it is.
static mu_status unpack_if_packed(mu_infile *f, mu_err *err) {
    uint8_t magic[MU_UNPACK_MAGIC];
    const size_t n = f->size < sizeof magic ? (size_t)f->size : sizeof magic;
    MU_TRY(pread_all(f, 0, n, magic, err));
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (n >= formats[i]->n_magic && !memcmp(magic, formats[i]->magic, formats[i]->n_magic))
            return unpack_file(f, formats[i], err);
    return MU_OK;
}

// ---- open, close ----

mu_status mu_infile_open(mu_infile *f, const char *path, mu_err *err) {
    *f = (mu_infile){.path = path, .fd = -1};
    f->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); // a FIFO by mistake must not block
    if (f->fd < 0) return MU_FAIL(err, MU_EIO, "cannot open `%s`: %s", path, strerror(errno));
    f->is_open = true;
    struct stat info;
    mu_status st = MU_OK;
    if (fstat(f->fd, &info) != 0)
        MU_TRY_GOTO(st, MU_FAIL(err, MU_EIO, "cannot examine `%s`: %s", path, strerror(errno)), close);
    if (!S_ISREG(info.st_mode))
        MU_TRY_GOTO(st, MU_FAIL(err, MU_EIO, "`%s` is no regular file", path), close);
    f->size = (uint64_t)info.st_size;
    MU_TRY_GOTO(st, unpack_if_packed(f, err), close);
    return MU_OK;
close:
    mu_infile_close(f);
    return st;
}

void mu_infile_close(mu_infile *f) {
    if (!f->is_open) return;
    drop_fd(f);
    mu_free((void *)(uintptr_t)f->mem);
    f->mem = NULL;
    f->is_open = false;
}
