// SPDX-License-Identifier: Apache-2.0
// log.h - lines for people: to the run's log file once one is attached, and on stderr where a program
// (the command line) asks for it. A library prints nothing by itself.
//
// Levels by volume: error and warn are rare, info is per run, debug is per object at set-up.
// Nothing logs per step. Safe from any thread; a line is written with one call.
#ifndef MU_BASE_LOG_H
#define MU_BASE_LOG_H

#include "base/attr.h"

#include <stdbool.h>

typedef enum mu_log_level {
    MU_LOG_NONE = -1, MU_LOG_ERROR, MU_LOG_WARN, MU_LOG_INFO, MU_LOG_DEBUG
} mu_log_level;

void mu_log_set_level(mu_log_level level);  // stderr shows up to this level; default none
void mu_log_set_json(bool on);              // --log-format=json
void mu_log_set_file(int fd);               // all levels are appended there too; the last one attached counts
void mu_log_drop_file(int fd);              // detaches it if it is that one; no line is on its way then
// Called before a line goes to stderr, so that the progress line goes away; NULL = nothing.
void mu_log_set_before(void (*erase)(void));
void mu_log(mu_log_level level, const char *fmt, ...) MU_PRINTF(2, 3);

#define mu_warn(...) mu_log(MU_LOG_WARN, __VA_ARGS__)
#define mu_info(...) mu_log(MU_LOG_INFO, __VA_ARGS__)
#define mu_debug(...) mu_log(MU_LOG_DEBUG, __VA_ARGS__)

#endif
