// SPDX-License-Identifier: Apache-2.0
// markup_help.h - what the tests of pictures share: a strict look at XML.
#ifndef MU_TEST_MARKUP_HELP_H
#define MU_TEST_MARKUP_HELP_H

#include "unit/run_help.h"

#include "file/json.h"

MU_UNUSED static size_t count(const char *text, const char *what) {
    size_t n = 0;
    for (const char *p = text; (p = strstr(p, what)); p += strlen(what)) n++;
    return n;
}

// As strcspn, which under AddressSanitizer's strict checks reads all the rest of a long text each time.
static size_t span_before(const char *s, const char *stops) {
    size_t n = 0;
    while (s[n] && !strchr(stops, s[n])) n++;
    return n;
}

// Elements nest, attributes are quoted, no bare & or < in text, all of it UTF-8. Fails with the place.
MU_UNUSED static void assert_well_formed(const mu_text *t) {
    const char *stack[32];
    size_t length[32], depth = 0;
    if (!mu_json_utf8_valid(t->s, t->n)) fail_msg("not UTF-8");
    for (const char *p = t->s; *p;) {
        if (*p == '&') {
            size_t n = span_before(p, ";");
            if (n > 6 || !p[n]) fail_msg("bare & at `%.40s`", p);
        }
        if (*p++ != '<') continue;
        bool closing = *p == '/';
        const char *name = p + closing, *end = name + span_before(name, " />\n");
        const char *q = end;
        while (*q && *q != '>') {
            if (*q == '<') fail_msg("< inside a tag at `%.40s`", q);
            if (*q++ != '"') continue;
            q += span_before(q, "\"<");
            if (*q++ != '"') fail_msg("open quote at `%.40s`", name);
        }
        if (*q != '>') fail_msg("open tag at `%.40s`", name);
        if (closing) {
            if (!depth || length[depth - 1] != (size_t)(end - name) ||
                memcmp(stack[depth - 1], name, length[depth - 1]))
                fail_msg("closes what is not open: `%.40s`", name);
            depth--;
        } else if (q[-1] != '/') {
            if (depth == MU_COUNT(stack)) fail_msg("nested too deep at `%.40s`", name);
            stack[depth] = name, length[depth++] = (size_t)(end - name);
        }
        p = q + 1;
    }
    assert_int_equal(depth, 0);
    static const char *const odd[] = {"\"nan", "\"inf", "\"-nan", "\"-inf", " nan", " inf", " -nan"};
    for (size_t i = 0; i < MU_COUNT(odd); i++)
        if (strstr(t->s, odd[i])) fail_msg("a number that is none: `%s`", odd[i]);
}

#endif
