// SPDX-License-Identifier: Apache-2.0
// test_base.c - the ground: random numbers against known answers, permutations, heap, arenas, words, errors.
#include "base/alloc.h"
#include "base/err.h"
#include "base/log.h"
#include "base/plugin.h"
#include "base/rng.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

// Known answers published with Random123 (Salmon et al., SC 2011).
static void philox_known_answers(void **state) {
    (void)state;
    static const struct { uint32_t k[2]; uint64_t hi, lo; uint32_t out[4]; } kat[] = {
        {{0, 0}, 0, 0, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{0xffffffff, 0xffffffff}, ~0ull, ~0ull, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0xa4093822, 0x299f31d0}, 0x0370734413198a2eull, 0x85a308d3243f6a88ull,
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < MU_COUNT(kat); i++) {
        uint32_t out[4];
        mu_rng_block((mu_rng_key){{kat[i].k[0], kat[i].k[1]}}, kat[i].hi, kat[i].lo, out);
        for (int j = 0; j < 4; j++) assert_int_equal(out[j], kat[i].out[j]);
    }
}

static void vectors_equal_blocks(void **state) {
    (void)state;
    mu_rng_key key = mu_rng_key_make(42, "test");
    uint64_t hi = 0x123456789abcull;
    for (size_t n = 0; n < 300; n += 7) {
        uint32_t out[300], b[4];
        uint64_t first = 4 * (0xfffffffcull + n); // crosses 32 bits of the block number
        mu_rng_fill_u32(key, hi, first, out, n);
        for (size_t i = 0; i < n; i++) {
            mu_rng_block(key, hi, (first + i) / 4, b);
            assert_int_equal(out[i], b[(first + i) % 4]);
        }
    }
}

static void moments_are_right(void **state) {
    (void)state;
    enum { N = 200001 };
    static float u[N], g[N];
    mu_rng_key key = mu_rng_key_make(7, "moments");
    mu_rng_fill_uniform(key, 0, 0, u, N);
    mu_rng_fill_gaussian(key, 1, 0, g, N);
    double mu = 0, mg = 0, vg = 0;
    for (int i = 0; i < N; i++) {
        assert_true(u[i] >= 0 && u[i] < 1);
        mu += (double)u[i] / N;
        mg += (double)g[i] / N;
        vg += (double)g[i] * (double)g[i] / N;
    }
    if (fabs(mu - 0.5) > 0.003 || fabs(mg) > 0.01 || fabs(vg - 1) > 0.02)
        fail_msg("mean %g, gaussian %g, %g", mu, mg, vg);
    float part[64]; // element i does not depend on where a fill began
    mu_rng_fill_gaussian(key, 1, 1000, part, 64);
    assert_memory_equal(part, g + 1000, sizeof part);
}

// A part draws what the whole has in its place, wherever a series begins.
static void parts_draw_what_the_whole_has(void **state) {
    (void)state;
    enum { N = 2600 };
    static uint32_t u[N], part_u[N];
    static float f[N], g[N], part_f[N], part_g[N];
    const mu_rng_key key = mu_rng_key_make(3, "part");
    const mu_rng_part parts[] = {{0}, {1, 1, 0}, {3, 7, 2}, {5, 13, 8}, {130, 650, 129}, {300, 1300, 1000}};
    mu_rng_fill_u32(key, 9, 0, u, N);
    mu_rng_fill_uniform(key, 9, 0, f, N);
    mu_rng_fill_gaussian(key, 9, 0, g, N);
    for (size_t k = 0; k < MU_COUNT(parts); k++) {
        const mu_rng_part *p = &parts[k];
        const uint64_t all = p->run ? N / p->stride * p->run : N;
        for (uint64_t e = 0; e < all; e += p->run ? 37 : 40) {
            const uint64_t n = all - e < 500 ? all - e : 500;
            mu_rng_part_u32(key, 9, p, e, part_u, n);
            mu_rng_part_uniform(key, 9, p, e, part_f, n);
            mu_rng_part_gaussian(key, 9, p, e, part_g, n);
            for (uint64_t i = 0; i < n; i++) {
                const uint64_t at = e + i,
                               of_whole = p->run ? at / p->run * p->stride + p->first + at % p->run : at;
                if (part_u[i] != u[of_whole] || part_f[i] != f[of_whole] || part_g[i] != g[of_whole])
                    fail_msg("part %zu, element %d draws something else", k, (int)at);
            }
        }
    }
}

static void permutations_visit_everything_once(void **state) {
    (void)state;
    static unsigned char seen[5000];
    mu_rng_key key = mu_rng_key_make(1, "shuffle");
    static const uint64_t sizes[] = {1, 2, 3, 7, 64, 65, 1000, 4096, 4999};
    for (size_t s = 0; s < MU_COUNT(sizes); s++) {
        uint64_t n = sizes[s], moved = 0, other = 0;
        memset(seen, 0, sizeof seen);
        for (uint64_t i = 0; i < n; i++) {
            uint64_t p = mu_rng_permute(key, 3, n, i);
            assert_true(p < n && !seen[p]);
            seen[p] = 1;
            moved += p != i;
            other += p != mu_rng_permute(key, 4, n, i);
        }
        if (n >= 64) assert_true(moved > n * 9 / 10 && other > n * 9 / 10);
    }
}

static void heap_counts_and_fails_on_demand(void **state) {
    (void)state;
    mu_alloc_stats before = mu_alloc_get_stats();
    char *p = mu_alloc(100, "test");
    assert_true(((uintptr_t)p & 63) == 0);
    for (int i = 0; i < 100; i++) assert_int_equal(p[i], 0);
    p = mu_realloc(p, 1000, "test");
    assert_int_equal(mu_alloc_get_stats().live_bytes - before.live_bytes, 1000);
    mu_alloc_fail_at(2);
    void *q = mu_alloc(1, "test");
    assert_non_null(q);
    assert_null(mu_alloc(1, "test"));
    mu_alloc_fail_at(0);
    mu_free(q);
    mu_free(p);
    mu_free(NULL);
    assert_int_equal(mu_alloc_get_stats().n_live, before.n_live);
    assert_null(mu_alloc_array(SIZE_MAX / 2, 4, "test"));
    assert_null(mu_alloc(SIZE_MAX - 8, "test"));
}

static void arenas_keep_what_they_gave(void **state) {
    (void)state;
    uint64_t live = mu_alloc_get_stats().n_live;
    mu_arena a;
    mu_arena_init(&a, "test");
    char *first = mu_arena_printf(&a, "%s-%d", "layer", 7);
    for (int i = 0; i < 1000; i++) assert_non_null(mu_arena_alloc(&a, (size_t)(i * 37 % 5000)));
    assert_non_null(mu_arena_alloc(&a, 1 << 20));
    assert_string_equal(first, "layer-7");
    assert_null(mu_arena_alloc(&a, SIZE_MAX - 3));
    mu_arena_fini(&a);
    assert_int_equal(mu_alloc_get_stats().n_live, live);
}

static void words_are_suggested_sensibly(void **state) {
    (void)state;
    static const char *const list[] = {"convolution", "pooling", "inner_product", "relu", "kernel", "stride"};
    assert_string_equal(mu_nearest("kernal", list, 6), "kernel");
    assert_string_equal(mu_nearest("conv", list, 6), "convolution");
    assert_string_equal(mu_nearest("InnerProduct", list, 6), "inner_product");
    assert_string_equal(mu_nearest("reul", list, 6), "relu");
    assert_null(mu_nearest("banana", list, 6));
    char name[16];
    assert_int_equal(mu_choice_find("max|average", "average"), 1);
    assert_int_equal(mu_choice_find("max|average", "ave"), -1);
    assert_true(mu_choice_name("max|average", 1, name, sizeof name));
    assert_string_equal(name, "average");
}

static void the_first_report_wins(void **state) {
    (void)state;
    mu_err err;
    mu_err_clear(&err);
    assert_int_equal(MU_FAIL(&err, MU_EDATA, "bad %d", 1), MU_EDATA);
    mu_err_hint(&err, "First.");
    assert_int_equal(MU_FAIL(&err, MU_EIO, "later"), MU_EIO);
    mu_err_hint(&err, "Second.");
    assert_string_equal(err.msg, "bad 1");
    assert_string_equal(err.hint, "First.");
    assert_int_equal(err.status, MU_EDATA);
    assert_int_equal(mu_status_exit_code(MU_EDATA), 3);
    assert_int_equal(MU_FAIL(NULL, MU_EIO, "nobody listens"), MU_EIO);
}

// Names in messages come from any file and must not steer a terminal.
static void log_masks_controls(void **state) {
    (void)state;
    char text[200];
    FILE *file = tmpfile();
    assert_non_null(file);
    mu_log_set_file(fileno(file));
    mu_log(MU_LOG_INFO, "a%sb\tc\nd %s", "\x1b[31m\x7f", "\xc2\x9b gr\xc3\xbcn");
    mu_log_drop_file(fileno(file));
    rewind(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    if (!strstr(text, "a?[31m?b\tc\nd ?\? gr\xc3\xbcn\n")) fail_msg("`%s`", text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_draw_what_the_whole_has),
        cmocka_unit_test(philox_known_answers),          cmocka_unit_test(vectors_equal_blocks),
        cmocka_unit_test(moments_are_right),             cmocka_unit_test(permutations_visit_everything_once),
        cmocka_unit_test(heap_counts_and_fails_on_demand), cmocka_unit_test(arenas_keep_what_they_gave),
        cmocka_unit_test(words_are_suggested_sensibly),  cmocka_unit_test(log_masks_controls),
        cmocka_unit_test(the_first_report_wins),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
