// SPDX-License-Identifier: Apache-2.0
// rank_times.c - see rank_times.h.
#include "learners/rank_times.h"

static void add(const mu_shared *g, mu_node_times *sum) {
    for (int i = 0; i < g->head->n_processes; i++) {
        const mu_shared_learner *l = &g->learner[i];
        if (mu_shared_is_far(g, i / g->head->n_workers)) continue; // its own rank counts that
        sum->compute_ns += atomic_load_explicit(&l->compute_ns, memory_order_relaxed);
        sum->wait_ns += atomic_load_explicit(&l->wait_ns, memory_order_relaxed);
    }
}

static void show(const mu_nodes *nodes, const mu_shared *first) {
    for (int r = 0; r < nodes->n && r < first->head->n_ranks; r++) {
        atomic_store_explicit(&first->rank[r].compute_ns, nodes->times[r].compute_ns, memory_order_relaxed);
        atomic_store_explicit(&first->rank[r].wait_ns, nodes->times[r].wait_ns, memory_order_relaxed);
    }
}

void mu_rank_times_note(mu_nodes *nodes, const mu_server_group *group, int n) {
    mu_node_times own = {0};
    if (!nodes) return;
    for (int i = 0; i < n; i++) add(&group[i].shared, &own);
    mu_nodes_note_times(nodes, own);
    if (nodes->rank == 0) show(nodes, &group->shared);
}
