// SPDX-License-Identifier: Apache-2.0
// image.c - see image.h. libpng is used through its png_image interface, which keeps setjmp inside.
#include "data/image.h"

#include <inttypes.h>
#include <string.h>
#ifdef MU_HAVE_PNG
#include <png.h>
#endif
#ifdef MU_HAVE_TURBOJPEG
#include <turbojpeg.h>
#endif

#define MAX_SIDE 65535
#define MAX_PIXELS ((int64_t)64 << 20)
#define MAX_PIXELS_PER_BYTE 8300        // deflate packs at most 1032:1, and a PNG pixel may be one bit

// Accepts the declared size or refuses it, then makes room for the pixels.
MU_UNUSED static mu_status make_room(mu_image_decoder *d, int64_t w, int64_t h, int channels, size_t size,
                                     const char *name, mu_err *err) {
    if (w < 1 || h < 1 || w > MAX_SIDE || h > MAX_SIDE || w * h > MAX_PIXELS)
        return MU_FAIL(err, MU_EDATA,
                       "`%s`: an image of %" PRId64 " x %" PRId64 " pixels is beyond the limit", name, w, h);
    if (w * h / MAX_PIXELS_PER_BYTE > (int64_t)size)
        return MU_FAIL(err, MU_EDATA, "`%s`: %zu bytes cannot hold %" PRId64 " x %" PRId64 " pixels", name,
                       size, w, h);
    size_t need = (size_t)w * (size_t)h * (size_t)channels;
    if (need > d->cap) {
        mu_free(d->pixels);
        d->cap = 0;
        d->pixels = mu_realloc(NULL, need, "data/image");
        if (!d->pixels) return MU_FAIL_NOMEM(err, "an image");
        d->cap = need;
    }
    d->w = w, d->h = h, d->c = channels;
    return MU_OK;
}

#ifdef MU_HAVE_PNG
static mu_status decode_png(mu_image_decoder *d, const void *bytes, size_t size, int channels,
                            const char *name, mu_err *err) {
    png_image image = {.version = PNG_IMAGE_VERSION};
    if (!png_image_begin_read_from_memory(&image, bytes, size))
        return MU_FAIL(err, MU_EDATA, "`%s`: bad PNG: %s", name, image.message);
    mu_status st = make_room(d, image.width, image.height, channels, size, name, err);
    if (st == MU_OK) {
        static const png_color white = {255, 255, 255};
        image.flags |=
            PNG_IMAGE_FLAG_16BIT_sRGB; // 16-bit files without gAMA hold the same scale as 8-bit ones
        image.format = channels == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB;
        if (!png_image_finish_read(&image, &white, d->pixels, 0, NULL))
            st = MU_FAIL(err, MU_EDATA, "`%s`: bad PNG: %s", name, image.message);
    }
    png_image_free(&image);
    return st;
}
#else
static mu_status decode_png(mu_image_decoder *d, const void *bytes, size_t size, int channels,
                            const char *name, mu_err *err) {
    (void)d, (void)bytes, (void)size, (void)channels;
    MU_FAIL(err, MU_EUNSUPPORTED, "`%s` is a PNG image, which this build cannot read", name);
    mu_err_hint(err, "Install libpng-dev and build again.");
    return MU_EUNSUPPORTED;
}
#endif

#ifdef MU_HAVE_TURBOJPEG
static mu_status decode_jpeg(mu_image_decoder *d, const void *bytes, size_t size, int channels,
                             const char *name, mu_err *err) {
    int w = 0, h = 0, sampling = -1, space = -1;        // a file of tables alone is accepted and sets none
    if (!d->jpeg) d->jpeg = tjInitDecompress();
    if (!d->jpeg) return MU_FAIL_NOMEM(err, "the JPEG decoder");
    if (tjDecompressHeader3(d->jpeg, bytes, (unsigned long)size, &w, &h, &sampling, &space))
        return MU_FAIL(err, MU_EDATA, "`%s`: bad JPEG: %s", name, tjGetErrorStr2(d->jpeg));
    if (w < 1 || h < 1) return MU_FAIL(err, MU_EDATA, "`%s`: bad JPEG: it holds no image", name);
    if (space == TJCS_CMYK || space == TJCS_YCCK)
        return MU_FAIL(err, MU_EDATA, "`%s`: CMYK colours are not supported", name);
    MU_TRY(make_room(d, w, h, channels, size, name, err));
    if (tjDecompress2(d->jpeg, bytes, (unsigned long)size, d->pixels, w, 0, h,
                      channels == 1 ? TJPF_GRAY : TJPF_RGB, TJFLAG_STOPONWARNING | TJFLAG_LIMITSCANS))
        return MU_FAIL(err, MU_EDATA, "`%s`: bad JPEG: %s", name, tjGetErrorStr2(d->jpeg));
    return MU_OK;
}
#else
static mu_status decode_jpeg(mu_image_decoder *d, const void *bytes, size_t size, int channels,
                             const char *name, mu_err *err) {
    (void)d, (void)bytes, (void)size, (void)channels;
    MU_FAIL(err, MU_EUNSUPPORTED, "`%s` is a JPEG image, which this build cannot read", name);
    mu_err_hint(err, "Install libturbojpeg0-dev and build again.");
    return MU_EUNSUPPORTED;
}
#endif

mu_status mu_image_decode(mu_image_decoder *d, const void *bytes, size_t size, int channels, const char *name,
                          mu_err *err) {
    if (!size) return MU_FAIL(err, MU_EDATA, "`%s` is an empty file", name);
    if (size >= 8 && !memcmp(bytes, "\x89PNG\r\n\x1a\n", 8))
        return decode_png(d, bytes, size, channels, name, err);
    if (size >= 3 && !memcmp(bytes, "\xff\xd8\xff", 3))
        return decode_jpeg(d, bytes, size, channels, name, err);
    return MU_FAIL(err, MU_EDATA, "`%s` is neither PNG nor JPEG", name);
}

void mu_image_decoder_fini(mu_image_decoder *d) {
#ifdef MU_HAVE_TURBOJPEG
    if (d->jpeg) tjDestroy(d->jpeg);
#endif
    mu_free(d->pixels);
    *d = (mu_image_decoder){0};
}

// Source position of output pixel i in 1/256 pixels, kept inside 0..(in-1).
static int64_t place(int64_t i, int64_t out, int64_t in) {
    int64_t at = ((2 * i + 1) * in * 128) / out - 128, top = (in - 1) * 256;
    return at < 0 ? 0 : at > top ? top : at;
}

void mu_image_resize(const uint8_t *in, int64_t in_h, int64_t in_w, uint8_t *out, int64_t h, int64_t w,
                     int64_t c) {
    for (int64_t y = 0; y < h; y++) {
        int64_t py = place(y, h, in_h), fy = py & 255;
        const uint8_t *row0 = in + (py >> 8) * in_w * c, *row1 = fy ? row0 + in_w * c : row0;
        for (int64_t x = 0; x < w; x++) {
            int64_t px = place(x, w, in_w), fx = px & 255, a = (px >> 8) * c, b = fx ? a + c : a;
            for (int64_t k = 0; k < c; k++) {
                int64_t top = row0[a + k] * (256 - fx) + row0[b + k] * fx;
                int64_t low = row1[a + k] * (256 - fx) + row1[b + k] * fx;
                *out++ = (uint8_t)((top * (256 - fy) + low * fy + (1 << 15)) >> 16);
            }
        }
    }
}
