// SPDX-License-Identifier: Apache-2.0
// unpack_gzip.c - gzip by zlib, whose memory comes from mu_alloc, so that the tests which fail every
// allocation walk its failure paths too.
#include "file/unpack.h"

#include <zlib.h>

static void *take(MU_UNUSED void *ctx, unsigned n, unsigned size) {
    return mu_alloc_array(n, size, "data/zlib");
}

static void give(MU_UNUSED void *ctx, void *p) { mu_free(p); }

static mu_status start(mu_unpack *u) {
    z_stream *z = mu_alloc(sizeof *z, "data/zlib");
    if (!z) return MU_ENOMEM;
    z->zalloc = take;
    z->zfree = give;
    if (inflateInit2(z, 15 + 16) != Z_OK) {     // 16: gzip framing with its checksum
        mu_free(z);
        return MU_ENOMEM;
    }
    u->state = z;
    return MU_OK;
}

// Zeros after a member fill up a block, as gzip(1) says, and no member begins with one.
static void skip_padding(mu_unpack *u) {
    while (u->n_in && !*u->in) u->in++, u->n_in--;
}

static unsigned clip(size_t n) { return n > (1u << 30) ? 1u << 30 : (unsigned)n; }

static mu_status some(mu_unpack *u) {
    z_stream *z = u->state;
    if (u->ended) {
        skip_padding(u);
        if (!u->n_in) return MU_OK;
        if (inflateReset(z) != Z_OK) return MU_ENOMEM;  // a further member follows
        u->ended = false;
    }
    const unsigned n_in = clip(u->n_in), n_out = clip(u->n_out);
    z->next_in = (Bytef *)(uintptr_t)u->in;
    z->avail_in = n_in;
    z->next_out = u->out;
    z->avail_out = n_out;
    const int rc = inflate(z, Z_NO_FLUSH);
    u->in += n_in - z->avail_in, u->n_in -= n_in - z->avail_in;
    u->out += n_out - z->avail_out, u->n_out -= n_out - z->avail_out;
    u->ended = rc == Z_STREAM_END;
    if (rc == Z_OK || rc == Z_STREAM_END || rc == Z_BUF_ERROR) return MU_OK; // BUF_ERROR: it wants more
    u->why = z->msg;
    return rc == Z_MEM_ERROR ? MU_ENOMEM : MU_EDATA;
}

static void stop(mu_unpack *u) {
    (void)inflateEnd(u->state);
    mu_free(u->state);
}

const mu_unpack_class mu_unpack_gzip = {
    .name = "gzip", .package = "zlib1g-dev", .magic = {0x1f, 0x8b}, .n_magic = 2,
    .start = start, .some = some, .stop = stop,
};
