// SPDX-License-Identifier: Apache-2.0
// parse.h - ranges of field tables.
#ifndef MU_JOB_PARSE_H
#define MU_JOB_PARSE_H

#include <stdbool.h>
#include <stddef.h>

typedef struct mu_range { double low, high; bool low_open, high_open, has_low, has_high; } mu_range;

bool mu_range_parse(const char *text, mu_range *out);   // "[0,1)", "(0,)", "[1,1k]"; "" or NULL = any
bool mu_range_has(const mu_range *r, double v);
void mu_range_describe(const mu_range *r, char *out, size_t size);      // "at least 0 and below 1"

#endif
