// SPDX-License-Identifier: Apache-2.0
// machine.c - see machine.h: questions to a profile, and what is known of this machine without measuring.
#include "plan/machine.h"

#include "base/level.h"
#include "comm/cores.h"
#include "device/device.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define NEAR_S 250e-9 // between the two modes that hosts show (comm/cores.h)

// ---- between the loads ----

static double between(double a, double b, double share) { return a + (b - a) * share; }

mu_machine_load mu_machine_at(const mu_machine *m, int processes) {
    int i = 0;
    if (processes < 1) processes = 1;
    while (i + 1 < m->n_loads && m->load[i + 1].processes <= processes) i++;
    mu_machine_load at = m->load[i];
    const mu_machine_load *up = i + 1 < m->n_loads ? &m->load[i + 1] : NULL;
    if (up && processes > at.processes) {
        const double share = (double)(processes - at.processes) / (up->processes - at.processes);
        at.flops_per_s = between(at.flops_per_s, up->flops_per_s, share);
        at.bytes_per_s = between(at.bytes_per_s, up->bytes_per_s, share);
    } else if (processes > at.processes) {
        const int busy = at.processes > m->cores ? at.processes : m->cores;
        at.bytes_per_s *= (double)at.processes / processes;
        if (processes > busy) at.flops_per_s *= (double)busy / processes;
    }
    at.processes = processes;
    return at;
}

// ---- rules and modes ----

const mu_machine_rule *mu_machine_rule_of(const mu_machine *m, const char *name) {
    const mu_machine_rule *slowest = &m->rule[0];
    for (int i = 0; i < m->n_rules; i++) {
        if (!strcmp(m->rule[i].name, name)) return &m->rule[i];
        if (m->rule[i].bytes_per_s < slowest->bytes_per_s) slowest = &m->rule[i];
    }
    return slowest;
}

// Of blocks larger than the cache so much stays in it from one update to the next, and the rest does not.
double mu_machine_apply_s(const mu_machine *m, const char *rule, double floats, int histories) {
    const mu_machine_rule *r = mu_machine_rule_of(m, rule);
    const double bytes = floats * 4 * (2 + histories);
    const double cached = bytes <= m->cache_bytes       ? 1
                          : bytes >= 2 * m->cache_bytes ? 0
                                                        : 2 - bytes / m->cache_bytes;
    return bytes * (cached / r->cached_bytes_per_s + (1 - cached) / r->bytes_per_s);
}

const char *mu_machine_mode(const mu_machine *m) {
    if (!m->made[0] || m->cores < 2 || m->lines.round_trip_s <= 0) return "";
    return m->lines.round_trip_s <= NEAR_S ? "near" : "far";
}

// ---- this machine ----

static double size_of(int name) {
    const long n = sysconf(name);
    return n > 0 ? (double)n : 0;
}

// A file of /sys about a cache of a processor: its size in bytes, or how many processors share it. 0: not
// known.
static double about_cache(int cpu, const char *what) {
    char path[128], text[256] = "";
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/cache/index3/%s", cpu, what);
    FILE *f = fopen(path, "re");
    if (!f) return 0;
    const bool got = fgets(text, sizeof text, f) != NULL;
    fclose(f);
    int a, b, used;
    double n = 0, size;
    char unit;
    if (!got) return 0;
    if (!strcmp(what, "size")) {
        if (sscanf(text, "%lf%c", &size, &unit) != 2 || size <= 0) return 0;
        return size * (unit == 'M' ? 1 << 20 : 1 << 10);
    }
    for (const char *p = text; sscanf(p, "%d%n", &a, &used) == 1; p += *p == ',') { // "0-3,8-11"
        p += used;
        b = a;
        if (*p == '-' && sscanf(p + 1, "%d%n", &b, &used) == 1) p += 1 + used;
        n += b - a + 1;
    }
    return n;
}

// The third levels of all processors, each counted once.
static double shared_cache(void) {
    const int n = (int)sysconf(_SC_NPROCESSORS_ONLN);
    double all = 0;
    for (int i = 0; i < n; i++) {
        const double sharers = about_cache(i, "shared_cpu_list");
        if (sharers > 0) all += about_cache(i, "size") / sharers;
    }
    return all > 0 ? all : size_of(_SC_LEVEL3_CACHE_SIZE);
}

void mu_machine_describe_here(mu_machine *out) {
    mu_device_props p;
    mu_device_cpu()->class->props(mu_device_cpu(), &p);
    *out = (mu_machine){.nodes = 1, .cores = mu_cores_count(), .memory_bytes = (double)p.memory_bytes};
    snprintf(out->cpu, sizeof out->cpu, "%s", p.model);
    snprintf(out->level, sizeof out->level, "%s", mu_level() ? mu_level_name(mu_level()) : "one");
    if (gethostname(out->name, sizeof out->name - 1)) snprintf(out->name, sizeof out->name, "here");
    out->cache_bytes = size_of(_SC_LEVEL2_CACHE_SIZE);
    out->shared_cache_bytes = shared_cache();
}

bool mu_machine_is_here(const mu_machine *m, const char **why) {
    mu_machine here;
    mu_machine_describe_here(&here);
    *why = NULL;
    if (!m->made[0]) *why = "it is described, not measured";
    else if (strcmp(m->cpu, here.cpu) != 0) *why = "it was made on another processor";
    else if (strcmp(m->level, here.level) != 0) *why = "it was made with kernels of another level";
    else if (m->cores != here.cores) *why = "it was made with another number of cores";
    return !*why;
}
