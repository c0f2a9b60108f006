// SPDX-License-Identifier: Apache-2.0
// markup.h - text of any origin made safe for SVG and HTML, and bytes as data URIs.
//
// Names come from job files, paths and data: they are escaped, bytes that are no UTF-8 and control
// characters that XML forbids become U+FFFD, CR LF becomes LF. Like all puts into a mu_text, these report
// nothing until the end.
#ifndef MU_PLOT_MARKUP_H
#define MU_PLOT_MARKUP_H

#include "file/json.h"

void mu_markup_put(mu_text *t, const char *s);                // as it is
void mu_markup_escape(mu_text *t, const char *s);             // for elements and quoted attributes
void mu_markup_escape_n(mu_text *t, const char *s, size_t n); // the same for n bytes, NUL included
void mu_markup_base64(mu_text *t, const void *data, size_t n);

size_t mu_markup_letters(const char *s); // of UTF-8, for widths

#endif
