// SPDX-License-Identifier: Apache-2.0
// planner.h - from a job to the best ways to train it: machine, costs, what was learnt, what is allowed, search.
//
// `muster plan` shows all of it; `cluster: auto` takes the first. Behind a run the same is asked for what ran
// (mu_planner_judge).
#ifndef MU_PLAN_PLANNER_H
#define MU_PLAN_PLANNER_H

#include "plan/learnt.h"
#include "plan/search.h"
#include "train/session.h"

typedef struct mu_planner_watch {       // entries may be NULL
    void *ctx;
    void (*progress)(void *ctx, const char *text, double share);        // while something is measured
    void (*say)(void *ctx, const char *text);                           // a sentence for people
} mu_planner_watch;

typedef struct mu_planner_opts {
    const char *job;                    // file or run folder
    const char *const *set;             // edits
    size_t      n_sets;
    const char *machine;                // file; NULL = this machine
    const char *protocols;              // words with commas, "softsync:2"; "all"; NULL = that of the job, hardsync
    const char *batches;                // samples of a gradient, numbers with commas; NULL = the job's batch is shared
    int         least_nodes, most_nodes;        // 0 = 1, all of the machine
    int         most_learners;          // 0 = one for each core
    double      deadline_s;
    double      seconds;                // that measuring may take, about
    bool        again;                  // costs are measured, whatever is known
    bool        known_only;             // costs are not measured: MU_ENOTFOUND where there are none
    mu_planner_watch watch;
} mu_planner_opts;

typedef struct mu_planner {             // zeroed = closed
    mu_arena    arena;
    mu_machine  machine;
    mu_costs    costs;
    mu_learnt   learnt;
    mu_plan_corrections corrections;
    mu_plan_space space;
    mu_plan     plan;
    bool        measured;               // costs, by this call
    bool        derived;                // the machine: nobody measured it
    double      search_s;
} mu_planner;

// MU_EJOB, MU_EDATA (machine file), MU_EUNSUPPORTED (fits nowhere), MU_EUSAGE (words), ...
MU_MUST_CHECK mu_status mu_planner_open(const mu_planner_opts *o, mu_planner *out, mu_err *err);
MU_MUST_CHECK mu_status mu_planner_search(mu_planner *p, mu_err *err);
// Instead of a search: the one way that the job itself says, with all edits.
MU_MUST_CHECK mu_status mu_planner_as_it_is(const mu_planner_opts *o, mu_planner *p, mu_err *err);
void mu_planner_close(mu_planner *p);
static inline const mu_plan_choice *mu_planner_wanted(const mu_planner *p) {
    return &p->plan.choice[p->plan.wanted];
}
// What limits a choice, as words: "computing".
const char *mu_plan_bottleneck(const mu_prediction *p);

// The configuration of a run. protocol: as its job has it.
void mu_config_of_setup(const mu_setup *s, const mu_node *cluster, mu_config *out);

// Behind a run: compares it with what was predicted for what ran, writes plan.json into the run folder, and
// keeps what it taught. Nothing is measured: where costs are not known, nothing happens. Failures are told to
// `say`: the run is over, and was good.
void mu_planner_judge(const mu_planner_opts *o, const mu_session *s, const mu_run_result *r);
#endif
