// SPDX-License-Identifier: Apache-2.0
// test_read_synthetic.c - made-up images: a class is 8 x 8 cells of one colour each, whatever the size.
#include "data_help.h"

enum { CELLS = 8 };

static const uint8_t *image_of(mu_reader *r, int64_t i) { return read_ok(r, i).field[0]; }

// Without noise every pixel of an image has the colour that the same class's smallest image has there.
static void test_cells_are_stretched(void **ctx) {
    (void)ctx;
    static const int sizes[][2] = {{16, 24}, {20, 9}, {11, 32}};
    block b, small_b;
    mu_err err = {0};
    mu_reader *small, *r;
    const char *yaml = "{reader: synthetic, shape: [3, 8, 8], records: 20, classes: 4, noise: 0}";
    assert_ok(reader_open(&small_b, yaml, &small, &err), &err);
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        const int h = sizes[k][0], w = sizes[k][1];
        yaml = yaml_of("{reader: synthetic, shape: [3, %d, %d], records: 20, classes: 4, noise: 0}", h, w);
        assert_ok(reader_open(&b, yaml, &r, &err), &err);
        for (int i = 0; i < 20; i++) {
            const uint8_t *cell = image_of(small, i), *px = image_of(r, i);
            for (int y = 0; y < h; y++)
                for (int x = 0; x < w; x++, px += 3)
                    assert_memory_equal(px, cell + (y * CELLS / h * CELLS + x * CELLS / w) * 3, 3);
        }
        mu_reader_close(r);
        block_fini(&b);
    }
    mu_reader_close(small);
    block_fini(&small_b);
}

// The cells of a class differ from row to row and from column to column: else there is little to learn.
static void test_cells_differ(void **ctx) {
    (void)ctx;
    block b;
    mu_err err = {0};
    mu_reader *r;
    const char *yaml = "{reader: synthetic, shape: [1, 8, 8], records: 20, classes: 4, noise: 0}";
    assert_ok(reader_open(&b, yaml, &r, &err), &err);
    for (int i = 0; i < 20; i++) {
        const uint8_t *px = image_of(r, i);
        for (int k = 1; k < CELLS; k++) assert_memory_not_equal(px, px + k * CELLS, CELLS);
        for (int k = 1; k < CELLS; k++) {
            int n_same = 0;
            for (int y = 0; y < CELLS; y++) n_same += px[y * CELLS] == px[y * CELLS + k];
            assert_true(n_same < CELLS);
        }
    }
    mu_reader_close(r);
    block_fini(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cells_are_stretched),
        cmocka_unit_test(test_cells_differ),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
