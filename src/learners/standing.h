// SPDX-License-Identifier: Apache-2.0
// standing.h - where a training of one or several server groups stands.
#ifndef MU_LEARNERS_STANDING_H
#define MU_LEARNERS_STANDING_H

#include "learners/server_group.h"

typedef struct mu_standing_part {        // a server group at one moment, of this rank or of another
    mu_stripe       stripe;
    mu_server_point point;
    int64_t         updates;            // whole ones in point.version
} mu_standing_part;

// Now, by what all processes can read. ranks: of which each is as far as this one.
mu_position mu_standing_now(const mu_server_group *group, int n, int ranks);
// Of the group's point.
mu_standing_part mu_standing_part_of(const mu_server_group *group);
// Of the weights that the points of all groups are of: also what is finished out of order. What the list has
// no room for will be done again. first: any group of this rank.
MU_MUST_CHECK mu_status mu_standing_of_points(const mu_server_group *first, const mu_standing_part *part,
                                              int n, mu_position *at, mu_finished *finished, mu_err *err);
// The model of several groups is the mean of their weights, and its history the mean of theirs; of memories
// of layers the newest. value[g], slot[g][k]: blocks of group g; the result is in those of the first.
void mu_standing_mean(const mu_params *ps, int n, float *const *value, float *const *const *slot);

#endif
