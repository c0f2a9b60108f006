// SPDX-License-Identifier: Apache-2.0
// json_write.c - see json.h, "out".
#include "file/json.h"

#include "base/alloc.h"
#include "base/utf8.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TAG "json"

static bool reserve(mu_text *t, size_t more) {
    if (t->failed) return false;
    if (more < t->cap - t->n) return true; // strictly: room for the terminator
    size_t cap = t->cap ? t->cap : 256;
    while (cap - t->n <= more) {
        if (cap > SIZE_MAX / 2) return t->failed = true, false;
        cap *= 2;
    }
    char *s = mu_realloc(t->s, cap, TAG);
    if (!s) return t->failed = true, false;
    t->s = s;
    t->cap = cap;
    return true;
}

void mu_text_put(mu_text *t, const char *s, size_t n) {
    if (!reserve(t, n)) return;
    memcpy(t->s + t->n, s, n);
    t->n += n;
    t->s[t->n] = '\0';
}

void mu_text_printf(mu_text *t, const char *fmt, ...) {
    va_list ap, again;
    va_start(ap, fmt);
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    if (n < 0) t->failed = true;
    else if (reserve(t, (size_t)n)) {
        vsnprintf(t->s + t->n, (size_t)n + 1, fmt, again);
        t->n += (size_t)n;
    }
    va_end(again);
}

void mu_text_json_string(mu_text *t, const char *s) {
    mu_text_put(t, "\"", 1);
    for (; *s; s++) {
        if (*s == '"' || *s == '\\') mu_text_printf(t, "\\%c", *s);
        else if ((unsigned char)*s < 0x20) mu_text_printf(t, "\\u%04x", (unsigned)*s);
        else mu_text_put(t, s, 1);
    }
    mu_text_put(t, "\"", 1);
}

static bool is_number(const char *s) {
    char *end;
    (void)strtod(s, &end);
    return end != s && !*end;
}

void mu_text_csv_cell(mu_text *t, const char *s) {
    const bool formula = *s && strchr("=+-@\t\r", *s) && !is_number(s), quotes = strpbrk(s, ",\"\r\n");
    const size_t begin = t->n;
    if (quotes) mu_text_put(t, "\"", 1);
    if (formula) mu_text_put(t, "'", 1);
    for (; *s; s++) {
        if (*s == '"') mu_text_put(t, "\"", 1);
        mu_text_put(t, s, 1);
    }
    if (quotes) mu_text_put(t, "\"", 1);
    if (!t->failed && t->n > begin) mu_utf8_mask_control(t->s + begin);
}

void mu_text_fini(mu_text *t) {
    mu_free(t->s);
    *t = (mu_text){0};
}
