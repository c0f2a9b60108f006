// SPDX-License-Identifier: Apache-2.0
// test_layer_wordvec.c - word vectors from text files: found, missing, repeated and damaged ones.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "layer/wordvec.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char path[] = "wordvec-XXXXXX";
static const char *const words[] = {"<pad>", "<unk>", "the", "caf\xc3\xa9", "a", "the"};
enum { N = 6, DIM = 3 };

static void write_bytes(const char *text, size_t size) {
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, size, f), size);
    assert_int_equal(fclose(f), 0);
}

static void write_file(const char *text) { write_bytes(text, strlen(text)); }

static mu_status load(float *out, int64_t *found, mu_err *err) {
    mu_err_clear(err);
    return mu_wordvec_load(path, N, words, DIM, out, found, err);
}

static void words_get_their_vectors(void **state) {
    (void)state;
    static const char *const files[] = {
        "the 1 2 3\ncaf\xc3\xa9 -4e-1 .5 6\nother 7 8 9\nthe 0 0 0\n",
        "4 3\nthe 1 2 3 \r\nother 7 8 9\r\ncaf\xc3\xa9\t-0.4\t0.5\t6\nth 5 5 5\nthem 6 6 6", // as word2vec
                                                                                             // writes
    };
    for (size_t i = 0; i < 2; i++) {
        float v[N * DIM];
        for (int k = 0; k < N * DIM; k++) v[k] = 99;
        write_file(files[i]);
        mu_err err;
        int64_t found = -1;
        if (load(v, &found, &err) != MU_OK) fail_msg("file %zu: %s", i, err.msg);
        assert_int_equal(found, 2);
        static const float want[N * DIM] = {99,   99,  99, 99, 99, 99, 1,  2,  3,
                                            -.4f, .5f, 6,  99, 99, 99, 99, 99, 99};
        for (int k = 0; k < N * DIM; k++)
            if (v[k] != want[k])
                fail_msg("file %zu, value %d: %g, want %g", i, k, (double)v[k], (double)want[k]);
        assert_int_equal(load(NULL, &found, &err), MU_OK);
    }
}

static void damage_is_reported(void **state) {
    (void)state;
    static const struct {
        const char *text, *message;
    } bad[] = {
        {"the 1 2 3\na 1 2\n", ":2: a word with 2 numbers, not 3"},
        {"a 1 2 3 4\n", ":1: a word with 4 numbers, not 3"},
        {"the 1 x 3\n", ":1: number 2 of the word's vector is `x`"},
        {"the 1 nan 3\n", "is `nan`"},
        {"a 1 2 3\nthe 1 2\n", ":2: a word with 2 numbers, not 3"},
        // 63 bytes are a number, what follows is not the next one
        {"the 0.00000000000000000000000000000000000000000000000000000000000001 2 3\n",
         ":1: number 1 of the word's vector is "
         "`0.0000000000000000000000000000000000000000000000000000000000000...`"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        float v[N * DIM];
        mu_err err;
        int64_t found;
        write_file(bad[i].text);
        assert_int_equal(load(v, &found, &err), MU_EDATA);
        if (!strstr(err.msg, bad[i].message)) fail_msg("`%s`, want `%s`", err.msg, bad[i].message);
    }
    mu_err err;
    int64_t found;
    write_file("3 3\n");
    assert_int_equal(load(NULL, &found, &err), MU_EDATA);
    mu_err_clear(&err);
    assert_int_not_equal(mu_wordvec_load("no/such/file", N, words, DIM, NULL, &found, &err), MU_OK);
}

static void a_nul_byte_is_damage(void **state) {
    (void)state;
    static const char *const beyond[] = {"the\0more 1 2 3\n", "a 1 2 3\nthe\0more 1 2 3\n", "a 1\0 2 3\n"};
    static const size_t size[] = {15, 23, 9};
    static const char *const want[] = {":1: holds a NUL byte", ":2: holds a NUL byte",
                                       ":1: holds a NUL byte"};
    for (size_t i = 0; i < 3; i++) {
        float v[N * DIM];
        mu_err err;
        int64_t found;
        write_bytes(beyond[i], size[i]);
        assert_int_equal(load(v, &found, &err), MU_EDATA);
        if (!strstr(err.msg, want[i])) fail_msg("file %zu: `%s`, want `%s`", i, err.msg, want[i]);
    }
}

// As in GloVe's 840B file: `. . .` is a word. Its last columns are the numbers.
static void words_may_hold_blanks(void **state) {
    (void)state;
    write_file("a 1 2 3\n. . . 4 5 6\nat the 7 8 9\nthe 1 -1 2\n");
    float v[N * DIM] = {0};
    mu_err err;
    int64_t found;
    if (load(v, &found, &err) != MU_OK) fail_msg("%s", err.msg);
    assert_int_equal(found, 2);
    if (v[2 * DIM] != 1 || v[2 * DIM + 1] != -1 || v[2 * DIM + 2] != 2)
        fail_msg("the: %g %g %g, want 1 -1 2", (double)v[2 * DIM], (double)v[2 * DIM + 1],
                 (double)v[2 * DIM + 2]);
    static const char *const own[] = {". . .", "at the"};
    float w[2 * DIM] = {0};
    mu_err_clear(&err);
    assert_int_equal(mu_wordvec_load(path, 2, own, DIM, w, &found, &err), MU_OK);
    assert_int_equal(found, 2);
    for (int i = 0; i < 2 * DIM; i++)
        if (w[i] != (float)(i + 4)) fail_msg("value %d is %g, want %d", i, (double)w[i], i + 4);
}

static void failing_allocations_are_survived(void **state) {
    (void)state;
    write_file("the 1 2 3\n");
    float v[N * DIM];
    mu_err err;
    int64_t found;
    mu_status st = MU_ENOMEM;
    const uint64_t live = mu_alloc_get_stats().n_live;
    for (int64_t n = 1; st == MU_ENOMEM; n++) {
        mu_alloc_fail_at(n);
        st = load(v, &found, &err);
        mu_alloc_fail_at(0);
        assert_int_equal(mu_alloc_get_stats().n_live, live);
        assert_true(n < 100);
    }
    assert_int_equal(st, MU_OK);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_get_their_vectors),
        cmocka_unit_test(damage_is_reported),
        cmocka_unit_test(a_nul_byte_is_damage),
        cmocka_unit_test(words_may_hold_blanks),
        cmocka_unit_test(failing_allocations_are_survived),
    };
    const int fd = mkstemp(path);
    if (fd < 0) return 1;
    close(fd);
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(path);
    return failed;
}
