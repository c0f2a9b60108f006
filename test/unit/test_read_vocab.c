// SPDX-License-Identifier: Apache-2.0
// test_read_vocab.c - words to numbers, counted or from a file.
#include "data_help.h"

#include "read/vocab.h"

static void count_all(mu_vocab *v, const char *const *words, size_t n) {
    mu_err err = {0};
    for (size_t i = 0; i < n; i++) assert_ok(mu_vocab_count(v, words[i], strlen(words[i]), &err), &err);
}

static int number_of(const mu_vocab *v, const char *word) { return mu_vocab_find(v, word, strlen(word)); }

static void test_order_and_limits(void **ctx) {
    (void)ctx;
    static const char *const text[] = {"b", "a", "c", "c", "a", "d", "b", "c", "e"}; // c 3; b, a 2; d, e 1
    static const struct { int64_t max, min; int n; const char *in[5];
    } rows[] = {
        {0, 1, 7, {"c", "b", "a", "d", "e"}},
        {0, 2, 5, {"c", "b", "a"}},
        {2, 1, 4, {"c", "b"}},
        {9, 9, 2, {NULL}},
    };
    for (size_t i = 0; i < MU_COUNT(rows); i++) {
        mu_arena arena;
        mu_vocab v;
        mu_err err = {0};
        mu_arena_init(&arena, "test");
        mu_vocab_init(&v, &arena);
        count_all(&v, text, MU_COUNT(text));
        assert_ok(mu_vocab_number(&v, rows[i].max, rows[i].min, &err), &err);
        assert_int_equal(v.n, rows[i].n);
        assert_string_equal(v.text[MU_WORD_PAD], "<pad>");
        for (int k = 0; k + 2 < rows[i].n; k++) {
            assert_int_equal(number_of(&v, rows[i].in[k]), k + 2);
            assert_string_equal(v.text[k + 2], rows[i].in[k]);
        }
        assert_int_equal(number_of(&v, "zebra"), MU_WORD_UNKNOWN);
        if (rows[i].n < 7) assert_int_equal(number_of(&v, "e"), MU_WORD_UNKNOWN);
        mu_vocab_fini(&v);
        mu_arena_fini(&arena);
    }
}

static void test_many_words(void **ctx) {
    (void)ctx;
    enum { N = 20000 };
    mu_arena arena;
    mu_vocab v;
    mu_err err = {0};
    char word[300];
    mu_arena_init(&arena, "test");
    mu_vocab_init(&v, &arena);
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < N; i += 1 + round) { // even ones twice
            snprintf(word, sizeof word, "w%d", i);
            assert_ok(mu_vocab_count(&v, word, strlen(word), &err), &err);
        }
    assert_ok(mu_vocab_number(&v, 0, 1, &err), &err);
    assert_int_equal(v.n, N + 2);
    for (int i = 0; i < N; i++) {
        snprintf(word, sizeof word, "w%d", i);
        assert_int_equal(number_of(&v, word), 2 + (i % 2 ? N / 2 + i / 2 : i / 2));
    }
    memset(word, 'x', sizeof word - 1);
    assert_ok(mu_vocab_count(&v, word, sizeof word - 1, &err), &err);   // too long to be a word
    assert_int_equal(mu_vocab_find(&v, word, sizeof word - 1), MU_WORD_UNKNOWN);
    mu_vocab_fini(&v);
    mu_arena_fini(&arena);
}

static mu_status load(const char *text, size_t size, mu_vocab *v, mu_arena *arena, mu_err *err) {
    mu_arena_init(arena, "test");
    mu_vocab_init(v, arena);
    return mu_vocab_load(v, write_file("words.txt", text, size), 0, err);
}

static void test_files(void **ctx) {
    (void)ctx;
    static const char *const good[] = {"the\nof\nto\n", "<pad>\n<unk>\nthe\t900\r\nof\t800\nto"};
    static const struct { const char *text; size_t size; const char *says; } bad[] = {
        {"", 0, "holds no words"},
        {"a\n\nb\n", 5, "line 2 holds no word"},
        {"a\nb\na\n", 6, "line 3 repeats a word"},
        {"a\n\xff\n", 4, "line 2 is not valid UTF-8"},
        {"a\nb\0c\n", 6, "line 2 holds a NUL byte"},
    };
    mu_arena arena;
    mu_vocab v;
    for (size_t i = 0; i < MU_COUNT(good); i++) {
        mu_err err = {0};
        assert_ok(load(good[i], strlen(good[i]), &v, &arena, &err), &err);
        assert_int_equal(v.n, 5);
        assert_int_equal(number_of(&v, "the"), 2);
        assert_int_equal(number_of(&v, "to"), 4);
        mu_vocab_fini(&v);
        mu_arena_fini(&arena);
    }
    for (size_t i = 0; i < MU_COUNT(bad); i++) {
        mu_err err = {0};
        assert_status(load(bad[i].text, bad[i].size, &v, &arena, &err), MU_EDATA, &err);
        assert_says(&err, bad[i].says);
        assert_says(&err, "words.txt");
        mu_vocab_fini(&v);
        mu_arena_fini(&arena);
    }
}

static void test_the_first_words_of_a_file(void **ctx) {
    (void)ctx;
    mu_arena arena;
    mu_vocab v;
    mu_err err = {0};
    mu_arena_init(&arena, "test");
    mu_vocab_init(&v, &arena);
    assert_ok(mu_vocab_load(&v, write_file("words.txt", "the\nof\nto\n", 10), 2, &err), &err);
    assert_int_equal(v.n, 4);
    assert_int_equal(number_of(&v, "of"), 3);
    assert_int_equal(number_of(&v, "to"), MU_WORD_UNKNOWN);
    mu_vocab_fini(&v);
    mu_arena_fini(&arena);
}

int main(void) {
    make_test_dir();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order_and_limits),
        cmocka_unit_test(test_many_words),
        cmocka_unit_test(test_files),
        cmocka_unit_test(test_the_first_words_of_a_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
