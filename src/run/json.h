// SPDX-License-Identifier: Apache-2.0
// json.h - JSON out for the files of a run; in is data/json.h.
//
// A growing text that never reports until the end, because a list of thirty appends with thirty checks
// hides what is written.
#ifndef MU_RUN_JSON_H
#define MU_RUN_JSON_H

#include "data/json.h"

typedef struct mu_text {        // zero-initialised = empty
    char  *s;                   // NUL-terminated once something was put; owned, mu_text_fini
    size_t n, cap;
    bool   failed;              // an allocation failed: later puts do nothing
} mu_text;

void mu_text_put(mu_text *t, const char *s, size_t n);
void mu_text_printf(mu_text *t, const char *fmt, ...) MU_PRINTF(2, 3);
void mu_text_json_string(mu_text *t, const char *s);    // with quotes and escapes
void mu_text_fini(mu_text *t);

#endif
