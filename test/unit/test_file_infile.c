// SPDX-License-Identifier: Apache-2.0
// test_file_infile.c - compressed input: every format gives its content back, and says what is wrong with a
// stream that is cut, changed, hostile, or of a library that this build does not have.
#include "data_help.h"

#include "file/infile.h"

#include <zlib.h>
#ifdef MU_HAVE_LZMA
#include <lzma.h>
#endif
#ifdef MU_HAVE_ZSTD
#include <zstd.h>
#endif

enum { BIG = 300000, ROOM = BIG + 4096 };

static uint8_t text[BIG], packed[2 * ROOM];

typedef struct format {
    const char *name;
    size_t      n_magic;
    size_t (*pack)(const uint8_t *in, size_t n, uint8_t *out); // NULL = not in this build
    const char *package;
    const uint8_t magic[6];
} format;

static size_t pack_gzip(const uint8_t *in, size_t n, uint8_t *out) {
    z_stream z = {0};
    assert_int_equal(deflateInit2(&z, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
    z.next_in = (Bytef *)(uintptr_t)in;
    z.avail_in = (unsigned)n;
    z.next_out = out;
    z.avail_out = ROOM;
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    deflateEnd(&z);
    return z.total_out;
}

#ifdef MU_HAVE_LZMA
static size_t pack_xz(const uint8_t *in, size_t n, uint8_t *out) {
    size_t used = 0;
    assert_int_equal(lzma_easy_buffer_encode(1, LZMA_CHECK_CRC64, NULL, in, n, out, &used, ROOM), LZMA_OK);
    return used;
}
#else
#define pack_xz NULL
#endif

#ifdef MU_HAVE_ZSTD
static size_t pack_zstd(const uint8_t *in, size_t n, uint8_t *out) {
    ZSTD_CCtx *c = ZSTD_createCCtx();
    ZSTD_CCtx_setParameter(c, ZSTD_c_checksumFlag, 1);
    size_t used = ZSTD_compress2(c, out, ROOM, in, n);
    assert_false(ZSTD_isError(used));
    ZSTD_freeCCtx(c);
    return used;
}
#else
#define pack_zstd NULL
#endif

static const format formats[] = {
    {"gzip", 2, pack_gzip, "zlib1g-dev", {0x1f, 0x8b}},
    {"xz", 6, pack_xz, "liblzma-dev", {0xfd, 0x37, 0x7a, 0x58, 0x5a, 0}},
    {"zstd", 4, pack_zstd, "libzstd-dev", {0x28, 0xb5, 0x2f, 0xfd}},
};
enum { N_FORMATS = sizeof formats / sizeof *formats };

// Half of it packs well, half does not at all.
static void fill_text(void) {
    uint32_t x = 1;
    for (size_t i = 0; i < BIG; i++) {
        x = x * 1664525u + 1013904223u;
        text[i] = i < BIG / 2 ? (uint8_t)(i / 100) : (uint8_t)(x >> 24);
    }
}

static mu_status open_bytes(mu_infile *f, const uint8_t *bytes, size_t n, mu_err *err) {
    *err = (mu_err){0};
    return mu_infile_open(f, write_file("packed", bytes, n), err);
}

static void expect_text(const uint8_t *bytes, size_t n, size_t n_text) {
    mu_infile f;
    mu_err err;
    assert_ok(open_bytes(&f, bytes, n, &err), &err);
    assert_int_equal(f.size, n_text);
    assert_memory_equal(f.mem, text, n_text);
    mu_infile_close(&f);
}

static void expect_fail(const uint8_t *bytes, size_t n, mu_status want, const char *says, const char *hint) {
    mu_infile f;
    mu_err err;
    const uint64_t live = mu_alloc_get_stats().n_live;
    assert_status(open_bytes(&f, bytes, n, &err), want, &err);
    assert_says(&err, says);
    if (hint && !strstr(err.hint, hint)) fail_msg("hint `%s` lacks `%s`", err.hint, hint);
    assert_int_equal(mu_alloc_get_stats().n_live, live);
}

static void test_content(void **ctx) {
    (void)ctx;
    for (size_t i = 0; i < N_FORMATS; i++) {
        if (!formats[i].pack) continue;
        for (size_t n = 1; n <= BIG; n = n < BIG && n * 7 > BIG ? BIG : n * 7)
            expect_text(packed, formats[i].pack(text, n, packed), n);
    }
}

// cat a.xz b.xz, and streams that hold nothing.
static void test_joined(void **ctx) {
    (void)ctx;
    for (size_t i = 0; i < N_FORMATS; i++) {
        if (!formats[i].pack) continue;
        size_t n = formats[i].pack(text, BIG / 3, packed);
        n += formats[i].pack(text, 0, packed + n);
        n += formats[i].pack(text + BIG / 3, BIG - BIG / 3, packed + n);
        expect_text(packed, n, BIG);
        n = formats[i].pack(text, 0, packed);
        expect_fail(packed, n, MU_EDATA, "is empty inside its", NULL);
        n = formats[i].pack(text, 500, packed);
        memcpy(packed + n, "rubbish!", 8);
        expect_fail(packed, n + 8, MU_EDATA, formats[i].name, NULL);
    }
}

static void test_cut(void **ctx) {
    (void)ctx;
    char says[64];
    for (size_t i = 0; i < N_FORMATS; i++) {
        if (!formats[i].pack) continue;
        snprintf(says, sizeof says, "is a truncated %s file", formats[i].name);
        const size_t n = formats[i].pack(text + BIG / 2 - 600, 700, packed);
        for (size_t cut = formats[i].n_magic; cut < n; cut++)
            expect_fail(packed, cut, MU_EDATA, says, "Fetch the file again");
        const size_t big = formats[i].pack(text, BIG, packed);
        for (size_t cut = big - 1; cut > formats[i].n_magic; cut -= cut > 20011 ? 20011 : cut)
            expect_fail(packed, cut, MU_EDATA, says, NULL);
    }
}

// Every bit behind the magic: an error of the format, or (a bit that says nothing) the same content.
static void test_flipped(void **ctx) {
    (void)ctx;
    for (size_t i = 0; i < N_FORMATS; i++) {
        if (!formats[i].pack) continue;
        const size_t n = formats[i].pack(text + BIG / 2 - 100, 150, packed);
        size_t n_failed = 0, n_bits = 8 * (n - formats[i].n_magic);
        for (size_t bit = 8 * formats[i].n_magic; bit < 8 * n; bit++) {
            mu_infile f;
            mu_err err;
            packed[bit / 8] ^= (uint8_t)(1 << bit % 8);
            const mu_status st = open_bytes(&f, packed, n, &err);
            packed[bit / 8] ^= (uint8_t)(1 << bit % 8);
            n_failed += st != MU_OK;
            if (st == MU_OK) {
                assert_int_equal(f.size, 150);
                assert_memory_equal(f.mem, text + BIG / 2 - 100, 150);
                mu_infile_close(&f);
            } else if (st != MU_EUNSUPPORTED) {
                assert_int_equal(st, MU_EDATA);
                if (!strstr(err.msg, "inflates to more")) assert_says(&err, formats[i].name);
            }
        }
        assert_true(n_failed * 10 > n_bits * 8);
    }
}

static void test_bomb(void **ctx) {
    (void)ctx;
    const size_t n = (size_t)100 << 20;
    uint8_t *zeros = calloc(1, n);
    assert_non_null(zeros);
    for (size_t i = 0; i < N_FORMATS; i++) {
        if (!formats[i].pack) continue;
        expect_fail(packed, formats[i].pack(zeros, n, packed), MU_EDATA, "inflates to more than",
                    formats[i].name);
    }
    free(zeros);
}

// A stream whose header wants gigabytes for its window.
static void test_window(void **ctx) {
    (void)ctx;
#ifdef MU_HAVE_LZMA
    size_t n = pack_xz(text, 1000, packed);
    uint8_t *block_head = packed + 12, *lzma2 = block_head + 2;     // size, flags, sizes, filter, CRC32
    const size_t head = ((size_t)block_head[0] + 1) * 4;
    while (lzma2[0] != 0x21 || lzma2[1] != 1) lzma2++;              // filter, bytes of properties, window
    lzma2[2] = 40;                                                  // 4 GiB
    mu_put_le32(block_head + head - 4, lzma_crc32(block_head, head - 4, 0));
    expect_fail(packed, n, MU_EUNSUPPORTED, "its window is larger", "xz -d");
#endif
#ifdef MU_HAVE_ZSTD
    const uint8_t wide[] = {0x28, 0xb5, 0x2f, 0xfd, 0, 21 << 3, 1, 0, 0};     // 2 GiB
    expect_fail(wide, sizeof wide, MU_EUNSUPPORTED, "its window is larger", "zstd -d");
#endif
}

static void test_out_of_memory(void **ctx) {
    (void)ctx;
    for (size_t i = 0; i < N_FORMATS; i++) {
        if (!formats[i].pack) continue;
        const size_t n = formats[i].pack(text, BIG, packed);
        bool done = false;
        for (int64_t k = 1; !done; k++) {
            mu_infile f;
            mu_err err;
            const uint64_t live = mu_alloc_get_stats().n_live;
            mu_alloc_fail_at(k);
            const mu_status st = open_bytes(&f, packed, n, &err);
            mu_alloc_fail_at(0);
            done = st == MU_OK;
            if (done) mu_infile_close(&f);
            else assert_int_equal(st, MU_ENOMEM);
            assert_int_equal(mu_alloc_get_stats().n_live, live);
            assert_true(k < 100);
        }
    }
}

static void test_not_in_this_build(void **ctx) {
    (void)ctx;
    for (size_t i = 0; i < N_FORMATS; i++)
        if (!formats[i].pack)
            expect_fail(formats[i].magic, formats[i].n_magic, MU_EUNSUPPORTED, "which this build cannot read",
                        formats[i].package);
}

int main(void) {
    make_test_dir();
    fill_text();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_content),       cmocka_unit_test(test_joined),
        cmocka_unit_test(test_cut),           cmocka_unit_test(test_flipped),
        cmocka_unit_test(test_bomb),          cmocka_unit_test(test_window),
        cmocka_unit_test(test_out_of_memory), cmocka_unit_test(test_not_in_this_build),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
