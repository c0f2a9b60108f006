// SPDX-License-Identifier: Apache-2.0
// Pictures: the PNG that is written is read back by libpng, pixel by pixel.
#include "unit/run_help.h"

#include "file/image.h"
#include "plot/raster.h"

#include <math.h>

static bool can_decode(const mu_text *png, mu_image_decoder *d) {
    mu_err err = {0};
    mu_status st = mu_image_decode(d, png->s, png->n, 3, "test", &err);
    if (st == MU_EUNSUPPORTED) print_message("not read back: %s\n", err.msg);
    else if (st != MU_OK) fail_msg("%s", err.msg);
    return st == MU_OK;
}

// Random pixels, opaque or transparent, of random sizes.
static void test_png_round_trip(void **state) {
    (void)state;
    uint64_t seed = seed_from_env();
    for (int round = 0; round < 60; round++) {
        mu_raster r;
        mu_text png = {0};
        mu_image_decoder d = {0};
        int64_t w = 1 + (int64_t)(next_random(&seed) % 70), h = 1 + (int64_t)(next_random(&seed) % 50);
        assert_ok(mu_raster_create(w, h, &r, err));
        for (int64_t i = 0; i < w * h; i++) {
            uint64_t v = next_random(&seed);
            for (int k = 0; k < 3; k++) r.rgba[4 * i + k] = (uint8_t)(v >> (8 * k));
            r.rgba[4 * i + 3] = v >> 60 ? 255 : 0;
        }
        assert_ok(mu_raster_png(&r, &png, err));
        if (can_decode(&png, &d)) {
            assert_int_equal(d.w, w);
            assert_int_equal(d.h, h);
            for (int64_t i = 0; i < w * h; i++)
                for (int k = 0; k < 3; k++) {
                    int want = r.rgba[4 * i + 3] ? r.rgba[4 * i + k] : 255; // transparent lies on white
                    if (d.pixels[3 * i + k] != want)
                        fail_msg("pixel %lld channel %d: %d, not %d", (long long)i, k, d.pixels[3 * i + k],
                                 want);
                }
        }
        mu_image_decoder_fini(&d);
        mu_text_fini(&png);
        mu_raster_fini(&r);
    }
}

static void assert_pixel(const mu_raster *r, int64_t x, int64_t y, int red, int green, int blue, int alpha) {
    const uint8_t *p = r->rgba + 4 * (y * r->w + x);
    if (p[0] != red || p[1] != green || p[2] != blue || p[3] != alpha)
        fail_msg("pixel (%lld, %lld) is %d %d %d %d, not %d %d %d %d", (long long)x, (long long)y, p[0], p[1],
                 p[2], p[3], red, green, blue, alpha);
}

static void test_draw(void **state) {
    (void)state;
    mu_raster r;
    const float grey[] = {-1, 0, 1, 2, NAN, -5}, colour[] = {0, 1, /**/ 1, 0, /**/ 0.5f, 0.25f};
    assert_ok(mu_raster_create(10, 6, &r, err));
    mu_raster_draw(&r, 1, 1, 2, &(mu_planes){grey, 1, 2, 3}, -1, 1);
    assert_pixel(&r, 0, 0, 0, 0, 0, 0);
    assert_pixel(&r, 1, 1, 0, 0, 0, 255);       // lo
    assert_pixel(&r, 4, 2, 128, 128, 128, 255); // the middle, enlarged
    assert_pixel(&r, 6, 2, 255, 255, 255, 255); // hi
    assert_pixel(&r, 1, 3, 255, 255, 255, 255); // beyond is cut
    assert_pixel(&r, 3, 3, 0, 0, 0, 0);         // not a number
    assert_pixel(&r, 5, 4, 0, 0, 0, 255);
    mu_raster_draw(&r, 8, 0, 1, &(mu_planes){colour, 3, 1, 2}, 0, 1);
    assert_pixel(&r, 8, 0, 0, 255, 128, 255);
    assert_pixel(&r, 9, 0, 255, 0, 64, 255);
    mu_raster_draw(&r, -3, -3, 4, &(mu_planes){grey, 1, 2, 3}, 0, 1); // cut at every side: no overrun
    mu_raster_draw(&r, 8, 4, 4, &(mu_planes){grey, 1, 2, 3}, 1, 1);
    mu_raster_draw(&r, 100, 100, 4, &(mu_planes){grey, 1, 2, 3}, 0, 1);
    mu_raster_fini(&r);
    assert_fails(mu_raster_create(0, 5, &r, err), MU_EUSAGE, "0 x 5");
    assert_fails(mu_raster_create(60000, 60000, &r, err), MU_EUSAGE, "beyond the limit");
}

static void test_no_memory(void **state) {
    (void)state;
    mu_raster r;
    assert_ok(mu_raster_create(40, 30, &r, err));
    for (int64_t n = 1;; n++) {
        mu_text t = {0};
        mu_err err = {0};
        uint64_t live = mu_alloc_get_stats().n_live;
        mu_alloc_fail_at(n);
        mu_status st = mu_raster_png(&r, &t, &err);
        mu_alloc_fail_at(0);
        mu_text_fini(&t);
        assert_int_equal(mu_alloc_get_stats().n_live, live);
        if (st == MU_OK) break;
        assert_int_equal(st, MU_ENOMEM);
        assert_true(n < 100);
    }
    mu_raster_fini(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_png_round_trip),
        cmocka_unit_test(test_draw),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
