// SPDX-License-Identifier: Apache-2.0
// gathering.c - see gathering.h.
#include "learners/gathering.h"

#include <string.h>

#define TAG "ranks"

mu_status mu_gathering_init(mu_gathering *g, mu_nodes *n, mu_err *err) {
    *g = (mu_gathering){.nodes = n, .counts = mu_alloc_array((size_t)n->n, sizeof *g->counts, TAG)};
    return g->counts ? MU_OK : MU_FAIL_NOMEM(err, "the counts of other ranks");
}

void mu_gathering_fini(mu_gathering *g) {
    for (int r = 0; g->counts && r < g->nodes->n; r++) mu_free((void *)(uintptr_t)g->counts[r].bins);
    mu_free(g->counts);
    *g = (mu_gathering){0};
}

mu_status mu_gathering_take(mu_gathering *g, int peer, const mu_wire_counts *c, mu_err *err) {
    if (g->counts[peer].bins) return MU_FAIL(err, MU_EDATA, "rank %d sent its counts twice", peer);
    int64_t *bins = mu_alloc_array(MU_WIRE_BINS, sizeof *bins, TAG);
    if (!bins) return MU_FAIL_NOMEM(err, "the counts of other ranks");
    memcpy(bins, c->bins, MU_WIRE_BINS * sizeof *bins);
    g->counts[peer] = *c;
    g->counts[peer].bins = bins;
    g->counted++;
    return MU_OK;
}

bool mu_gathering_has_all(const mu_gathering *g) { return g->counted >= g->nodes->n - 1; }

static bool has_all(void *g) { return mu_gathering_has_all(g); }
static bool rank_0_has_left(void *ctx) { return mu_nodes_has_left(((mu_gathering *)ctx)->nodes, 0); }

mu_status mu_gathering_wait(mu_gathering *g, mu_err *err) {
    g->nodes->parting = true;
    return mu_nodes_wait(g->nodes, has_all, g, err);
}

mu_status mu_gathering_leave(mu_gathering *g, mu_err *err) {
    MU_TRY(mu_nodes_wait(g->nodes, NULL, NULL, err));
    return mu_nodes_wait(g->nodes, rank_0_has_left, g, err);
}

mu_status mu_gathering_give(mu_gathering *g, const mu_wire_counts *own, mu_err *err) {
    const mu_wire w = {.type = MU_WIRE_COUNTS, .counts = *own};
    g->nodes->parting = true;
    MU_TRY(mu_nodes_send(g->nodes, 0, MU_TOPIC_COPY, &w, err));
    return mu_gathering_leave(g, err);
}
