// SPDX-License-Identifier: Apache-2.0
// utf8.c - see utf8.h.
#include "base/utf8.h"

size_t mu_utf8_sequence(const char *text, size_t n) {
    const unsigned char *s = (const unsigned char *)text;
    if (s[0] < 0x80) return 1;
    if (s[0] < 0xC2 || s[0] > 0xF4) return 0;
    size_t len = s[0] < 0xE0 ? 2 : s[0] < 0xF0 ? 3 : 4;
    if (len > n) return 0;
    for (size_t i = 1; i < len; i++)
        if ((s[i] & 0xC0) != 0x80) return 0;
    if (s[0] == 0xE0 && s[1] < 0xA0) return 0;
    if (s[0] == 0xED && s[1] > 0x9F) return 0;
    if (s[0] == 0xF0 && s[1] < 0x90) return 0;
    if (s[0] == 0xF4 && s[1] > 0x8F) return 0;
    return len;
}

// Bytes of the control character at s, 0 = it is none.
static size_t control_size(const char *s) {
    const unsigned char *p = (const unsigned char *)s;
    if (p[0] < 0x20 || p[0] == 0x7F) return 1;
    return p[0] == 0xC2 && p[1] >= 0x80 && p[1] < 0xA0 ? 2 : 0;
}

bool mu_utf8_has_control(const char *s) {
    for (; *s; s++)
        if (control_size(s)) return true;
    return false;
}

void mu_utf8_mask_control(char *s) {
    for (; *s; s++)
        for (size_t n = *s == '\t' || *s == '\n' ? 0 : control_size(s); n > 0; n--) s[n - 1] = '?';
}

bool mu_utf8_valid(const char *s, size_t n) {
    for (size_t i = 0, len; i < n; i += len) {
        len = mu_utf8_sequence(s + i, n - i);
        if (!len) return false;
    }
    return true;
}
