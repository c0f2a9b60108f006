// SPDX-License-Identifier: Apache-2.0
// plan_text.h - a plan as text and JSON, and what is shown while costs are measured.
#ifndef MU_CLI_PLAN_TEXT_H
#define MU_CLI_PLAN_TEXT_H

#include "file/json.h"
#include "plan/planner.h"

#include <stdio.h>

typedef struct mu_plan_screen {         // zeroed = nothing is shown
    bool quiet, live;                   // live: a line of the terminal is in use
    int  told;                          // parts that were told where there is no terminal
} mu_plan_screen;

mu_planner_watch mu_plan_screen_watch(mu_plan_screen *s);       // borrows s
void mu_plan_screen_end(mu_plan_screen *s);

// One line: "2 learners, hardsync, mu 32: 1.9x one learner, 12 s an epoch; computing is 81 % of a step".
void mu_plan_text_line(const mu_planner *p, const mu_plan_choice *c, char *out, size_t size);
// What an overlay file says above its keys.
void mu_plan_text_about(const mu_planner *p, const mu_plan_choice *c, char *out, size_t size);
// The table, and what would help. saved: the overlay that is written, or NULL.
void mu_plan_text_print(const mu_planner *p, const mu_plan_change *change, int n, const char *job,
                        const char *saved, FILE *out);
json_t *mu_plan_json(const mu_planner *p, const mu_plan_change *change, int n);
#endif
