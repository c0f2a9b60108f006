// SPDX-License-Identifier: Apache-2.0
// unpack_xz.c - xz by liblzma, whose memory comes from mu_alloc.
//
// A stream declares its window, up to 4 GiB. A window larger than what the content may be is of no use, so
// the cap of growth also caps the memory of the decoder, with room for its tables.
#include "file/unpack.h"

#ifdef MU_HAVE_LZMA
#include <lzma.h>

#define TABLES ((uint64_t)16 << 20)

typedef struct xz {
    lzma_stream    stream;
    lzma_allocator heap;
} xz;

static void *take(MU_UNUSED void *ctx, size_t n, size_t size) {
    size_t bytes;
    return __builtin_mul_overflow(n, size, &bytes) ? NULL : mu_realloc(NULL, bytes ? bytes : 1, "data/lzma");
}

static void give(MU_UNUSED void *ctx, void *p) { mu_free(p); }

static mu_status start(mu_unpack *u) {
    xz *s = mu_alloc(sizeof *s, "data/lzma");
    if (!s) return MU_ENOMEM;
    s->heap = (lzma_allocator){.alloc = take, .free = give};
    s->stream = (lzma_stream)LZMA_STREAM_INIT;
    s->stream.allocator = &s->heap;
    if (lzma_stream_decoder(&s->stream, u->limit + TABLES, LZMA_CONCATENATED) != LZMA_OK) {
        lzma_end(&s->stream);
        mu_free(s);
        return MU_ENOMEM;
    }
    u->state = s;
    return MU_OK;
}

static mu_status some(mu_unpack *u) {
    lzma_stream *z = &((xz *)u->state)->stream;
    z->next_in = u->in;
    z->avail_in = u->n_in;
    z->next_out = u->out;
    z->avail_out = u->n_out;
    const lzma_ret rc = lzma_code(z, u->is_last ? LZMA_FINISH : LZMA_RUN);
    u->in = z->next_in, u->n_in = z->avail_in;
    u->out = z->next_out, u->n_out = z->avail_out;
    u->ended = rc == LZMA_STREAM_END;
    switch (rc) {
    case LZMA_OK:
    case LZMA_STREAM_END:
    case LZMA_BUF_ERROR: return MU_OK;          // BUF_ERROR: it wants more
    case LZMA_MEM_ERROR: return MU_ENOMEM;
    case LZMA_MEMLIMIT_ERROR: u->why = "its window is larger than its content may be"; return MU_EUNSUPPORTED;
    case LZMA_OPTIONS_ERROR: u->why = "it uses a filter that liblzma does not know"; return MU_EUNSUPPORTED;
    default: u->why = "incorrect data check"; return MU_EDATA;
    }
}

static void stop(mu_unpack *u) {
    lzma_end(&((xz *)u->state)->stream);
    mu_free(u->state);
}
#endif

const mu_unpack_class mu_unpack_xz = {
    .name = "xz", .package = "liblzma-dev", .magic = {0xfd, '7', 'z', 'X', 'Z', 0}, .n_magic = 6,
#ifdef MU_HAVE_LZMA
    .start = start, .some = some, .stop = stop,
#endif
};
