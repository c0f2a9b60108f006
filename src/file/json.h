// SPDX-License-Identifier: Apache-2.0
// json.h - JSON, read by jansson made strict, and written as text.
//
// Its heap is routed through mu_alloc (so the failing-allocation tests reach into it), duplicate keys are
// refused, and depth and number of values are counted by a scan before the parser builds anything: a
// hostile header costs time linear in its length and bounded memory.
#ifndef MU_FILE_JSON_H
#define MU_FILE_JSON_H

#include "base/err.h"

#include <jansson.h>

typedef struct mu_json_limits {
    size_t max_depth;           // nesting of [] and {}
    size_t max_values;          // scalars and containers together, about
} mu_json_limits;

// Routes jansson's heap; every use of jansson in this program comes after one call. Idempotent, any thread.
void mu_json_init(void);

// Parses exactly one JSON object. `what` names the text in messages. *out is owned (json_decref).
// MU_EMODEL with the byte offset of the problem.
MU_MUST_CHECK mu_status mu_json_parse(const char *text, size_t size, const mu_json_limits *limits,
                                      const char *what, json_t **out, mu_err *err);

bool mu_json_utf8_valid(const char *s, size_t n);

// Rows of an object with one kind of value; 0 = all are in it.
typedef struct mu_json_real { const char *key; double value; } mu_json_real;
typedef struct mu_json_int { const char *key; int64_t value; } mu_json_int;
json_t *mu_json_number(double x); // null when not finite
int     mu_json_put_reals(json_t *object, const mu_json_real *rows, size_t n);
int     mu_json_put_ints(json_t *object, const mu_json_int *rows, size_t n);

// ---- out ----

// A growing text that never reports until the end, because a list of thirty appends with thirty checks
// hides what is written.
typedef struct mu_text {        // zero-initialised = empty
    char  *s;                   // NUL-terminated once something was put; owned, mu_text_fini
    size_t n, cap;
    bool   failed;              // an allocation failed: later puts do nothing
} mu_text;

void mu_text_put(mu_text *t, const char *s, size_t n);
void mu_text_printf(mu_text *t, const char *fmt, ...) MU_PRINTF(2, 3);
void mu_text_json_string(mu_text *t, const char *s);    // with quotes and escapes
// A cell of a CSV file: quoted where it has to be (RFC 4180). Text that a spreadsheet would take for a
// formula, as it begins with = + - @ or a tab, gets an apostrophe in front; numbers do not. Control
// characters become
// `?`.
void mu_text_csv_cell(mu_text *t, const char *s);
void mu_text_fini(mu_text *t);

#endif
