// SPDX-License-Identifier: Apache-2.0
// test_read_tokenise.c - sentences to tokens, and lines to columns.
#include "data_help.h"

#include "base/rng.h"
#include "base/utf8.h"
#include "file/lines.h"
#include "read/tokenise.h"

// Tokens of the text joined by |.
static const char *tokens_of(const char *text, bool lower, mu_marks marks) {
    static char joined[1000], copy[1000];
    size_t n = mu_tokens_prepare(text, strlen(text), lower, copy), used = 0, size;
    const char *word;
    mu_tokens t;
    mu_tokens_init(&t, copy, n, marks);
    while (mu_tokens_next(&t, &word, &size))
        used +=
            (size_t)snprintf(joined + used, sizeof joined - used, "%s%.*s", used ? "|" : "", (int)size, word);
    joined[used] = '\0';
    return joined;
}

static void test_words(void **ctx) {
    (void)ctx;
    static const struct { const char *text, *all, *some;
    } rows[] = {
        {"", "", ""},
        {" \t ", "", ""},
        {"What films featured Popeye ?", "what|films|featured|popeye|?", "what|films|featured|popeye|?"},
        {"It's not that he isn't funny.", "it|'s|not|that|he|is|n't|funny|.",
         "it|'s|not|that|he|is|n't|funny"},
        {"I'VE, you're; we'll (I'd) I'm!", "i|'ve|,|you|'re|;|we|'ll|(|i|'d|)|i|'m|!",
         "i|'ve|,|you|'re|we|'ll|(|i|'d|)|i|'m|!"},
        {"couldn't've", "could|n't|'ve", "could|n't|'ve"},
        {"celebrities ' names", "celebrities|'|names", "celebrities|names"},
        {"the dogs' 'tis 'said'", "the|dogs|'|'|tis|'|said|'", "the|dogs|tis|said"},
        {"o'clock rock'n'roll", "o'clock|rock'n'roll", "o'clock|rock'n'roll"},
        {"'s n't ''", "'s|n't|'|'", "'s|n't"},
        {"can\xe2\x80\x99t", "ca|n't", "ca|n't"},
        {"\xc3\x89t\xc3\xa9-2023 \xe6\x97\xa5\xe6\x9c\xac",
         "\xc3\x89t\xc3\xa9|-|2023|\xe6\x97\xa5\xe6\x9c\xac",
         "\xc3\x89t\xc3\xa9|2023|\xe6\x97\xa5\xe6\x9c\xac"},
        {"a\x01"
         "b\x7f"
         "c",
         "a|b|c", "a|b|c"},
    };
    for (size_t i = 0; i < MU_COUNT(rows); i++) {
        assert_string_equal(tokens_of(rows[i].text, true, MU_MARKS_ALL), rows[i].all);
        assert_string_equal(tokens_of(rows[i].text, true, MU_MARKS_SOME), rows[i].some);
    }
    assert_string_equal(tokens_of("Is IBM's, or ISN'T?", false, MU_MARKS_NONE), "Is|IBM|'s|or|IS|N'T");
}

// Any text: tokens are in order, do not overlap, are never empty, and hold every visible byte.
static void test_random_texts(void **ctx) {
    (void)ctx;
    static const char letters[] = "antsvelmdr'''' ,.!?(\xc3\xa9";
    for (uint64_t seed = 0; seed < 3000; seed++) {
        char text[64];
        uint32_t u[64];
        mu_rng_fill_u32(mu_rng_key_make(seed, "tokens"), 0, 0, u, 64);
        size_t n = u[0] % 64, seen = 0, visible = 0, size;
        for (size_t i = 0; i < n; i++) text[i] = letters[u[i] / 7 % (sizeof letters - 1)];
        for (size_t i = 0; i < n; i++) visible += text[i] != ' ';
        const char *at = text, *word;
        mu_tokens t;
        mu_tokens_init(&t, text, n, MU_MARKS_ALL);
        while (mu_tokens_next(&t, &word, &size)) {
            if (word < at || !size || word + size > text + n) fail_msg("seed %d: bad token", (int)seed);
            seen += size;
            at = word + size;
        }
        if (seen != visible)
            fail_msg("seed %d: %zu bytes in tokens, %zu in the text", (int)seed, seen, visible);
    }
}

static void test_utf8(void **ctx) {
    (void)ctx;
    static const char *const good[] = {
        "", "abc", "\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x98\x80", "\xf4\x8f\xbf\xbf"};
    static const char *const bad[] = {"\x80",
                                      "\xc3",
                                      "\xc0\xaf",
                                      "\xe0\x80\xaf",
                                      "\xed\xa0\x80",
                                      "\xf5\x80\x80",
                                      "\xf4\x90\x80\x80",
                                      "\xff",
                                      "a\xe2\x82",
                                      "\xf0\x80\x80\xaf"};
    for (size_t i = 0; i < MU_COUNT(good); i++) assert_true(mu_utf8_valid(good[i], strlen(good[i])));
    for (size_t i = 0; i < MU_COUNT(bad); i++)
        if (mu_utf8_valid(bad[i], strlen(bad[i]))) fail_msg("text %zu passes for UTF-8", i);
}

static void test_lines(void **ctx) {
    (void)ctx;
    const char *text = "\xef\xbb\xbfone\r\n\ntwo\nthree";
    static const char *const want[] = {"one", "", "two", "three"};
    mu_lines l;
    const char *line;
    size_t size;
    mu_lines_init(&l, text, strlen(text));
    for (int i = 0; i < 4; i++) {
        assert_true(mu_lines_next(&l, &line, &size));
        assert_int_equal(size, strlen(want[i]));
        assert_memory_equal(line, want[i], size);
        assert_int_equal(l.number, i + 1);
    }
    assert_false(mu_lines_next(&l, &line, &size));
    mu_lines_init(&l, NULL, 0);
    assert_false(mu_lines_next(&l, &line, &size));
    static char big[MU_LINE_MAX + 1];
    memset(big, 'x', sizeof big);
    assert_int_equal(mu_line_check(big, sizeof big), MU_LINE_LONG);
    assert_int_equal(mu_line_check(big, MU_LINE_MAX), MU_LINE_GOOD);
    assert_int_equal(mu_line_check("a\0b", 3), MU_LINE_NUL);
    assert_int_equal(mu_line_check("\xff", 1), MU_LINE_UTF8);
}

static void test_columns(void **ctx) {
    (void)ctx;
    static const struct { const char *line; bool quotes; int n; const char *column[3]; } rows[] = {
        {"a,b", true, 2, {"a", "b"}},
        {"", true, 1, {""}},
        {",", true, 2, {"", ""}},
        {"\"a,b\",c", true, 2, {"a,b", "c"}},
        {"\"say \"\"hi\"\"\",\"\",x", true, 3, {"say \"hi\"", "", "x"}},
        {"a\"b,c", true, 2, {"a\"b", "c"}},
        {"\"a,b", false, 2, {"\"a", "b"}},
    };
    mu_column col[MU_LINE_COLUMNS];
    char line[200];
    int n;
    for (size_t i = 0; i < MU_COUNT(rows); i++) {
        strcpy(line, rows[i].line);
        assert_int_equal(mu_line_split(line, strlen(line), ',', rows[i].quotes, col, &n), MU_LINE_GOOD);
        assert_int_equal(n, rows[i].n);
        for (int k = 0; k < n; k++) {
            assert_int_equal(col[k].size, strlen(rows[i].column[k]));
            assert_memory_equal(col[k].text, rows[i].column[k], col[k].size);
        }
    }
    static const char *const bad[] = {"\"a,b", "\"", "\"a\"b,c", "x,\"\"\""};
    for (size_t i = 0; i < MU_COUNT(bad); i++) {
        strcpy(line, bad[i]);
        assert_int_equal(mu_line_split(line, strlen(line), ',', true, col, &n), MU_LINE_QUOTE);
    }
    memset(line, ',', 64);
    assert_int_equal(mu_line_split(line, 63, ',', true, col, &n), MU_LINE_GOOD);
    assert_int_equal(mu_line_split(line, 64, ',', true, col, &n), MU_LINE_WIDE);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_words), cmocka_unit_test(test_random_texts), cmocka_unit_test(test_utf8),
        cmocka_unit_test(test_lines), cmocka_unit_test(test_columns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
