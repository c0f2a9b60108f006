// SPDX-License-Identifier: Apache-2.0
// digest.c - XXH3-128 over a whole file and XXH64 over each of its 4 MiB pieces, in one pass.
//
// xxhash is compiled in (XXH_INLINE_ALL) because the library form allocates its states with malloc.
#include "file/digest.h"

#include "base/alloc.h"

#define XXH_INLINE_ALL
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#define TAG "digest"
#define READ_BYTES ((size_t)1 << 20)

struct mu_digester {
    XXH3_state_t  whole;        // first: needs the 64-byte alignment that mu_alloc gives
    XXH64_state_t chunk;
    size_t        in_chunk;     // bytes fed to `chunk`
    uint64_t      size_bytes;
    uint64_t     *chunks;
    size_t        n_chunks, cap;
};

void mu_digest_fini(mu_digest *d) {
    mu_free(d->chunks);
    *d = (mu_digest){0};
}

void mu_digest_hex(const uint64_t sum[2], char out[33]) {
    static const char digits[] = "0123456789abcdef";
    for (int i = 0; i < 32; i++) out[i] = digits[(sum[i / 16] >> (60 - 4 * (i % 16))) & 15];
    out[32] = '\0';
}

void mu_digest_bytes(const void *data, size_t size, uint64_t sum[2]) {
    XXH128_hash_t h = XXH3_128bits(data, size);
    sum[0] = h.high64;
    sum[1] = h.low64;
}

mu_digester *mu_digester_create(void) {
    mu_digester *g = mu_alloc(sizeof *g, TAG);
    if (!g) return NULL;
    XXH3_128bits_reset(&g->whole);
    XXH64_reset(&g->chunk, 0);
    return g;
}

void mu_digester_destroy(mu_digester *g) {
    if (!g) return;
    mu_free(g->chunks);
    mu_free(g);
}

// A slot is reserved when a chunk gets its first byte, so that finish cannot fail.
static mu_status begin_chunk(mu_digester *g, mu_err *err) {
    uint64_t *grown = mu_grow(g->chunks, g->n_chunks, &g->cap, sizeof *grown, 16, TAG);
    if (!grown) return MU_FAIL_NOMEM(err, "checksums");
    g->chunks = grown;
    XXH64_reset(&g->chunk, 0);
    g->n_chunks++;
    return MU_OK;
}

mu_status mu_digester_feed(mu_digester *g, const void *data, size_t size, mu_err *err) {
    const char *p = data;
    while (size) {
        if (g->in_chunk == 0) MU_TRY(begin_chunk(g, err));
        size_t room = MU_DIGEST_CHUNK - g->in_chunk, n = size < room ? size : room;
        XXH3_128bits_update(&g->whole, p, n);
        XXH64_update(&g->chunk, p, n);
        g->in_chunk += n;
        g->size_bytes += n;
        if (g->in_chunk == MU_DIGEST_CHUNK) {
            g->chunks[g->n_chunks - 1] = XXH64_digest(&g->chunk);
            g->in_chunk = 0;
        }
        p += n;
        size -= n;
    }
    return MU_OK;
}

void mu_digester_finish(mu_digester *g, mu_digest *out) {
    if (g->in_chunk) g->chunks[g->n_chunks - 1] = XXH64_digest(&g->chunk);
    XXH128_hash_t h = XXH3_128bits_digest(&g->whole);
    *out = (mu_digest){ .size_bytes = g->size_bytes, .xxh3 = {h.high64, h.low64}, .chunks = g->chunks,
                        .n_chunks = g->n_chunks };
    g->chunks = NULL;
    g->n_chunks = g->cap = 0;
}

static mu_status read_through(int fd, const char *path, mu_digester *g, char *buf, mu_err *err) {
    for (;;) {
        ssize_t n = read(fd, buf, READ_BYTES);
        if (n == 0) return MU_OK;
        if (n > 0) MU_TRY(mu_digester_feed(g, buf, (size_t)n, err));
        else if (errno != EINTR)
            return MU_FAIL(err, MU_EIO, "cannot read `%s` at byte %llu: %s", path,
                           (unsigned long long)g->size_bytes, strerror(errno));
    }
}

static mu_status compare(const mu_digest *want, const mu_digest *got, const char *path, mu_err *err) {
    if (got->size_bytes != want->size_bytes)
        return MU_FAIL(err, MU_EMODEL, "`%s` has %llu bytes, but %llu were saved", path,
                       (unsigned long long)got->size_bytes, (unsigned long long)want->size_bytes);
    for (size_t i = 0; i < got->n_chunks && i < want->n_chunks; i++) {
        if (got->chunks[i] == want->chunks[i]) continue;
        unsigned long long from = (unsigned long long)i * MU_DIGEST_CHUNK, to = from + MU_DIGEST_CHUNK;
        if (to > got->size_bytes) to = got->size_bytes;
        return MU_FAIL(err, MU_EMODEL, "`%s` is damaged between byte %llu and %llu (checksum differs)", path,
                       from, to);
    }
    if (got->n_chunks != want->n_chunks || memcmp(got->xxh3, want->xxh3, sizeof got->xxh3))
        return MU_FAIL(err, MU_EMODEL, "`%s` is damaged at byte 0 or later (checksum differs)", path);
    return MU_OK;
}

mu_status mu_digest_verify(const mu_digest *d, const char *path, mu_err *err) {
    mu_status status;
    mu_digest got = {0};
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); // a FIFO in its place must not hang the load
    struct stat info;
    if (fd >= 0 && (fstat(fd, &info) || !S_ISREG(info.st_mode))) {
        close(fd);
        return MU_FAIL(err, MU_EMODEL, "`%s` is not a regular file", path);
    }
    if (fd < 0) {
        mu_status lost = errno == ENOENT ? MU_EMODEL : MU_EIO;
        return MU_FAIL(err, lost, "cannot open `%s`: %s", path, strerror(errno));
    }
    mu_digester *g = mu_digester_create();
    char *buf = mu_alloc(READ_BYTES, TAG);
    if (!g || !buf) {
        status = MU_FAIL_NOMEM(err, "checksums");
        goto done;
    }
    MU_TRY_GOTO(status, read_through(fd, path, g, buf, err), done);
    mu_digester_finish(g, &got);
    status = compare(d, &got, path, err);
done:
    mu_digest_fini(&got);
    mu_free(buf);
    mu_digester_destroy(g);
    close(fd);
    return status;
}
