// SPDX-License-Identifier: Apache-2.0
// chaos.h - shoots at the processes of a running job by a schedule and watches how it recovers.
//
// It has no loop and no clock of its own: its caller calls mu_chaos_tick with the time, again and again.
// A process is hit only if the region names it, it is a child of the run's parent, and the region still
// names it after a handle was taken: never a foreign process, even when pids are used again. While there is
// no process to hit (the learner is being replaced, the run is restarting) a due shot waits.
//
// Recovery of a learner is the time from its kill to the first sign of life of the next incarnation; of the
// server, from its kill to the first new version that its successor makes.
#ifndef MU_WATCH_CHAOS_H
#define MU_WATCH_CHAOS_H

#include "ps/shared.h"
#include "watch/chaos_script.h"

typedef struct mu_chaos_shot {
    int64_t     number;         // from 1
    double      at_s;           // since the start
    mu_chaos_act act;
    const char *what;           // "learner", "server", "evaluator"
    int         learner;        // -1 = none
    pid_t       pid;
    uint32_t    incarnation;    // of the learner
} mu_chaos_shot;

typedef struct mu_chaos_watch { // each (optional)
    void *ctx;
    void (*shot)(void *ctx, const mu_chaos_shot *s);            // one for every process hit
    void (*recovered)(void *ctx, const char *what, int learner, double seconds);
} mu_chaos_watch;

typedef struct mu_chaos_times { int64_t n; double p50_s, p99_s, max_s; } mu_chaos_times;

typedef struct mu_chaos_report {
    int64_t shots, hits;        // shots by the schedule, processes hit by them
    int64_t kills, stops, slows;        // of the hits
    int64_t replacements;       // new incarnations of learners seen
    int64_t pending;            // learners and servers that have not come back yet
    mu_chaos_times learner, server;
} mu_chaos_report;

typedef struct mu_chaos mu_chaos;

// The script is copied. MU_EUSAGE when it names what this run has not: a learner number, a server process.
MU_MUST_CHECK mu_status mu_chaos_create(const mu_chaos_script *script, uint64_t seed, mu_shared *g,
                                        int64_t now_ns, const mu_chaos_watch *watch, mu_chaos **out,
                                        mu_err *err);
// Releases every process that is still stopped or slowed.
void mu_chaos_destroy(mu_chaos *c);

// Does what is due. Returns the time of the next thing to do, at most 5 ms away while a recovery is watched.
int64_t mu_chaos_tick(mu_chaos *c, int64_t now_ns);
// Nothing left to shoot or to release, and all killed are back (or 30 s have passed since the last shot).
bool mu_chaos_done(const mu_chaos *c, int64_t now_ns);
void mu_chaos_get_report(const mu_chaos *c, mu_chaos_report *out);

#endif
