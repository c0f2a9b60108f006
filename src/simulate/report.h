// SPDX-License-Identifier: Apache-2.0
// report.h - what a simulated training came to: for people, or one JSON object.
#ifndef MU_SIMULATE_REPORT_H
#define MU_SIMULATE_REPORT_H

#include "simulate/costs.h"
#include "train/session.h"

typedef struct mu_report {
    const mu_session *session;
    const mu_sim_costs *costs;
    const char *platform;
    int ranks;
    bool json, meets;
    double began_s; // by the clock of this machine
} mu_report;

void mu_report_begin(mu_report *r);
// The first error of a rank, or the figures of all (rank.h).
MU_MUST_CHECK mu_status mu_report_print(const mu_report *r, mu_err *err);

#endif
