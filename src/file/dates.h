// SPDX-License-Identifier: Apache-2.0
// dates.h - is a text a date or a time? For columns that say when a row was, not what.
#ifndef MU_FILE_DATES_H
#define MU_FILE_DATES_H

#include <stdbool.h>

// 1949-01, 1949-01-31, 1949/1/31, 31.1.1949, 1/31/1949 (or 31/1/1949), Jan 1949, 31-Jan-1949, 1949 Q1,
// 1949-Q1; a time may follow a day: 13:45, 13:45:30.5, Z, +01:00. A plain number is no date.
// *days: days in order of time, of months with 31 days each; for comparing only.
bool mu_date_parse(const char *text, double *days);

#endif
