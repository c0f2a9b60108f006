// SPDX-License-Identifier: Apache-2.0
// profile.c - see profile.h: the probes one after the other, and what doctor says of the profile there is.
//
// With several ranks those that concern them all come first; then the others have ended and rank 0 measures
// its own machine, in peace also where they are on the same one.
#include "plan/profile.h"

#include "base/clock.h"
#include "comm/transport.h"
#include "plan/crew.h"

#include <stdio.h>

#include "probe_class_list.inc" // the tables of all files, as `list`
const mu_registry mu_probes = {"probe", MU_COUNT(list), list};

enum { WINDOWS = 60, QUICK_WINDOWS = 6 };
static const int64_t end_ns = 60000000000; // others leave at once, and wait for the two that measure

int mu_profile_windows(const mu_profile *p) { return p->quick ? QUICK_WINDOWS : WINDOWS; }

void mu_profile_note(mu_profile *p, const mu_crew_result *r) {
    p->lost_sum += r->lost;
    p->n_crews++;
}

static const mu_probe_class *probe_at(size_t i) {
    return (const mu_probe_class *)(const void *)mu_probes.list[i]; // the head is the first member
}

static mu_status run_all(mu_profile *p, const mu_profile_opts *o, bool of_ranks, double *done, mu_err *err) {
    int shares = 0;
    for (size_t i = 0; i < mu_probes.n; i++)
        if (p->transport || !probe_at(i)->of_ranks) shares += probe_at(i)->share;
    for (size_t i = 0; i < mu_probes.n; i++) {
        const mu_probe_class *c = probe_at(i);
        if (c->of_ranks != of_ranks) continue;
        if (o->tell) o->tell(o->ctx, c->help, *done);
        MU_TRY(c->run(p, err));
        *done += (double)c->share / shares;
    }
    return MU_OK;
}

static mu_status with_ranks(mu_profile *p, const mu_profile_opts *o, mu_profile_result *out, double *done,
                            mu_err *err) {
    MU_TRY(mu_transport_open(o->transport, &(mu_transport_opts){0}, &p->transport, err));
    out->elsewhere = p->transport->rank > 0;
    out->machine.nodes = p->transport->n;
    mu_profile_opts quiet = *o;
    if (out->elsewhere) quiet.tell = NULL;
    const mu_status st = p->transport->n > 1 ? run_all(p, &quiet, true, done, err) : MU_OK;
    out->unclean = !mu_transport_end(p->transport, st == MU_OK ? end_ns : end_ns / 60);
    return st;
}

mu_status mu_profile_make(const mu_profile_opts *o, mu_profile_result *out, mu_err *err) {
    double done = 0;
    *out = (mu_profile_result){0};
    mu_machine_describe_here(&out->machine);
    mu_profile p = {.m = &out->machine, .quick = o->quick};
    if (o->transport) MU_TRY(with_ranks(&p, o, out, &done, err));
    if (out->elsewhere) return MU_OK;
    MU_TRY(run_all(&p, o, false, &done, err));
    if (o->tell) o->tell(o->ctx, NULL, 1);
    out->machine.busy = p.n_crews ? p.lost_sum / p.n_crews : 0;
    mu_clock_rfc3339(out->machine.made, sizeof out->machine.made);
    mu_machine_derive(&out->machine, &out->machine.load[0], 0); // what this machine does not let us measure
    return MU_OK;
}

void mu_profile_check(mu_finding *f) {
    mu_machine m;
    mu_err err = {0};
    const mu_status st = mu_machine_find(&m, &err);
    if (st != MU_OK) {
        mu_finding_set(f, MU_FINDING_NOTE, "%.280s", err.msg);
        mu_finding_advise(f, st == MU_ENOTFOUND ? "`muster profile` makes one, for `muster plan`" : err.hint);
        return;
    }
    const char *mode = mu_machine_mode(&m);
    mu_finding_set(f, m.busy > 0.2 ? MU_FINDING_NOTE : MU_FINDING_OK,
                   "of %s: %d core%s%s%s, %.3g GFLOP/s and %.3g GB/s of one%s", m.made, m.cores,
                   m.cores > 1 ? "s" : "", mode[0] ? ", " : "", mode, m.load[0].flops_per_s * 1e-9,
                   m.load[0].bytes_per_s * 1e-9, m.busy > 0.2 ? "; the machine was busy then" : "");
    if (m.busy > 0.2) mu_finding_advise(f, "`muster profile` again when nothing else runs");
}
