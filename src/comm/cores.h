// SPDX-License-Identifier: Apache-2.0
// cores.h - the cores this process may use, pinning, and how far two cores are apart.
//
// By hwloc where the build has it, else by the kernel's affinity mask. Cores, not hyper-threads: the
// second thread of a core adds little to vector code.
#ifndef MU_COMM_CORES_H
#define MU_COMM_CORES_H

#include "base/err.h"

int  mu_cores_count(void);                      // physical cores in the affinity mask, at least 1
// Pins the calling thread to the i-th of them; beyond the last core come their second hardware threads, then
// the first core again. False where it is not allowed.
bool mu_cores_pin(int i);
// Median nanoseconds of a flag's way there and back between cores a and b; -1 when they cannot be pinned.
// 60-130 or 380-500 on machines whose host moves virtual cores; printed beside every two-core figure.
double mu_cores_round_trip_ns(int a, int b);

#endif
