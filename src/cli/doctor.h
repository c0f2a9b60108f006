// SPDX-License-Identifier: Apache-2.0
// doctor.h - what `muster doctor` makes of its measurements.
//
// c_doctor.c asks the machine; the functions here turn the answers into a verdict and an advice. They ask
// nothing themselves, so that tests can show them machines that we do not have.
#ifndef MU_CLI_DOCTOR_H
#define MU_CLI_DOCTOR_H

#include "base/err.h"

#include <stdbool.h>

typedef enum mu_verdict {
    MU_VERDICT_OK,
    MU_VERDICT_NOTE,            // works, could be better
    MU_VERDICT_MISSING,         // something will fail: exit status 1
} mu_verdict;

typedef struct mu_finding {     // zeroed = nothing found out yet
    mu_verdict verdict;
    char       text[160];       // what was found
    char       advice[300];     // what to do; "" = nothing
} mu_finding;

const char *mu_verdict_name(mu_verdict v);      // "ok", "note", "missing"
void mu_finding_set(mu_finding *f, mu_verdict v, const char *fmt, ...) MU_PRINTF(3, 4);
void mu_finding_advise(mu_finding *f, const char *text);

// Levels as in base/level.h: the processor's best, and the chosen one; asked: by MUSTER_CPU. problem, unless
// NULL: why this program cannot run here, and what to do. arch: MUSTER_ARCH of the build.
void mu_judge_cpu(mu_finding *f, const char *name, int cpu, int level, bool asked, const char *arch,
                  const mu_err *problem);
void mu_judge_images(mu_finding *f, bool png, bool jpeg);
void mu_judge_memory(mu_finding *f, double total_gib, double free_gib);
void mu_judge_shm(mu_finding *f, int error, double free_mib);   // error: errno of asking, 0 = none
void mu_judge_data(mu_finding *f, bool there);
// error: errno of creating a file in the current folder, 0 = none.
void mu_judge_folder(mu_finding *f, int error, bool synced, double free_gib);
void mu_judge_latency(mu_finding *f, double round_trip_ns, int core_a, int core_b);

#endif
