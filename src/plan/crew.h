// SPDX-License-Identifier: Apache-2.0
// crew.h - processes that work at the same time, each on a core of its own: what probes measure with.
//
// A crew works in windows. All begin a window together and work until its end, so what one of them gets done
// is what it gets while the others work, too. A window tells how much of its core each process had: other
// programs take some of it. What is fast is taken from the windows that were disturbed least.
#ifndef MU_PLAN_CREW_H
#define MU_PLAN_CREW_H

#include "base/err.h"

#include <stdint.h>

enum { MU_CREW_WINDOWS = 64 };

typedef struct mu_crew_turn {           // of one process in one window
    int      who, n;                    // of so many
    int64_t  end_ns;                    // it works until then, and waits for nobody longer than that
    void    *shared;                    // shared_bytes, zeroed before the first window; at a multiple of 64
} mu_crew_turn;

typedef struct mu_crew {
    const char *name;                   // of the processes
    int         n;                      // process i is pinned to core i
    int         windows;                // at most MU_CREW_WINDOWS; fewer are made where that takes too long
    double      window_s;
    void       *ctx;                    // as the parent has it; each child has a copy
    mu_status (*furnish)(void *ctx, void *shared, mu_err *err); // (optional) before there is any child
    bool      (*prepare)(void *ctx, int who);   // (optional) in the child; false: no memory
    double    (*work)(void *ctx, const mu_crew_turn *t);
    size_t      shared_bytes;
} mu_crew;

typedef struct mu_crew_window {
    double  amount;                     // what work returned
    double  cpu_s;                      // of the process
    double  lost;                       // share of the window in which it had no core
} mu_crew_window;

typedef struct mu_crew_result {
    int     n, windows;
    mu_crew_window *w;                  // (windows, n)
    double  lost;                       // mean
} mu_crew_result;

// MU_EBACKEND: a process ended, or the crew took far too long. *out is owned (mu_crew_fini).
MU_MUST_CHECK mu_status mu_crew_run(const mu_crew *c, mu_crew_result *out, mu_err *err);
void mu_crew_fini(mu_crew_result *r);

// Amounts are of work done: per second of a process's own time, mean of the processes, in the best of the
// windows that were disturbed least. 0: nothing was done.
double mu_crew_best_rate(const mu_crew_result *r);
// Amounts are measures of process `who`, 0 = none: the median of them, and the least.
double mu_crew_median(const mu_crew_result *r, int who);
double mu_crew_least(const mu_crew_result *r, int who);

double mu_median(double *v, int n);     // sorts v; 0 of none
// Mean of those that are at most three times the median: without those in which the process lost its core.
double mu_typical(double *v, int n);

#endif
