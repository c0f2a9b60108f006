// SPDX-License-Identifier: Apache-2.0
// fuzz_machine.c - libFuzzer target: any bytes as the description of a machine. It is refused with a message,
// or every number of it makes sense, and what is written of it reads back as the same text.
#include "base/alloc.h"
#include "plan/machine.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_loads(const mu_machine *m) {
    if (m->n_loads < 1 || m->n_loads > MU_MACHINE_LOADS || m->load[0].processes != 1) abort();
    for (int i = 1; i < m->n_loads; i++)
        if (m->load[i].processes <= m->load[i - 1].processes) abort();
    for (int n = 0; n < 3 * m->cores && n < 300; n++) {
        const mu_machine_load l = mu_machine_at(m, n);
        if (!(l.flops_per_s > 0) || !(l.bytes_per_s > 0) || l.processes < 1) abort();
    }
}

static void check(const mu_machine *m) {
    if (m->nodes < 1 || m->nodes > MU_MACHINE_NODES || m->cores < 1) abort();
    if (!(m->memory_bytes > 0) || !(m->cache_bytes > 0) || !(m->shared_cache_bytes > 0)) abort();
    if (!(m->lines.round_trip_s > 0) || !(m->lines.bytes_per_s > 0) || !(m->wake_s > 0)) abort();
    if (!(m->event_s > 0) || !(m->busy >= 0) || m->n_rules < 1 || m->n_rules > MU_MACHINE_RULES) abort();
    for (int i = 0; i < m->n_rules; i++)
        if (!(m->rule[i].bytes_per_s > 0) || !(m->rule[i].cached_bytes_per_s > 0)) abort();
    if (m->nodes > 1 && !(m->network.bytes_per_s > 0)) abort();
    if (m->network.bytes_per_s > 0 && (!(m->network.latency_s > 0) || !(m->network.byte_s > 0))) abort();
    const double s = mu_machine_apply_s(m, "adam", 1e6, 2);
    if (!(s > 0) || !isfinite(s)) abort();
    check_loads(m);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    mu_machine m, again;
    mu_err err = {0};
    mu_text one = {0}, two = {0};
    char *text = malloc(size + 1); // no terminator behind it: ASan sees a reader that wants one
    if (size) memcpy(text, data, size);
    const mu_status st = mu_machine_parse(text, size, "fuzz", &m, &err);
    free(text);
    if (st != MU_OK) {
        if (st != MU_EDATA || !err.msg[0]) abort();
        if (mu_alloc_get_stats().n_live) abort();
        return 0;
    }
    check(&m);
    mu_machine_write(&m, &one);
    if (mu_machine_parse(one.s, one.n, "again", &again, &err) != MU_OK) abort();
    check(&again);
    mu_machine_write(&again, &two);
    if (one.n != two.n || memcmp(one.s, two.s, one.n) != 0) abort();
    mu_text_fini(&one);
    mu_text_fini(&two);
    if (mu_alloc_get_stats().n_live) abort();
    return 0;
}
