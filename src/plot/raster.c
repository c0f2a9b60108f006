// SPDX-License-Identifier: Apache-2.0
// raster.c - see raster.h.
//
//   PNG = signature, then chunks: u32 length | 4 letters | data | u32 crc of letters and data, big endian
//         IHDR size and form, IDAT one zlib stream of rows (filter byte, pixels), IEND
// Rows after the first are stored as differences to the row above ("Up"): rows repeated by enlarging become
// zeros, which deflate to nearly nothing.
#include "plot/raster.h"

#include "base/alloc.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <zlib.h>

#define TAG "raster"
#define MAX_SIDE 65535
#define MAX_PIXELS ((int64_t)64 << 20)

mu_status mu_raster_create(int64_t w, int64_t h, mu_raster *out, mu_err *err) {
    if (w < 1 || h < 1 || w > MAX_SIDE || h > MAX_SIDE || w * h > MAX_PIXELS)
        return MU_FAIL(err, MU_EUSAGE, "a picture of %" PRId64 " x %" PRId64 " pixels is beyond the limit", w,
                       h);
    uint8_t *rgba = mu_alloc_array((size_t)(w * h), 4, TAG);
    if (!rgba) return MU_FAIL_NOMEM(err, "a picture");
    *out = (mu_raster){w, h, rgba};
    return MU_OK;
}

void mu_raster_fini(mu_raster *r) {
    mu_free(r->rgba);
    *r = (mu_raster){0};
}

static uint8_t tone(double v, double lo, double hi) {
    double t = hi > lo ? (v - lo) / (hi - lo) : 0.5;
    return (uint8_t)lround(255 * fmin(fmax(t, 0), 1));
}

static void fill(mu_raster *r, int64_t x, int64_t y, int64_t scale, const uint8_t colour[4]) {
    for (int64_t j = y < 0 ? 0 : y; j < y + scale && j < r->h; j++)
        for (int64_t i = x < 0 ? 0 : x; i < x + scale && i < r->w; i++)
            memcpy(r->rgba + 4 * (j * r->w + i), colour, 4);
}

void mu_raster_draw(mu_raster *r, int64_t x, int64_t y, int64_t scale, const mu_planes *p, double lo,
                    double hi) {
    for (int64_t j = 0; j < p->h; j++)
        for (int64_t i = 0; i < p->w; i++) {
            uint8_t colour[4] = {0, 0, 0, 255};
            bool good = true;
            for (int64_t k = 0; k < 3; k++) {
                double v = (double)p->v[((p->c == 3 ? k : 0) * p->h + j) * p->w + i];
                good &= isfinite(v);
                colour[k] = good ? tone(v, lo, hi) : 0;
            }
            if (good) fill(r, x + i * scale, y + j * scale, scale, colour);
        }
}

// ---- PNG ----

static void put_u32(uint8_t *to, uint32_t v) {
    for (int i = 0; i < 4; i++) to[i] = (uint8_t)(v >> (24 - 8 * i));
}

static void put_chunk(mu_text *out, const char type[4], const uint8_t *data, size_t n) {
    uint8_t word[4];
    put_u32(word, (uint32_t)n);
    mu_text_put(out, (const char *)word, 4);
    mu_text_put(out, type, 4);
    if (n) mu_text_put(out, (const char *)data, n);
    uLong crc = crc32(crc32(0, NULL, 0), (const Bytef *)type, 4);
    if (n) crc = crc32(crc, data, (uInt)n);
    put_u32(word, (uint32_t)crc);
    mu_text_put(out, (const char *)word, 4);
}

static void filter_rows(const mu_raster *r, uint8_t *to) {
    size_t stride = 4 * (size_t)r->w;
    for (int64_t y = 0; y < r->h; y++) {
        const uint8_t *row = r->rgba + (size_t)y * stride, *above = y ? row - stride : NULL;
        *to++ = y ? 2 : 0;
        for (size_t i = 0; i < stride; i++) *to++ = (uint8_t)(row[i] - (above ? above[i] : 0));
    }
}

mu_status mu_raster_png(const mu_raster *r, mu_text *out, mu_err *err) {
    size_t raw_bytes = (size_t)r->h * (4 * (size_t)r->w + 1);
    uLongf packed_bytes = compressBound((uLong)raw_bytes);
    uint8_t *raw = mu_alloc(raw_bytes, TAG), *packed = mu_alloc(packed_bytes, TAG), head[13];
    mu_status st = raw && packed ? MU_OK : MU_FAIL_NOMEM(err, "a PNG");
    if (st == MU_OK) {
        filter_rows(r, raw);
        if (compress2(packed, &packed_bytes, raw, (uLong)raw_bytes, 9) != Z_OK)
            st = MU_FAIL_NOMEM(err, "a PNG");
    }
    if (st == MU_OK) {
        put_u32(head, (uint32_t)r->w);
        put_u32(head + 4, (uint32_t)r->h);
        memcpy(head + 8, "\x08\x06\0\0", 5); // 8 bits, RGBA, deflate, adaptive filters, not interlaced
        mu_text_put(out, "\x89PNG\r\n\x1a\n", 8);
        put_chunk(out, "IHDR", head, sizeof head);
        put_chunk(out, "IDAT", packed, packed_bytes);
        put_chunk(out, "IEND", NULL, 0);
        if (out->failed) st = MU_FAIL_NOMEM(err, "a PNG");
    }
    mu_free(raw);
    mu_free(packed);
    return st;
}
