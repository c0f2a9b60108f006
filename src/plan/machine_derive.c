// SPDX-License-Identifier: Apache-2.0
// machine_derive.c - numbers of a machine that nobody measured, from those that are known.
//
// The rules are plain and coarse: typical ratios of servers. docs/plan.md has them as a table. What a person
// knows better stands in the file; what `muster profile` measured is never touched.
#include "plan/machine.h"

#include "updater/updater.h"

#include <stdio.h>
#include <string.h>

#define GIB 1073741824.0
#define MIB 1048576.0

static double least(double a, double b) { return a < b ? a : b; }
static double within(double low, double x, double high) { return x < low ? low : x > high ? high : x; }

// What is derived stays in the ranges of the file (machine_file.c), so that it can be written and read again.
static double rate(double x) { return within(1e3, x, 1e15); }
static double seconds(double x) { return within(1e-10, x, 10); }

static void set(double *x, double value) {
    if (*x <= 0) *x = value;
}

// A core alone draws about a fourth of what a node's memory gives.
static void derive_loads(mu_machine *m, const mu_machine_load *core, double node) {
    const double channels = least(m->cores, 4);
    double one = core->bytes_per_s;
    if (one <= 0) one = node > 0 ? node / channels : 10e9;
    if (node <= 0) node = one * channels;
    for (int p = 1; m->n_loads < MU_MACHINE_LOADS; p *= 2) {
        if (p > m->cores) p = m->cores;
        m->load[m->n_loads++] = (mu_machine_load){p, core->flops_per_s, rate(least(one, node / p))};
        if (p == m->cores) break;
    }
}

// Of an update each block is counted once, but weights and histories are read and written, and so weigh twice
// in the bandwidth of a load. In a cache four times as fast, as far as the core can compute it: rules that
// divide by the size of gradients take long for that.
static void derive_rule(mu_machine *m, mu_machine_rule *r, const mu_updater_class *c) {
    const mu_machine_load *one = &m->load[0];
    const double memory = one->bytes_per_s * (2 + c->n_slots) / (3 + 2 * c->n_slots);
    const double computed = one->flops_per_s * (c->size == MU_STEP_FOLLOWS ? 1 : 0.5);
    set(&r->cached_bytes_per_s, rate(least(4 * memory, computed)));
    set(&r->bytes_per_s, rate(least(memory, r->cached_bytes_per_s)));
}

static void derive_rules(mu_machine *m) {
    for (size_t i = 0; i < mu_updaters.n; i++) {
        const mu_updater_class *c = (const mu_updater_class *)(const void *)mu_updaters.list[i];
        int k = 0;
        while (k < m->n_rules && strcmp(m->rule[k].name, c->name) != 0) k++;
        if (k == MU_MACHINE_RULES) return;
        if (k == m->n_rules) snprintf(m->rule[m->n_rules++].name, sizeof m->rule[k].name, "%s", c->name);
        derive_rule(m, &m->rule[k], c);
    }
}

// Ethernet through the kernel, or a network that a program reaches itself.
static void derive_network(mu_machine *m) {
    mu_machine_network *n = &m->network;
    if (n->bytes_per_s <= 0) return;
    set(&n->latency_s, n->bytes_per_s < 5e9 ? 30e-6 : 3e-6);
    set(&n->message_s, within(1e-12, n->latency_s / 4, 10));
    set(&n->byte_s, within(1e-18, 2 / m->load[0].bytes_per_s, 1e-3)); // copied once
}

void mu_machine_derive(mu_machine *m, const mu_machine_load *core, double node_bytes_per_s) {
    if (m->nodes < 1) m->nodes = 1;
    set(&m->memory_bytes, 4 * GIB * m->cores);
    set(&m->cache_bytes, MIB);
    set(&m->shared_cache_bytes, 2 * MIB * m->cores);
    if (!m->n_loads) derive_loads(m, core, node_bytes_per_s);
    set(&m->lines.round_trip_s, 150e-9);
    set(&m->lines.bytes_per_s, rate(m->load[0].bytes_per_s / 2));
    set(&m->wake_s, 10e-6);
    set(&m->event_s, seconds(50e-9 + 1.75 * m->lines.round_trip_s));
    derive_rules(m);
    derive_network(m);
}
