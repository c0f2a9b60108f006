// SPDX-License-Identifier: Apache-2.0
// Tests of file/json: cells of CSV files are harmless to spreadsheets and terminals.
#include "file/json.h"

#include "base/attr.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void cells(void **state) {
    (void)state;
    static const struct { const char *text, *cell; } cases[] = {
        {"cat", "cat"},
        {"", ""},
        {"a,b", "\"a,b\""},
        {"say \"hi\"", "\"say \"\"hi\"\"\""},
        {"two\nlines", "\"two\nlines\""},
        {"=1+1", "'=1+1"},
        {"@SUM(A1)", "'@SUM(A1)"},
        {"+cmd|' /C calc'!A0", "'+cmd|' /C calc'!A0"},
        {"-x", "'-x"},
        {"\tx", "'\tx"},
        {"\r=1", "\"'?=1\""},
        {"=HYPERLINK(\"a\",\"b\")", "\"'=HYPERLINK(\"\"a\"\",\"\"b\"\")\""},
        {"-1", "-1"},
        {"+2.5e3", "+2.5e3"},
        {"a=b", "a=b"},
        {"\x1b[31mred", "?[31mred"},
        {"\xc2\x9b" "31mred", "?\?31mred"},
        {"gr\xc3\xbc\xc3\x9f", "gr\xc3\xbc\xc3\x9f"},
    };
    for (size_t i = 0; i < MU_COUNT(cases); i++) {
        mu_text t = {0};
        mu_text_put(&t, "x,", 2);
        mu_text_csv_cell(&t, cases[i].text);
        assert_string_equal(t.s + 2, cases[i].cell);
        mu_text_fini(&t);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(cells)};
    return cmocka_run_group_tests_name("file/json", tests, NULL, NULL);
}
