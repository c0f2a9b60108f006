// SPDX-License-Identifier: Apache-2.0
// gathering.h - at the very end of a training each rank tells rank 0 what has become of its gradients.
#ifndef MU_LEARNERS_GATHERING_H
#define MU_LEARNERS_GATHERING_H

#include "learners/counts.h"
#include "learners/nodes.h"

typedef struct mu_gathering {
    mu_nodes *nodes;
    mu_wire_counts *counts;             // (ranks) of others; owned
    int       counted;
} mu_gathering;

MU_MUST_CHECK mu_status mu_gathering_init(mu_gathering *g, mu_nodes *n, mu_err *err);
void mu_gathering_fini(mu_gathering *g);        // zeroed: fine
MU_MUST_CHECK mu_status mu_gathering_take(mu_gathering *g, int peer, const mu_wire_counts *c, mu_err *err);
bool mu_gathering_has_all(const mu_gathering *g);
// Rank 0 waits for the counts of all. Others give theirs and wait until rank 0 has left.
MU_MUST_CHECK mu_status mu_gathering_wait(mu_gathering *g, mu_err *err);
MU_MUST_CHECK mu_status mu_gathering_give(mu_gathering *g, const mu_wire_counts *own, mu_err *err);
// The second half of it: waits until nothing is owed and rank 0 has left.
MU_MUST_CHECK mu_status mu_gathering_leave(mu_gathering *g, mu_err *err);

#endif
