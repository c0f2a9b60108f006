// SPDX-License-Identifier: Apache-2.0
// plan_help.h - machines and costs made up for tests, also at random.
#ifndef MU_TEST_PLAN_HELP_H
#define MU_TEST_PLAN_HELP_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "plan/search.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// The call is given `ok_err`.
#define assert_ok(call)                                                                                      \
    do {                                                                                                     \
        mu_err ok_err_ = {0}, *ok_err = &ok_err_;                                                            \
        if ((call) != MU_OK) fail_msg("%s: %s", #call, ok_err_.msg);                                         \
    } while (0)

// A machine with round numbers.
static inline mu_machine plain_machine(int nodes, int cores) {
    mu_machine m = {.name = "test", .cpu = "X", .level = "v3", .nodes = nodes, .cores = cores, .memory_bytes = 16e9,
                    .cache_bytes = 1e6, .shared_cache_bytes = 32e6, .n_loads = 2, .wake_s = 5e-6,
                    .event_s = 2e-7, .n_rules = 1};
    m.load[0] = (mu_machine_load){1, 1e11, 2e10};
    m.load[1] = (mu_machine_load){cores > 1 ? cores : 2, 1e11, 1.5e10};
    m.lines = (mu_machine_lines){1e-7, 1e10};
    m.rule[0] = (mu_machine_rule){"sgd", 4e10, 2e10};
    if (nodes > 1) m.network = (mu_machine_network){2e-5, 1e9, 3e-6, 1e-10};
    return m;
}

// A job that takes a millisecond for ten samples; layers halve.
static inline mu_costs plain_costs(int layers) {
    static const int64_t size[] = {4, 16, 32, 64};
    mu_costs k = {.job = 7, .machine = "X", .level = "v3", .cores = 4, .flops_per_s = 1e11, .rule = "sgd",
                  .histories = 1, .batch = 64, .records = 6400, .n_sizes = 4, .undo = 1.1, .spread = 0.02,
                  .crowd = 1, .crowd_gradient = 1, .crowd_apply = 1, .record_s = 1e-7, .start_s = 0.1};
    k.layer = mu_alloc_array((size_t)layers + 1, sizeof *k.layer, "test");
    k.param = mu_alloc_array((size_t)layers + 1, sizeof *k.param, "test");
    k.n_layers = k.n_params = layers;
    for (int i = 0; i < layers; i++) {
        snprintf(k.layer[i].name, sizeof k.layer[i].name, "ip%d", i);
        snprintf(k.layer[i].type, sizeof k.layer[i].type, "inner_product");
        snprintf(k.param[i].name, sizeof k.param[i].name, "ip%d.weight", i);
        snprintf(k.param[i].form, sizeof k.param[i].form, "dense");
        k.layer[i].flops = 1e7 / layers;
        k.param[i].floats = 1e5;
        k.floats += 1e5;
    }
    for (int s = 0; s < 4; s++) {
        const double rows = (double)(k.size[s] = size[s]);
        k.gradient_s[s] = 1e-4 * rows + 5e-5;
        k.apply_s[s] = 2e-4;
        k.sweep_s[s] = 1.5e-4;
        k.alone_s[s] = k.gradient_s[s] + 1e-4;
        k.activation_bytes[s] = 1e5 * rows;
        for (int i = 0; i < layers; i++) {
            k.layer[i].forward_s[s] = k.gradient_s[s] / layers / 3;
            k.layer[i].backward_s[s] = k.gradient_s[s] / layers * 2 / 3;
            k.param[i].message_bytes[s] = 4e5;
            k.message_bytes[s] += 4e5;
        }
    }
    return k;
}

typedef struct dice { uint64_t s; } dice;

static inline double roll(dice *d) { // in [0, 1)
    d->s ^= d->s << 13, d->s ^= d->s >> 7, d->s ^= d->s << 17;
    return (double)(d->s >> 11) * 0x1p-53;
}
static inline double between(dice *d, double low, double high) { return low * pow(high / low, roll(d)); }
static inline int pick(dice *d, int low, int high) { return low + (int)(roll(d) * (high - low + 1)); }

static inline mu_machine random_machine(dice *d) {
    mu_machine m = plain_machine(pick(d, 1, 3), pick(d, 1, 6));
    m.load[0].bytes_per_s = between(d, 5e9, 5e10);
    m.load[1].bytes_per_s = m.load[0].bytes_per_s * between(d, 0.3, 1);
    m.load[1].flops_per_s = m.load[0].flops_per_s * between(d, 0.7, 1);
    m.lines.bytes_per_s = between(d, 2e9, 4e10);
    m.lines.round_trip_s = between(d, 5e-8, 5e-7);
    m.memory_bytes = between(d, 5e7, 1e10);
    m.network.bytes_per_s = between(d, 1e8, 1e10);
    m.network.latency_s = between(d, 1e-6, 1e-3);
    return m;
}

static inline mu_costs random_costs(dice *d) {
    mu_costs k = plain_costs(pick(d, 1, 8));
    const double compute = between(d, 0.05, 20), apply = between(d, 0.05, 20);
    k.floats = 0;
    for (int s = 0; s < 4; s++) {
        k.gradient_s[s] *= compute;
        k.apply_s[s] *= apply;
        k.sweep_s[s] = k.apply_s[s] * 0.7;
        k.alone_s[s] = k.gradient_s[s] + 0.8 * k.apply_s[s];
    }
    for (int i = 0; i < k.n_params; i++) k.floats += k.param[i].floats = between(d, 1e3, 1e7);
    k.spread = between(d, 0.001, 0.3);
    k.record_s = between(d, 1e-8, 1e-5);
    k.crowd = pick(d, 1, 6);
    if (k.crowd > 1) k.crowd_gradient = between(d, 1, 2), k.crowd_apply = between(d, 1, 3);
    for (int w = 2; w <= 4; w *= 2)
        for (int cut = 0; cut < 2; cut++) {
            mu_cost_split *s = &k.split[k.n_splits++];
            *s = (mu_cost_split){.workers = w, .auto_cut = cut, .bridges = pick(d, 0, 6)};
            for (int i = 0; i < 4; i++) {
                s->share[i] = between(d, 1.0 / w, 1);
                s->values_bytes[i] = between(d, 1e3, 1e7);
                s->gradient_bytes[i] = between(d, 1e3, 1e7);
                s->weight_bytes[i] = between(d, 1e3, 1e7);
            }
        }
    return k;
}

// All protocols of the program, as they are by default.
static inline void all_protocols(mu_arena *a, mu_plan_space *s) {
    for (size_t i = 0; i < mu_protocols.n; i++) {
        mu_plan_protocol *p = &s->protocol[s->n_protocols++];
        snprintf(p->text, sizeof p->text, "%s", mu_protocols.list[i]->name);
        assert_ok(mu_config_bind_protocol(a, p->text, &p->how, ok_err));
    }
}
#endif
