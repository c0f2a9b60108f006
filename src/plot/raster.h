// SPDX-License-Identifier: Apache-2.0
// raster.h - pictures of numbers: planes of floats become pixels, pixels become a PNG.
//
// Pixels are RGBA bytes and begin transparent, so that gaps between pictures take the colour of the page.
// Small pictures are enlarged here by whole factors: viewers blur what they enlarge themselves. PNG needs
// nothing but zlib, so every build can write it.
#ifndef MU_PLOT_RASTER_H
#define MU_PLOT_RASTER_H

#include "base/err.h"
#include "file/json.h"

#include <stdint.h>

typedef struct mu_raster {
    int64_t w, h;
    uint8_t *rgba; // (h, w, 4); owned, mu_raster_fini
} mu_raster;

typedef struct mu_planes { // one picture as the net has it
    const float *v;        // (c, h, w)
    int64_t c, h, w;       // c 1 = grey, 3 = RGB
} mu_planes;

// MU_EUSAGE beyond 64 Mi pixels.
MU_MUST_CHECK mu_status mu_raster_create(int64_t w, int64_t h, mu_raster *out, mu_err *err);
void mu_raster_fini(mu_raster *r);

// Draws with the upper left corner at (x, y), each value as a square of `scale` pixels; lo is black, hi is
// white, values beyond are cut, what is not a number is transparent. What lies outside is not drawn.
void mu_raster_draw(mu_raster *r, int64_t x, int64_t y, int64_t scale, const mu_planes *p, double lo,
                    double hi);

MU_MUST_CHECK mu_status mu_raster_png(const mu_raster *r, mu_text *out, mu_err *err); // appends the file

#endif
