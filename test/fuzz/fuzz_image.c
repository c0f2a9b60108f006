// SPDX-License-Identifier: Apache-2.0
// fuzz_image.c - libFuzzer target: any bytes through the PNG and JPEG wrapper and the resizer.
#include "file/image.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    enum { SIDE = 17 };
    uint8_t out[SIDE * SIDE * 3];
    for (int channels = 1; channels <= 3; channels += 2) {
        mu_image_decoder d = {0};
        mu_err err = {0};
        if (mu_image_decode(&d, data, size, channels, "fuzz", &err) == MU_OK) {
            if (d.h < 1 || d.w < 1 || d.c != channels) abort();
            mu_image_resize(d.pixels, d.h, d.w, out, SIDE, SIDE, d.c);
        } else if (!err.msg[0]) {
            abort();
        }
        mu_image_decoder_fini(&d);
    }
    return 0;
}
