// SPDX-License-Identifier: Apache-2.0
// doctor.h - is this machine ready, and if not, what to install or change.
//
// Two halves. The checks (doctor_checks.c) ask the machine, one question each. The functions mu_check_* turn
// an answer into a finding; they ask nothing themselves, so that tests can show them machines that we do not
// have.
#ifndef MU_RUN_DOCTOR_H
#define MU_RUN_DOCTOR_H

#include "base/err.h"

#include <stdbool.h>

typedef enum mu_finding_level {
    MU_FINDING_OK,
    MU_FINDING_NOTE,            // works, could be better
    MU_FINDING_MISSING,         // something will fail: exit status 1
} mu_finding_level;

typedef struct mu_finding {     // zeroed = nothing found out yet
    mu_finding_level level;
    char       text[300];       // what was found
    char       advice[300];     // what to do; "" = nothing
} mu_finding;

const char *mu_finding_level_name(mu_finding_level v); // "ok", "note", "missing"
void mu_finding_set(mu_finding *f, mu_finding_level v, const char *fmt, ...) MU_PRINTF(3, 4);
void mu_finding_advise(mu_finding *f, const char *text);

// Levels as in base/level.h: the processor's best, and the chosen one; asked: by MUSTER_CPU. problem, unless
// NULL: why this program cannot run here, and what to do. arch: MUSTER_ARCH of the build.
void mu_check_cpu(mu_finding *f, const char *name, int cpu, int level, bool asked, const char *arch,
                  const mu_err *problem);
void mu_check_images(mu_finding *f, bool png, bool jpeg);
void mu_check_compression(mu_finding *f, bool xz, bool zstd);
void mu_check_memory(mu_finding *f, double total_gib, double free_gib);
void mu_check_shm(mu_finding *f, int error, double free_mib);   // error: errno of asking, 0 = none
void mu_check_data(mu_finding *f, bool there);
// error: errno of creating a file in the current folder, 0 = none.
void mu_check_folder(mu_finding *f, int error, bool synced, double free_gib);
void mu_check_latency(mu_finding *f, double round_trip_ns, int core_a, int core_b);

// One question to this machine. slow: it is asked only on request.
typedef struct mu_doctor_check {
    const char *name;
    void (*ask)(mu_finding *f);
    bool slow;
} mu_doctor_check;

extern const mu_doctor_check mu_doctor_checks[];        // ends with a name of NULL

#endif
