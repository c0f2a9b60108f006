// SPDX-License-Identifier: Apache-2.0
// machine_fields.h - the keys of a machine's file as tables, for its reader and its template (plan/ only).
#ifndef MU_PLAN_MACHINE_FIELDS_H
#define MU_PLAN_MACHINE_FIELDS_H

#include "base/plugin.h"
#include "plan/machine.h"

typedef struct mu_machine_about_form {  // what stands at the top of the file; numbers: 0 = not given
    const char *name, *cpu, *level, *made;
    int64_t nodes, cores;
    double  memory_bytes, cache_bytes, shared_cache_bytes;
    double  core_flops_per_s, clock_hz, core_bytes_per_s, node_bytes_per_s;
    double  wake_s, event_s, busy;
} mu_machine_about_form;

extern const mu_field mu_machine_about[], mu_machine_lines_fields[], mu_machine_network_fields[];

#endif
