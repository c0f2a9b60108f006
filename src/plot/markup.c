// SPDX-License-Identifier: Apache-2.0
// markup.c - see markup.h.
#include "plot/markup.h"

#include <string.h>

// Bytes of the UTF-8 letter at s, at most n; 0 if there is none.
static size_t letter(const char *s, size_t n) {
    for (size_t k = 1; k <= 4 && k <= n; k++)
        if (mu_json_utf8_valid(s, k)) return k;
    return 0;
}

static bool is_forbidden(const char *s) {
    unsigned char c = (unsigned char)*s;
    return (c < 0x20 && c != '\t' && c != '\n') || c == 0x7f ||
           (c == 0xef && (unsigned char)s[1] == 0xbf && (unsigned char)s[2] >= 0xbe); // U+FFFE, U+FFFF
}

void mu_markup_put(mu_text *t, const char *s) { mu_text_put(t, s, strlen(s)); }

void mu_markup_escape_n(mu_text *t, const char *s, size_t n) {
    while (n) {
        size_t k = letter(s, n);
        if (*s == '\r' && n > 1 && s[1] == '\n') k = 1; // a line ends with CR LF: the LF follows
        else if (!k || is_forbidden(s)) mu_markup_put(t, "\xef\xbf\xbd");
        else if (*s == '&') mu_markup_put(t, "&amp;");
        else if (*s == '<') mu_markup_put(t, "&lt;");
        else if (*s == '>') mu_markup_put(t, "&gt;");
        else if (*s == '"') mu_markup_put(t, "&quot;");
        else mu_text_put(t, s, k);
        k += !k;
        s += k;
        n -= k;
    }
}

void mu_markup_escape(mu_text *t, const char *s) { mu_markup_escape_n(t, s, strlen(s)); }

void mu_markup_base64(mu_text *t, const void *data, size_t n) {
    static const char digit[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const unsigned char *b = data;
    for (size_t i = 0; i < n; i += 3) {
        unsigned v =
            (unsigned)b[i] << 16 | (i + 1 < n ? (unsigned)b[i + 1] << 8 : 0) | (i + 2 < n ? b[i + 2] : 0u);
        char out[4] = {digit[v >> 18], digit[v >> 12 & 63], digit[v >> 6 & 63], digit[v & 63]};
        if (i + 1 >= n) out[2] = '=';
        if (i + 2 >= n) out[3] = '=';
        mu_text_put(t, out, sizeof out);
    }
}

size_t mu_markup_letters(const char *s) {
    size_t n = 0;
    for (; *s; s++) n += ((unsigned char)*s & 0xc0) != 0x80;
    return n;
}
