// SPDX-License-Identifier: Apache-2.0
// standing.h - where a training of one or several server groups stands.
#ifndef MU_LEARNERS_STANDING_H
#define MU_LEARNERS_STANDING_H

#include "learners/server_group.h"

// Now, by what all processes can read.
mu_position mu_standing_now(const mu_server_group *group, int n);
// Of the weights that the groups' points are of: also what is finished out of order. What the list has no
// room for will be done again.
MU_MUST_CHECK mu_status mu_standing_of_points(const mu_server_group *group, int n, mu_position *at,
                                              mu_finished *finished, mu_err *err);
// The model of several groups is the mean of their weights, and its history the mean of theirs; of memories
// of layers the newest. value[g], slot[g][k]: blocks of group g; the result is in those of the first.
void mu_standing_mean(const mu_params *ps, int n, float *const *value, float *const *const *slot);

#endif
