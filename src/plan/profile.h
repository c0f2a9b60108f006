// SPDX-License-Identifier: Apache-2.0
// profile.h - measures this machine (machine.h), and the network between the ranks that were started.
//
// A probe is one file, b_<name>.c: it fills in its numbers. Probes need a machine with nothing else to do; on
// another one they take what was disturbed least, and say how much of the cores others had (mu_machine.busy).
#ifndef MU_PLAN_PROFILE_H
#define MU_PLAN_PROFILE_H

#include "base/plugin.h"
#include "plan/machine.h"
#include "run/doctor.h"

struct mu_transport;
struct mu_crew_result;

typedef struct mu_profile {             // what probes are given
    mu_machine *m;                      // processor, cores, memory and caches are known
    bool        quick;                  // fewer and shorter windows: in seconds, and coarser
    struct mu_transport *transport;     // NULL = one rank
    double      lost_sum;               // what crews lost (crew.h), and how many there were
    int         n_crews;
} mu_profile;

typedef struct mu_probe_class {
    MU_PLUGIN_HEAD;                     // no fields
    int         share;                  // of the time of all probes; about seconds
    bool        of_ranks;               // every rank runs it, before all others, where there are several
    mu_status (*run)(mu_profile *p, mu_err *err);
} mu_probe_class;

extern const mu_registry mu_probes;

typedef struct mu_profile_opts {
    bool        quick;
    const char *transport;              // as mu_transport_wanted says; NULL = one rank
    // (optional) Before each probe, and at the end with NULL: which one, and the share of all that is done.
    void      (*tell)(void *ctx, const char *what, double done);
    void       *ctx;
} mu_profile_opts;

typedef struct mu_profile_result {
    mu_machine machine;                 // of rank 0
    bool       elsewhere;               // this is another rank: rank 0 has the result
    bool       unclean;                 // the process has to end by _exit (comm/transport.h)
} mu_profile_result;

// *out says also after a failure how the process has to end. No thread may run in this process: it forks.
MU_MUST_CHECK mu_status mu_profile_make(const mu_profile_opts *o, mu_profile_result *out, mu_err *err);

// For probes: so many of the usual windows; what crews lost, added up.
int  mu_profile_windows(const mu_profile *p);
void mu_profile_note(mu_profile *p, const struct mu_crew_result *r);

// Text for a person who wants to describe a cluster: commented YAML, which mu_machine_parse accepts.
void mu_machine_template(mu_text *out);

// What doctor says: the profile of this machine, or how to make one.
void mu_profile_check(mu_finding *f);

#endif
