// SPDX-License-Identifier: Apache-2.0
// infile.c - see infile.h. zlib's own memory comes from mu_alloc too, so the fail-the-nth-allocation
// tests walk its failure paths.
#include "file/infile.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

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

// ---- gzip ----

static void *z_alloc(MU_UNUSED void *ctx, unsigned n, unsigned size) {
    return mu_alloc_array(n, size, "data/zlib");
}

static void z_free(MU_UNUSED void *ctx, void *p) { mu_free(p); }

typedef struct inflater {
    z_stream  z;
    uint8_t  *out;
    size_t    used, cap;
    uint64_t  limit;            // inflated bytes never exceed this
} inflater;

static mu_status grow(inflater *s, const char *path, mu_err *err) {
    if (s->used < s->cap) return MU_OK;
    if (s->cap >= s->limit)
        return mu_err_hinted(
            MU_FAIL(err, MU_EDATA, "`%s` inflates to more than %" PRIu64 " MiB", path, s->limit >> 20), err,
            "No real data set packs this well; unpack it with gzip -d if it is meant.");
    size_t cap = s->cap ? s->cap * 2 : 4 * CHUNK;
    if (cap > s->limit) cap = (size_t)s->limit;
    uint8_t *out = mu_realloc(s->out, cap, "data/file");
    if (!out) return MU_FAIL_NOMEM(err, path);
    s->out = out;
    s->cap = cap;
    return MU_OK;
}

// Inflates what is in z.next_in; *rc is zlib's answer (Z_OK: wants more, Z_STREAM_END: member over).
static mu_status inflate_some(inflater *s, const char *path, int *rc, mu_err *err) {
    *rc = Z_OK;
    while (*rc == Z_OK && s->z.avail_in) {
        MU_TRY(grow(s, path, err));
        size_t room = s->cap - s->used;
        unsigned give = room > CHUNK * 16 ? (unsigned)(CHUNK * 16) : (unsigned)room;
        s->z.next_out = s->out + s->used;
        s->z.avail_out = give;
        *rc = inflate(&s->z, Z_NO_FLUSH);
        s->used += give - s->z.avail_out;
        if (*rc == Z_BUF_ERROR && s->z.avail_out == 0) *rc = Z_OK;
    }
    if (*rc == Z_MEM_ERROR) return MU_FAIL_NOMEM(err, path);
    if (*rc != Z_OK && *rc != Z_STREAM_END)
        return MU_FAIL(err, MU_EDATA, "`%s` is a damaged gzip file near inflated byte %zu: %s", path, s->used,
                       s->z.msg ? s->z.msg : "bad stream");
    return MU_OK;
}

// Zeros after a member fill up a block, as gzip(1) says, and no member begins with one.
static void skip_padding(z_stream *z) {
    while (z->avail_in && !*z->next_in) z->next_in++, z->avail_in--;
}

static mu_status inflate_all(const mu_infile *f, inflater *s, uint8_t *in, mu_err *err) {
    int rc = Z_OK;
    for (uint64_t at = 0; at < f->size;) {
        size_t n = f->size - at < CHUNK ? (size_t)(f->size - at) : CHUNK;
        MU_TRY(pread_all(f, at, n, in, err));
        s->z.next_in = in;
        s->z.avail_in = (unsigned)n;
        at += n;
        while (s->z.avail_in) {
            if (rc == Z_STREAM_END) {
                skip_padding(&s->z);
                if (!s->z.avail_in) break;
                if (inflateReset(&s->z) != Z_OK)        // a further member follows
                    return MU_FAIL(err, MU_EDATA, "`%s`: cannot restart the gzip stream", f->path);
            }
            MU_TRY(inflate_some(s, f->path, &rc, err));
        }
    }
    if (rc == Z_STREAM_END) return MU_OK;
    MU_FAIL(err, MU_EDATA, "`%s` is a truncated gzip file: it ends after %zu inflated bytes", f->path,
            s->used);
    mu_err_hint(err, "Fetch the file again; `gzip -t` shows whether it is whole.");
    return MU_EDATA;
}

static mu_status inflate_file(mu_infile *f, mu_err *err) {
    inflater s = {.limit = GROWTH_FLOOR + f->size * GROWTH_RATIO};
    s.z.zalloc = z_alloc;
    s.z.zfree = z_free;
    mu_status st = MU_OK;
    uint8_t *in = mu_realloc(NULL, CHUNK, "data/file");
    if (!in || inflateInit2(&s.z, 15 + 16) != Z_OK) {   // 16: gzip framing with its checksum
        mu_free(in);
        return MU_FAIL_NOMEM(err, f->path);
    }
    st = inflate_all(f, &s, in, err);
    (void)inflateEnd(&s.z);
    mu_free(in);
    if (st == MU_OK && !s.out) st = MU_FAIL(err, MU_EDATA, "`%s` is empty inside its gzip wrapping", f->path);
    if (st != MU_OK) {
        mu_free(s.out);
        return st;
    }
    f->mem = s.out;
    f->size = s.used;
    drop_fd(f);
    return MU_OK;
}

// ---- open, close ----

mu_status mu_infile_open(mu_infile *f, const char *path, mu_err *err) {
    *f = (mu_infile){.path = path, .fd = -1};
    f->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); // a FIFO by mistake must not block
    if (f->fd < 0) return MU_FAIL(err, MU_EIO, "cannot open `%s`: %s", path, strerror(errno));
    f->is_open = true;
    struct stat info;
    uint8_t magic[2];
    const void *m;
    mu_status st = MU_OK;
    if (fstat(f->fd, &info) != 0)
        MU_TRY_GOTO(st, MU_FAIL(err, MU_EIO, "cannot examine `%s`: %s", path, strerror(errno)), close);
    if (!S_ISREG(info.st_mode))
        MU_TRY_GOTO(st, MU_FAIL(err, MU_EIO, "`%s` is no regular file", path), close);
    f->size = (uint64_t)info.st_size;
    if (f->size >= 2) {
        MU_TRY_GOTO(st, mu_infile_read(f, 0, 2, magic, &m, err), close);
        if (magic[0] == 0x1f && magic[1] == 0x8b) MU_TRY_GOTO(st, inflate_file(f, err), close);
    }
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
