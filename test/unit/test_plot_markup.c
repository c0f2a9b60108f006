// SPDX-License-Identifier: Apache-2.0
// Text for SVG and HTML: everything dangerous is escaped, everything that is no text is replaced.
#include "unit/markup_help.h"

#include "plot/markup.h"

static void assert_escaped(const char *in, size_t n, const char *want) {
    mu_text t = {0};
    mu_markup_escape_n(&t, in, n);
    assert_string_equal(t.s ? t.s : "", want);
    mu_text_fini(&t);
}

static void test_escape(void **state) {
    (void)state;
    assert_escaped("a<b>&\"c'\n\t", 10, "a&lt;b&gt;&amp;&quot;c'\n\t");
    assert_escaped("</script>", 9, "&lt;/script&gt;");
    assert_escaped("x\0y\x7f\x1b", 5, "x\xef\xbf\xbdy\xef\xbf\xbd\xef\xbf\xbd");
    assert_escaped("\xc3\xa4\xf0\x9f\x98\x80", 6, "\xc3\xa4\xf0\x9f\x98\x80");
    assert_escaped("\xf0\x9f\x98", 3, "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"); // cut in a letter
    assert_escaped("\xef\xbf\xbf|\xed\xa0\x80", 7,
                   "\xef\xbf\xbd|\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"); // not in XML; a surrogate
    assert_escaped("a\r\nb\r\n", 6, "a\nb\n");
    assert_escaped("a\rb\r", 4, "a\xef\xbf\xbd" "b\xef\xbf\xbd"); // an old Mac's, or no text
    assert_escaped("", 0, "");
}

// Any bytes give well-formed markup.
static void test_escape_random(void **state) {
    (void)state;
    uint64_t seed = seed_from_env();
    for (int round = 0; round < 2000; round++) {
        char in[64];
        size_t n = next_random(&seed) % sizeof in;
        for (size_t i = 0; i < n; i++) in[i] = (char)next_random(&seed);
        mu_text t = {0};
        mu_text_put(&t, "<p>", 3);
        mu_markup_escape_n(&t, in, n);
        mu_text_put(&t, "</p>", 4);
        assert_false(t.failed);
        for (size_t i = 3; i < t.n - 4; i++)
            if (strchr("<>\"", t.s[i])) fail_msg("`%c` got through", t.s[i]);
        assert_well_formed(&t);
        mu_text_fini(&t);
    }
}

static void test_base64(void **state) {
    (void)state;
    static const struct {
        const char *in, *out;
    } rfc[] = {{"", ""},
               {"f", "Zg=="},
               {"fo", "Zm8="},
               {"foo", "Zm9v"},
               {"foob", "Zm9vYg=="},
               {"fooba", "Zm9vYmE="},
               {"foobar", "Zm9vYmFy"},
               {"\xff\xfe\xfd", "//79"}};
    for (size_t i = 0; i < MU_COUNT(rfc); i++) { // RFC 4648
        mu_text t = {0};
        mu_markup_base64(&t, rfc[i].in, strlen(rfc[i].in));
        assert_string_equal(t.s ? t.s : "", rfc[i].out);
        mu_text_fini(&t);
    }
    assert_int_equal(mu_markup_letters("\xc3\xa4"
                                       "b\xf0\x9f\x98\x80"),
                     3);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_escape),
        cmocka_unit_test(test_escape_random),
        cmocka_unit_test(test_base64),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
