// SPDX-License-Identifier: Apache-2.0
// image.h - PNG and JPEG bytes to pixels, and resizing.
//
// The format is told by the first bytes, not by the name. Sizes are checked before memory is taken:
// at most 64 Mi pixels, and no more than the compressed bytes could possibly hold. JPEG files with
// more than 500 scans are refused. PNG values are those of the file: its gamma chunk and colour profile are
// not applied. Transparency is laid on white; 16 bits are reduced to 8; colour becomes grey as in JPEG.
#ifndef MU_FILE_IMAGE_H
#define MU_FILE_IMAGE_H

#include "base/alloc.h"
#include "base/err.h"

#include <stdint.h>

typedef struct mu_image_decoder {       // zeroed = ready; one thread at a time
    void    *jpeg;                      // handle of libturbojpeg, made at the first JPEG
    uint8_t *pixels;                    // of the last image, (h, w, c); reused and grown
    size_t   cap;
    int64_t  h, w, c;
} mu_image_decoder;

void mu_image_decoder_fini(mu_image_decoder *d);

// Decodes to `channels` (1 grey, 3 RGB) bytes a pixel in d->pixels. MU_EDATA names the file.
// MU_EUNSUPPORTED when this build lacks the library, with the package to install.
MU_MUST_CHECK mu_status mu_image_decode(mu_image_decoder *d, const void *bytes, size_t size, int channels,
                                        const char *name, mu_err *err);

// Bilinear, with pixel centres at (i + 1/2): out (h, w, c) from in (in_h, in_w, c). Integer arithmetic,
// so that every machine gives the same bytes.
void mu_image_resize(const uint8_t *in, int64_t in_h, int64_t in_w, uint8_t *out, int64_t h, int64_t w,
                     int64_t c);

#endif
