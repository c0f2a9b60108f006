// SPDX-License-Identifier: Apache-2.0
// image.c - see image.h.
//
// libpng's own short interface (png_image) would convert the values of a file with a gamma chunk for showing
// them on a screen, so its long interface is used. That reports errors by longjmp; each of the two functions
// that call setjmp keeps nothing in local variables that is needed after a jump.
#include "file/image.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#ifdef MU_HAVE_PNG
#include <png.h>
#include <setjmp.h>
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
typedef struct png_file {
    png_structp    png;
    png_infop      info;
    const uint8_t *bytes;
    size_t         size, at;    // read so far
    char           message[96]; // why reading ended
} png_file;

static void png_fail(png_structp png, const char *message) {
    png_file *f = png_get_error_ptr(png);
    snprintf(f->message, sizeof f->message, "%s", message);
    png_longjmp(png, 1);
}

static void png_ignore(png_structp png, const char *message) { (void)png, (void)message; }

static void png_feed(png_structp png, png_bytep to, size_t n) {
    png_file *f = png_get_io_ptr(png);
    if (n > f->size - f->at) png_error(png, "the file is cut short");
    memcpy(to, f->bytes + f->at, n);
    f->at += n;
}

// Reads up to the pixels and asks for 8-bit grey or colour, each with or without alpha. False = see message.
static bool png_read_head(png_file *f, int channels) {
    if (setjmp(png_jmpbuf(f->png))) return false;
    png_set_read_fn(f->png, f, png_feed);
    png_set_keep_unknown_chunks(f->png, PNG_HANDLE_CHUNK_NEVER, NULL, -1);
    png_read_info(f->png, f->info);
    png_set_expand(f->png);             // palette to colour, 1 to 4 bits to 8, a transparent colour to alpha
    png_set_scale_16(f->png);
    if (channels == 3) png_set_gray_to_rgb(f->png);
    return true;
}

static bool png_read_pixels(png_file *f, uint8_t *out, size_t bytes) {
    if (setjmp(png_jmpbuf(f->png))) return false;
    int passes = png_set_interlace_handling(f->png);
    png_read_update_info(f->png, f->info);
    size_t stride = png_get_rowbytes(f->png, f->info), h = png_get_image_height(f->png, f->info);
    if (stride * h != bytes) png_error(f->png, "its header contradicts itself");
    for (int k = 0; k < passes; k++)
        for (size_t y = 0; y < h; y++) png_read_row(f->png, out + y * stride, NULL);
    return true;
}

static int on_white(int v, int alpha) { return (v * alpha + 255 * (255 - alpha) + 127) / 255; }

// In place: `have` bytes a pixel (1 grey, 2 grey and alpha, 3 RGB, 4 RGBA) to `want` (1 or 3), never more.
// Grey is the luma of JPEG, so that a picture is as bright whichever way it was stored.
static void reduce_pixels(uint8_t *px, size_t n, int have, int want) {
    const uint8_t *in = px;
    bool colour = have >= 3, has_alpha = have % 2 == 0;
    for (size_t i = 0; i < n; i++, in += have) {
        int alpha = has_alpha ? in[have - 1] : 255;
        int r = on_white(in[0], alpha), g = colour ? on_white(in[1], alpha) : r;
        int b = colour ? on_white(in[2], alpha) : r;
        if (want == 1) {
            *px++ = (uint8_t)((19595 * r + 38470 * g + 7471 * b + (1 << 15)) >> 16);
        } else {
            *px++ = (uint8_t)r, *px++ = (uint8_t)g, *px++ = (uint8_t)b;
        }
    }
}

static mu_status read_png(mu_image_decoder *d, png_file *f, int channels, const char *name, mu_err *err) {
    if (!png_read_head(f, channels)) return MU_FAIL(err, MU_EDATA, "`%s`: bad PNG: %s", name, f->message);
    int type = png_get_color_type(f->png, f->info);
    bool alpha = (type & PNG_COLOR_MASK_ALPHA) || png_get_valid(f->png, f->info, PNG_INFO_tRNS);
    int have = (channels == 3 || (type & PNG_COLOR_MASK_COLOR) ? 3 : 1) + alpha;
    MU_TRY(make_room(d, png_get_image_width(f->png, f->info), png_get_image_height(f->png, f->info), have,
                     f->size, name, err));
    size_t n = (size_t)(d->w * d->h);
    if (!png_read_pixels(f, d->pixels, n * (size_t)have))
        return MU_FAIL(err, MU_EDATA, "`%s`: bad PNG: %s", name, f->message);
    if (have != channels) reduce_pixels(d->pixels, n, have, channels);
    d->c = channels;
    return MU_OK;
}

static mu_status decode_png(mu_image_decoder *d, const void *bytes, size_t size, int channels,
                            const char *name, mu_err *err) {
    png_file f = {.bytes = bytes, .size = size};
    f.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &f, png_fail, png_ignore);
    f.info = f.png ? png_create_info_struct(f.png) : NULL;
    mu_status st = f.info ? read_png(d, &f, channels, name, err) : MU_FAIL_NOMEM(err, "the PNG decoder");
    png_destroy_read_struct(&f.png, &f.info, NULL);
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
static mu_status read_jpeg(mu_image_decoder *d, const void *bytes, size_t size, int channels,
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

// After an error the handle may keep a part of the bad image (a second header in it, say) and refuse all good
// ones that follow: the next image gets a new handle.
static mu_status decode_jpeg(mu_image_decoder *d, const void *bytes, size_t size, int channels,
                             const char *name, mu_err *err) {
    mu_status st = read_jpeg(d, bytes, size, channels, name, err);
    if (st != MU_OK && d->jpeg) {
        tjDestroy(d->jpeg);
        d->jpeg = NULL;
    }
    return st;
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
