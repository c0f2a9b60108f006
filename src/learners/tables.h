// SPDX-License-Identifier: Apache-2.0
// tables.h - what a line of metrics tells of ranks, of server groups and of workers, where there are several.
//
//   rank_times      a row for each rank: what its learners did with their time
//   server_groups   a row each of this rank: where it stands, how its learners do, its merges
//   workers         a row for each process, worker w of learner l at l * workers + w: its time, and its bytes
//                   as ps/moved.h counts them
//
// Of more than MU_TABLES_WORKERS ranks, or processes, none are told.
//
// docs/operations.md has the columns. Most are of the time since the line before.
#ifndef MU_LEARNERS_TABLES_H
#define MU_LEARNERS_TABLES_H

#include "learners/server_group.h"

enum { MU_TABLES_WORKERS = 128 };

typedef struct mu_tables {              // zeroed: not opened
    mu_training     *t;
    const mu_server_group *group;       // (n) borrowed
    int              n, processes, ranks;       // processes, ranks: 0 = none are told
    double          *now, *seen, *value;        // (all columns x rows): sums, those of the line before, and
                                        // what is told; owned, one block
} mu_tables;

// Of groups that are opened. From now on t tells their tables; it tells none where there is one of each.
MU_MUST_CHECK mu_status mu_tables_open(mu_tables *tables, mu_training *t, const mu_server_group *group, int n,
                                       mu_err *err);
void mu_tables_close(mu_tables *tables);

#endif
