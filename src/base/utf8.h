// SPDX-License-Identifier: Apache-2.0
// utf8.h - what is well-formed UTF-8 (RFC 3629: no overlong forms, no surrogates, nothing above U+10FFFF).
#ifndef MU_BASE_UTF8_H
#define MU_BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>

size_t mu_utf8_sequence(const char *s, size_t n);       // bytes of the character at s, n >= 1; 0 = none there
bool   mu_utf8_valid(const char *s, size_t n);

// Control characters (C0 and C1 of ISO 6429, and DEL) steer a terminal: escape sequences begin with one.
bool mu_utf8_has_control(const char *s);
void mu_utf8_mask_control(char *s);     // each becomes `?`, but for tab and line end

#endif
