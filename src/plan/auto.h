// SPDX-License-Identifier: Apache-2.0
// auto.h - `cluster: auto` and `--plan FILE`: edits of a job that say how it is trained, found before it begins.
//
// The edits stand in front of those of the user, whose words win, and end in the resolved job of the run folder:
// a resumed run keeps what was chosen then.
#ifndef MU_PLAN_AUTO_H
#define MU_PLAN_AUTO_H

#include "plan/planner.h"

typedef struct mu_auto_opts {
    mu_planner_opts planner;            // job, edits of the user, watch
    const char *overlay;                // --plan; NULL = none
    bool        asked;                  // --cluster auto
    const char *resume, *out;           // as in mu_run_opts
    int         ranks;                  // that were started
} mu_auto_opts;

typedef struct mu_auto {
    bool        any;                    // there are edits
    const char *const *set;             // (n_sets) in the arena: all edits in order, those of the user last
    size_t      n_sets;
    bool        planned;                // by a search: here and now
    mu_planner  planner;                // where it was
} mu_auto;

MU_MUST_CHECK mu_status mu_auto_resolve(mu_arena *a, const mu_auto_opts *o, mu_auto *out, mu_err *err);
void mu_auto_close(mu_auto *p);
#endif
