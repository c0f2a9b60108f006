// SPDX-License-Identifier: Apache-2.0
// rank_times.h - what the learners of each rank do with their time: noted by its parent, told to rank 0 by
// signs of life (nodes.h), shown there to who looks at the run (mu_shared_rank), and in lines of metrics
// (tables.h). What counts in the end comes with the counts of each rank (counts.h).
#ifndef MU_LEARNERS_RANK_TIMES_H
#define MU_LEARNERS_RANK_TIMES_H

#include "learners/nodes.h"
#include "learners/server_group.h"

// At each look of the parent. group: (n) of this rank. nodes NULL: one rank, nothing to do.
void mu_rank_times_note(mu_nodes *nodes, const mu_server_group *group, int n);

#endif
