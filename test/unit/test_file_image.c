// SPDX-License-Identifier: Apache-2.0
// test_file_image.c - pictures: values as stored, folders and lists of files, damage, resizing.
#include "data_help.h"

#include "file/image.h"

#ifdef MU_HAVE_TURBOJPEG
#include <turbojpeg.h>
#endif

static void test_resize(void **ctx) {
    (void)ctx;
    const uint8_t in[] = {0, 100, 200, 40};             // 2 x 2
    uint8_t out[16];
    mu_image_resize(in, 2, 2, out, 2, 2, 1);
    assert_memory_equal(out, in, 4);
    mu_image_resize(in, 2, 2, out, 1, 1, 1);
    assert_int_equal(out[0], 85);                       // the mean
    mu_image_resize(in, 2, 2, out, 4, 4, 1);
    assert_int_equal(out[0], 0);                        // corners stay
    assert_int_equal(out[3], 100);
    assert_int_equal(out[12], 200);
    assert_int_equal(out[15], 40);
    assert_int_equal(out[1], 25);                       // a quarter of the way
    const uint8_t rgb[] = {1, 2, 3};
    mu_image_resize(rgb, 1, 1, out, 2, 2, 3);
    for (int i = 0; i < 12; i++) assert_int_equal(out[i], 1 + i % 3);
}

#ifdef MU_HAVE_PNG
static void test_image_folder(void **ctx) {
    (void)ctx;
    block b;
    mu_reader *r;
    mu_err err = {0};
    const char *yaml = sample_image_folder();
    assert_ok(reader_open(&b, yaml, &r, &err), &err);
    assert_int_equal(r->field[0].shape.d[1], 4);
    assert_int_equal(r->field[0].shape.d[2], 5);
    assert_int_equal(r->field[1].n_classes, 2);
    for (int i = 0; i < SAMPLES; i++) {
        mu_record rec = read_ok(r, i);
        for (int k = 0; k < 60; k++) assert_int_equal(((const uint8_t *)rec.field[0])[k], pixel_of(i, k));
        assert_int_equal(*(const int32_t *)rec.field[1], i >= 7);
    }
    mu_reader_close(r);
    block_fini(&b);
    assert_ok(reader_open(&b, yaml_of("{reader: image_folder, root: %s, height: 2, width: 2, channels: 1}",
                                      test_path("images")), &r, &err), &err);
    assert_int_equal(mu_data_field_bytes(&r->field[0]), 4);
    read_ok(r, 0);
    mu_reader_close(r);
    block_fini(&b);
}

// What a class root may hold beside class folders: links to folders (followed), to files, to nothing.
static void test_image_folder_follows_links(void **ctx) {
    (void)ctx;
    block b;
    mu_reader *r;
    mu_err err = {0};
    sample_image_folder();
    mkdir(test_path("linked"), 0777);
    assert_int_equal(symlink("../images/ant", test_path("linked/a")), 0);
    assert_int_equal(symlink("../images/bee/07.png", test_path("linked/b")), 0);
    assert_int_equal(symlink("../not/there", test_path("linked/c")), 0);
    assert_int_equal(symlink("../images/bee", test_path("linked/d")), 0);
    write_file("linked/README", "hello", 5);
    assert_ok(reader_open(&b, yaml_of("{reader: image_folder, root: %s}", test_path("linked")), &r, &err),
              &err);
    assert_int_equal(r->n_records, SAMPLES);
    assert_int_equal(r->field[1].n_classes, 2);
    assert_int_equal(*(const int32_t *)read_ok(r, 0).field[1], 0);
    assert_int_equal(*(const int32_t *)read_ok(r, SAMPLES - 1).field[1], 1);
    mu_reader_close(r);
    block_fini(&b);
}

// Without `root`, entries count from where the list lies, wherever the program runs.
static void test_image_list_without_root(void **ctx) {
    (void)ctx;
    block b;
    mu_reader *r;
    mu_err err = {0};
    char list[256];
    sample_image_folder();
    snprintf(list, sizeof list, "ant/01.png 0\nbee/08.png 1\n%s 5\n", test_path("images/bee/09.png"));
    write_file("images/list.txt", list, strlen(list));
    assert_ok(reader_open(&b, yaml_of("{reader: image_folder, list: %s}", test_path("images/list.txt")), &r,
                          &err), &err);
    assert_int_equal(r->n_records, 3);
    const int which[] = {1, 8, 9};
    for (int i = 0; i < 3; i++)
        assert_int_equal(((const uint8_t *)read_ok(r, i).field[0])[59], pixel_of(which[i], 59));
    mu_reader_close(r);
    block_fini(&b);
    char before[1024];          // a list named without a folder lies in the current one
    assert_non_null(getcwd(before, sizeof before));
    assert_int_equal(chdir(test_path("images")), 0);
    assert_ok(reader_open(&b, "{reader: image_folder, list: list.txt}", &r, &err), &err);
    read_ok(r, 0);
    mu_reader_close(r);
    block_fini(&b);
    assert_int_equal(chdir(before), 0);
}

// A PNG of bit depth `depth` with a gamma chunk, as Photoshop or a linear-light renderer writes it.
static void write_gamma_png(const char *name, int w, int h, int depth, int type, double gamma,
                            bool interlaced, const uint8_t *px) {
    FILE *f = fopen(test_path(name), "wb");
    png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, NULL, NULL, NULL);
    png_infop info = png_create_info_struct(png);
    assert_non_null(f);
    png_init_io(png, f);
    png_set_IHDR(png, info, (png_uint_32)w, (png_uint_32)h, depth, type,
                 interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT,
                 PNG_FILTER_TYPE_DEFAULT);
    png_set_gAMA(png, info, gamma);
    png_write_info(png, info);
    int passes = png_set_interlace_handling(png);
    size_t stride = png_get_rowbytes(png, info);
    for (int k = 0; k < passes; k++)
        for (int y = 0; y < h; y++) png_write_row(png, px + (size_t)y * stride);
    png_write_end(png, NULL);
    png_destroy_write_struct(&png, &info);
    fclose(f);
}

static void decodes_to(const char *name, int channels, const uint8_t *want, int n) {
    uint8_t file[4096];
    mu_image_decoder d = {0};
    mu_err err = {0};
    size_t size = load_bytes(test_path(name), file, sizeof file);
    assert_ok(mu_image_decode(&d, file, size, channels, name, &err), &err);
    assert_int_equal(d.c, channels);
    assert_int_equal(d.h * d.w * channels, n);
    for (int i = 0; i < n; i++)
        if (d.pixels[i] != want[i]) fail_msg("%s: element %d is %d, not %d", name, i, d.pixels[i], want[i]);
    mu_image_decoder_fini(&d);
}

// A gamma chunk says how to show the numbers; what is learnt from is the numbers.
static void test_png_values_are_the_files(void **ctx) {
    (void)ctx;
    uint8_t px[9 * 7 * 3], deep[9 * 7 * 3 * 2], rgba[2 * 4] = {10, 20, 30, 255, 200, 100, 0, 0};
    for (int i = 0; i < 9 * 7 * 3; i++) {
        px[i] = (uint8_t)(i * 5);
        deep[2 * i] = deep[2 * i + 1] = px[i];          // v * 257: exactly v in 8 bits
    }
    for (int k = 0; k < 6; k++) {
        double gamma = k < 2 ? 1.0 : k < 4 ? 0.45455 : 0.2;
        write_gamma_png("g3.png", 9, 7, 8, PNG_COLOR_TYPE_RGB, gamma, k % 2, px);
        decodes_to("g3.png", 3, px, 9 * 7 * 3);
        write_gamma_png("g1.png", 9, 7, 8, PNG_COLOR_TYPE_GRAY, gamma, k % 2, px);
        decodes_to("g1.png", 1, px, 9 * 7);
        write_gamma_png("g16.png", 9, 7, 16, PNG_COLOR_TYPE_RGB, gamma, k % 2, deep);
        decodes_to("g16.png", 3, px, 9 * 7 * 3);
        write_gamma_png("ga.png", 2, 1, 8, PNG_COLOR_TYPE_RGB_ALPHA, gamma, k % 2, rgba);
        decodes_to("ga.png", 3, (const uint8_t[]){10, 20, 30, 255, 255, 255}, 6);
        decodes_to("ga.png", 1, (const uint8_t[]){18, 255}, 2);    // 0.299 R + 0.587 G + 0.114 B
    }
    write_gamma_png("g1.png", 2, 1, 8, PNG_COLOR_TYPE_GRAY, 1.0, false, px + 20);
    decodes_to("g1.png", 3, (const uint8_t[]){100, 100, 100, 105, 105, 105}, 6);
    write_gamma_png("bits.png", 8, 1, 1, PNG_COLOR_TYPE_GRAY, 1.0, false, (const uint8_t[]){0xa1});
    decodes_to("bits.png", 1, (const uint8_t[]){255, 0, 255, 0, 0, 0, 0, 255}, 8);
}

static void test_image_damage(void **ctx) {
    (void)ctx;
    uint8_t png[512], px[60] = {0};
    write_png("p.png", 5, 4, 3, px);
    size_t n = load_bytes(test_path("p.png"), png, sizeof png);
    write_file("i0.png", png, n);
    write_file("i1.png", png, n - 20);
    write_file("i2.png", "", 0);
    write_file("i3.png", "hello world", 11);
    png[16] = 0, png[17] = 0x0f, png[18] = 0x42, png[19] = 0x40;        // a million pixels wide
    write_file("i4.png", png, n);
    const char *list = "i0.png 0\ni1.png 1\ni2.png 1\ni3.png 2\r\n\ni4.png 1\nnot there.png 3\n";
    block b;
    mu_reader *r;
    mu_err err = {0};
    assert_ok(reader_open(&b, yaml_of("{reader: image_folder, root: %s, list: %s}", test_dir,
                                      write_file("list.txt", list, strlen(list))), &r, &err), &err);
    assert_int_equal(r->n_records, 6);
    assert_int_equal(r->field[1].n_classes, 4);
    read_ok(r, 0);
    read_fails(r, 1, "i1.png");
    read_fails(r, 2, "i2.png` is an empty file");
    read_fails(r, 3, "i3.png` is neither PNG nor JPEG");
    read_fails(r, 4, "i4.png");
    read_fails(r, 5, "not there.png");
    read_ok(r, 0);
    mu_reader_close(r);
    block_fini(&b);
    list = "x.png\n";
    reader_fails(yaml_of("{reader: image_folder, list: %s}", write_file("list.txt", list, strlen(list))),
                 MU_EDATA, "line 1: expected a path and a label");
    mkdir(test_path("none"), 0777);
    reader_fails(yaml_of("{reader: image_folder, root: %s}", test_path("none")), MU_EDATA, "holds no images");
    reader_fails("{reader: image_folder}", MU_EJOB, "needs `root` or `list`");
}
#endif

#ifdef MU_HAVE_TURBOJPEG
static void test_jpeg(void **ctx) {
    (void)ctx;
    enum { W = 24, H = 16 };
    uint8_t px[H * W * 3];
    for (int i = 0; i < H * W * 3; i++) px[i] = (uint8_t)(40 + i / (W * 3) * 8 + i % 3 * 30);   // smooth
    tjhandle enc = tjInitCompress();
    unsigned char *jpg = NULL;
    unsigned long n = 0;
    assert_int_equal(tjCompress2(enc, px, W, 0, H, TJPF_RGB, &jpg, &n, TJSAMP_444, 95, 0), 0);
    mu_image_decoder d = {0};
    mu_err err = {0};
    assert_ok(mu_image_decode(&d, jpg, n, 3, "x.jpg", &err), &err);
    assert_int_equal(d.w, W);
    assert_int_equal(d.h, H);
    for (int i = 0; i < H * W * 3; i++)
        if (abs(d.pixels[i] - px[i]) > 6) fail_msg("element %d is %d, written as %d", i, d.pixels[i], px[i]);
    assert_ok(mu_image_decode(&d, jpg, n, 1, "x.jpg", &err), &err);
    assert_int_equal(d.c, 1);
    for (unsigned long cut = 0; cut < n - 2; cut += 7) {
        mu_err_clear(&err);
        assert_status(mu_image_decode(&d, jpg, cut, 3, "x.jpg", &err), MU_EDATA, &err);
        assert_says(&err, "x.jpg");
    }
    for (unsigned long at = 2; at < n; at++) {          // whatever was damaged, the next good one is good
        unsigned char was = jpg[at];
        jpg[at] ^= 0xff;
        mu_status damaged = mu_image_decode(&d, jpg, n, 3, "x.jpg", NULL);
        (void)damaged;
        jpg[at] = was;
        mu_err_clear(&err);
        assert_ok(mu_image_decode(&d, jpg, n, 3, "good.jpg", &err), &err);
        assert_int_equal(d.w * d.h, W * H);
    }
    tjFree(jpg);
    tjDestroy(enc);
    mu_image_decoder_fini(&d);
}
#endif

int main(void) {
    make_test_dir();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_resize),
#ifdef MU_HAVE_PNG
        cmocka_unit_test(test_image_folder),
        cmocka_unit_test(test_image_folder_follows_links),
        cmocka_unit_test(test_image_list_without_root),
        cmocka_unit_test(test_png_values_are_the_files),
        cmocka_unit_test(test_image_damage),
#endif
#ifdef MU_HAVE_TURBOJPEG
        cmocka_unit_test(test_jpeg),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
