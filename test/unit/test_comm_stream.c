// SPDX-License-Identifier: Apache-2.0
// Tests of comm/stream: every alignment of both sides, sizes around every border, nothing written beside; at
// every level that the processor has.
#include "comm_help.h"

#include "comm/stream.h"

enum { MAX = 3 * 4096, PAD = 128 };

static unsigned char source[MAX + 2 * PAD], target[MAX + 2 * PAD], expected[MAX + 2 * PAD];

typedef void (*copy_fn)(void *restrict to, const void *restrict from, size_t bytes);
static const copy_fn copy_at[] = {MU_LEVEL_ADDRESSES(mu_stream_copy)};

static int n_levels(void) { return MU_LEVEL_COUNT > 1 ? mu_level_of_cpu() - MU_LEVEL_FIRST + 1 : 1; }

static void copy_and_compare(size_t to, size_t from, size_t n) {
    memset(expected, 0xA5, sizeof expected);
    memcpy(expected + PAD + to, source + from, n);
    for (int level = 0; level < n_levels(); level++) {
        memset(target, 0xA5, sizeof target);
        copy_at[level](target + PAD + to, source + from, n);
        if (!memcmp(target, expected, sizeof target)) continue;
        size_t i = 0;
        while (target[i] == expected[i]) i++;
        fail_msg("level %d of %d, to +%zu, from +%zu, %zu bytes: byte %td is %d, expected %d", level + 1,
                 MU_LEVEL_COUNT, to, from, n, (ptrdiff_t)i - (ptrdiff_t)(PAD + to), target[i], expected[i]);
    }
}

static void fill_source(void) {
    uint32_t x = 1;
    for (size_t i = 0; i < sizeof source; i++) {
        x = x * 1664525 + 1013904223;
        source[i] = (unsigned char)(x >> 24);
    }
}

static void test_alignments(void **state) {
    (void)state;
    fill_source();
    for (size_t to = 0; to < 65; to++) {
        for (size_t from = 0; from < 65; from += to % 8 == 0 ? 1 : 7) copy_and_compare(to, from, 4096 + 77);
    }
}

static void test_sizes(void **state) {
    (void)state;
    fill_source();
    const size_t around[] = {0, 64, 4096, 4160, 8192};
    for (size_t k = 0; k < MU_COUNT(around); k++) {
        for (size_t d = 0; d < 70; d++) {
            copy_and_compare(0, 0, around[k] + d);
            copy_and_compare(13, 4, around[k] + d);
            if (around[k] >= d) copy_and_compare(60, 1, around[k] - d);
        }
    }
    mu_stream_copy(target, source, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_alignments),
        cmocka_unit_test(test_sizes),
    };
    return cmocka_run_group_tests_name("comm/stream", tests, NULL, NULL);
}
