// SPDX-License-Identifier: Apache-2.0
// merging.h - when server groups merge their weights, and with what center (ps/merge.h has the rules).
//
// The parent merges. Each group has a halt at the version of its next merge (ps/core.h): there its updates
// stop, and, where learners compute on weights of exactly one version, so do they. When the groups that are
// to merge are at their halts, the parent changes their weights and moves the halts on. So a merge comes at
// the same version of each group in every run, and no process writes weights meanwhile.
//
// `sync_parts` parts of the net, about equal in size, take turns: each is merged every `sync_every` updates,
// and a stop is a part as long.
//
// With groups on several ranks a merge is a round (rounds.h): every rank has the weights of all groups then,
// and makes the same merge of them, so weights and center have the same bits everywhere. Where by a rule each
// group merges alone with the center, over ranks they all come at once, one after the other. A rank whose
// groups have ended goes on answering the rounds of others.
#ifndef MU_LEARNERS_MERGING_H
#define MU_LEARNERS_MERGING_H

#include "learners/rounds.h"
#include "learners/server_group.h"
#include "ps/merge.h"

typedef struct mu_merging {
    mu_server_group *group;
    int              n;
    const mu_merge_class *class;
    mu_training     *t;
    int             *first_param;       // (parts + 1) part i is parameters [first[i], first[i + 1]); owned
    int64_t          before;            // merges made by the runs before this one
    mu_region        room;              // seen by the evaluator
    mu_merge_blocks *center, *copy;     // in there; copy: of the last snapshot. NULL where the rule has none
    uint64_t         moved;             // of all groups, at the last look
    int64_t          looked_ns;         // clock then
    mu_rounds       *rounds;            // borrowed; NULL = all groups are on this rank
} mu_merging;

// With groups that are opened and not started. One group of one rank: nothing is ever merged.
MU_MUST_CHECK mu_status mu_merging_open(mu_merging *m, mu_server_group *group, int n, mu_rounds *rounds,
                                        mu_err *err);
// Merges what is to be merged now. *waits: a group waits at its halt.
MU_MUST_CHECK mu_status mu_merging_look(mu_merging *m, bool *waits, mu_err *err);
// Weights of this rank are shown to others, and must not change: no group may be told to end now.
bool mu_merging_is_under_way(const mu_merging *m);
// All groups are drained: a merge that they have come to is made.
void mu_merging_end(mu_merging *m);
// The same of several ranks. version: (all groups) where they ended.
MU_MUST_CHECK mu_status mu_merging_end_together(mu_merging *m, const int64_t *version, mu_err *err);
// The center as it is now is what a snapshot has from now on.
void mu_merging_snapshot(mu_merging *m);
// The session has the center again. Also of one that was not opened.
void mu_merging_close(mu_merging *m);

#endif
