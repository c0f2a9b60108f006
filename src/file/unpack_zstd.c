// SPDX-License-Identifier: Apache-2.0
// unpack_zstd.c - zstd by libzstd. Its allocator can be set only through functions that are not for shared
// libraries, so its memory comes from malloc; the cap on the window keeps it bounded.
#include "file/unpack.h"

#ifdef MU_HAVE_ZSTD
#include <zstd.h>
#include <zstd_errors.h>

// log2 of the window: what zstd(1) itself takes, more where the content may be larger.
enum { WINDOW_USUAL = 27, WINDOW_TOP = 30 };

static mu_status start(mu_unpack *u) {
    ZSTD_DCtx *z = ZSTD_createDCtx();
    if (!z) return MU_ENOMEM;
    int window = WINDOW_USUAL;
    while (window < WINDOW_TOP && (uint64_t)2 << window <= u->limit) window++;
    if (ZSTD_isError(ZSTD_DCtx_setParameter(z, ZSTD_d_windowLogMax, window))) {
        ZSTD_freeDCtx(z);
        return MU_ENOMEM;
    }
    u->state = z;
    return MU_OK;
}

static mu_status some(mu_unpack *u) {
    ZSTD_inBuffer in = {u->in, u->n_in, 0};
    ZSTD_outBuffer out = {u->out, u->n_out, 0};
    const size_t rc = ZSTD_decompressStream(u->state, &out, &in);
    u->in += in.pos, u->n_in -= in.pos;
    u->out += out.pos, u->n_out -= out.pos;
    u->ended = rc == 0;
    if (!ZSTD_isError(rc)) return MU_OK;
    u->why = ZSTD_getErrorName(rc);
    switch (ZSTD_getErrorCode(rc)) {
    case ZSTD_error_memory_allocation: return MU_ENOMEM;
    case ZSTD_error_frameParameter_windowTooLarge:
        u->why = "its window is larger than its content may be";
        return MU_EUNSUPPORTED;
    case ZSTD_error_dictionary_wrong: u->why = "it needs a dictionary"; return MU_EUNSUPPORTED;
    default: return MU_EDATA;
    }
}

static void stop(mu_unpack *u) { ZSTD_freeDCtx(u->state); }
#endif

const mu_unpack_class mu_unpack_zstd = {
    .name = "zstd", .package = "libzstd-dev", .magic = {0x28, 0xb5, 0x2f, 0xfd}, .n_magic = 4,
#ifdef MU_HAVE_ZSTD
    .start = start, .some = some, .stop = stop,
#endif
};
